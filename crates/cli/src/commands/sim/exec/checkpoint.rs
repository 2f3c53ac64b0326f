//! Checkpoints: `rackmem sim exec --checkpoint` and `--restore`.

use std::path::{Path, PathBuf};

use clap::Args;
use rackmem_experiments::input;
use rackmem_sim::exec::part::{self, Begun, Part};
use rackmem_sim::exec::{Checkpoint, Stop};
use rackmem_sim::machine::Machine;

use super::timed::Run;
use super::{FAILED, Outputs};
use crate::commands::sim::args::ExecArgs;
use crate::commands::sim::output::Place;
use crate::console;
use crate::failure::{Failure, Result};
use crate::several::SEPARATOR;
use crate::size;

/// A place in a program to go on from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Part of the program")]
pub struct CheckpointArgs {
    /// Write the state of the program where --fast-forward ends into this file, and end there
    #[arg(long, value_name = "FILE", requires = "fast_forward",
          conflicts_with_all = ["functional", "measure", "restore", "report", "trace", "pipeline"])]
    pub checkpoint: Option<PathBuf>,
    /// Go on from the checkpoint in this file, on this machine or any other one with as many cores; the program and its
    /// arguments are in it. Its counters are those of the part that begins there
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["functional", "fast_forward", "sample", "nodes", "env", "begin"])]
    pub restore: Option<PathBuf>,
}

/// Executes the program without timing and writes its state.
///
/// # Errors
/// The machine or the program cannot be used, the program ends before, or the file cannot be written.
pub fn take(run: &Run<'_>, part: Part, place: &Place) -> Result<()> {
    match run.execute(|options| part::checkpoint(run.machine, run.jobs, part, options))? {
        Begun::Ended(outcome) => {
            let path = place.path().display();
            console::remark(&format!(
                "{path}: no checkpoint is taken, as the program ended before"
            ));
            run.conclude(part, *outcome)
        }
        Begun::Checkpoint(checkpoint) => {
            place.write_by(|out| checkpoint.write(out))?;
            let taken = checkpoint.taken();
            console::remark(&format!(
                "{}: after {} instructions, {} bytes; --restore goes on from it",
                place.path().display(),
                size::rounded(taken.instructions as f64),
                size::rounded(checkpoint.size_bytes() as f64),
            ));
            Ok(())
        }
    }
}

/// Goes on from a checkpoint.
///
/// # Errors
/// There is none in the file, it cannot go on here, or a process did not end well.
pub fn restore(args: &ExecArgs, machine: &Machine, path: &Path, stop: &Stop) -> Result<()> {
    if let Some(program) = args.rest.iter().find(|word| *word != SEPARATOR) {
        let why =
            format!("{program}: the checkpoint has its program and arguments; leave them out");
        return Err(Failure::usage(why));
    }
    let opened = input::open(path).map_err(|error| error.to_string());
    let checkpoint = opened.and_then(Checkpoint::of_file);
    let checkpoint = checkpoint
        .map_err(|why| Failure::with_status(FAILED, format!("{}: {why}", path.display())))?;
    let part = part_of(args, &checkpoint);
    checkpoint.with_job(|job| {
        let outputs = Outputs::find(args)?;
        let (jobs, begin) = (std::slice::from_ref(job), checkpoint.begin(machine));
        let run = Run { args, machine, jobs, begins: Vec::new(), outputs: &outputs, begin, stop };
        let outcome = run.execute(|options| part::restore(machine, &checkpoint, part, options))?;
        run.conclude(part, outcome)
    })
}

/// The part that begins at a checkpoint: that of the run in which it was taken, or so many instructions.
fn part_of(args: &ExecArgs, checkpoint: &Checkpoint) -> Part {
    match args.part.measure {
        None => checkpoint.part(),
        count => Part::Instructions { after: checkpoint.taken().instructions, count },
    }
}
