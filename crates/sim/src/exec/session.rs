//! A program that is executed piece by piece.

use std::time::Instant;

use super::rack::{Over, Rack};
use super::{ExecError, Job, Options, Outcome};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;

/// The place up to which a piece goes; without any it goes to the end of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until<'a> {
    /// Nothing of this cycle or later is simulated.
    pub cycle: Option<Cycle>,
    /// Node 0 prints a text. The piece goes on to the end of the fabric latency in which it does.
    pub output: Option<&'a str>,
}

/// A rack between two pieces of its program.
///
/// The pieces together are the run that goes through without a pause: the same results, to the byte.
pub struct Session {
    rack: Rack,
    began: Instant,
    cut_short: Option<String>,
    is_over: bool,
}

impl Session {
    /// The rack of a machine, with the program loaded on every node; nothing has been executed.
    ///
    /// # Errors
    /// The machine cannot execute programs, or this is none.
    pub fn new(
        machine: &Machine,
        job: &Job<'_>,
        options: &Options<'_>,
    ) -> Result<Session, ExecError> {
        let rack = Rack::new(machine, job, options)?;
        Ok(Session { rack, began: Instant::now(), cut_short: None, is_over: false })
    }

    /// Executes a piece. Whether the program goes on after it.
    pub fn run(&mut self, until: Until<'_>, options: &mut Options<'_>) -> bool {
        if !self.is_over
            && let Some(over) = self.rack.run(until, options)
        {
            self.is_over = true;
            self.cut_short = match over {
                Over::Ended => None,
                Over::Cut(why) => Some(why),
            };
        }
        !self.is_over
    }

    /// Whether the run is over: all processes have ended, one has failed, or they cannot go on.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The cycle that the slowest node has come to.
    pub fn cycle(&self) -> Cycle {
        self.rack.cycle()
    }

    /// Reads all counters.
    pub fn figures(&self) -> Figures {
        self.rack.figures()
    }

    /// What node 0 has printed so far, if no sink took it.
    pub fn printed(&self) -> Vec<u8> {
        self.rack.printed(0)
    }

    /// The outcome; processes that have not ended are stopped.
    pub fn finish(self, mut options: Options<'_>) -> Outcome {
        self.rack.finish(self.cut_short, self.began, &mut options)
    }
}
