//! The files of runs.

use std::io;
use std::path::PathBuf;

use rackmem_sim::recipe::fingerprint_file;
use serde_json::Value;

use super::Run;
use crate::{input, whole_file};

/// A folder with a file for each run.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of this name, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Folder {
        Folder(path.into())
    }

    /// The file of a run.
    pub fn file(&self, key: &str) -> PathBuf {
        self.file_of_kind(key, "json")
    }

    pub(super) fn file_of_kind(&self, name: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    /// The report of a run that was made earlier; `None` if there is none, if the file has the report of another run,
    /// or if a file that the program read, or looked for in vain, is not as it was.
    ///
    /// # Errors
    /// The file cannot be read, or is no report.
    pub fn take(&self, run: &Run) -> Result<Option<String>, String> {
        let file = self.file(&run.key);
        let text = match input::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let report: Option<Value> = serde_json::from_str(&text).ok();
        let report = report.filter(|report| report["stats"].is_object()).ok_or_else(|| {
            format!("{} is no report of a run; delete it to make the run again", file.display())
        })?;
        Ok((run.has_report(&report) && inputs_are_the_same(&report)).then_some(text))
    }

    /// Makes it if need be, so that no run is made whose report could not be stored.
    ///
    /// # Errors
    /// It cannot be made, or nothing may be written there.
    pub fn prepare(&self) -> Result<(), String> {
        whole_file::make_folder(&self.0)
            .map_err(|error| format!("{} cannot be written: {error}", self.0.display()))
    }

    /// Stores a report, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: &str, report: &str) -> Result<(), String> {
        let file = self.file(key);
        self.prepare()?;
        whole_file::write(&file, report.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))
    }
}

/// Whether files that a program has read are as they were, and those that were missing are missing still.
fn inputs_are_the_same(report: &Value) -> bool {
    let here = std::env::current_dir().ok();
    let mut inputs = report["inputs"].as_object().into_iter().flatten();
    inputs.all(|(name, was)| was.as_str() == Some(&fingerprint_file(here.as_deref(), name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rackmem_sim::machine;
    use serde_json::json;

    use super::super::run::Program;
    use super::*;
    use crate::prebuilt;

    fn run(setting: &str) -> Run {
        let small = ["tiles.columns=2", "tiles.rows=2", "memory.controllers=2", "run.reads=2"];
        let settings = [&small[..], &["workload.kind=sync-read", setting]].concat();
        let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        Run::new(machine::load("manycore-ni", &settings).unwrap(), None, 1)
    }

    fn executed(argv: &[&str], nodes: u16) -> Run {
        let binary = prebuilt::find(argv[0]).unwrap().into();
        let argv = argv.iter().map(|&word| word.to_owned()).collect();
        let machine = machine::load("sonuma", &[]).unwrap();
        Run::new(machine, Some(Program { argv, binary }), nodes)
    }

    #[test]
    fn files_are_whole_and_leave_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("new/runs"));
        let [one, other] = ["seed=1", "seed=2"].map(run);
        assert_eq!(folder.take(&one), Ok(None));
        fs::write(dir.path().join("file"), "").unwrap();
        let error = Folder::new(dir.path().join("file")).prepare().unwrap_err();
        assert!(error.contains("file cannot be written"), "{error}");
        // A process that was killed left its part.
        fs::create_dir_all(dir.path().join("new/runs")).unwrap();
        let part = dir.path().join(format!("new/runs/.{}.json.part", one.key));
        let report = one.make(None).unwrap();
        fs::write(part, format!("{report} something longer than a report")).unwrap();
        folder.put(&one.key, &report).unwrap();
        assert_eq!(folder.take(&one).unwrap().unwrap(), report);
        assert_eq!(fs::read_dir(dir.path().join("new/runs")).unwrap().count(), 1);
        fs::write(folder.file(&other.key), "{").unwrap();
        assert!(folder.take(&other).unwrap_err().contains("delete it to make the run again"));
    }

    /// A file has the name of one run and the report of another if somebody has copied or edited it.
    #[test]
    fn a_report_of_another_run_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let is_taken = |of: &Run, report: &str| {
            folder.put(&of.key, report).unwrap();
            folder.take(of).unwrap().is_some()
        };
        let [one, other] = ["seed=1", "seed=2"].map(run);
        let report = one.make(None).unwrap();
        assert!(is_taken(&one, &report) && !is_taken(&other, &report));
        let program = executed(&["hello"], 2);
        let made = program.make(None).unwrap();
        assert!(is_taken(&program, &made) && !is_taken(&program, &report));
        assert!(!is_taken(&one, &made));
        for another in [executed(&["hello", "-v"], 2), executed(&["hello"], 1)] {
            assert!(!is_taken(&another, &made));
        }
        for (member, value) in [
            ("program_hash", json!("fnv1a-64:0")),
            ("environment", json!(["A=b"])),
            ("max_cycles", json!(7)),
            ("cut_short", json!("a signal")),
            ("recipe", json!({})),
        ] {
            let mut edited: Value = serde_json::from_str(&made).unwrap();
            edited[member] = value;
            assert!(!is_taken(&program, &edited.to_string()), "{member}");
        }
    }

    #[test]
    fn a_run_whose_files_have_changed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, input) = (Folder::new(dir.path()), dir.path().join("graph.txt"));
        let run = executed(&["hello"], 1);
        let made: Value = serde_json::from_str(&run.make(None).unwrap()).unwrap();
        let put = |file: &Path, hash: &str| {
            let mut report = made.clone();
            report["inputs"] = json!({ file.to_str().unwrap(): hash });
            folder.put(&run.key, &report.to_string()).unwrap();
        };
        fs::write(&input, "1 2").unwrap();
        put(&input, &fingerprint_file(None, input.to_str().unwrap()));
        assert!(folder.take(&run).unwrap().is_some());
        fs::write(&input, "1 3").unwrap();
        assert_eq!(folder.take(&run), Ok(None));
        let missing = dir.path().join("missing.txt");
        put(&missing, "");
        assert!(folder.take(&run).unwrap().is_some());
        fs::write(&missing, "").unwrap();
        assert_eq!(folder.take(&run), Ok(None));
    }
}
