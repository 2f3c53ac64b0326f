//! The files of runs.

use std::path::PathBuf;
use std::{fs, io};

use rackmem_sim::recipe::fingerprint_file;
use serde_json::Value;

use crate::whole_file;

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

    /// The report of an earlier run; `None` if there is none, or a file that its program read, or looked
    /// for in vain, is not as it was.
    ///
    /// # Errors
    /// The file cannot be read, or is no report.
    pub fn take(&self, key: &str) -> Result<Option<String>, String> {
        let file = self.file(key);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        let report: Option<Value> = serde_json::from_str(&text).ok();
        let report = report.filter(|report| report["stats"].is_object()).ok_or_else(|| {
            format!("{} is no report of a run; delete it to make the run again", file.display())
        })?;
        Ok(inputs_are_the_same(&report).then_some(text))
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
    use super::*;

    #[test]
    fn files_are_whole_and_leave_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("new/runs"));
        assert_eq!(folder.take("a"), Ok(None));
        fs::write(dir.path().join("file"), "").unwrap();
        let error = Folder::new(dir.path().join("file")).prepare().unwrap_err();
        assert!(error.contains("file cannot be written"), "{error}");
        // A process that was killed left its part.
        fs::create_dir_all(dir.path().join("new/runs")).unwrap();
        fs::write(dir.path().join("new/runs/.a.json.part"), "something longer than a report")
            .unwrap();
        folder.put("a", "{\"stats\":{}}").unwrap();
        assert_eq!(folder.take("a").unwrap().unwrap(), "{\"stats\":{}}");
        assert_eq!(fs::read_dir(dir.path().join("new/runs")).unwrap().count(), 1);
        fs::write(folder.file("b"), "{").unwrap();
        assert!(folder.take("b").unwrap_err().contains("delete it to make the run again"));
    }

    #[test]
    fn a_run_whose_files_have_changed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, input) = (Folder::new(dir.path()), dir.path().join("graph.txt"));
        fs::write(&input, "1 2").unwrap();
        let hash = fingerprint_file(None, input.to_str().unwrap());
        let report = serde_json::json!({"stats": {}, "inputs": {input.to_str().unwrap(): hash}});
        folder.put("a", &report.to_string()).unwrap();
        assert!(folder.take("a").unwrap().is_some());
        fs::write(&input, "1 3").unwrap();
        assert_eq!(folder.take("a"), Ok(None));
        let missing = dir.path().join("missing.txt");
        let report = serde_json::json!({"stats": {}, "inputs": {missing.to_str().unwrap(): ""}});
        folder.put("b", &report.to_string()).unwrap();
        assert!(folder.take("b").unwrap().is_some());
        fs::write(&missing, "").unwrap();
        assert_eq!(folder.take("b"), Ok(None));
    }
}
