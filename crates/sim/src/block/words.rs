//! The bytes of a block, as little-endian words.

use super::BLOCK_BYTES;

/// Content of a block, as little-endian words.
pub type Words = [u64; 8];

/// A set of bytes of a block: bit = byte.
pub type Mask = u64;

/// The mask of `bytes` bytes from `offset` on, all within a block.
#[inline]
pub const fn mask(offset: usize, bytes: usize) -> Mask {
    debug_assert!(offset + bytes <= BLOCK_BYTES as usize);
    if bytes == 0 { 0 } else { (!0 >> (64 - bytes)) << offset }
}

/// `old` with the masked bytes of `new`.
#[inline]
pub fn merge(old: &mut Words, new: &Words, mask: Mask) {
    if mask == !0 {
        *old = *new;
        return;
    }
    for (index, (old, new)) in old.iter_mut().zip(new).enumerate() {
        let bits = spread((mask >> (index * 8)) as u8);
        *old = (*old & !bits) | (new & bits);
    }
}

/// Eight bits to eight bytes of ones or zeros.
#[inline]
const fn spread(bits: u8) -> u64 {
    // Copy the byte to all eight, keep one bit in each, and widen that bit.
    let copies = (bits as u64).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    let ones = (((copies & !HIGH) + !HIGH) | copies) & HIGH;
    (ones >> 7).wrapping_mul(0xff)
}

const HIGH: u64 = 0x8080_8080_8080_8080;

/// The bytes of a block.
#[inline]
pub fn bytes_of(words: &Words) -> [u8; BLOCK_BYTES as usize] {
    let mut bytes = [0; BLOCK_BYTES as usize];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// A block of these bytes from `offset` on, zero elsewhere.
#[inline]
pub fn words_at(offset: usize, bytes: &[u8]) -> Words {
    let mut block = [0; BLOCK_BYTES as usize];
    block[offset..offset + bytes.len()].copy_from_slice(bytes);
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_select_bytes() {
        for offset in 0..64 {
            for bytes in 0..=64 - offset {
                let mut old = [0; 8];
                merge(&mut old, &[u64::MAX; 8], mask(offset, bytes));
                let expected: Vec<u8> =
                    (0..64).map(|at| u8::from(at >= offset && at < offset + bytes) * 255).collect();
                assert_eq!(bytes_of(&old)[..], expected[..], "{bytes} at {offset}");
            }
        }
        assert_eq!(bytes_of(&words_at(3, &[7, 8]))[2..6], [0, 7, 8, 0]);
    }
}
