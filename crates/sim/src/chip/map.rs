//! The addresses of a chip: memory, borrowed memory, and what is no memory.

use std::ops::Range;

use crate::block::{BLOCK_BYTES, Line};
use crate::machine::Machine;
use crate::machine::spec::{Placement, WritePolicy};
use crate::scratchpad::Regions;
use crate::scratchpad::region::{FIRST, NAMES_END};

/// The effect of a store that goes through on a copy in the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It is updated, and stays.
    Updated,
    /// It is dropped, so that the next read asks the lender (TSM, "option 1").
    Dropped,
}

/// What is at which address.
#[derive(Clone, Debug)]
pub struct AddressMap {
    /// Blocks of ordinary memory; a window of borrowed memory begins behind them.
    memory_lines: Line,
    /// Whether there is one.
    pub has_window: bool,
    /// Blocks of the window that are borrowed: others are not fetched.
    borrowed: Vec<Range<Line>>,
    /// Whether stores to borrowed memory go through, and if so, whether copies stay.
    through: Option<Stay>,
    /// Stores to lines from this one on take a way of their own, if the machine has such.
    pub special_from: Line,
    /// Regions of addresses that are no ordinary memory, if there are any.
    pub regions: Option<Regions>,
}

impl AddressMap {
    /// The map of a machine's chips; nothing is borrowed yet.
    pub fn new(machine: &Machine) -> AddressMap {
        let memory_lines = machine.memory.size_bytes / BLOCK_BYTES;
        let has_window = machine.ni.placement.has_window();
        let goes_through = machine.ni.placement == Placement::Window;
        let through = match machine.window.policy {
            WritePolicy::WriteThroughUpdate if goes_through => Some(Stay::Updated),
            WritePolicy::WriteThroughInvalidate if goes_through => Some(Stay::Dropped),
            _ => None,
        };
        let regions = machine.regions();
        let devices = memory_lines + machine.window.lent_bytes / BLOCK_BYTES;
        let special_from = match (regions, through) {
            (Some(_), _) => FIRST / BLOCK_BYTES,
            (None, Some(_)) => memory_lines,
            (None, None) if machine.ni.placement == Placement::Bridge => devices,
            (None, None) => Line::MAX,
        };
        let borrowed = Vec::new();
        AddressMap { memory_lines, has_window, borrowed, through, special_from, regions }
    }

    /// These addresses of the window are borrowed from now on.
    pub fn borrow(&mut self, block: Range<u64>) {
        self.borrowed.push(block.start / BLOCK_BYTES..block.end / BLOCK_BYTES);
    }

    /// Physical addresses from this one on are not the node's own memory.
    pub const fn own_bytes(&self) -> u64 {
        if self.has_window { self.memory_lines * BLOCK_BYTES } else { u64::MAX }
    }

    /// Whether a virtual address names a scratchpad or another part of the interface, without translation.
    pub fn has_name(&self, address: u64) -> bool {
        self.regions.is_some() && (FIRST..NAMES_END).contains(&address)
    }

    /// Whether stores may be on their way when they have left the core, so that fences have to wait for them.
    pub const fn has_slow_stores(&self) -> bool {
        self.regions.is_some() || self.through.is_some()
    }

    /// Whether there is memory of other nodes.
    pub const fn has_borrowed(&self) -> bool {
        !self.borrowed.is_empty()
    }

    /// Whether a block is another node's memory.
    #[inline]
    pub fn is_borrowed(&self, line: Line) -> bool {
        self.has_window && line >= self.memory_lines
    }

    /// Whether a block is memory that is there.
    #[inline]
    pub fn is_memory(&self, line: Line) -> bool {
        line < self.memory_lines || self.borrowed.iter().any(|block| block.contains(&line))
    }

    /// Whether stores to a block go through to its lender, and what then happens to a copy.
    #[inline]
    pub fn goes_through(&self, line: Line) -> Option<Stay> {
        self.through.filter(|_| self.is_borrowed(line))
    }
}
