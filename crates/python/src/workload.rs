//! Runs of a machine's own workload.

use pyo3::prelude::*;
use rackmem_experiments::study::run::{as_json, unmade};
use rackmem_sim::run::{self as model, Options};

use crate::machines::of_text;
use crate::study::refused;
use crate::watched::watched;

/// Runs the workload of a machine, given as text, and gives the report as JSON.
#[pyfunction]
#[pyo3(signature = (machine, told=None))]
pub fn run(py: Python<'_>, machine: &str, told: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let machine = of_text(machine)?;
    let report = watched(py, told.as_ref(), |progress| {
        model::run(&machine, &Options { progress: Some(progress), ..Options::default() })
    })?;
    let report = report.map_err(|error| unmade(&machine, error));
    report.and_then(|report| as_json(&report)).map_err(refused)
}
