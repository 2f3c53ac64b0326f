//! Page tables: the format that the walker reads and the driver writes.
//!
//! Entries are those of RISC-V's Sv48: the cores of the model are RISC-V, RMC and operating system
//! share their page tables (soNUMA §4.3, §5.1), and buffers have addresses of 48 bits in work queue
//! entries. With 4 KB pages the tables are Sv48 to the bit. With the paper's 8 KB pages (Table 1) a
//! table fills such a page, 1024 entries, so that four levels reach over 53 bits; physical page
//! numbers still count 4 KB. A leaf may be at any level: 4 KB, 2 MB, 1 GB, or 8 KB, 8 MB, 8 GB ...

/// Levels of a page table.
pub const LEVELS: u32 = 4;

/// The entry means something.
pub const VALID: u64 = 1;
/// A leaf that may be read.
pub const READ: u64 = 1 << 1;
/// A leaf that may be written.
pub const WRITE: u64 = 1 << 2;
/// A leaf that may be executed.
pub const EXECUTE: u64 = 1 << 3;
/// A leaf of the application. The RMC acts for applications only.
pub const USER: u64 = 1 << 4;
/// A: the range has been accessed.
pub const ACCESSED: u64 = 1 << 6;
/// D: the range has been written.
pub const DIRTY: u64 = 1 << 7;

const PPN_AT: u32 = 10;
const PPN_BITS: u32 = 44;
const PPN_SHIFT: u32 = 12;

/// The purpose of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reading.
    Load,
    /// Writing, or both.
    Store,
}

/// There is no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Size of pages, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    page_shift: u32,
}

/// A leaf: a range of virtual addresses and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First virtual address.
    pub virt: u64,
    /// First physical address.
    pub phys: u64,
    /// The range has 2^`shift` bytes.
    pub shift: u32,
    /// Bits of the leaf.
    pub bits: u64,
}

/// The content of an entry of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The table of the next level is at this physical address.
    Table(u64),
    /// The walk has ended.
    Leaf(Mapping),
}

impl Format {
    /// Pages of 4096 or 8192 bytes.
    ///
    /// # Panics
    /// For other sizes.
    pub const fn new(page_bytes: u64) -> Self {
        assert!(page_bytes == 4096 || page_bytes == 8192, "pages have 4096 or 8192 bytes");
        Self { page_shift: page_bytes.trailing_zeros() }
    }

    /// Size of a page of the lowest level, and of a table.
    pub const fn page_bytes(self) -> u64 {
        1 << self.page_shift
    }

    /// Size of the range that a leaf at `level` maps; level 0 is the lowest.
    pub const fn leaf_bytes(self, level: u32) -> u64 {
        1 << self.leaf_shift(level)
    }

    const fn index_bits(self) -> u32 {
        self.page_shift - 3
    }

    const fn leaf_shift(self, level: u32) -> u32 {
        self.page_shift + level * self.index_bits()
    }

    /// Whether an application may have such an address: below the upper half, which is the
    /// kernel's and where addresses are sign-extended.
    pub const fn is_user(self, virt: u64) -> bool {
        virt >> (self.leaf_shift(LEVELS) - 1) == 0
    }

    /// Physical address of the entry for `virt` in a table of `level`.
    pub const fn entry_address(self, table: u64, level: u32, virt: u64) -> u64 {
        let index = virt >> self.leaf_shift(level) & ((1 << self.index_bits()) - 1);
        table + index * 8
    }

    /// Decodes an entry read at `level` on the walk for `virt`.
    ///
    /// # Errors
    /// [`Fault`] for entries that are not valid, are reserved, or point nowhere: a table at the
    /// lowest level, a large page that is not aligned to its size.
    pub const fn step(self, entry: u64, level: u32, virt: u64) -> Result<Step, Fault> {
        let reserved = entry >> (PPN_AT + PPN_BITS) != 0;
        if entry & VALID == 0 || reserved || entry & (READ | WRITE) == WRITE {
            return Err(Fault);
        }
        let phys = (entry >> PPN_AT) << PPN_SHIFT;
        if entry & (READ | WRITE | EXECUTE) == 0 {
            let aligned = phys & (self.page_bytes() - 1) == 0;
            return if level > 0 && aligned { Ok(Step::Table(phys)) } else { Err(Fault) };
        }
        let shift = self.leaf_shift(level);
        let within = (1 << shift) - 1;
        if phys & within != 0 {
            return Err(Fault);
        }
        Ok(Step::Leaf(Mapping { virt: virt & !within, phys, shift, bits: entry & 0xff }))
    }
}

