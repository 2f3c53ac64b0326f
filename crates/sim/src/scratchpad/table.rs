//! A core's address region table (CINI §3.1): addresses that the process on it has given to places in scratchpads and
//! in uncached memory. The places have fixed addresses of their own ([`Regions`]), which need no entry.
//!
//! The core's loads and stores go through it, and so do the addresses in command buffers and counters when the network
//! interface carries them out. Packets have fixed addresses, so that a table concerns its own core alone.

use serde::{Deserialize, Serialize};

use super::LINE_BYTES;
use super::region::{NAMES, NAMES_END, Regions, Target};

/// Entries of a table.
pub const MOST_REGIONS: usize = 16;

/// An entry: addresses, and the place that they stand for. The place's fixed address has its kind, core, way and set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// First address, a multiple of a line.
    pub base: u64,
    /// Bytes, a multiple of a line; in [`Table::set`], 0 takes the entry out.
    pub bytes: u64,
    /// Fixed address of the first byte, a multiple of a line.
    pub place: u64,
}

/// The reason for which a table does not take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has parts of lines, addresses that are no names or another entry's, or a place that is not there.
    Invalid,
    /// There are [`MOST_REGIONS`].
    Full,
}

/// The table of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table {
    regions: Vec<Region>,
}

impl Table {
    /// Adds an entry, in place of the one that begins at the same address.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed.
    pub fn set(&mut self, region: Region, places: &Regions) -> Result<(), Refusal> {
        let Region { base, bytes, .. } = region;
        let same = self.regions.iter().position(|old| old.base == base);
        if bytes == 0 {
            self.regions.remove(same.ok_or(Refusal::Invalid)?);
            return Ok(());
        }
        let overlaps = |old: &Region| base < old.base + old.bytes && old.base < base + bytes;
        let others = self.regions.iter().filter(|old| old.base != base);
        if !is_possible(&region, places) || others.clone().any(overlaps) {
            return Err(Refusal::Invalid);
        }
        match same {
            Some(at) => self.regions[at] = region,
            None if self.regions.len() == MOST_REGIONS => return Err(Refusal::Full),
            None => self.regions.push(region),
        }
        Ok(())
    }

    /// The entries, in the order in which they were added.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The fixed address of `bytes` from an address on; the address itself if it is no name, or if no entry has them
    /// all.
    #[inline]
    pub fn place_of(&self, address: u64, bytes: u32) -> u64 {
        if address < NAMES {
            return address;
        }
        let has_all = |region: &&Region| {
            let offset = address.wrapping_sub(region.base);
            offset < region.bytes && u64::from(bytes) <= region.bytes - offset
        };
        let found = self.regions.iter().find(has_all);
        found.map_or(address, |region| region.place + (address - region.base))
    }
}

/// Whether an entry is of whole lines, has names, and stands for a place that is there.
fn is_possible(&Region { base, bytes, place }: &Region, places: &Regions) -> bool {
    let is_whole = [base, bytes, place].iter().all(|at| at.is_multiple_of(u64::from(LINE_BYTES)));
    let are_names = (NAMES..NAMES_END).contains(&base) && bytes <= NAMES_END - base;
    let is_there = are_names
        && match (places.find(place), places.find(place.saturating_add(bytes - 1))) {
            (
                Some(Target::Scratchpad { core, .. }),
                Some(Target::Scratchpad { core: same, .. }),
            ) => core == same,
            (Some(Target::Dram { .. }), Some(Target::Dram { .. })) => true,
            _ => false,
        };
    is_whole && is_there
}
