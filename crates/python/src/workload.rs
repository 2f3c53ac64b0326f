//! Runs of a machine's own workload.

use pyo3::prelude::*;
use rackmem_sim::run::{self as model, Options, RunError as Refused};

use crate::machines::of_text;
use crate::watched::watched;
use crate::{MachineError, RunError};

/// Runs the workload of a machine, given as text, and gives the report as JSON.
#[pyfunction]
#[pyo3(signature = (machine, told=None))]
pub fn run(py: Python<'_>, machine: &str, told: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let machine = of_text(machine)?;
    let report = watched(py, told.as_ref(), |progress| {
        model::run(&machine, &Options { progress: Some(progress), ..Options::default() })
    })?;
    let report = report.map_err(|error| match error {
        Refused::Impossible(what) => MachineError::new_err(format!("{}: {what}", machine.name)),
        other => RunError::new_err(format!("{}: {other}", machine.name)),
    })?;
    serde_json::to_string(&report).map_err(|error| RunError::new_err(error.to_string()))
}
