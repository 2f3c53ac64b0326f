//! Programs on the model.

use std::path::PathBuf;

use pyo3::prelude::*;
use rackmem_experiments::prebuilt;
use rackmem_experiments::study::points;
use rackmem_experiments::study::run::{self, Program};
use rackmem_sim::exec::Job;

use crate::Error;
use crate::machines::of_text;
use crate::study::refused;
use crate::watched::watched;

/// Names of the programs that are ready for the model.
#[pyfunction]
pub fn programs() -> Vec<&'static str> {
    prebuilt::PROGRAMS.iter().map(|&(name, _)| name).collect()
}

/// The name and the bytes of one of them, or of a file.
#[pyfunction]
pub fn read_program(name: String) -> PyResult<(String, Vec<u8>)> {
    let Program { mut argv, binary } = points::program(&[name]).map_err(Error::new_err)?;
    Ok((argv.swap_remove(0), binary.to_vec()))
}

/// Executes a program with a process on every node. Gives the report as JSON, and the failure that ended the run, if
/// there is one. The first argument is the program's name.
#[pyfunction]
#[pyo3(signature = (machine, program, arguments, environment, nodes, max_cycles=None, libraries=None, told=None))]
#[expect(clippy::too_many_arguments, reason = "one caller, which names them")]
pub fn execute(
    py: Python<'_>,
    machine: &str,
    program: &[u8],
    arguments: Vec<String>,
    environment: Vec<String>,
    nodes: u16,
    max_cycles: Option<u64>,
    libraries: Option<PathBuf>,
    told: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let machine = of_text(machine)?;
    let job = Job { program, args: &arguments, env: &environment, nodes };
    let made = watched(py, told.as_ref(), |progress| {
        run::execute(&machine, &job, max_cycles, libraries.as_deref(), Some(progress))
    })?;
    let (report, outcome) = made.map_err(refused)?;
    let report = run::as_json(&report).map_err(refused)?;
    Ok((report, run::failure(&arguments[0], &outcome)))
}
