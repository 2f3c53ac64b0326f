//! Pages that come together, and their delivery.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::core::{Core, drop_pages};
use super::entry::Entry;
use super::frames::NO_SLOT;
use super::options::{MAX_PREFETCH_PAGES, PAGE_BYTES};
use super::statistics::{count, count_all};

/// Adjacent pages that come from adjacent slots, or are new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) page: usize,
    pub(super) slot: u32,
    pub(super) count: usize,
    /// Index of the trap among them.
    pub(super) trap: Option<usize>,
    /// Start of the fault for which the page is brought; `None`: it is prefetched.
    pub(super) fault_at: Option<Instant>,
    pub(super) is_hot: bool,
}

impl Run {
    pub(super) fn is_demand(&self) -> bool {
        self.fault_at.is_some()
    }

    pub(super) fn bytes(&self) -> usize {
        self.count * PAGE_BYTES
    }

    pub(super) fn offset(&self) -> u64 {
        u64::from(self.slot) * PAGE_BYTES as u64
    }

    /// Whether a page continues the run.
    pub(super) fn is_continued(&self, page: usize, slot: u32) -> bool {
        let follows = match self.slot {
            NO_SLOT => slot == NO_SLOT,
            first => slot != NO_SLOT && slot as usize == first as usize + self.count,
        };
        follows && page == self.page + self.bytes() && self.count < MAX_PREFETCH_PAGES
    }
}

/// Puts a run's pages where they belong, and lets go of them.
pub(super) fn deliver(core: &Core, run: &Run, from: *const u8) {
    let protect = run.slot != NO_SLOT && core.notes_writes();
    let mut index = 0;
    while index < run.count {
        let end = match run.trap {
            Some(trap) if trap == index => index + 1,
            Some(trap) if trap > index => trap,
            _ => run.count,
        };
        let start = index;
        let page = run.page + index * PAGE_BYTES;
        let from = from.wrapping_add(index * PAGE_BYTES);
        if run.trap == Some(index) {
            set_trap(core, page, from);
        } else {
            let is_there = core.copy_in(page, from, (end - index) * PAGE_BYTES, protect);
            for index in index..end {
                let page = run.page + index * PAGE_BYTES;
                let from = from.wrapping_add((index - start) * PAGE_BYTES);
                // The kernel refuses as a whole what lies in several mappings, as of different protection.
                let is_there = is_there || core.copy_in(page, from, PAGE_BYTES, protect);
                arrive(core, page, is_there, run.is_hot);
            }
        }
        index = end;
    }
    match (run.slot, run.fault_at) {
        (NO_SLOT, _) => count_all(&core.counters.first_touches, run.count),
        (_, Some(began)) => {
            count(&core.counters.fetched);
            core.page_ins.record(began.elapsed());
        }
        (_, None) => count_all(&core.counters.prefetched, run.count),
    }
}

/// A held page has arrived, or has nowhere to be.
fn arrive(core: &Core, page: usize, is_there: bool, is_hot: bool) {
    let Some(cell) = core.table.cell(page) else { return };
    let frame = cell.load().frame();
    if is_there {
        cell.settle(Entry::present(frame, is_hot));
    } else {
        cell.settle(Entry::EMPTY);
        drop_pages(core.staging_of(frame), PAGE_BYTES);
        core.release(frame);
        // Its mapping was replaced: threads that wait for the old page are to touch the new one.
        core.uffd.wake(page);
    }
}

/// Puts a held page into the staging area, because a touch of it there is noticed.
fn set_trap(core: &Core, page: usize, from: *const u8) {
    let Some(cell) = core.table.cell(page) else { return };
    let frame = cell.load().frame();
    if core.copy_in(core.staging_of(frame), from, PAGE_BYTES, false) {
        cell.settle(Entry::standby(frame, true));
    } else {
        arrive(core, page, core.copy_in(page, from, PAGE_BYTES, core.notes_writes()), false);
    }
}

/// Pages that were asked for will not come.
pub(super) fn give_up(core: &Core, run: &Run) {
    for index in 0..run.count {
        let page = run.page + index * PAGE_BYTES;
        let Some(cell) = core.table.cell(page) else { continue };
        let frame = cell.load().frame();
        if run.is_demand() {
            core.lose(page, Some(frame));
        } else {
            let stamp = core.evictions.load(Ordering::Relaxed);
            cell.settle(Entry::away(run.slot + index as u32, stamp));
            core.frames.give(frame);
            core.freed.signal();
        }
    }
}
