//! `rackmem program`: one process of a built-in program.

use crate::args::ProgramArgs;
use crate::failure::{Failure, Result};
use crate::programs;

/// Runs the program; its exit status becomes this command's.
///
/// # Errors
/// There is no such program, or it failed.
pub fn run(args: &ProgramArgs) -> Result<()> {
    match programs::run(&args.name, &args.args)? {
        0 => Ok(()),
        status => Err(Failure::silent(status)),
    }
}
