//! Borrowed ranges of addresses: their protection, and the changes of their pages.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::core::{Core, drop_pages};
use super::entry::{Cell, Entry, State};
use super::frames::NO_FRAME;
use super::options::PAGE_BYTES;
use super::slots::Frozen;
use super::space::{READ_WRITE, errno, last_error};
use rackmem_lease::error::{Error, Result};

/// Longest wait for the end of a page's transit before another look.
const RETRY: Duration = Duration::from_millis(1);
/// Most pages that are emptied together.
const HELD_PAGES: usize = 64;

/// A child of fork that may still read our slots.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its end is open in the child, and in the child's children, until they end or execute.
    pub(crate) pipe: OwnedFd,
    pub(crate) frozen: Frozen,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// Ranges whose protection is not read and write, in order.
    protections: Vec<(Range<usize>, i32)>,
    pub(crate) children: Vec<Child>,
    /// Slots that this process has as a child of fork, if it is one.
    pub(crate) inherited: Option<Frozen>,
    mapped_pages: usize,
}

impl Inner {
    /// Everything that is borrowed must find room in the store and the local cache.
    pub(super) fn check_commitment(&self, core: &Core, length: usize) -> Result<()> {
        let room = (core.slots.count() + core.frames.budget()) * core.options.growth;
        let pages = self.mapped_pages + length / PAGE_BYTES;
        if core.options.overcommit || pages <= room {
            return Ok(());
        }
        let bytes = |pages: usize| pages as u64 * PAGE_BYTES as u64;
        let what = format!(
            "{} bytes are to be mapped, but the store and the local cache have room for {}: borrow more, or \
             permit overcommitment",
            bytes(pages),
            bytes(room)
        );
        Err(errno(what, libc::ENOMEM))
    }

    /// Marks a range, just mapped, as borrowed.
    pub(super) fn adopt(
        &mut self,
        core: &Core,
        range: Range<usize>,
        protection: i32,
    ) -> Result<()> {
        core.table.prepare(range.clone()).map_err(|error| {
            Error::io("cannot reserve address space for the table of pages", error)
        })?;
        // SAFETY: advice on what was just mapped: large pages would be neither moved nor accounted for.
        unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_NOHUGEPAGE) };
        let pages = core.table.set_managed(range.clone(), true);
        if let Err(error) = core.uffd.register(range.start, range.len()) {
            core.table.set_managed(range, false);
            return Err(Error::io("cannot register borrowed memory with userfaultfd", error));
        }
        self.mapped_pages += pages;
        // Other threads may have touched pages before they were registered.
        drop_range(core, range.clone());
        self.set_protection(range, protection);
        Ok(())
    }

    /// Marks a range as not borrowed; its pages give back their frames and slots.
    pub(super) fn forget(&mut self, core: &Core, range: Range<usize>) {
        self.mapped_pages -= core.table.set_managed(range.clone(), false);
        forget_pages(core, range.clone());
        self.set_protection(range, READ_WRITE);
    }

    /// Cuts a range down; returns the rest of it.
    pub(super) fn shrink(
        &mut self,
        core: &Core,
        range: Range<usize>,
        length: usize,
    ) -> Range<usize> {
        let end = range.end.min(range.start + length);
        if end < range.end {
            self.forget(core, end..range.end);
            // SAFETY: the caller asks for it.
            unsafe { libc::munmap(end as *mut _, range.end - end) };
        }
        range.start..end
    }

    /// Moves a range to addresses that are not borrowed; mappings there are replaced.
    pub(super) fn relocate(
        &mut self,
        core: &Core,
        old: Range<usize>,
        new: Range<usize>,
    ) -> Result<usize> {
        core.table.prepare(new.clone()).map_err(|error| {
            Error::io("cannot reserve address space for the table of pages", error)
        })?;
        let mut held = Vec::new();
        core.table.used(old.clone(), |page, cell| {
            held.extend(hold(cell).map(|seen| (page, seen)));
        });
        let (is_moved, result) = move_mapping(core, &old, &new);
        for &(page, seen) in &held {
            let cell = core.table.cell(page).expect("held pages are in the table");
            if is_moved {
                let target = page - old.start + new.start;
                core.table.touch(target);
                let place = core.table.cell(target).expect("prepared");
                if seen.has_frame() {
                    let slot = core.frames.slot(seen.frame());
                    core.frames.assign(seen.frame(), target, slot);
                }
                let is_free = place.step(Entry::EMPTY, seen);
                debug_assert!(is_free, "nothing of ours was there");
            }
            cell.settle(if is_moved { Entry::EMPTY } else { seen });
        }
        if is_moved {
            self.mapped_pages -= core.table.set_managed(old.clone(), false);
            self.mapped_pages += core.table.set_managed(new.clone(), true);
            let protection = self.protection(old.start);
            self.set_protection(old, READ_WRITE);
            self.set_protection(new.clone(), protection);
        }
        result.map(|()| new.start)
    }

    /// Protection of a page.
    pub(super) fn protection(&self, page: usize) -> i32 {
        let index = self.protections.partition_point(|(range, _)| range.end <= page);
        self.protections
            .get(index)
            .filter(|(range, _)| range.start <= page)
            .map_or(READ_WRITE, |(_, bits)| *bits)
    }

    pub(super) fn set_protection(&mut self, range: Range<usize>, protection: i32) {
        let first = self.protections.partition_point(|(other, _)| other.end <= range.start);
        let mut end = first;
        let mut pieces: [Option<(Range<usize>, i32)>; 3] = [None, None, None];
        while let Some((other, bits)) =
            self.protections.get(end).filter(|(other, _)| other.start < range.end)
        {
            if other.start < range.start {
                pieces[0] = Some((other.start..range.start, *bits));
            }
            if range.end < other.end {
                pieces[2] = Some((range.end..other.end, *bits));
            }
            end += 1;
        }
        if protection & (READ_WRITE | libc::PROT_EXEC) != READ_WRITE {
            pieces[1] = Some((range, protection));
        }
        self.protections.splice(first..end, pieces.into_iter().flatten());
    }
}

