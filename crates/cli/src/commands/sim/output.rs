//! The files of a run.

use std::fs;
use std::path::Path;

use rackmem_sim::machine::{self, Machine};
use rackmem_sim::report::Report;
use serde::Serialize;

use super::trace;
use crate::console;
use crate::failure::{Failure, Result};
use crate::plot::heat;

/// Writes all files of a run into a directory, which is made if need be.
pub(super) fn write(dir: &Path, machine: &Machine, report: &Report) -> Result<()> {
    make(dir)?;
    text(dir, "machine.toml", &machine::resolved(machine))?;
    json(dir, "stats.json", &report.stats)?;
    json(dir, "report.json", report)?;
    text(dir, "links.svg", &heat::links(&report.machine, &report.links))?;
    json(dir, "trace.json", &trace::events(machine, &report.trace))
}

/// The names of those files.
pub(super) fn files(dir: &Path) -> String {
    let names = ["machine.toml", "stats.json", "report.json", "links.svg", "trace.json"];
    console::count(names.len(), "file") + &format!(" into {}: {}", dir.display(), names.join(", "))
}

/// Makes a directory.
pub(crate) fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)
        .map_err(|error| Failure::io(format_args!("cannot make {}", dir.display()), error))
}

/// Writes a file.
pub(crate) fn text(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text)
        .map_err(|error| Failure::io(format_args!("cannot write {}", path.display()), error))
}

/// Writes a file of JSON.
pub(crate) fn json(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    text(dir, name, &(json + "\n"))
}
