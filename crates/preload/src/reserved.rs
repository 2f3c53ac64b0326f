//! Address space that the program has reserved without the right to touch it, and has not touched since.
//!
//! Allocators reserve much and allow little of it to be used, by mprotect: reserved memory costs nothing, and counts
//! against the lease only when it may be used. As nothing was ever there, other memory can take its place then.

use std::cell::UnsafeCell;
use std::ops::Range;

use crate::lock::Lock;
use crate::{process, thread};

/// Ranges in order of their addresses, each with the reservation that it is a part of.
struct Reserved(UnsafeCell<Vec<(Range<usize>, Range<usize>)>>);

// SAFETY: it is reached only while `LOCK` is held.
unsafe impl Sync for Reserved {}

static RESERVED: Reserved = Reserved(UnsafeCell::new(Vec::new()));
/// Held for moments only. Forks take it, too.
pub static LOCK: Lock = Lock::new("the list of reserved memory");

fn with<R>(work: impl FnOnce(&mut Vec<(Range<usize>, Range<usize>)>) -> R) -> R {
    let _inside = thread::enter();
    let _held = LOCK.hold();
    // SAFETY: the lock is held, and `work` does not come back here.
    work(unsafe { &mut *RESERVED.0.get() })
}

/// Adds a range that was reserved where nothing was.
pub fn add(begin: usize, length: usize) {
    let range = begin..begin.saturating_add(length);
    with(|list| {
        let place = list.partition_point(|(other, _)| other.start < range.start);
        list.insert(place, (range.clone(), range));
    });
}

/// A range is not reserved any more, or never was.
pub fn remove(begin: usize, length: usize) {
    if thread::is_inside() || !process::may_borrow() {
        return;
    }
    let mut begin = begin;
    let end = begin.saturating_add(length);
    while let Some((part, _)) = take(begin..end) {
        begin = part.end;
    }
}

/// Takes the first reserved part of a range out; returns it, and the reservation that it was a part of.
pub fn take(range: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    with(|list| {
        let index = list.partition_point(|(other, _)| other.end <= range.start);
        let (found, whole) = list.get(index).filter(|(found, _)| found.start < range.end)?.clone();
        let part = found.start.max(range.start)..found.end.min(range.end);
        let rest = [found.start..part.start, part.end..found.end].into_iter();
        let rest = rest.filter(|rest| !rest.is_empty()).map(|rest| (rest, whole.clone()));
        list.splice(index..=index, rest);
        Some((part, whole))
    })
}