/// Has the kernel move a mapping, and registers it where it is then. Whether it was moved, and whether all went well.
fn move_mapping(core: &Core, old: &Range<usize>, new: &Range<usize>) -> (bool, Result<()>) {
    // A mapping that is registered while it moves would be joined with a registered neighbour at the new place, and
    // the kernel would end the registration of both.
    if let Err(error) = core.uffd.unregister(old.start, old.len()) {
        return (false, Err(Error::io("cannot take borrowed memory from userfaultfd", error)));
    }
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (from, to) = (old.start as *mut libc::c_void, new.start as *mut libc::c_void);
    // SAFETY: the old range is the caller's, and the new one is ours to replace.
    let moved = unsafe { libc::mremap(from, old.len(), new.len(), flags, to) };
    let is_moved = moved != libc::MAP_FAILED;
    let result = if is_moved { Ok(()) } else { Err(last_error("cannot move borrowed memory")) };
    let range = if is_moved { new } else { old };
    let registered = core.uffd.register(range.start, range.len());
    let registered = registered
        .map_err(|error| Error::io("cannot register moved memory with userfaultfd", error));
    (is_moved, result.and(registered))
}

/// Waits for the pages of a range that are in transit. A change waits for those that are so since only: while it does,
/// signals are blocked, and a lender may be silent for long.
pub(super) fn let_arrive(core: &Core, range: Range<usize>) {
    core.table.used(range, |_, cell| {
        let mut seen = cell.load();
        while seen.is_in_transit() {
            cell.wait(seen, Some(RETRY));
            seen = cell.load();
        }
    });
}

/// Holds a page, waiting for its transit if need be; returns its former state. `None`: it is empty.
fn hold(cell: &Cell) -> Option<Entry> {
    loop {
        let seen = cell.load();
        if seen == Entry::EMPTY {
            return None;
        }
        if seen.is_in_transit() {
            cell.wait(seen, Some(RETRY));
            continue;
        }
        if cell.step(seen, Entry::held(frame_of(seen))) {
            return Some(seen);
        }
    }
}

fn frame_of(seen: Entry) -> u32 {
    if seen.has_frame() { seen.frame() } else { NO_FRAME }
}

/// Empties the table for a range, and gives back the slots, frames and staged copies of its pages.
fn forget_pages(core: &Core, range: Range<usize>) {
    Held::empty_all(core, range, false);
}

/// Empties the word of a page that the caller holds, and gives back its slot, frame and staged copy.
fn empty(core: &Core, cell: &Cell, seen: Entry) {
    if matches!(seen.state(), State::Staged | State::Standby) {
        drop_pages(core.staging_of(seen.frame()), PAGE_BYTES);
    }
    cell.settle(Entry::EMPTY);
    match seen.state() {
        State::Away => core.slots.give(seen.slot()),
        State::Lost => {}
        _ => core.release(seen.frame()),
    }
}

/// Makes a range zero.
///
/// A page is held until its old bytes are dropped: a late fault or a prefetch would take these for the zeros of a new
/// page, and the evictor would keep them.
pub(super) fn drop_range(core: &Core, range: Range<usize>) {
    // Pages that are not in the table, too: they were touched before they were borrowed.
    drop_pages(range.start, range.len());
    Held::empty_all(core, range, true);
}

/// Adjacent pages that the caller holds, to be emptied together. It waits for no other page meanwhile.
struct Held<'t> {
    core: &'t Core,
    /// Whether their bytes are dropped, by one system call.
    drops: bool,
    first: usize,
    count: usize,
    pages: [Option<(&'t Cell, Entry)>; HELD_PAGES],
}

impl<'t> Held<'t> {
    fn empty_all(core: &'t Core, range: Range<usize>, drops: bool) {
        let pages = [None; HELD_PAGES];
        let mut held = Held { core, drops, first: 0, count: 0, pages };
        core.table.used(range, |page, cell| held.add(page, cell));
        held.empty();
    }

    fn add(&mut self, page: usize, cell: &'t Cell) {
        if self.count == HELD_PAGES || page != self.first + self.count * PAGE_BYTES {
            self.empty();
        }
        loop {
            let seen = cell.load();
            if seen == Entry::EMPTY {
                return;
            }
            if seen.is_in_transit() {
                self.empty();
                cell.wait(seen, Some(RETRY));
                continue;
            }
            if self.count == 0 {
                self.first = page;
            }
            if cell.step(seen, Entry::held(frame_of(seen))) {
                self.pages[self.count] = Some((cell, seen));
                self.count += 1;
                return;
            }
        }
    }

    fn empty(&mut self) {
        if self.drops && self.count > 0 {
            drop_pages(self.first, self.count * PAGE_BYTES);
        }
        let held = self.pages[..self.count].iter_mut().filter_map(Option::take);
        held.for_each(|(cell, seen)| empty(self.core, cell, seen));
        self.count = 0;
    }
}
