//! Programs on the model.

use pyo3::prelude::*;
use rackmem_experiments::prebuilt;
use rackmem_experiments::study::run;
use rackmem_sim::exec::Job;

use crate::machines::of_text;
use crate::study::refused;
use crate::watched::watched;

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
    let made = watched(py, told.as_ref(), |progress| {
        run::execute(&machine, &job, max_cycles, Some(progress))
    })?;
    made.and_then(|(report, _)| run::as_json(&report)).map_err(refused)
}
