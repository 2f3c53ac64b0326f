//! Runs of sweeps and their files, as `rackmem sweep` has them.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rackmem_experiments::study::points::{Varied, points as all_points};
use rackmem_experiments::study::run::{Program, Unmade};
use rackmem_experiments::study::{Failed, Folder, Run, row};
use rackmem_experiments::{input, whole_file};
use rackmem_sim::machine::Override;

use crate::machines::{both, of_text};
use crate::watched::watched;
use crate::{MachineError, RunError};

/// A machine as TOML and JSON, and the name of its run; or the reason why there is none.
type Point = (Option<(String, String, String)>, Option<String>);

/// All combinations, as `rackmem_experiments::study::points` orders them.
#[pyfunction]
pub fn points(
    machine: &str,
    vary: Vec<(String, Vec<String>)>,
    programs: Vec<(Vec<String>, Vec<u8>)>,
    nodes: u16,
) -> PyResult<Vec<Point>> {
    let vary: Vec<Varied> =
        vary.into_iter().map(|(path, values)| Varied { path, values }).collect();
    let program = |(argv, binary): (Vec<String>, Vec<u8>)| Program { argv, binary: binary.into() };
    let programs: Vec<Program> = programs.into_iter().map(program).collect();
    let points = all_points(machine, &vary, &programs, nodes).into_iter();
    let point = |run: Result<Run, String>| match run {
        Ok(Run { machine, key, .. }) => {
            both(&machine).map(|(toml, json)| (Some((toml, json, key)), None))
        }
        Err(why) => Ok((None, Some(why))),
    };
    points.map(|one| point(one.run)).collect()
}

/// Makes a run: the report as text, always the same bytes.
#[pyfunction]
#[pyo3(signature = (machine, program, arguments, nodes, told=None))]
pub fn make(
    py: Python<'_>,
    machine: &str,
    program: Option<&[u8]>,
    arguments: Vec<String>,
    nodes: u16,
    told: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let run = to_run(machine, program, arguments, nodes)?;
    watched(py, told.as_ref(), |progress| run.make(Some(progress)))?.map_err(refused)
}

fn to_run(
    machine: &str,
    program: Option<&[u8]>,
    arguments: Vec<String>,
    nodes: u16,
) -> PyResult<Run> {
    let program = program.map(|bytes| Program { argv: arguments, binary: bytes.into() });
    Ok(Run::new(of_text(machine)?, program, nodes))
}

/// The exception for a run without a report.
pub fn refused(unmade: Unmade) -> PyErr {
    match unmade {
        Unmade::Machine(what) => MachineError::new_err(what),
        Unmade::Failed(what) => RunError::new_err(what),
    }
}

/// The report of a run that was made earlier, if there is one.
#[pyfunction]
pub fn take(
    py: Python<'_>,
    folder: PathBuf,
    machine: &str,
    program: Option<&[u8]>,
    arguments: Vec<String>,
    nodes: u16,
) -> PyResult<Option<String>> {
    let run = to_run(machine, program, arguments, nodes)?;
    py.detach(|| Folder::new(folder).take(&run)).map_err(PyOSError::new_err)
}

/// Stores a report, whole or not at all.
#[pyfunction]
pub fn put(py: Python<'_>, folder: PathBuf, key: &str, report: &str) -> PyResult<()> {
    py.detach(|| Folder::new(folder).put(key, report)).map_err(PyOSError::new_err)
}

/// Stores that a run failed: the machine of its sweep, its settings as TOML, its program, and the reason.
#[pyfunction]
#[pyo3(signature = (folder, machine, settings, argv, nodes, why))]
pub fn fail(
    py: Python<'_>,
    folder: PathBuf,
    machine: &str,
    settings: Vec<(String, String)>,
    argv: Option<Vec<String>>,
    nodes: u16,
    why: &str,
) -> PyResult<()> {
    let settings: Vec<Override> =
        settings.into_iter().map(|(path, value)| Override::new(path, value)).collect();
    let failed = Failed { machine, settings: &settings, argv: argv.as_deref(), nodes, why };
    let stored = py.detach(|| Folder::new(folder).fail(&failed));
    stored.map(drop).map_err(PyOSError::new_err)
}

/// The bytes of a regular file.
#[pyfunction]
pub fn read_file(py: Python<'_>, file: PathBuf) -> PyResult<Cow<'static, [u8]>> {
    let bytes = py.detach(|| input::read(&file));
    let failed = |error| PyOSError::new_err(format!("{}: {error}", file.display()));
    bytes.map(Cow::Owned).map_err(failed)
}

/// Writes a file, whole or not at all.
#[pyfunction]
pub fn write_whole(py: Python<'_>, file: PathBuf, content: &[u8]) -> PyResult<()> {
    let failed = |file: &Path, error| format!("{} cannot be written: {error}", file.display());
    let written = py.detach(|| whole_file::write(&file, content));
    written.map_err(|error| PyOSError::new_err(failed(&file, error)))
}

/// All numbers of a report by path, as JSON.
#[pyfunction]
pub fn numbers(report: &str) -> PyResult<String> {
    let report = serde_json::from_str(report);
    let report = report.map_err(|error| PyOSError::new_err(format!("no report: {error}")))?;
    Ok(serde_json::Value::Object(row::numbers(&report)).to_string())
}
