//! Threads that take turns on cores.
//!
//! A thread stays on one core: its number modulo the number of cores. So as long as there are as many cores, each has
//! its own, with the network interface beside it. Threads of one core have it in the order of their numbers: until they
//! sleep, yield or end, or their turn is over and another one waits.

use serde::{Deserialize, Serialize};

use super::checkpoint::{Checked, require};
use crate::engine::{Cycle, MOST};

/// Nanoseconds of a turn: the tenth part of a millisecond. Linux's shortest turn is 750 us
/// (`sysctl_sched_min_granularity`), longer than many a program runs on the model.
pub const TURN_NS: u64 = 100_000;

/// The cores of a node as its threads have them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turns {
    /// By core: the thread that has it.
    holders: Vec<Option<usize>>,
    /// By core: the cycle in which the turn of that thread is over.
    ends: Vec<Cycle>,
}

impl Turns {
    pub fn new(cores: usize) -> Turns {
        Turns { holders: vec![None; cores], ends: vec![0; cores] }
    }

    /// Checks what was read: a thread that has a core runs, and belongs there.
    pub fn check(&self, is_running: impl Fn(usize) -> bool) -> Checked {
        let Turns { holders, ends } = self;
        require(!holders.is_empty() && ends.len() == holders.len(), || {
            format!("turns.ends: has {} entries for {} cores", ends.len(), holders.len())
        })?;
        for (core, &holder) in holders.iter().enumerate() {
            let is_sound =
                holder.is_none_or(|holder| self.core_of(holder) == core && is_running(holder));
            require(is_sound, || format!("turns.holders[{core}]: {holder:?} does not run there"))?;
        }
        let late = ends.iter().position(|&end| end >= MOST);
        require(late.is_none(), || format!("turns.ends: core {late:?} has one after all runs"))
    }

    pub const fn cores(&self) -> usize {
        self.holders.len()
    }

    /// The same on another number of cores, of which no thread holds one that is gone, with other ends of turns.
    pub fn on(&self, cores: usize, end: impl Fn(Cycle) -> Cycle) -> Turns {
        let mut turns = Turns::new(cores);
        for (&holder, &at) in self.holders.iter().zip(&self.ends) {
            if let Some(holder) = holder {
                turns.begin(holder, end(at));
            }
        }
        turns
    }

    /// The core of a thread.
    pub fn core_of(&self, thread: usize) -> usize {
        thread % self.holders.len()
    }

    /// The thread that has a core.
    pub fn holder(&self, core: usize) -> Option<usize> {
        self.holders[core]
    }

    /// The cycle in which the turn of the thread that has the core of this one is over; `None` if nobody has it.
    pub fn end_before(&self, thread: usize) -> Option<Cycle> {
        let core = self.core_of(thread);
        self.holders[core].map(|_| self.ends[core])
    }

    /// A thread begins its turn, which is over in that cycle.
    pub fn begin(&mut self, thread: usize, end: Cycle) {
        let core = self.core_of(thread);
        self.holders[core] = Some(thread);
        self.ends[core] = end;
    }

    /// A thread gives its core back.
    pub fn leave(&mut self, thread: usize) {
        let core = self.core_of(thread);
        self.holders[core] = None;
    }

    /// Of so many threads those that share a core with this one, in the order in which they come after it. It is the
    /// last.
    pub fn after(&self, thread: usize, threads: usize) -> impl Iterator<Item = usize> + use<> {
        let cores = self.holders.len();
        let first = thread % cores;
        (thread + cores..threads).step_by(cores).chain((first..=thread).step_by(cores))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_core_come_in_turn() {
        let mut turns = Turns::new(3);
        assert_eq!(turns.after(4, 11).collect::<Vec<_>>(), [7, 10, 1, 4]);
        assert_eq!(turns.after(2, 3).collect::<Vec<_>>(), [2]);
        assert!(turns.end_before(7).is_none());
        turns.begin(4, 100);
        assert_eq!((turns.holder(1), turns.end_before(7)), (Some(4), Some(100)));
        turns.leave(4);
        assert_eq!(turns.holder(1), None);
    }
}
