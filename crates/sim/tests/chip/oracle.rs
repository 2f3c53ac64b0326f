//! The required content of memory: the history of each block.

use rackmem_sim::block::Line;
use std::collections::HashMap;

use rackmem_abi::Op;

/// Words of a block.
pub type Words = [u64; 8];

/// A content and the cycle since which it has been current.
#[derive(Clone, Copy)]
struct Version {
    since: u64,
    words: Words,
}

/// Histories of all blocks that have been written; the others are zero.
#[derive(Default)]
pub struct Oracle {
    lines: HashMap<Line, Vec<Version>>,
}

impl Oracle {
    /// The present content of a block.
    pub fn current(&self, line: Line) -> Words {
        self.lines.get(&line).and_then(|history| history.last()).map_or([0; 8], |last| last.words)
    }

    /// A block changes.
    pub fn set(&mut self, line: Line, words: Words, now: u64) {
        let first = || vec![Version { since: 0, words: [0; 8] }];
        self.lines.entry(line).or_insert_with(first).push(Version { since: now, words });
    }

    /// A word changes.
    pub fn set_word(&mut self, line: Line, word: usize, value: u64, now: u64) {
        let mut words = self.current(line);
        words[word] = value;
        self.set(line, words, now);
    }

    /// Whether the block has had, at some time from `from` to `to`, a content that `is_it`.
    pub fn was(&self, line: Line, from: u64, to: u64, is_it: impl Fn(Words) -> bool) -> bool {
        let Some(history) = self.lines.get(&line) else { return is_it([0; 8]) };
        history.iter().enumerate().any(|(at, version)| {
            let until = history.get(at + 1).map_or(u64::MAX, |next| next.since);
            version.since <= to && until >= from && is_it(version.words)
        })
    }

    /// All blocks that have been written.
    pub fn lines(&self) -> impl Iterator<Item = Line> + '_ {
        self.lines.keys().copied()
    }
}

/// The bytes of a block.
pub fn bytes_of(words: Words) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (at, word) in words.iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The block with some bytes replaced.
pub fn written(words: Words, at: usize, bytes: &[u8]) -> Words {
    let mut block = bytes_of(words);
    block[at..at + bytes.len()].copy_from_slice(bytes);
    words_of(&block)
}

/// The words in these bytes.
pub fn words_of(bytes: &[u8]) -> Words {
    let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
    std::array::from_fn(word)
}

/// The block after a request.
pub fn changed(words: Words, op: Op, at: usize, payload: &[u8; 64], length: usize) -> Words {
    let [first, second, ..] = words_of(payload);
    let mut after = words;
    match op {
        Op::Write => return written(words, at, &payload[..length]),
        Op::FetchAdd => after[at / 8] = words[at / 8].wrapping_add(first),
        Op::CompareSwap if words[at / 8] == first => after[at / 8] = second,
        _ => {}
    }
    after
}
