//! Traffic that is generated.

use std::str::FromStr;

use super::{Access, BLOCK_BYTES};
use crate::dram::{Kind, Tick};
use crate::engine::Random;

/// The rule that gives requests their addresses and kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Reads of any block of the memory.
    Random,
    /// Reads of one block after the other.
    Stream,
    /// Any block, a third of the requests being writes.
    RandomWriteThird,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 3] = [Pattern::Random, Pattern::Stream, Pattern::RandomWriteThird];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Random => "random",
            Pattern::Stream => "stream",
            Pattern::RandomWriteThird => "random-write-third",
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        if let Some(pattern) = Pattern::ALL.into_iter().find(|pattern| pattern.name() == text) {
            return Ok(pattern);
        }
        let likeness = |pattern: &Pattern| strsim::jaro_winkler(text, pattern.name());
        let near = Pattern::ALL.into_iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = near.map(|near| format!("did you mean {}? ", near.name())).unwrap_or_default();
        Err(format!("no pattern '{text}'; {hint}There are random, stream and random-write-third"))
    }
}

/// Requests of a pattern, one every `interval` clocks.
#[derive(Clone, Debug)]
pub struct Generator {
    pattern: Pattern,
    interval: Tick,
    blocks: u64,
    random: Random,
    next: u64,
    count: u64,
}

impl Generator {
    /// So many requests to a memory of `size_bytes`.
    pub fn new(
        pattern: Pattern,
        interval: Tick,
        count: u64,
        size_bytes: u64,
        seed: u64,
    ) -> Generator {
        let blocks = (size_bytes / BLOCK_BYTES).max(1);
        Generator { pattern, interval, blocks, random: Random::new(seed, 0), next: 0, count }
    }
}

impl Iterator for Generator {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let number = self.next;
        if number == self.count {
            return None;
        }
        self.next += 1;
        let block = match self.pattern {
            Pattern::Stream => number % self.blocks,
            _ => self.random.below(self.blocks),
        };
        let write = self.pattern == Pattern::RandomWriteThird && self.random.below(3) == 0;
        let kind = if write { Kind::Write } else { Kind::Read };
        Some(Access { at: Some(number * self.interval), address: block * BLOCK_BYTES, kind })
    }
}
