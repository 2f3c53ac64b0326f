//! A run of a study.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rackmem_sim::exec::report::Report;
use rackmem_sim::exec::{self, ExecError, Job, Outcome};
use rackmem_sim::machine::{self, Machine};
use rackmem_sim::recipe::{MODEL, Recipe, fingerprint};
use rackmem_sim::run::{self as model, Progress, RunError};
use serde::Serialize;
use serde_json::{Value, json};

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name and its arguments.
    pub argv: Vec<String>,
    /// A static RV64GC program, or one that is executed with a folder of libraries.
    pub binary: Arc<[u8]>,
}

/// A machine's own workload or a program on it.
#[derive(Clone, Debug)]
pub struct Run {
    /// A machine on one thread.
    pub machine: Machine,
    /// The program that takes the place of its workload.
    pub program: Option<Program>,
    /// Nodes of the rack, each with a process of the program.
    pub nodes: u16,
    /// Name of the run: of what decides its result.
    pub key: String,
}

/// Reasons why there is no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmade {
    /// The machine cannot be built or used so.
    Machine(String),
    /// It did not come to its end, or its program failed.
    Failed(String),
}

impl fmt::Display for Unmade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unmade::Machine(what) | Unmade::Failed(what)) = self;
        f.write_str(what)
    }
}

impl Run {
    /// A run of a machine, on one thread.
    pub fn new(mut machine: Machine, program: Option<Program>, nodes: u16) -> Run {
        machine.run.threads = 1;
        let program_key = program.as_ref().map(|one| (&one.argv, fingerprint(&one.binary), nodes));
        let decides = json!([MODEL, machine::resolved(&machine), program_key]);
        let key = fingerprint(decides.to_string().as_bytes()).replace(':', "-");
        Run { machine, program, nodes, key }
    }

    /// Makes it; the report as JSON, always the same bytes. Names of the program's files begin in the current folder.
    ///
    /// # Errors
    /// [`Unmade`], with the name of the machine or program.
    pub fn make(&self, progress: Option<&Progress<'_>>) -> Result<String, Unmade> {
        match &self.program {
            None => self.make_workload(progress),
            Some(program) => self.execute(program, progress),
        }
    }

    /// Whether a report is the one that this run would give, as far as it says what was run.
    pub fn has_report(&self, report: &Value) -> bool {
        if report["recipe"] != json!(Recipe::of(&self.machine)) {
            return false;
        }
        let Some(Program { argv, binary }) = &self.program else {
            return report.get("program").is_none();
        };
        let [name, arguments @ ..] = &argv[..] else { return false };
        let is = |member: &str, value: Value| report[member] == value;
        is("program", json!(name))
            && is("program_hash", json!(fingerprint(binary)))
            && is("arguments", json!(arguments))
            && is("environment", json!([]))
            && is("max_cycles", Value::Null)
            && is("cut_short", Value::Null)
            && is("exit_status", json!(0))
            && report["nodes"]
                .as_array()
                .is_some_and(|nodes| nodes.len() == usize::from(self.nodes))
            && ["programs", "part", "restored"].iter().all(|other| report.get(other).is_none())
    }

    fn make_workload(&self, progress: Option<&Progress<'_>>) -> Result<String, Unmade> {
        let report = model::run(&self.machine, &model::Options { progress, ..Default::default() });
        report.map_err(|error| unmade(&self.machine, error)).and_then(|report| as_json(&report))
    }

    fn execute(
        &self,
        program: &Program,
        progress: Option<&Progress<'_>>,
    ) -> Result<String, Unmade> {
        let Program { argv, binary } = program;
        let job = Job { program: binary, args: argv, env: &[], nodes: self.nodes };
        let (report, outcome) = execute(&self.machine, &[job], None, None, progress)?;
        match failure(&[job], &outcome) {
            Some(failure) => Err(Unmade::Failed(failure)),
            None => as_json(&report),
        }
    }
}

