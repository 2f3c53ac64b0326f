//! Machines, their settings, and what their statistics mean.

use pyo3::prelude::*;
use rackmem_experiments::study::points::said;
use rackmem_sim::machine::{self, BUILT_IN, Machine, Override, Use};
use rackmem_sim::statistics::{Statistic, schema};

use crate::MachineError;

/// Keys and their values as TOML; a text that is not TOML is taken as a string.
pub type Settings = Vec<(String, String)>;

/// The machine of a text that names all keys.
pub fn of_text(text: &str) -> PyResult<Machine> {
    changed(text, &vec![])
}

fn changed(text: &str, settings: &Settings) -> PyResult<Machine> {
    let settings = settings.iter().map(|(path, value)| Override::new(path, value));
    machine::load_text(Use::Any, "the machine", text, &settings.collect::<Vec<_>>())
        .map_err(|error| MachineError::new_err(said(&error)))
}

/// Names and descriptions of the built-in machines.
#[pyfunction]
pub fn machines() -> PyResult<Vec<(&'static str, String)>> {
    let described = |name| read(name).map(|machine| (name, machine.description));
    BUILT_IN.iter().map(|known| described(known.name)).collect()
}

fn read(source: &str) -> PyResult<Machine> {
    machine::load(source, &[]).map_err(|error| MachineError::new_err(said(&error)))
}

/// A built-in machine or that of a file, with all its keys: as a TOML file, and as JSON.
#[pyfunction]
pub fn load(source: &str) -> PyResult<(String, String)> {
    both(&read(source)?)
}

/// The machine of such a text with other values of some keys.
#[pyfunction]
pub fn change(text: &str, settings: Settings) -> PyResult<(String, String)> {
    both(&changed(text, &settings)?)
}

/// As TOML and as JSON.
pub fn both(machine: &Machine) -> PyResult<(String, String)> {
    let json = serde_json::to_string(machine);
    let json = json.map_err(|error| MachineError::new_err(error.to_string()))?;
    Ok((machine::resolved(machine), json))
}

/// Path, unit and meaning of each statistic and field of reports.
#[pyfunction]
pub fn statistics() -> Vec<(String, String, String)> {
    let schema = schema();
    let row = |one: &Statistic| (one.path.clone(), one.unit.clone(), one.meaning.clone());
    schema.statistics().chain(schema.fields()).map(row).collect()
}
