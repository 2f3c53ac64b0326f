//! `rackmem sim exec`: runs RISC-V programs.

pub mod checkpoint;
mod functional;
mod interrupted;
pub mod part;
mod timed;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rackmem_experiments::input;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::args::ExecArgs;
use super::output::Place;
use super::pipeline;
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
    allow_many_files();
    interrupted::stoppable(|stop| match args.functional {
        true => functional::run(args, stop),
        false => timed::run(args, stop),
    })
}

/// Files that programs have open are open here, and the usual limit is low. Where it cannot be raised, programs get
/// `ENFILE`.
fn allow_many_files() {
    let limits = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

fn read(name: &str) -> Result<Vec<u8>> {
    input::read(Path::new(name)).map_err(|error| {
        let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NO_PROGRAM };
        Failure::with_status(status, format!("{name}: {error}"))
    })
}

/// The places of the files that a run writes at its end. They are found before the program begins, which may put links
/// in their way.
pub struct Outputs {
    report: Option<Place>,
    trace: Option<Place>,
    checkpoint: Option<Place>,
    pipeline: Option<OwnedFd>,
}

impl Outputs {
    /// Those that the user has asked for.
    ///
    /// # Errors
    /// One cannot be written, or two are one file.
    fn find(args: &ExecArgs) -> Result<Outputs> {
        let find =
            |path: &Option<PathBuf>| path.as_deref().map(Place::find_beside_program).transpose();
        let outputs = Outputs {
            report: find(&args.report)?,
            trace: find(&args.trace.trace)?,
            checkpoint: find(&args.checkpoint.checkpoint)?,
            pipeline: pipeline::directory(&args.pipeline)?,
        };
        // A checkpoint is written alone.
        let files = [("--report", outputs.report.as_ref()), ("--trace", outputs.trace.as_ref())];
        Place::check_apart(&files)?;
        Ok(outputs)
    }

    /// Writes the report, if one is asked for.
    fn write_report(&self, report: &impl Serialize) -> Result<()> {
        let Some(place) = &self.report else { return Ok(()) };
        let text = serde_json::to_string_pretty(report).expect("a report is plain data");
        place.write_by(|out| writeln!(out, "{text}"))
    }
}
