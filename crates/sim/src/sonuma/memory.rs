//! The memory of an RMC: its private L1 in the node's coherence domain (soNUMA §4.3).

use crate::block::{Line, Words};

/// The private, coherent L1 of an RMC. `chip::cache::PrivateCache` has these operations.
///
/// The owner of cache and RMC tells the RMC by [`Rmc::filled`](super::Rmc::filled) when something that was
/// waited for is complete, and by [`Rmc::changed`](super::Rmc::changed) when a block has stopped being
/// readable, for whatever reason: taken away, or evicted for another one that the RMC itself has asked for.
pub trait L1 {
    /// Reads a block; `None` if it has to be waited for, until something is complete.
    fn load(&mut self, line: Line) -> Option<Words>;

    /// Changes a block that the cache owns; `false` if that has to be waited for.
    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool;

    /// The content of a block that can be read without asking anybody.
    ///
    /// It is not a use: what is polled does not stay because it is polled. Otherwise a poll that is
    /// left out, because nothing has changed, would be missed.
    fn peek(&self, line: Line) -> Option<Words>;

    /// Whether a block can be changed without asking anybody.
    fn is_owned(&self, line: Line) -> bool;

    /// Whether the cache has asked for the block, or for the right to change it, and waits.
    fn is_pending(&self, line: Line) -> bool;
}

/// Memory outside of time, for a device driver that prepares it and for checks.
pub trait Image {
    /// The 8 bytes at a physical address, a multiple of 8.
    fn read(&self, address: u64) -> u64;

    /// Writes the 8 bytes at a physical address, a multiple of 8.
    fn write(&mut self, address: u64, value: u64);
}
