//! The order in which parts of a world reach for what they share outside of it.
//!
//! Threads advance shares of the parts side by side, each share from its first part to its last. A part of a later
//! share waits until the earlier ones are at the end of the epoch: then all is as if one thread advanced all parts.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Cycle;

/// Turns of a loop after which a thread that waits lets others have the core.
pub(super) const SPINS: u32 = 500;

/// Where the shares of a crew are.
#[derive(Debug)]
pub(super) struct Order {
    /// The last cycle of the epoch; 0 if one thread advances all, or none.
    epoch: AtomicU64,
    /// By share: the last cycle to which all its parts have been advanced.
    done: Vec<AtomicU64>,
}

impl Order {
    pub(super) fn new(shares: usize) -> Order {
        Order { epoch: AtomicU64::new(0), done: (0..shares).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Begins an epoch up to and including cycle `last`. When what is returned is dropped, also because of a panic,
    /// nobody waits any more: a share that no thread has begun with then is never done.
    pub(super) fn begin(&self, last: Cycle) -> impl Drop + '_ {
        self.epoch.store(last, Ordering::Release);
        Epoch(&self.epoch)
    }

    /// Says at its end that a share has been advanced, also if that ends in a panic: others must not wait for ever.
    pub(super) fn share(&self, share: usize, last: Cycle) -> impl Drop + '_ {
        Advancing { done: &self.done[share], last }
    }

    fn is_first(&self, share: usize) -> bool {
        let last = self.epoch.load(Ordering::Acquire);
        self.done[..share].iter().all(|done| done.load(Ordering::Acquire) >= last)
    }
}

struct Epoch<'a>(&'a AtomicU64);

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

struct Advancing<'a> {
    done: &'a AtomicU64,
    last: Cycle,
}

impl Drop for Advancing<'_> {
    fn drop(&mut self) {
        self.done.store(self.last, Ordering::Release);
    }
}

/// The place of a part in its crew.
#[derive(Clone, Debug)]
pub struct Turn {
    pub(super) order: Arc<Order>,
    pub(super) share: usize,
}

impl Turn {
    /// Waits until all parts before this one are at the end of the epoch. Parts must call it while they are advanced.
    pub fn wait(&self) {
        let mut spins = 0;
        while !self.order.is_first(self.share) {
            spins += 1;
            if spins < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}
