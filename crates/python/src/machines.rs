//! Machines, their settings, and what their statistics mean.

use pyo3::prelude::*;
use rackmem_sim::machine::{self, BUILT_IN, Machine, Origin, Override};
use rackmem_sim::recipe;
use rackmem_sim::statistics::{Statistic, schema};

use crate::MachineError;

/// Keys and their values as TOML; a text that is not TOML is taken as a string.
pub type Settings = Vec<(String, String)>;

/// A machine with settings.
pub fn load(machine: &str, settings: &Settings) -> PyResult<Machine> {
    let settings = settings.iter().map(|(path, value)| Override::new(path, value));
    machine::load(machine, &settings.collect::<Vec<_>>())
        .map_err(|error| MachineError::new_err(said(&error)))
}

/// What is wrong; a setting of the caller has no place but its key.
fn said(error: &machine::MachineError) -> String {
    match error.origin {
        Origin::Override => format!("{}: {}", error.key, error.problem),
        _ => error.to_string(),
    }
}

/// Names and descriptions of the built-in machines.
#[pyfunction]
pub fn machines() -> PyResult<Vec<(&'static str, String)>> {
    let described = |name| load(name, &vec![]).map(|machine| (name, machine.description));
    BUILT_IN.iter().map(|known| described(known.name)).collect()
}

/// A machine with all its keys: as a TOML file, and as JSON.
#[pyfunction]
pub fn resolve(machine: &str, settings: Settings) -> PyResult<(String, String)> {
    let machine = load(machine, &settings)?;
    let json = serde_json::to_string(&machine);
    let json = json.map_err(|error| MachineError::new_err(error.to_string()))?;
    Ok((machine::resolved(&machine), json))
}

/// Path, unit and meaning of each statistic and field of reports: of a machine, or of all.
#[pyfunction]
#[pyo3(signature = (machine=None, settings=vec![]))]
pub fn statistics(
    machine: Option<&str>,
    settings: Settings,
) -> PyResult<Vec<(String, String, String)>> {
    let schema = schema();
    let row = |one: &Statistic| (one.path.clone(), one.unit.clone(), one.meaning.clone());
    let mut rows: Vec<_> = match machine {
        Some(machine) => schema.statistics_of(&load(machine, &settings)?).map(row).collect(),
        None => schema.statistics().map(row).collect(),
    };
    rows.extend(schema.field.iter().map(row));
    Ok(rows)
}

/// Tells contents apart that differ by mistake.
#[pyfunction]
pub fn fingerprint(bytes: &[u8]) -> String {
    recipe::fingerprint(bytes)
}