impl Mapping {
    /// Whether the range has this address.
    #[inline]
    pub const fn contains(&self, virt: u64) -> bool {
        (virt ^ self.virt) >> self.shift == 0
    }

    /// The physical address of `virt`.
    ///
    /// # Errors
    /// [`Fault`] if the page must not be accessed so. The accessed and dirty bits count as rights:
    /// pages are pinned, so the driver has set them before (soNUMA §5.1), and the walker only reads.
    #[inline]
    pub const fn translate(&self, virt: u64, kind: Kind) -> Result<u64, Fault> {
        let needed = match kind {
            Kind::Load => READ | USER | ACCESSED,
            Kind::Store => WRITE | USER | ACCESSED | DIRTY,
        };
        if self.contains(virt) && self.bits & needed == needed {
            Ok(self.phys | (virt & ((1 << self.shift) - 1)))
        } else {
            Err(Fault)
        }
    }
}

/// The entry that points to a table at this physical address.
pub const fn table_entry(phys: u64) -> u64 {
    phys >> PPN_SHIFT << PPN_AT | VALID
}

/// The leaf that maps to this physical address with these bits.
pub const fn leaf_entry(phys: u64, bits: u64) -> u64 {
    phys >> PPN_SHIFT << PPN_AT | bits | VALID
}

/// The walk in software, for drivers and checks. The walker must find the same.
///
/// # Errors
/// [`Fault`] as from [`Format::step`], or for an address that no application has.
pub fn walk(
    format: Format,
    root: u64,
    virt: u64,
    read: impl Fn(u64) -> u64,
) -> Result<Mapping, Fault> {
    let mut table = root;
    if !format.is_user(virt) {
        return Err(Fault);
    }
    for level in (0..LEVELS).rev() {
        match format.step(read(format.entry_address(table, level, virt)), level, virt)? {
            Step::Table(next) => table = next,
            Step::Leaf(mapping) => return Ok(mapping),
        }
    }
    Err(Fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_kilobyte_pages_are_sv48() {
        let sv48 = Format::new(4096);
        let virt = 0x12_3456_7abc;
        assert_eq!(sv48.entry_address(0x8000_0000, 3, virt), 0x8000_0000 + (virt >> 39) * 8);
        assert_eq!(sv48.entry_address(0, 2, virt), (virt >> 30 & 511) * 8);
        assert_eq!(sv48.entry_address(0, 1, virt), (virt >> 21 & 511) * 8);
        assert_eq!(sv48.entry_address(0, 0, virt), (virt >> 12 & 511) * 8);
        assert!(sv48.is_user((1 << 47) - 1) && !sv48.is_user(1 << 47));
        assert_eq!(sv48.leaf_bytes(1), 2 << 20);
        assert_eq!(Format::new(8192).leaf_bytes(1), 8 << 20);
    }

    #[test]
    fn entries_that_point_nowhere_are_faults() {
        let sv48 = Format::new(4096);
        let bits = READ | WRITE | USER | ACCESSED | DIRTY;
        assert_eq!(sv48.step(leaf_entry(0x1000, bits), 1, 0), Err(Fault), "not aligned to 2 MB");
        assert_eq!(sv48.step(table_entry(0x1000), 0, 0), Err(Fault), "a table below the lowest");
        assert_eq!(sv48.step(leaf_entry(0x1000, WRITE), 0, 0), Err(Fault), "reserved");
        assert_eq!(sv48.step(leaf_entry(0x1000, bits) | 1 << 60, 0, 0), Err(Fault), "reserved");
        assert_eq!(sv48.step(0, 0, 0), Err(Fault));
        let leaf = Mapping { virt: 0x2000, phys: 0x1000, shift: 12, bits: bits | VALID };
        assert_eq!(sv48.step(leaf_entry(0x1000, bits), 0, 0x2fff), Ok(Step::Leaf(leaf)));
        assert_eq!(leaf.translate(0x2fff, Kind::Store), Ok(0x1fff));
        assert_eq!(leaf.translate(0x3000, Kind::Load), Err(Fault));
        let clean = Mapping { bits: leaf.bits & !DIRTY, ..leaf };
        assert_eq!(clean.translate(0x2000, Kind::Store), Err(Fault));
        assert_eq!(clean.translate(0x2000, Kind::Load), Ok(0x1000));
    }
}
