//! The outcome of a run: ends of the processes, output, counters.

use std::collections::BTreeMap;
use std::fmt;

use rackmem_riscv::functional::{Failure, signal_text};

use super::Taken;
use super::part::Measured;
use super::tracks::Tracks;
use crate::cpu::Lives;
use crate::engine::Cycle;
use crate::report::{Recording, Stats};

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exit(i32),
    /// By a signal that it has sent itself and does not handle.
    Killed {
        /// Its number.
        signal: i32,
        /// Core and function.
        place: String,
    },
    /// It did something that no program may do.
    Crashed(Crash),
    /// Another node's process failed, or the run was over, before it came to its end.
    Stopped,
}

/// The reason and the place of a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The failure, with its core, program counter and function.
    pub failure: Box<Failure>,
}

impl End {
    /// The exit status that a shell would report.
    pub fn status(&self) -> i32 {
        match self {
            End::Exit(code) => code & 0xff,
            End::Killed { signal, .. } => 128 + signal,
            End::Crashed(_) | End::Stopped => 125,
        }
    }

    /// Whether it is what one hopes for.
    pub fn is_success(&self) -> bool {
        *self == End::Exit(0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "ended with status {code}"),
            End::Killed { signal, place } => {
                write!(f, "ended itself by {} ({place})", signal_text(*signal))
            }
            End::Crashed(crash) => crash.fmt(f),
            End::Stopped => f.write_str("was stopped"),
        }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the words of a machine that has cores.
        f.write_str(&self.failure.to_string().replacen("hart", "core", 1))
    }
}

/// The outcome of one node's process.
#[derive(Clone, Debug)]
pub struct NodeOutcome {
    /// Exit, signal, crash, or stopped from outside.
    pub end: End,
    /// Cycle with which it began.
    pub begin: Cycle,
    /// Cycle in which it ended.
    pub cycle: Cycle,
    /// Instructions that its cores have retired.
    pub instructions: u64,
    /// Standard output, if nobody took it.
    pub stdout: Vec<u8>,
    /// Standard error, if nobody took it.
    pub stderr: Vec<u8>,
    /// Things that it asked for and did not get.
    pub warnings: Vec<String>,
    /// Names of the files that it has looked for, and whether each was there at first.
    pub inputs: BTreeMap<String, bool>,
    /// Its messages in the stretch of time that was asked for.
    pub trace: Recording,
    /// What its threads and cores did in that stretch.
    pub tracks: Tracks,
    /// The lives of the instructions of its cores, if they were asked for; the numbers of the cores.
    pub lives: Vec<(u16, Lives)>,
}

/// The result of a run on all its nodes.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The nodes, in order.
    pub nodes: Vec<NodeOutcome>,
    /// If the run was ended before all processes came to their ends by themselves: the reason, and the
    /// places that they had reached.
    pub cut_short: Option<String>,
    /// Simulated cycles, of the slowest node.
    pub cycles: Cycle,
    /// Instructions retired by all cores.
    pub instructions: u64,
    /// Wall-clock time of the simulation.
    pub seconds: f64,
    /// Fingerprints of the files that the processes have read, by the names that they used; empty of those that were
    /// missing.
    pub inputs: BTreeMap<String, String>,
    /// Counters, by path of the part.
    pub stats: Stats,
    /// Counts and counters of the part that was measured; none if that is the whole program.
    pub measured: Option<Measured>,
    /// The checkpoint from which the program went on, if not from its begin.
    pub restored: Option<Taken>,
}

impl Outcome {
    /// The node whose failure ended the run, if one did.
    pub fn failed(&self) -> Option<(usize, &NodeOutcome)> {
        let failed =
            |(_, node): &(usize, &NodeOutcome)| !node.end.is_success() && node.end != End::Stopped;
        self.nodes.iter().enumerate().filter(failed).min_by_key(|(_, node)| node.cycle)
    }
}
