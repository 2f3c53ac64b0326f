//! The table of pages: from an address to the word of its page.
//!
//! A directory of leaves for each GiB of address space, all of them lazily there: a page that was never
//! touched costs its share of a bitmap, 32 KiB for a GiB. Looking up takes two loads and no lock, in a
//! signal handler, too. Leaves stay until the pager ends.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::entry::{Cell, Entry};
use super::options::PAGE_BYTES;
use rackmem_lease::sync::Lazy;

/// Memory at addresses below 2^48 can be borrowed.
const ADDRESS_BITS: u32 = 48;
const LEAF_BITS: u32 = 30;
const LEAF_PAGES: usize = (1 << LEAF_BITS) / PAGE_BYTES;
/// Pages whose words share a page of the table: these are passed over together if none was touched.
const GROUP_PAGES: usize = PAGE_BYTES / size_of::<Cell>();

struct Leaf {
    cells: Lazy<Cell>,
    /// Bit per page: it is borrowed.
    managed: Lazy<AtomicU64>,
    /// Bit per group: some cell of it was ever other than empty.
    touched: Lazy<AtomicU64>,
}

/// The words of all pages.
pub struct Table {
    directory: Lazy<AtomicPtr<Leaf>>,
}

fn bits_of(first: usize, last: usize) -> impl Iterator<Item = (usize, u64)> {
    (first / 64..last.div_ceil(64)).map(move |word| {
        let low = first.max(word * 64) - word * 64;
        let high = last.min(word * 64 + 64) - word * 64;
        let mask = if high - low == 64 { u64::MAX } else { ((1 << (high - low)) - 1) << low };
        (word, mask)
    })
}

impl Leaf {
    fn new() -> io::Result<Leaf> {
        Ok(Leaf {
            cells: Lazy::new(LEAF_PAGES)?,
            managed: Lazy::new(LEAF_PAGES / 64)?,
            touched: Lazy::new(LEAF_PAGES / GROUP_PAGES / 64)?,
        })
    }
}

