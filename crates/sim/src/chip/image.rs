//! The contents of a node's physical memory, while programs are executed.
//!
//! They are in one place: caches hold rights to blocks and no copies of them. Coherence lets a block be
//! read only while nobody may change it, and changed only by the one cache that has it, so any copy would
//! show the content of the one place. Data that have left the coherence domain, such as the payload of a
//! packet, are a copy of their own.

use rackmem_riscv::space::PAGE;

use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::Content;
use crate::sonuma;

/// Blocks of a chunk, which comes into being when one of them is written.
const CHUNK: u64 = 1024;

type Words = [u64; 8];

/// Physical memory, zero until it is written.
#[derive(Clone, Debug)]
pub struct Image {
    chunks: Vec<Option<Box<[Words; CHUNK as usize]>>>,
}

impl Image {
    /// Bytes of the index of chunks for each byte of memory.
    pub const INDEX_SHARE: f64 =
        size_of::<Option<Box<[Words; CHUNK as usize]>>>() as f64 / (CHUNK * BLOCK_BYTES) as f64;

    /// So many bytes, from address 0 on.
    pub fn new(size_bytes: u64) -> Image {
        let chunks = size_bytes.div_ceil(CHUNK * BLOCK_BYTES) as usize;
        Image { chunks: vec![None; chunks] }
    }

    /// Whether it has this block.
    pub const fn has(&self, line: Line) -> bool {
        line / CHUNK < self.chunks.len() as u64
    }

    /// A block.
    ///
    /// # Panics
    /// This and the others: beyond the end.
    #[inline]
    pub fn block(&self, line: Line) -> Words {
        let chunk = &self.chunks[(line / CHUNK) as usize];
        chunk.as_ref().map_or([0; 8], |chunk| chunk[(line % CHUNK) as usize])
    }

    /// A block, to look at.
    #[inline]
    pub fn words(&self, line: Line) -> &Words {
        let chunk = &self.chunks[(line / CHUNK) as usize];
        chunk.as_ref().map_or(&[0; 8], |chunk| &chunk[(line % CHUNK) as usize])
    }

    /// A block, to change.
    #[inline]
    pub fn block_mut(&mut self, line: Line) -> &mut Words {
        let chunk = &mut self.chunks[(line / CHUNK) as usize];
        let chunk = chunk.get_or_insert_with(|| Box::new([[0; 8]; CHUNK as usize]));
        &mut chunk[(line % CHUNK) as usize]
    }

    /// Makes a change of a block, or replaces it.
    pub fn change(&mut self, line: Line, change: Block) {
        let block = self.block_mut(line);
        *block = Block::from_words(*block).modified(change).words;
    }

    /// Blocks from one on, but for those of which none near by was ever written.
    pub fn lines_from(&self, first: Line) -> Vec<Line> {
        let chunks = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.is_some());
        let lines = chunks.flat_map(|(at, _): (u64, _)| at * CHUNK..(at + 1) * CHUNK);
        lines.filter(|&line| line >= first).collect()
    }

    /// The pages of `PAGE` bytes that are not zero: their addresses and contents.
    pub fn pages(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        const PAGE_LINES: u64 = PAGE / BLOCK_BYTES;
        let chunks = (0..).zip(&self.chunks).filter(|(_, chunk)| chunk.is_some());
        let firsts = chunks.flat_map(|(at, _): (u64, _)| {
            (0..CHUNK / PAGE_LINES).map(move |page| at * CHUNK + page * PAGE_LINES)
        });
        let is_zero =
            |first: &u64| (*first..first + PAGE_LINES).all(|line| *self.words(line) == [0; 8]);
        firsts.filter(move |first| !is_zero(first)).map(|first| {
            let words = (first..first + PAGE_LINES).flat_map(|line| *self.words(line));
            (first * BLOCK_BYTES, words.flat_map(u64::to_le_bytes).collect())
        })
    }

    /// Copies memory that begins at a physical address to `bytes`.
    pub fn read_bytes(&self, address: u64, bytes: &mut [u8]) {
        for (at, range) in in_blocks(address, bytes.len()) {
            let block = crate::block::bytes_of(&self.block(at / BLOCK_BYTES));
            let from = (at % BLOCK_BYTES) as usize;
            bytes[range.clone()].copy_from_slice(&block[from..from + range.len()]);
        }
    }

    /// Copies `bytes` to a physical address.
    pub fn write_bytes(&mut self, address: u64, bytes: &[u8]) {
        for (at, range) in in_blocks(address, bytes.len()) {
            let block = self.block_mut(at / BLOCK_BYTES);
            let from = (at % BLOCK_BYTES) as usize;
            let mask = crate::block::mask(from, range.len());
            let new = crate::block::words_at(from, &bytes[range]);
            crate::block::merge(block, &new, mask);
        }
    }
}

impl sonuma::Image for Image {
    fn read(&self, address: u64) -> u64 {
        self.block(address / BLOCK_BYTES)[(address % BLOCK_BYTES / 8) as usize]
    }

    fn write(&mut self, address: u64, value: u64) {
        self.block_mut(address / BLOCK_BYTES)[(address % BLOCK_BYTES / 8) as usize] = value;
    }
}

/// A range cut at block boundaries: addresses, and which of its bytes.
pub(super) fn in_blocks(
    address: u64,
    length: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address + done as u64;
        let piece = (length - done).min((BLOCK_BYTES - at % BLOCK_BYTES) as usize);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((at, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_words_are() {
        let mut image = Image::new(1 << 20);
        let bytes: Vec<u8> = (0..200).collect();
        image.write_bytes(0x1_ffc3, &bytes);
        let mut back = vec![0; 202];
        image.read_bytes(0x1_ffc2, &mut back);
        assert_eq!(back[1..201], bytes[..]);
        assert_eq!((back[0], back[201]), (0, 0));
        let word = sonuma::Image::read(&image, 0x1_ffc8);
        assert_eq!(word.to_le_bytes()[..], bytes[5..13]);
        sonuma::Image::write(&mut image, 0x1_ffc8, 7);
        assert_eq!(image.block(0x1_ffc8 / 64)[1], 7);
    }
}
