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
pub fn read_program(py: Python<'_>, name: String) -> PyResult<(String, Vec<u8>)> {
    let Program { mut argv, binary } =
        py.detach(|| points::program(&[name])).map_err(Error::new_err)?;
    Ok((argv.swap_remove(0), binary.to_vec()))
}

/// The bytes of a program, its arguments, of which the first is its name, its environment, and its number of nodes.
pub type Part = (Vec<u8>, Vec<String>, Vec<String>, u16);

/// Programs as the model takes them.
pub fn jobs(programs: &[Part]) -> Vec<Job<'_>> {
    programs
        .iter()
        .map(|(program, args, env, nodes)| Job { program, args, env, nodes: *nodes })
        .collect()
}

/// Executes programs, with a process on every node. Gives the report as JSON, and the failure that ended the run, if
/// there is one.
#[pyfunction]
#[pyo3(signature = (machine, programs, max_cycles=None, libraries=None, told=None))]
pub fn execute(
    py: Python<'_>,
    machine: &str,
    programs: Vec<Part>,
    max_cycles: Option<u64>,
    libraries: Option<PathBuf>,
    told: Option<Bound<'_, PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let machine = of_text(machine)?;
    let jobs = jobs(&programs);
    let made = watched(py, told.as_ref(), |progress| {
        run::execute(&machine, &jobs, max_cycles, libraries.as_deref(), Some(progress))
    })?;
    let (report, outcome) = made.map_err(refused)?;
    let report = run::as_json(&report).map_err(refused)?;
    Ok((report, run::failure(&jobs, &outcome)))
}
