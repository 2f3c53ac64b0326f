//! Programs on the model.

use pyo3::prelude::*;
use rackmem_experiments::prebuilt;
use rackmem_sim::exec::report::Report;
use rackmem_sim::exec::{self, ExecError, Job, Options};

use crate::machines::of_text;
use crate::watched::watched;
use crate::{MachineError, RunError};

/// Names of the programs that are ready for the model.
#[pyfunction]
pub fn programs() -> Vec<&'static str> {
    prebuilt::PROGRAMS.iter().map(|&(name, _)| name).collect()
}

/// The bytes of one of them; `None` if there is no such program.
#[pyfunction]
pub fn program(name: &str) -> Option<&'static [u8]> {
    prebuilt::find(name)
}

/// Executes a program with a process on every node, and gives the report as JSON. The first argument is its name.
#[pyfunction]
#[pyo3(signature = (machine, program, arguments, environment, nodes, max_cycles=None, told=None))]
#[expect(clippy::too_many_arguments, reason = "one caller, which names them")]
pub fn execute(
    py: Python<'_>,
    machine: &str,
    program: &[u8],
    arguments: Vec<String>,
    environment: Vec<String>,
    nodes: u16,
    max_cycles: Option<u64>,
    told: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let machine = of_text(machine)?;
    let job = Job { program, args: &arguments, env: &environment, nodes };
    let outcome = watched(py, told.as_ref(), |progress| {
        let folder = std::env::current_dir().ok();
        let progress = Some(progress);
        exec::run(&machine, &job, Options { max_cycles, folder, progress, ..Options::default() })
    })?;
    let outcome = outcome.map_err(|error| match error {
        ExecError::Machine(what) => MachineError::new_err(format!("{}: {what}", machine.name)),
        ExecError::Program(error) => RunError::new_err(format!("{}: {error}", arguments[0])),
    })?;
    if let Some(why) = outcome.cut_short {
        return Err(RunError::new_err(format!("{}: {why}", arguments[0])));
    }
    let json = serde_json::to_value(Report::new(&machine, &job, max_cycles, &outcome));
    let mut json = json.map_err(|error| RunError::new_err(error.to_string()))?;
    for (nid, node) in outcome.nodes.iter().enumerate() {
        json["nodes"][nid]["stdout"] = String::from_utf8_lossy(&node.stdout).into();
        json["nodes"][nid]["stderr"] = String::from_utf8_lossy(&node.stderr).into();
    }
    Ok(json.to_string())
}