/// Why a workload's run gave nothing.
pub fn unmade(machine: &Machine, error: RunError) -> Unmade {
    match error {
        RunError::Impossible(what) => Unmade::Machine(format!("{}: {what}", machine.name)),
        other => Unmade::Failed(format!("{}: {other}", machine.name)),
    }
}

/// Why programs were not executed.
pub fn not_executed(machine: &Machine, jobs: &[Job<'_>], error: ExecError) -> Unmade {
    match error {
        ExecError::Machine(what) => Unmade::Machine(format!("{}: {what}", machine.name)),
        ExecError::Program(..) => Unmade::Failed(error.to_string()),
        ExecError::Allowed(..)
        | ExecError::Libraries(..)
        | ExecError::Checkpoint(_)
        | ExecError::Part(_) => Unmade::Failed(format!("{}: {error}", exec::names(jobs))),
    }
}

/// Executes programs whose files begin in the current folder, and their libraries in `libraries`; the report has what
/// they printed.
///
/// # Errors
/// The machine or a program cannot be used, or the run was cut short.
pub fn execute(
    machine: &Machine,
    jobs: &[Job<'_>],
    max_cycles: Option<u64>,
    libraries: Option<&Path>,
    progress: Option<&Progress<'_>>,
) -> Result<(Report, Outcome), Unmade> {
    let folder: Option<PathBuf> = std::env::current_dir().ok();
    let libraries = libraries.map(Path::to_owned);
    let options =
        exec::Options { max_cycles, folder, libraries, progress, ..exec::Options::default() };
    let outcome = exec::run(machine, jobs, options);
    let outcome = outcome.map_err(|error| not_executed(machine, jobs, error))?;
    if let Some(why) = &outcome.cut_short {
        return Err(Unmade::Failed(format!("{}: {why}", exec::names(jobs))));
    }
    Ok((Report::new(machine, jobs, max_cycles, &outcome).with_output(&outcome), outcome))
}

/// The process whose failure ended the run, and what it said; `None` if all ended well.
pub fn failure(jobs: &[Job<'_>], outcome: &Outcome) -> Option<String> {
    let (number, node) = outcome.failed()?;
    let job = exec::by_node(jobs).nth(number)?;
    let name = job.name();
    let said = [&node.stderr, &node.stdout].map(|bytes| String::from_utf8_lossy(bytes));
    let said = said.iter().map(|text| text.trim()).find(|text| !text.is_empty());
    let said = said.map_or_else(String::new, |text| format!(": {text}"));
    Some(format!("{name}: node {number} {} in cycle {}{said}", node.end, node.cycle))
}

/// A report as text.
///
/// # Errors
/// Never: reports are plain data.
pub fn as_json(report: &impl Serialize) -> Result<String, Unmade> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| Unmade::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prebuilt;

    fn run(settings: &[&str], arguments: &[&str], nodes: u16) -> Run {
        let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        let binary = prebuilt::find(arguments[0]).unwrap().into();
        let argv = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let machine = machine::load("sonuma", &settings).unwrap();
        Run::new(machine, Some(Program { argv, binary }), nodes)
    }

    #[test]
    fn keys_tell_apart_what_decides_and_nothing_else() {
        let one = run(&[], &["hello"], 1).key;
        assert_eq!(one, run(&["run.threads=2"], &["hello"], 1).key);
        for other in [
            run(&["seed=2"], &["hello"], 1),
            run(&[], &["hello", "-v"], 1),
            run(&[], &["hello"], 2),
        ] {
            assert_ne!(one, other.key);
        }
    }

    #[test]
    fn a_program_that_fails_is_no_report() {
        let found = run(&[], &["netpipe", "--nonsense"], 1).make(None).unwrap_err().to_string();
        assert!(found.starts_with("netpipe: node 0 ") && found.contains("nonsense"), "{found}");
        let report = run(&[], &["hello"], 2).make(None).unwrap();
        assert_eq!(report, run(&[], &["hello"], 2).make(None).unwrap());
    }
}
