//! Contents of blocks.

use rackmem_abi::Op;

use crate::coherence::Content;

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
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Block { words, change: None }
    }

    /// The words as bytes, little-endian.
    pub fn to_bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// The change that writes these bytes at `offset`.
    pub fn write(offset: usize, bytes: &[u8]) -> Block {
        let mut block = [0; 64];
        block[offset..offset + bytes.len()].copy_from_slice(bytes);
        let change = Change { op: Op::Write, offset: offset as u8, length: bytes.len() as u8 };
        Block { change: Some(change), ..Block::from_bytes(&block) }
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
                let range = usize::from(offset)..usize::from(offset) + usize::from(length);
                let mut bytes = self.to_bytes();
                bytes[range.clone()].copy_from_slice(&change.to_bytes()[range]);
                return Block::from_bytes(&bytes);
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
