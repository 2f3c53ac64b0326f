//! From a file to a machine, and back.

use std::collections::BTreeMap;

use toml::Table;

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
    settings.retain(|one| !schema.is_empty_section(&one.path, &one.value));
    let loaded = together(&schema, &settings).map_err(|error| {
        // The first value that fits no machine, rather than a place in one.
        let alone = |one: &Setting| schema.checked(&one.path, one.value.clone(), &one.origin);
        settings.iter().find_map(|one| alone(one).err()).unwrap_or(error)
    })?;
    let mut origins: BTreeMap<String, Origin> =
        settings.into_iter().map(|one| (one.path, one.origin)).collect();
    validate(&loaded).map_err(|invalid| MachineError {
        origin: origins.remove(invalid.key).unwrap_or(Origin::Default),
        key: invalid.key.to_owned(),
        problem: invalid.problem,
    })?;
    Ok(loaded)
}

/// The machine of all settings, the last of a path.
fn together(schema: &Schema, settings: &[Setting]) -> Result<Machine, MachineError> {
    let mut table = schema.defaults().clone();
    for Setting { path, value, origin } in settings {
        set(&mut table, path, schema.converted(path, value.clone(), origin)?);
    }
    table.try_into().map_err(|error: toml::de::Error| MachineError {
        origin: Origin::Unknown,
        key: String::new(),
        problem: error.message().to_owned(),
    })
}

/// The text of a machine with overrides, also where they make no machine of it: what was asked for.
pub fn asked(text: &str, overrides: &[Override]) -> String {
    let schema = Schema::new();
    let mut table: Table = text.parse().unwrap_or_default();
    for one in overrides {
        let value = schema.checked(&one.path, one.parsed(), &Origin::Override);
        set(&mut table, &one.path, value.unwrap_or_else(|_| one.parsed()));
    }
    table.to_string()
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
