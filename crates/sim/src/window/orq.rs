//! The outstanding request queue: the reads of lines that may be under way (TSM §5, TS-09, TS-10). With one
//! entry, reads are serial, as a root complex has them.
//!
//! An entry lasts until the line has been passed on to the home.

use std::collections::VecDeque;

use crate::engine::{Cycle, Slab};

/// A read of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Number of the line on this node: physical address / 64.
    pub line: u64,
    /// Cycle in which it was asked for.
    pub at: Cycle,
}

/// Reads under way, each with an entry, and those that wait for one.
#[derive(Clone, Debug)]
pub struct Orq {
    capacity: usize,
    under_way: Slab<Asked>,
    /// Misses that wait for an entry, in order.
    waiting: VecDeque<Asked>,
    most: usize,
}

impl Orq {
    /// A queue of so many entries.
    pub fn new(capacity: usize) -> Orq {
        Orq { capacity, under_way: Slab::default(), waiting: VecDeque::new(), most: 0 }
    }

    /// A line is asked for.
    pub fn ask(&mut self, line: u64, at: Cycle) {
        self.waiting.push_back(Asked { line, at });
    }

    /// The line of the next read, if there is an entry for it.
    pub fn next_line(&self) -> Option<u64> {
        let asked = self.waiting.front().filter(|_| self.under_way.len() < self.capacity);
        asked.map(|asked| asked.line)
    }

    /// The next read that may leave, with its tag.
    pub fn issue(&mut self) -> Option<(u32, Asked)> {
        if self.under_way.len() >= self.capacity {
            return None;
        }
        let asked = self.waiting.pop_front()?;
        let tag = self.under_way.put(asked);
        self.most = self.most.max(self.under_way.len());
        Some((tag, asked))
    }

    /// The data of a read have come: its entry is free.
    pub fn done(&mut self, tag: u32) -> Asked {
        self.under_way.take(tag)
    }

    /// Reads under way and waiting.
    pub fn len(&self) -> usize {
        self.under_way.len() + self.waiting.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that have been under way at the same time.
    pub const fn most(&self) -> usize {
        self.most
    }
}
