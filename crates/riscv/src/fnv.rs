//! FNV-1a of 64 bits, which tells contents apart that differ by mistake.

const PRIME: u64 = 0x0100_0000_01b3;

/// The hash of no bytes.
pub const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Goes on from the hash of what is before these bytes.
#[must_use]
pub fn fnv1a(before: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    bytes.iter().fold(before, mix)
}
