//! Regions of virtual addresses (CINI §3.1, Fig. 1): the access control hardware says of an address whether
//! it is in a scratchpad, in whose, and where there; else it is ordinary, cacheable memory.
//!
//! Regions lie at fixed places, so that a program can name a remote word by local address and core. It can give them
//! other addresses ([`super::table`]).

use super::{LINE_BYTES, WORD_BYTES};

/// Core n's scratchpad begins at `SCRATCHPAD + n * STRIDE`.
pub const SCRATCHPAD: u64 = 0x20_0000_0000;

/// From one core's scratchpad to the next one's; the most that a scratchpad can have.
pub const STRIDE: u64 = 1 << 20;

/// Tag bits of the line at scratchpad address A are at `TAGS + (A - SCRATCHPAD)`.
pub const TAGS: u64 = 0x30_0000_0000;

/// Memory that caches do not keep.
pub const DRAM: u64 = 0x40_0000_0000;

/// Lock n of the lock box is at `LOCK_BOX + 8 n`.
pub const LOCK_BOX: u64 = 0x50_0000_0000;

/// Destination of answers to loads: core n waits in line n from here on. No program can name it.
pub const LOADS: u64 = 0x60_0000_0000;

/// Everything from here on is no ordinary memory ...
pub const FIRST: u64 = SCRATCHPAD;

/// ... up to here, where addresses begin that a process gives to places ([`super::table`]) ...
pub const NAMES: u64 = 0x70_0000_0000;

/// ... up to here.
pub const NAMES_END: u64 = 0x80_0000_0000;

/// The thing at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A byte of a core's scratchpad.
    Scratchpad {
        /// Core whose scratchpad it is.
        core: u16,
        /// From the beginning of its scratchpad.
        offset: u32,
    },
    /// The tag of the line of that byte.
    Tag {
        /// Core whose scratchpad it is.
        core: u16,
        /// From the beginning of its scratchpad.
        offset: u32,
    },
    /// A byte of memory that caches do not keep.
    Dram {
        /// From its beginning.
        offset: u64,
    },
    /// A lock of the lock box.
    Lock(u16),
    /// A core that waits for a load.
    Load(u16),
}

/// The places of a chip that are no ordinary memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Regions {
    /// Cores with a scratchpad.
    pub cores: u16,
    /// Bytes of each core's scratchpad, up to [`STRIDE`].
    pub scratchpad_bytes: u32,
    /// Size of the memory that caches do not keep.
    pub dram_bytes: u64,
    /// Locks of the lock box.
    pub locks: u16,
}

impl Regions {
    /// The thing at a virtual address, if it is in one of these regions.
    #[inline]
    pub fn find(&self, address: u64) -> Option<Target> {
        let in_scratchpad = |base: u64| {
            let (core, offset) = ((address - base) / STRIDE, (address - base) % STRIDE);
            let is_there =
                core < u64::from(self.cores) && offset < u64::from(self.scratchpad_bytes);
            is_there.then_some((core as u16, offset as u32))
        };
        let nth = |base: u64, bytes: u32, count: u16| {
            let number = (address - base) / u64::from(bytes);
            (number < u64::from(count)).then_some(number as u16)
        };
        match address {
            ..SCRATCHPAD => None,
            SCRATCHPAD..TAGS => {
                in_scratchpad(SCRATCHPAD).map(|(core, offset)| Target::Scratchpad { core, offset })
            }
            TAGS..DRAM => in_scratchpad(TAGS).map(|(core, offset)| Target::Tag { core, offset }),
            DRAM..LOCK_BOX => {
                let offset = address - DRAM;
                (offset < self.dram_bytes).then_some(Target::Dram { offset })
            }
            LOCK_BOX..LOADS => nth(LOCK_BOX, WORD_BYTES, self.locks).map(Target::Lock),
            LOADS.. => nth(LOADS, LINE_BYTES, self.cores).map(Target::Load),
        }
    }

    /// The address of a byte of a core's scratchpad.
    pub const fn scratchpad(core: u16, offset: u32) -> u64 {
        SCRATCHPAD + core as u64 * STRIDE + offset as u64
    }

    /// Destination of the answer to a load of a core.
    pub const fn load(core: u16) -> u64 {
        LOADS + LINE_BYTES as u64 * core as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_ends_where_its_memory_ends() {
        let regions = Regions { cores: 4, scratchpad_bytes: 65536, dram_bytes: 4096, locks: 2 };
        let at = |core, offset| Some(Target::Scratchpad { core, offset });
        assert_eq!(regions.find(Regions::scratchpad(3, 65535)), at(3, 65535));
        assert_eq!(regions.find(Regions::scratchpad(3, 65536)), None, "beyond the scratchpad");
        assert_eq!(regions.find(Regions::scratchpad(4, 0)), None, "no such core");
        assert_eq!(regions.find(TAGS + 64), Some(Target::Tag { core: 0, offset: 64 }));
        assert_eq!(regions.find(DRAM + 4095), Some(Target::Dram { offset: 4095 }));
        assert_eq!(regions.find(DRAM + 4096), None);
        assert_eq!(regions.find(LOCK_BOX + 8), Some(Target::Lock(1)));
        assert_eq!(regions.find(LOCK_BOX + 16), None);
        assert_eq!(regions.find(SCRATCHPAD - 1), None);
    }
}
