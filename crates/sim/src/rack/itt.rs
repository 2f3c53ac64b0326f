//! The inflight transfer table of a node: requests whose lines are under way.

use crate::engine::{Cycle, Slab};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    /// Cycle in which it was posted.
    pub posted: Cycle,
    /// Lines whose replies have not come.
    pub lines_left: u32,
    /// Links between its two nodes.
    pub hops: u8,
}

/// The table. Free entries that were used last are used first, then the lowest numbers.
#[derive(Clone, Debug)]
pub(super) struct Itt {
    transfers: Slab<Transfer>,
    entries: usize,
}

impl Itt {
    pub fn new(entries: u32) -> Itt {
        Itt { transfers: Slab::default(), entries: entries as usize }
    }

    /// Takes an entry for a request, if there is a free one.
    #[inline]
    pub fn open(&mut self, posted: Cycle, lines: u32) -> Option<u16> {
        let transfer = Transfer { posted, lines_left: lines, hops: 0 };
        (self.in_use() < self.entries).then(|| self.transfers.put(transfer) as u16)
    }

    /// The reply to a line has come over so many links; whether it is the last one.
    ///
    /// # Panics
    /// The entry waits for no line: a reply came twice.
    #[inline]
    pub fn line(&mut self, slot: u16, hops: u8) -> bool {
        let transfer = self.transfers.get_mut(slot.into());
        assert!(transfer.lines_left > 0, "a reply for entry {slot}, which waits for none");
        transfer.lines_left -= 1;
        transfer.hops = hops;
        transfer.lines_left == 0
    }

    /// Gives back the entry of a request that is complete.
    #[inline]
    pub fn close(&mut self, slot: u16) -> Transfer {
        self.transfers.take(slot.into())
    }

    pub fn in_use(&self) -> usize {
        self.transfers.len()
    }
}
