//! Runs a machine.

use std::fmt;

use crate::machine::Machine;
use crate::report::Report;

/// What to do besides simulating.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Record the events of so many reads.
    pub traced_reads: u32,
    /// Is told now and then how many cycles have been simulated.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// Why a machine cannot run, or did not come to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The machine cannot be built: what, where, what to do.
    Impossible(String),
    /// Nothing has moved for too long: what is stuck, and where.
    Stuck(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Impossible(what) | RunError::Stuck(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a machine until its workload is measured.
///
/// # Errors
/// [`RunError`]
pub fn run(machine: &Machine, options: &Options<'_>) -> Result<Report, RunError> {
    let _ = (machine, options);
    Err(RunError::Impossible("the chip is not there yet".to_owned()))
}
