//! Changes of the address space, for handlers of faults that meet one.
//!
//! A page is nobody's for a moment while its mapping is replaced: a fault there, or one that was on its way when the
//! replacement began, is no error of the program.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::options::PAGE_BYTES;

/// Threads that are told apart; others that share a place only try once more than they would.
const PLACES: usize = 64;

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// The page of a thread's last fault that no pager answered, and the number of changes until then.
static TRIED: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// A change by some pager of the process, until this is dropped.
pub(super) struct Change(());

impl Change {
    pub(super) fn begin() -> Change {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        Change(())
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }
}

/// Forgets changes by other threads in the child of a fork, while it has one thread.
pub(super) fn forget() {
    ENDED.store(BEGUN.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Whether a thread's access to a page, which no pager answered, may succeed if it is made again: a change is going on,
/// or one has ended since the last attempt. May be called by handlers of signals.
pub(super) fn may_have_met(page: usize, thread: libc::pid_t) -> bool {
    let ended = ENDED.load(Ordering::SeqCst);
    if BEGUN.load(Ordering::SeqCst) != ended {
        std::thread::yield_now();
        return true;
    }
    let mark = page | ended % PAGE_BYTES;
    TRIED[thread as usize % PLACES].swap(mark, Ordering::Relaxed) != mark
}
