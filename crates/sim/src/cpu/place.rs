//! The place of an access in memory.

use crate::block::{BLOCK_BYTES, Line, Words};

/// Bytes of one line or, if they go beyond its end, of two. The two need not be neighbours: pages
/// can be anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The line of the first byte and that of the last one.
    pub(super) lines: [Line; 2],
    /// Of the first byte in its line.
    pub(super) offset: u8,
    pub(super) size: u8,
}

impl Place {
    /// Bytes in the first line.
    #[inline(always)]
    pub(super) fn first_bytes(&self) -> u8 {
        self.size.min(BLOCK_BYTES as u8 - self.offset)
    }

    #[inline(always)]
    pub(super) fn crosses(&self) -> bool {
        self.offset + self.size > BLOCK_BYTES as u8
    }

    #[inline(always)]
    pub(super) fn touches(&self, line: Line) -> bool {
        self.lines[0] == line || self.lines[1] == line
    }

    /// Whether two accesses may have a byte in common. Those that lie in two lines are told apart
    /// by line only: they are rare.
    #[inline(always)]
    pub(super) fn overlaps(&self, other: &Place) -> bool {
        if self.crosses() || other.crosses() {
            return other.touches(self.lines[0]) || other.touches(self.lines[1]);
        }
        self.lines[0] == other.lines[0]
            && self.offset < other.offset + other.size
            && other.offset < self.offset + self.size
    }

    /// Whether all bytes of `other` are among these.
    #[inline(always)]
    pub(super) fn covers(&self, other: &Place) -> bool {
        !self.crosses()
            && !other.crosses()
            && self.lines[0] == other.lines[0]
            && self.offset <= other.offset
            && other.offset + other.size <= self.offset + self.size
    }
}

/// The lowest bits of as many bytes.
#[inline(always)]
pub(super) fn truncated(value: u64, bytes: u8) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

/// `size` bytes of a line.
#[inline(always)]
pub(crate) fn read(words: &Words, offset: u8, size: u8) -> u64 {
    let (word, shift) = (usize::from(offset / 8), 8 * u32::from(offset % 8));
    let mut value = words[word] >> shift;
    if offset % 8 + size > 8 {
        value |= words[word + 1] << (64 - shift);
    }
    truncated(value, size)
}

/// Changes `size` bytes of a line.
#[inline(always)]
pub(crate) fn write(words: &mut Words, offset: u8, size: u8, value: u64) {
    let (word, shift) = (usize::from(offset / 8), 8 * u32::from(offset % 8));
    let mask = truncated(u64::MAX, size);
    words[word] = words[word] & !(mask << shift) | (value & mask) << shift;
    if offset % 8 + size > 8 {
        let next = &mut words[word + 1];
        *next = *next & !(mask >> (64 - shift)) | (value & mask) >> (64 - shift);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_line() {
        let mut words = [0; 8];
        for size in [1, 2, 4, 8] {
            for offset in 0..=64 - size {
                let value = truncated(0x8877_6655_4433_2211, size);
                write(&mut words, offset, size, value);
                assert_eq!(read(&words, offset, size), value);
                let bytes: u32 = words.iter().map(|word| word.count_ones()).sum();
                assert_eq!(bytes, value.count_ones(), "nothing else has changed");
                write(&mut words, offset, size, 0);
            }
        }
    }

    #[test]
    fn overlaps() {
        let place = |line, offset, size| Place { lines: [line, line], offset, size };
        assert!(place(1, 0, 8).overlaps(&place(1, 7, 1)));
        assert!(!place(1, 0, 4).overlaps(&place(1, 4, 4)));
        assert!(!place(1, 0, 8).overlaps(&place(2, 0, 8)));
        assert!(Place { lines: [1, 9], offset: 60, size: 8 }.overlaps(&place(9, 32, 1)));
        assert!(place(1, 8, 8).covers(&place(1, 12, 4)));
        assert!(!place(1, 8, 4).covers(&place(1, 10, 4)));
    }
}
