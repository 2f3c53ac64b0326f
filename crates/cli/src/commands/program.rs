//! `rackmem program`: one process of a built-in program.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::programs;

/// Arguments of `rackmem program`.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Name of the program
    pub name: String,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

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
