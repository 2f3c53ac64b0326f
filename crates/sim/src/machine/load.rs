//! From a file to a machine, and back.

use std::collections::BTreeMap;

use super::error::{MachineError, Origin};
use super::layer::{self, Layers, Setting};
use super::schema::{Override, Schema, set};
use super::spec::Machine;
use super::validate::validate;

/// Loads a machine: the name of a built-in one or the path of a file, with settings that override
/// the file's.
///
/// # Errors
/// The first thing that is wrong with the file, the files it is based on, the overrides, or the
/// machine that they describe together.
pub fn load(machine: &str, overrides: &[Override]) -> Result<Machine, MachineError> {
    build(layer::read(machine)?, overrides)
}

/// The machine of a text that is based on no other, such as [`resolved`] gives. Errors call it by this name.
///
/// # Errors
/// As [`load`].
pub fn load_text(name: &str, text: &str, overrides: &[Override]) -> Result<Machine, MachineError> {
    build(layer::read_text(name, text)?, overrides)
}

fn build(layers: Layers, overrides: &[Override]) -> Result<Machine, MachineError> {
    let schema = Schema::new();
    let Layers { mut settings, open } = layers;
    open.iter().try_for_each(|open| open.check(&schema))?;
    settings.extend(overrides.iter().map(|setting| Setting {
        path: setting.path.clone(),
        value: setting.parsed(),
        origin: Origin::Override,
    }));
    let mut table = schema.defaults().clone();
    let mut origins = BTreeMap::new();
    for Setting { path, value, origin } in settings {
        if schema.is_empty_section(&path, &value) {
            continue;
        }
        let value = schema.checked(&path, value, &origin)?;
        set(&mut table, &path, value);
        origins.insert(path, origin);
    }
    let loaded: Machine = table.try_into().map_err(|error: toml::de::Error| MachineError {
        origin: Origin::Unknown,
        key: String::new(),
        problem: error.message().to_owned(),
    })?;
    validate(&loaded).map_err(|invalid| MachineError {
        origin: origins.remove(invalid.key).unwrap_or(Origin::Default),
        key: invalid.key.to_owned(),
        problem: invalid.problem,
    })?;
    Ok(loaded)
}

/// Loads the memory of a device, a machine or a file, as [`load`] does.
///
/// # Errors
/// The same; if there is nothing of that name, the error names the nearest device.
pub fn load_device(device: &str, overrides: &[Override]) -> Result<Machine, MachineError> {
    layer::find_device(device)?;
    load(device, overrides)
}

/// The machine as a file that depends on no other and names every key; it loads to the same
/// machine.
pub fn resolved(machine: &Machine) -> String {
    // Fails only for a seed beyond TOML's integers, which no file can have set.
    toml::to_string(machine).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
}
