//! The inflight transfer table of a node: requests whose lines are under way.

use crate::engine::Cycle;

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    /// Cycle in which it was posted.
    pub posted: Cycle,
    /// Lines whose replies have not come.
    pub lines_left: u32,
    /// Links between its two nodes.
    pub hops: u8,
}

/// The table, with its free entries.
#[derive(Clone, Debug)]
pub(super) struct Itt {
    transfers: Vec<Transfer>,
    free: Vec<u16>,
}

impl Itt {
    /// A table of free entries; the lowest numbers are used first.
    pub fn new(entries: u32) -> Itt {
        let entries = entries as usize;
        // The lowest numbers are used first.
        let free = (0..entries as u16).rev().collect();
        Itt { transfers: vec![Transfer::default(); entries], free }
    }

    /// Takes an entry for a request, if there is a free one.
    #[inline]
    pub fn open(&mut self, posted: Cycle, lines: u32) -> Option<u16> {
        let slot = self.free.pop()?;
        self.transfers[usize::from(slot)] = Transfer { posted, lines_left: lines, hops: 0 };
        Some(slot)
    }

    /// The reply to a line has come over so many links; whether it is the last one.
    ///
    /// # Panics
    /// The entry waits for no line: a reply came twice.
    #[inline]
    pub fn line(&mut self, slot: u16, hops: u8) -> bool {
        let transfer = &mut self.transfers[usize::from(slot)];
        assert!(transfer.lines_left > 0, "a reply for entry {slot}, which waits for none");
        transfer.lines_left -= 1;
        transfer.hops = hops;
        transfer.lines_left == 0
    }

    /// Gives back the entry of a request that is complete.
    #[inline]
    pub fn close(&mut self, slot: u16) -> Transfer {
        self.free.push(slot);
        self.transfers[usize::from(slot)]
    }

    /// Requests under way.
    pub fn in_use(&self) -> usize {
        self.transfers.len() - self.free.len()
    }
}
