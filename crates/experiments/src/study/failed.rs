//! Files of runs that failed, beside those of runs that did not.
//!
//! Such a file has the machine as it was asked for, which may be none, the program, and the reason. It is named by what
//! was asked for and not by the version of the model, so the same run has the same file as long as it fails. A run that
//! is made later has a report with the same settings, which counts.

use std::path::PathBuf;

use rackmem_sim::machine::{self, Override};
use rackmem_sim::recipe::fingerprint;
use serde_json::json;

use super::Folder;
use crate::{input, whole_file};

/// How the names of these files end.
pub const EXTENSION: &str = "failed";

/// A run without a report.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    /// The machine of the study, as text.
    pub machine: &'a str,
    /// Settings of the run.
    pub settings: &'a [Override],
    /// The program that takes the place of the machine's workload, with its arguments.
    pub argv: Option<&'a [String]>,
    /// Nodes of the rack, each with a process of the program.
    pub nodes: u16,
    /// Reason why there is no report.
    pub why: &'a str,
}

impl Folder {
    /// Stores that a run failed, whole or not at all. Returns the file. One that says the same stays as it is, as the
    /// folder may be one that can only be read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn fail(&self, failed: &Failed<'_>) -> Result<PathBuf, String> {
        let Failed { settings, argv, nodes, why, .. } = failed;
        let machine = machine::asked(failed.machine, settings);
        let decides = json!([machine, argv, nodes]);
        let mut content = json!({ "error": why, "recipe": { "machine": machine } });
        if let Some([program, arguments @ ..]) = argv {
            content["program"] = json!(program);
            content["arguments"] = json!(arguments);
            content["nodes"] = json!(nodes);
        }
        let name = fingerprint(decides.to_string().as_bytes()).replace(':', "-");
        let file = self.file_of_kind(&name, EXTENSION);
        let text = format!("{content:#}\n");
        if input::read(&file).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(file);
        }
        self.prepare()?;
        whole_file::write(&file, text.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_failure_has_a_file_of_its_settings() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("runs"));
        let machine = machine::resolved(&machine::load("manycore-ni", &[]).unwrap());
        let settings = ["ni.placement=edge", "llc.size_bytes=1M", "noc.vcs=many"];
        let settings = settings.map(|one| one.parse::<Override>().unwrap());
        let argv = ["hello", "-v"].map(str::to_owned);
        let fail = |argv, why| {
            let failed = Failed { machine: &machine, settings: &settings, argv, nodes: 2, why };
            folder.fail(&failed).unwrap()
        };
        let file = fail(Some(&argv[..]), "why");
        let found: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!((&found["error"], &found["nodes"]), (&json!("why"), &json!(2)));
        assert_eq!((&found["program"], &found["arguments"]), (&json!("hello"), &json!(["-v"])));
        let machine = found["recipe"]["machine"].as_str().unwrap();
        for line in
            ["placement = \"edge\"", "size_bytes = 1048576", "vcs = \"many\"", "threads = 0"]
        {
            assert!(machine.lines().any(|one| one == line), "{line}: {machine}");
        }
        assert_eq!(fail(Some(&argv[..]), "another reason"), file);
        assert_ne!(fail(None, "why"), file);
    }
}
