//! A program between two of its instructions, to go on from as often as one likes: on the same machine, or on others.
//!
//! | file | content |
//! |---|---|
//! | `node` | the state of a node: kernel, threads, cores |
//! | `memory` | its memory, and the places of its pages |
//! | `pack` | pages without their zeros |
//! | `file` | the format of the file |
//! | `check` | checks of what was read from one |
//!
//! It holds what the program has done, and nothing of the machine: memory, registers, the kernel, and when each line
//! was last touched. So it is taken where a fast-forward from the begin of the program ends, before any cache has seen
//! it; caches are warmed after it, those of whichever machine goes on from it. There the run is the same, to the byte,
//! as one that was not interrupted.
//!
//! A program may be in contexts. What its node's network interfaces have under way comes to its end first; contexts,
//! queue pairs and positions in their rings are what is left of it. The interfaces' caches begin empty.
//!
//! Where the memory of the machine begins and ends at the same places as before, pages keep theirs. Otherwise, as with
//! another number of cores, they get others in the same order. Interfaces in tiles have places of their own for queues
//! and segments, an RMC has none: from one kind to the other these are moved.

mod check;
mod file;
#[cfg(fuzzing)]
mod fuzz;
mod memory;
mod node;
mod pack;

use std::fmt;

use rackmem_riscv::host::Numbers;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::{ExecError, Job};
use crate::engine::Cycle;
use crate::machine::Machine;
pub(super) use check::{Checked, countable, require};
pub(super) use memory::{Memory, Places};
pub(super) use node::{Clock, NEVER, State};

/// The only program of a run: a checkpoint has no more.
///
/// # Errors
/// There are several.
pub(super) fn only<'a, 'b>(jobs: &'a [Job<'b>]) -> Result<&'a Job<'b>, ExecError> {
    match jobs {
        [job] => Ok(job),
        _ => Err(ExecError::Checkpoint(
            "a checkpoint is of one program, and the nodes execute several".to_owned(),
        )),
    }
}

/// The state of a program.
#[derive(Clone)]
pub struct Checkpoint {
    head: Head,
    /// The head as JSON, as a file has it.
    text: String,
    program: Vec<u8>,
    /// Contents of the pages, by node.
    contents: Vec<Vec<u8>>,
}

/// The program, and what it has come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub taken: Taken,
    pub part: Part,
    pub args: Vec<String>,
    pub env: Vec<String>,
    /// Threads in a region of interest.
    pub inside: u64,
    /// Those of files, which the nodes share.
    pub inodes: Numbers,
    pub nodes: Vec<State>,
}

/// The place at which a checkpoint was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Name of the machine.
    pub machine: String,
    /// The clock by which its cycles count.
    pub clock_ghz: f64,
    /// Cycles that it had come to.
    pub cycle: Cycle,
    /// Instructions of all cores before it.
    pub instructions: u64,
}

impl Checkpoint {
    /// The place at which it was taken.
    pub fn taken(&self) -> Taken {
        self.head.taken.clone()
    }

    /// The cycle of a machine with which the program goes on there.
    pub fn begin(&self, machine: &Machine) -> Cycle {
        self.head.taken.clock(machine).cycle(self.head.taken.cycle)
    }

    /// The part of the program that was to be measured; it begins here.
    pub fn part(&self) -> Part {
        self.head.part
    }

    /// Bytes of the whole: what a file of it has.
    pub fn size_bytes(&self) -> usize {
        self.text.len() + self.program.len() + self.contents.iter().map(Vec::len).sum::<usize>()
    }

    /// Does something with the program, as a job.
    pub fn with_job<T>(&self, work: impl FnOnce(&Job<'_>) -> T) -> T {
        work(&self.job())
    }

    pub(super) fn new(
        head: Head,
        program: &[u8],
        contents: Vec<Vec<u8>>,
    ) -> Result<Checkpoint, ExecError> {
        // A program may have taken away what it needs to go on.
        head.check(&contents).map_err(ExecError::Checkpoint)?;
        let text = serde_json::to_string(&head);
        let text = text.map_err(|error| ExecError::Checkpoint(error.to_string()))?;
        Ok(Checkpoint { head, text, program: program.to_vec(), contents })
    }

    /// What was read: the head as JSON, the program, and the contents of each node's pages.
    fn read_from(
        text: String,
        program: Vec<u8>,
        contents: Vec<Vec<u8>>,
    ) -> Result<Checkpoint, String> {
        let head: Head = check::parse(&text)?;
        head.check(&contents)?;
        Ok(Checkpoint { head, text, program, contents })
    }

    pub(super) const fn head(&self) -> &Head {
        &self.head
    }

    /// The contents of each node's pages.
    pub(super) fn contents(&self) -> &[Vec<u8>] {
        &self.contents
    }

    pub(super) fn job(&self) -> Job<'_> {
        let Head { args, env, nodes, .. } = &self.head;
        Job { program: &self.program, args, env, nodes: nodes.len() as u16 }
    }
}

impl Taken {
    /// The machine's time at which the program goes on, and that of its own times.
    pub(super) fn clock(&self, machine: &Machine) -> Clock {
        Clock::new(self.clock_ghz, machine.clock_ghz)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint({} bytes)", self.size_bytes())
    }
}
