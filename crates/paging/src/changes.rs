//! Mappings that are being replaced, for handlers of faults that meet one.
//!
//! A page is nobody's for a moment while its mapping is replaced: a fault there, or one that was on its way when the
//! replacement began, is no error of the program.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Replacements at a time that are known; each pager has one.
const MOST: usize = 16;
/// Threads that are told apart; others only try once more than they would.
const THREADS: usize = 64;
/// Threads have numbers below 2 to this.
const THREAD_BITS: u32 = 22;

/// The first and the last address of each that is going on; the last is 0 if there is none.
static GOING_ON: [[AtomicUsize; 2]; MOST] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; MOST];
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// A thread, and the number of replacements that had ended when no pager answered its last fault.
static TRIED: [AtomicUsize; THREADS] = [const { AtomicUsize::new(0) }; THREADS];

/// The replacement of a mapping, until this is dropped.
pub(super) struct Replacement(Option<&'static [AtomicUsize; 2]>);

impl Replacement {
    pub(super) fn begin(range: &Range<usize>) -> Replacement {
        let take = |place: &&'static [AtomicUsize; 2]| {
            let last = range.end - 1;
            place[1].compare_exchange(0, last, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        let place = GOING_ON.iter().find(take);
        place.inspect(|place| place[0].store(range.start, Ordering::SeqCst));
        Replacement(place)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::SeqCst);
        if let Some([first, last]) = self.0 {
            first.store(0, Ordering::SeqCst);
            last.store(0, Ordering::SeqCst);
        }
    }
}

/// Forgets replacements by other threads in the child of a fork, while it has one thread.
pub(super) fn forget() {
    GOING_ON.iter().for_each(|place| place[1].store(0, Ordering::Relaxed));
}

/// Whether a thread's access to a page, which no pager answered, may succeed if it is made again: the page is being
/// replaced, or a replacement has ended since its last attempt. May be called by handlers of signals.
pub(super) fn may_have_met(page: usize, thread: libc::pid_t) -> bool {
    let is_there = |[first, last]: &[AtomicUsize; 2]| {
        (first.load(Ordering::SeqCst)..=last.load(Ordering::SeqCst)).contains(&page)
    };
    if GOING_ON.iter().any(is_there) {
        std::thread::yield_now();
        return true;
    }
    // An access that is made after this count is read meets none of them.
    let mark = ENDED.load(Ordering::SeqCst) << THREAD_BITS | thread as usize;
    TRIED[thread as usize % THREADS].swap(mark, Ordering::Relaxed) != mark
}
