//! `rackmem sim exec`: runs RISC-V programs.

use std::path::Path;
use std::time::Instant;
use std::{env, fs, io};

use rackmem_riscv::functional::{self, Options, Outcome, RunError};
use serde::Serialize;

use super::args::ExecArgs;
use crate::console;
use crate::failure::{Failure, Result};
use crate::size;

/// Exit statuses of what cannot be run, as of `env` and shells.
const FAILED: u8 = 125;
const NO_PROGRAM: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What `--report` writes.
#[derive(Debug, Serialize)]
struct Report {
    program: String,
    exit_status: i32,
    instructions: u64,
    seconds: f64,
    instructions_per_second: f64,
    /// Nanoseconds that the program believes to have run.
    time_ns: u64,
    warnings: Vec<String>,
}

/// Does it.
///
/// # Errors
/// The program is missing, or is none, or cannot be run to its end; or it ends with a status other
/// than 0, which becomes ours.
pub fn run(args: &ExecArgs) -> Result<()> {
    let name = &args.command[0];
    let program = read(name)?;
    let here = env::current_dir().map_err(|error| Failure::io("the current folder", error))?;
    let options = Options {
        harts: args.harts.into(),
        max_instructions: args.max_instructions,
        seed: args.seed,
        folder: Some(here),
        ..Options::default()
    };
    let began = Instant::now();
    let outcome = functional::run(&program, &args.command, &args.env, &options)
        .map_err(|error| refused(name, &error))?;
    let report = report(name, outcome, began.elapsed().as_secs_f64());
    if args.stats {
        console::remark(&summary(&report));
    }
    if let Some(path) = &args.report {
        write(path, &report)?;
    }
    match report.exit_status {
        0 => Ok(()),
        status => Err(Failure::silent(status as u8)),
    }
}

fn read(name: &str) -> Result<Vec<u8>> {
    fs::read(name).map_err(|error| {
        let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NO_PROGRAM };
        Failure::with_status(status, format!("{name}: {error}"))
    })
}

fn refused(name: &str, error: &RunError) -> Failure {
    let status = match error {
        RunError::Load(_) => NO_PROGRAM,
        RunError::Failure(_) => FAILED,
    };
    Failure::with_status(status, format!("{name}: {error}"))
}

fn report(program: &str, outcome: Outcome, seconds: f64) -> Report {
    Report {
        program: program.to_owned(),
        exit_status: outcome.end.status(),
        instructions: outcome.instructions,
        seconds,
        instructions_per_second: outcome.instructions as f64 / seconds.max(1e-9),
        time_ns: outcome.time_ns,
        warnings: outcome.warnings,
    }
}

fn summary(report: &Report) -> String {
    let rate = size::rounded(report.instructions_per_second);
    format!("{} instructions in {:.3} s: {rate} a second", report.instructions, report.seconds)
}

fn write(path: &Path, report: &Report) -> Result<()> {
    let text = serde_json::to_string_pretty(report).expect("a report is plain data");
    fs::write(path, text + "\n").map_err(|error| Failure::io(path.display(), error))
}
