//! `rackmem sim exec --functional`: a program without a machine.

use std::env;
use std::sync::Arc;
use std::time::Instant;

use rackmem_riscv::functional::{self, End, Input, Options, Outcome, RunError, signal_text};
use rackmem_sim::exec::Stop;
use rackmem_sim::machine::BUILT_IN;
use rackmem_sim::recipe::fingerprint;
use serde::Serialize;

use super::{FAILED, NO_PROGRAM, Outputs, read};
use crate::commands::sim::args::ExecArgs;
use crate::console;
use crate::failure::{Failure, Result};
use crate::several;
use crate::size;

/// Contents of the file of `--report`.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    seed: u64,
    harts: u16,
    max_instructions: Option<u64>,
    program: String,
    program_hash: String,
    arguments: Vec<String>,
    environment: Vec<String>,
    exit_status: i32,
    instructions: u64,
    /// Nanoseconds that the program believes to have run.
    time_ns: u64,
    warnings: Vec<String>,
}

/// Executes the program without timing.
///
/// # Errors
/// The program is missing, or is none, or cannot be run to its end; or it ends with a status other
/// than 0, which becomes ours.
pub fn run(args: &ExecArgs, stop: &Arc<Stop>) -> Result<()> {
    if args.trace.trace.is_some() {
        let hint =
            "--trace records what happens on a machine, with its times; leave out --functional";
        return Err(Failure::usage(hint));
    }
    if args.pipeline.pipeline.is_some() {
        let hint = "--pipeline records the cores of a machine; leave out --functional";
        return Err(Failure::usage(hint));
    }
    if several::is_several(&args.rest) {
        let why =
            "--functional executes one process: leave it out, or ':' and the program after it";
        return Err(Failure::usage(why));
    }
    let name = &args.first;
    let command: Vec<String> = [name].into_iter().chain(&args.rest).cloned().collect();
    let program = read(name).map_err(|failure| no_machine(name, failure))?;
    let outputs = Outputs::find(args)?;
    let here = env::current_dir().map_err(|error| Failure::io("the current folder", error))?;
    let options = Options {
        harts: args.harts.into(),
        max_instructions: args.max_instructions,
        max_ns: args.max_time.map(|ns| ns as u64),
        seed: args.seed,
        input: Input::PassOn,
        folder: Some(here),
        allowed: args.allow.clone(),
        libraries: args.libraries.clone(),
        stop: Some(Arc::clone(stop)),
        ..Options::default()
    };
    let began = Instant::now();
    let outcome = functional::run(&program, &command, &args.of_program.env, &options)
        .map_err(|error| refused(name, &error))?;
    let seconds = began.elapsed().as_secs_f64();
    let killed = match outcome.end {
        End::Killed(signal) => {
            Some(format!("{name}: {}: ended itself by {}", outcome.place, signal_text(signal)))
        }
        End::Exit(_) => None,
    };
    let report = report(args, &program, outcome);
    if args.stats {
        console::remark(&summary(&report, seconds));
    }
    outputs.write_report(&report)?;
    match report.exit_status {
        0 => Ok(()),
        status => Err(match killed.filter(|_| !console::has_lost_reader(status as u8)) {
            Some(why) => Failure::with_status(status as u8, why),
            None => Failure::silent(status as u8),
        }),
    }
}

/// Says so if the missing program is the name of a machine.
fn no_machine(name: &str, failure: Failure) -> Failure {
    if !BUILT_IN.iter().any(|machine| machine.name == name) {
        return failure;
    }
    Failure::usage(format!(
        "{name} is a machine: leave it out, as --functional executes without one, or leave out \
         --functional"
    ))
}

fn refused(name: &str, error: &RunError) -> Failure {
    match error {
        RunError::Load(_) => Failure::with_status(NO_PROGRAM, format!("{name}: {error}")),
        RunError::Failure(_) => Failure::with_status(FAILED, format!("{name}: {error}")),
        RunError::Allowed(..) => Failure::usage(format!("--allow {error}")),
        RunError::Libraries(..) => Failure::usage(format!("--libraries {error}")),
    }
}

fn report(args: &ExecArgs, program: &[u8], outcome: Outcome) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION"),
        seed: args.seed,
        harts: args.harts,
        max_instructions: args.max_instructions,
        program: args.first.clone(),
        program_hash: fingerprint(program),
        arguments: args.rest.clone(),
        environment: args.of_program.env.clone(),
        exit_status: outcome.end.status(),
        instructions: outcome.instructions,
        time_ns: outcome.time_ns,
        warnings: outcome.warnings,
    }
}

fn summary(report: &Report, seconds: f64) -> String {
    let rate = size::rounded(report.instructions as f64 / seconds.max(1e-9));
    format!("{} instructions in {seconds:.3} s: {rate} a second", report.instructions)
}
