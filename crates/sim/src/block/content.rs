//! Contents of blocks.

use rackmem_abi::Op;

use super::{BLOCK_BYTES, bytes_of, mask, merge, words_at};
use crate::coherence::{Content, Update};

/// The content of a block, or a change of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its bytes, as little-endian words. Of a change, the operands: bytes to write are at their
    /// place in the block, words of an atomic in front.
    pub words: [u64; 8],
    /// The change that the words describe, if they are not a content.
    change: Option<Change>,
}

/// A change of a part of a block, made at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    op: Op,
    offset: u8,
    length: u8,
}

impl Block {
    /// All bytes are zero.
    pub const ZERO: Block = Block { words: [0; 8], change: None };

    /// A whole block of 8 little-endian words.
    pub const fn from_words(words: [u64; 8]) -> Block {
        Block { words, change: None }
    }

    /// A whole block, byte 0 lowest in word 0.
    pub fn from_bytes(bytes: &[u8; 64]) -> Block {
        Block::from_words(words_at(0, bytes))
    }

    /// The words as bytes, little-endian.
    pub fn to_bytes(self) -> [u8; 64] {
        bytes_of(&self.words)
    }

    /// The change that writes these bytes at `offset`; all of them are a content.
    pub fn write(offset: usize, bytes: &[u8]) -> Block {
        let change = Change { op: Op::Write, offset: offset as u8, length: bytes.len() as u8 };
        let change = Some(change).filter(|_| bytes.len() < BLOCK_BYTES as usize);
        Block { words: words_at(offset, bytes), change }
    }

    /// The request to its home: a change needs the old content, a content replaces it.
    pub const fn as_update(self) -> Update<Block> {
        if self.is_change() { Update::Modify(self) } else { Update::Replace(self) }
    }

    /// Whether it is a change and no content.
    pub const fn is_change(&self) -> bool {
        self.change.is_some()
    }

    /// Bytes that are written with it.
    pub fn written_bytes(&self) -> u32 {
        self.change.map_or(64, |change| change.length.into())
    }

    /// The change that an atomic operation makes to the word at `offset`.
    pub fn atomic(op: Op, offset: usize, operands: [u64; 2]) -> Block {
        let mut words = [0; 8];
        words[..2].copy_from_slice(&operands);
        Block { words, change: Some(Change { op, offset: offset as u8, length: 8 }) }
    }
}

impl Content for Block {
    fn modified(self, change: Self) -> Self {
        let Some(Change { op, offset, length }) = change.change else { return change };
        let mut block = self;
        let word = &mut block.words[usize::from(offset) / 8];
        match op {
            Op::FetchAdd => *word = word.wrapping_add(change.words[0]),
            Op::CompareSwap if *word == change.words[0] => *word = change.words[1],
            Op::Write => {
                let mask = mask(usize::from(offset), usize::from(length));
                merge(&mut block.words, &change.words, mask);
            }
            _ => {}
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_touch_what_they_name() {
        let old = Block { words: [1, 2, 3, 4, 5, 6, 7, 8], change: None };
        let written = old.modified(Block::write(15, &[0xaa, 0xbb]));
        assert_eq!(written.words[1..3], [2 | 0xaa << 56, 0xbb]);
        assert_eq!(written.words[3..], old.words[3..]);
        assert_eq!(old.modified(Block::atomic(Op::FetchAdd, 8, [5, 0])).words[1], 7);
        assert_eq!(old.modified(Block::atomic(Op::CompareSwap, 16, [3, 9])).words[2], 9);
        assert_eq!(old.modified(Block::atomic(Op::CompareSwap, 16, [4, 9])), old);
    }
}
