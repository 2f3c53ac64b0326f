//! `rackmem sim exec`: runs RISC-V programs.

pub mod checkpoint;
mod functional;
pub mod part;
mod timed;

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use super::args::ExecArgs;
use super::output;
use crate::failure::{Failure, Result};

/// Exit statuses of what cannot be run, as of `env` and shells.
const FAILED: u8 = 125;
const NO_PROGRAM: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Executes the program, with or without timing.
///
/// # Errors
/// The program is missing, or is none, or cannot be run to its end; or it ends with a status other
/// than 0, which becomes ours.
pub fn run(args: &ExecArgs) -> Result<()> {
    let files = [&args.report, &args.trace.trace, &args.checkpoint.checkpoint];
    files.into_iter().flatten().try_for_each(|file| output::check(file))?;
    if args.functional { functional::run(args) } else { timed::run(args) }
}

fn read(name: &str) -> Result<Vec<u8>> {
    fs::read(name).map_err(|error| {
        let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NO_PROGRAM };
        Failure::with_status(status, format!("{name}: {error}"))
    })
}

fn write(path: &Path, report: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    output::whole(path, &(text + "\n"))
}
