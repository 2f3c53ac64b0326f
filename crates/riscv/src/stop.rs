//! A request to end a run before its program ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a run from another thread: what its program has is written to its files, as at any other end.
#[derive(Debug, Default)]
pub struct Stop {
    is_asked: AtomicBool,
    is_seen: AtomicBool,
}

impl Stop {
    /// Asks the run to end.
    pub fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
    }

    /// Whether the run has to end. A run asks now and then, and is then about to end.
    pub fn take(&self) -> bool {
        let is_asked = self.is_asked.load(Ordering::Acquire);
        if is_asked {
            self.is_seen.store(true, Ordering::Release);
        }
        is_asked
    }

    /// Whether the run is about to end because of that.
    pub fn is_seen(&self) -> bool {
        self.is_seen.load(Ordering::Acquire)
    }
}
