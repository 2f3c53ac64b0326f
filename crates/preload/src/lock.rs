//! A lock that is taken in one function and given back in another, as around a fork.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::kernel;

/// Longest sleep of a waiter. Sleeps are counted, not time: a process that was stopped has waited once.
const SLEEP: Duration = Duration::from_secs(1);
/// Sleeps after which the waiter says what it waits for.
const SLEEPS_BEFORE_COMPLAINT: u32 = 30;
/// Sleeps after which the holder is taken for dead or deadlocked. Borrowing, the longest time that a lock is held,
/// gives up much earlier.
const MAX_SLEEPS: u32 = 600;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A futex lock. A thread that waits says so after 30 s of sleeps, and aborts the process after ten minutes of them.
#[derive(Debug)]
pub struct Lock {
    word: AtomicU32,
    /// Name of what it guards, for messages.
    what: &'static str,
}

/// Gives the lock back when dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Lock);

impl Lock {
    /// A free lock that guards `what`.
    pub const fn new(what: &'static str) -> Lock {
        Lock { word: AtomicU32::new(FREE), what }
    }

    /// Takes it until the guard is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.take();
        Held(self)
    }

    /// Takes it. A process in which that takes ten minutes ends: its callers, malloc among them, cannot do without.
    pub fn take(&self) {
        let free = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            return;
        }
        let mut sleeps = 0;
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            if kernel::futex_wait(&self.word, CONTENDED, SLEEP) {
                sleeps += 1;
                self.complain(sleeps);
            }
        }
    }

    fn complain(&self, sleeps: u32) {
        if sleeps == SLEEPS_BEFORE_COMPLAINT {
            kernel::complain(&["a thread has waited 30 s for ", self.what]);
        }
        if sleeps >= MAX_SLEEPS {
            kernel::complain(&["a thread has waited 10 minutes for ", self.what, ": giving up"]);
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
    }

    /// Gives it back.
    pub fn give(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            kernel::futex_wake(&self.word);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}
