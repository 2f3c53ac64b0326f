use crate::{MAX_ADDRESS, MAX_LENGTH, MAX_NODES, MAX_OFFSET};

/// Size of a work queue entry: four share a 64-byte block, none straddles two.
pub const WQ_ENTRY_BYTES: usize = 16;

/// Size of a completion queue entry.
pub const CQ_ENTRY_BYTES: usize = 4;

/// The phase bit of the `count`-th entry ever written to a ring of `size` entries.
///
/// Memory starts as zero, so the first round has phase 1; the phase flips at each wrap and thus
/// tells a new entry from the one of the round before.
pub const fn phase_of(count: u32, size: u32) -> bool {
    (count / size) & 1 == 0
}

/// A work queue entry: two 8-byte words.
///
/// | word | bits | field |
/// |---|---|---|
/// | 0 | 0 | phase |
/// | 0 | 1..4 | operation |
/// | 0 | 4..16 | destination node |
/// | 0 | 16..56 | offset in the destination's segment, bytes |
/// | 0 | 56..64 | length, high 8 bits |
/// | 1 | 0..48 | address of the local buffer |
/// | 1 | 48..64 | length in bytes, low 16 bits |
///
/// Word 1 is stored first, word 0 last and with release order: it publishes the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WqEntry {
    /// Phase of the round in which the entry was written.
    pub phase: bool,
    /// Operation code; see [`crate::Op::from_code`].
    pub op_code: u8,
    /// Destination node: 12 bits, so below [`MAX_NODES`].
    pub dst_nid: u16,
    /// Offset in the destination's segment, in bytes.
    pub offset: u64,
    /// Length in bytes: 24 bits, so up to [`MAX_LENGTH`].
    pub length: u32,
    /// Address of the local buffer in the application's address space.
    pub buffer: u64,
}

impl WqEntry {
    /// The two words, in memory order. Fields wider than their bits are cut.
    #[inline]
    pub const fn encode(&self) -> [u64; 2] {
        let length = (self.length & MAX_LENGTH) as u64;
        [
            self.phase as u64
                | ((self.op_code & 7) as u64) << 1
                | ((self.dst_nid as u64) & (MAX_NODES as u64 - 1)) << 4
                | (self.offset & MAX_OFFSET) << 16
                | (length >> 16) << 56,
            (self.buffer & MAX_ADDRESS) | (length & 0xffff) << 48,
        ]
    }

    /// The entry in these two words. Every pair of words is some entry.
    #[inline]
    pub const fn decode(words: [u64; 2]) -> WqEntry {
        WqEntry {
            phase: words[0] & 1 != 0,
            op_code: (words[0] >> 1) as u8 & 7,
            dst_nid: (words[0] >> 4) as u16 & (MAX_NODES as u16 - 1),
            offset: words[0] >> 16 & MAX_OFFSET,
            length: (words[0] >> 56) as u32 * 0x10000 + (words[1] >> 48) as u32,
            buffer: words[1] & MAX_ADDRESS,
        }
    }
}

/// A completion queue entry: one 4-byte word.
///
/// | bits | field |
/// |---|---|
/// | 0..16 | index of the completed work queue entry (the slot) |
/// | 16..24 | status code |
/// | 24..31 | zero |
/// | 31 | phase |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqEntry {
    /// Phase of the round in which the entry was written.
    pub phase: bool,
    /// Index of the completed work queue entry.
    pub slot: u16,
    /// Status code; see [`crate::Status::from_code`].
    pub status_code: u8,
}

impl CqEntry {
    /// The word in memory, in the order of bits above.
    #[inline]
    pub const fn encode(&self) -> u32 {
        self.slot as u32 | (self.status_code as u32) << 16 | (self.phase as u32) << 31
    }

    /// The entry in this word.
    #[inline]
    pub const fn decode(word: u32) -> CqEntry {
        CqEntry { phase: word >> 31 != 0, slot: word as u16, status_code: (word >> 16) as u8 }
    }
}

const _: () = {
    assert!(64 % WQ_ENTRY_BYTES == 0);
    assert!(size_of::<[u64; 2]>() == WQ_ENTRY_BYTES);
    assert!(size_of::<u32>() == CQ_ENTRY_BYTES);
};