impl Table {
    /// No page.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new() -> io::Result<Table> {
        Ok(Table { directory: Lazy::new(1 << (ADDRESS_BITS - LEAF_BITS))? })
    }

    fn leaf(&self, address: usize) -> Option<&Leaf> {
        let leaf = self.directory.get(address >> LEAF_BITS)?.load(Ordering::Acquire);
        // SAFETY: leaves are made by `leaf_or_new` and live as long as the table.
        unsafe { leaf.as_ref() }
    }

    /// One caller at a time.
    fn leaf_or_new(&self, address: usize) -> io::Result<&Leaf> {
        if let Some(leaf) = self.leaf(address) {
            return Ok(leaf);
        }
        let place = self
            .directory
            .get(address >> LEAF_BITS)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let leaf = Box::leak(Box::new(Leaf::new()?));
        place.store(leaf, Ordering::Release);
        Ok(leaf)
    }

    /// Whether the page is borrowed.
    pub fn is_managed(&self, address: usize) -> bool {
        self.leaf(address).is_some_and(|leaf| {
            let page = (address / PAGE_BYTES) % LEAF_PAGES;
            leaf.managed[page / 64].load(Ordering::Acquire) >> (page % 64) & 1 != 0
        })
    }

    /// The page's word; `None` where no page near it was ever borrowed.
    pub fn cell(&self, address: usize) -> Option<&Cell> {
        self.leaf(address).map(|leaf| &leaf.cells[(address / PAGE_BYTES) % LEAF_PAGES])
    }

    /// Must be called before a page's word becomes other than empty.
    pub fn touch(&self, address: usize) {
        if let Some(leaf) = self.leaf(address) {
            let group = (address / PAGE_BYTES) % LEAF_PAGES / GROUP_PAGES;
            let (word, bit) = (&leaf.touched[group / 64], 1 << (group % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::AcqRel);
            }
        }
    }

    /// Parts of a range by leaf: first address, first and last page in the leaf.
    fn parts(range: Range<usize>) -> impl Iterator<Item = (usize, usize, usize)> {
        let leaf_bytes = 1 << LEAF_BITS;
        let end = range.end.min(1 << ADDRESS_BITS);
        (range.start / leaf_bytes..end.div_ceil(leaf_bytes)).map(move |leaf| {
            let base = leaf * leaf_bytes;
            let first = range.start.max(base) - base;
            let last = end.min(base + leaf_bytes) - base;
            (base, first / PAGE_BYTES, last / PAGE_BYTES)
        })
    }

    /// Makes the leaves of a range. One caller at a time, as for `set_managed`.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn prepare(&self, range: Range<usize>) -> io::Result<()> {
        Table::parts(range).try_for_each(|(base, ..)| self.leaf_or_new(base).map(|_| ()))
    }

    /// Marks the range's pages as borrowed or not. Returns the number of those that changed.
    pub fn set_managed(&self, range: Range<usize>, is_managed: bool) -> usize {
        let mut changed = 0;
        for (base, first, last) in Table::parts(range) {
            let Some(leaf) = self.leaf(base) else { continue };
            for (word, mask) in bits_of(first, last) {
                let word = &leaf.managed[word];
                let before = match is_managed {
                    true => !word.fetch_or(mask, Ordering::AcqRel),
                    // Reads do not make memory of what is not there.
                    false if word.load(Ordering::Relaxed) & mask == 0 => 0,
                    false => word.fetch_and(!mask, Ordering::AcqRel),
                };
                changed += (before & mask).count_ones() as usize;
            }
        }
        changed
    }

    /// Borrowed pages of a range.
    pub fn count_managed(&self, range: Range<usize>) -> usize {
        let mut count = 0;
        for (base, first, last) in Table::parts(range) {
            let Some(leaf) = self.leaf(base) else { continue };
            for (word, mask) in bits_of(first, last) {
                count += (leaf.managed[word].load(Ordering::Relaxed) & mask).count_ones() as usize;
            }
        }
        count
    }

    /// Calls `found` for each run of borrowed pages of a range.
    pub fn managed_runs(&self, range: Range<usize>, mut found: impl FnMut(Range<usize>)) {
        let mut run = range.start..range.start;
        for (base, first, last) in Table::parts(range) {
            let Some(leaf) = self.leaf(base) else { continue };
            for (word, mask) in bits_of(first, last) {
                let mut bits = leaf.managed[word].load(Ordering::Acquire) & mask;
                while bits != 0 {
                    let low = bits.trailing_zeros() as usize;
                    let count = (bits >> low).trailing_ones() as usize;
                    let start = base + (word * 64 + low) * PAGE_BYTES;
                    if start != run.end {
                        if !run.is_empty() {
                            found(run.clone());
                        }
                        run.start = start;
                    }
                    run.end = start + count * PAGE_BYTES;
                    bits &= if low + count == 64 { 0 } else { u64::MAX << (low + count) };
                }
            }
        }
        if !run.is_empty() {
            found(run);
        }
    }

    /// Calls `found` for each page of a range whose word is not empty, be it borrowed or not.
    pub fn used<'t>(&'t self, range: Range<usize>, mut found: impl FnMut(usize, &'t Cell)) {
        for (base, first, last) in Table::parts(range) {
            let Some(leaf) = self.leaf(base) else { continue };
            let mut page = first;
            while page < last {
                let group = page / GROUP_PAGES;
                let end = last.min((group + 1) * GROUP_PAGES);
                if leaf.touched[group / 64].load(Ordering::Acquire) >> (group % 64) & 1 != 0 {
                    for (index, cell) in leaf.cells[page..end].iter().enumerate() {
                        if cell.load() != Entry::EMPTY {
                            found(base + (page + index) * PAGE_BYTES, cell);
                        }
                    }
                }
                page = end;
            }
        }
    }

    /// Every address there is.
    pub fn everything() -> Range<usize> {
        PAGE_BYTES..1 << ADDRESS_BITS
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for place in self.directory.iter() {
            let leaf = place.load(Ordering::Relaxed);
            if !leaf.is_null() {
                // SAFETY: made by `leaf_or_new` from a box, and no one else has the table.
                drop(unsafe { Box::from_raw(leaf) });
            }
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}
