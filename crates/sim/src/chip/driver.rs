//! Accesses to a tile's L1 by the chip's user, such as a test, not by a program of the model.

use super::cache::PrivateCache;
use super::wires::Wires;
use crate::block::Line;

/// An access to a word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it, and the block.
    Load,
    /// Writes it.
    Store(u64),
    /// Adds to it, in one step.
    Add(u64),
}

/// An access to a word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The asker's name for it, for its own use.
    pub id: u64,
    /// Block that holds the word.
    pub line: Line,
    /// Index of the word in the block.
    pub word: usize,
    /// Load, store or add.
    pub access: Access,
}

/// An access that has been performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performed {
    /// The access as it was asked for, with its `id`.
    pub asked: Asked,
    /// The block, as it was found.
    pub found: [u64; 8],
}

/// Accesses that wait for their block, and the results of others.
#[derive(Clone, Debug, Default)]
pub struct Driver {
    waiting: Vec<Asked>,
    /// Accesses that have been performed, in this order.
    pub performed: Vec<Performed>,
}

impl Driver {
    /// Makes an access now, or as soon as the L1 has the block.
    pub fn ask(&mut self, asked: Asked, l1: &mut PrivateCache, wires: &mut Wires) {
        if !self.attempt(asked, l1, wires) {
            self.waiting.push(asked);
        }
    }

    /// Something is complete in the L1: those that wait try again.
    #[inline]
    pub(super) fn resume(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        for asked in std::mem::take(&mut self.waiting) {
            self.ask(asked, l1, wires);
        }
    }

    /// Number of accesses that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn attempt(&mut self, asked: Asked, l1: &mut PrivateCache, wires: &mut Wires) -> bool {
        let Asked { line, word, access, .. } = asked;
        let mut found = None;
        match access {
            Access::Load => found = l1.load(line, wires),
            Access::Store(value) => {
                l1.store(line, wires, |words| {
                    found = Some(*words);
                    words[word] = value;
                });
            }
            Access::Add(value) => {
                l1.store(line, wires, |words| {
                    found = Some(*words);
                    words[word] = words[word].wrapping_add(value);
                });
            }
        }
        self.performed.extend(found.map(|found| Performed { asked, found }));
        found.is_some()
    }
}
