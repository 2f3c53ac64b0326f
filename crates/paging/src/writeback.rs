//! Write-back: pages go out of the program into the staging area, and from there to the store.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rackmem::shm::copy::copy_out;

use super::core::Core;
use super::entry::{Entry, State};
use super::evictor::{Evictor, Leaver, Sent};
use super::frames::NO_SLOT;
use super::options::{MAX_BATCH_PAGES, PAGE_BYTES};
use super::statistics::{count, count_all};
use rackmem_lease::store::MAX_OUTSTANDING;

/// Attempts to move a page while the address space is being changed.
const MOVE_ATTEMPTS: usize = 8;

fn bytes_at<'b>(address: usize) -> &'b [u8; PAGE_BYTES] {
    // SAFETY: callers pass pages that are there and that no one writes: places in the staging area whose
    // frames leave, and copies.
    unsafe { &*(address as *const [u8; PAGE_BYTES]) }
}

/// Whether a slot of the store, which its lender could write to, has these bytes.
fn is_stored(page: &[u8; PAGE_BYTES], stored: *const u8) -> bool {
    let mut copy = MaybeUninit::<[u8; PAGE_BYTES]>::uninit();
    // SAFETY: slots are pages of the store, and the copy has room for one, which is initialised by it.
    let copy = unsafe {
        copy_out(copy.as_mut_ptr().cast(), stored, PAGE_BYTES);
        copy.assume_init_ref()
    };
    page == copy
}

fn is_zero(page: &[u8; PAGE_BYTES]) -> bool {
    page.chunks_exact(64).all(|line| line.iter().fold(0, |bits, byte| bits | byte) == 0)
}

impl Evictor {
    /// Copies pages of the batch that the store has some version of, and then asks the kernel which of them were
    /// written since they were delivered. A page that was not written by then is in the store as it was copied; a
    /// comparison after the page was taken out tells whether it was written in between.
    pub(super) fn look_for_clean(&mut self) {
        let core = Arc::clone(&self.core);
        let Some(pagemap) = &self.pagemap else { return };
        let has_slot = |leaver: &Leaver| core.frames.slot(leaver.frame) != NO_SLOT;
        let mut from =
            [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_BATCH_PAGES];
        let mut count = 0;
        for leaver in self.batch.iter().filter(|leaver| has_slot(leaver)) {
            from[count] = libc::iovec { iov_base: leaver.page as *mut _, iov_len: PAGE_BYTES };
            count += 1;
        }
        let copied = copy_pages(&from[..count], self.scratch.base());
        let with_slots = self.batch.iter_mut().filter(|leaver| has_slot(leaver));
        for (index, leaver) in with_slots.take(copied).enumerate() {
            leaver.clean_copy = Some(index as u32);
        }
        let mut first = 0;
        while first < self.batch.len() {
            let is_next = |before: &Leaver, after: &Leaver| after.page == before.page + PAGE_BYTES;
            let run = run_length(&self.batch[first..], is_next);
            let run = &mut self.batch[first..first + run];
            first += run.len();
            let mut is_written = [false; MAX_BATCH_PAGES];
            let asked = pagemap.written(run[0].page, run.len(), |index, count| {
                is_written[index..index + count].fill(true);
            });
            for (leaver, is_written) in run.iter_mut().zip(is_written) {
                leaver.clean_copy = leaver.clean_copy.filter(|_| asked.is_ok() && !is_written);
            }
        }
    }

    /// Moves the batch's pages into the staging area.
    pub(super) fn take_out(&mut self) {
        let core = Arc::clone(&self.core);
        let mut first = 0;
        while first < self.batch.len() {
            let run = run_length(&self.batch[first..], |before, after| {
                after.page == before.page + PAGE_BYTES && after.frame == before.frame + 1
            });
            let Leaver { page, frame, .. } = self.batch[first];
            let (moved, _) = core.uffd.move_pages(core.staging_of(frame), page, run * PAGE_BYTES);
            let moved = moved / PAGE_BYTES;
            for (index, leaver) in self.batch[first..first + run].iter_mut().enumerate() {
                leaver.is_moved = index < moved || take_one(&core, leaver);
            }
            first += run;
        }
    }

    /// Writes the pages in the staging area to the store. Returns the number of those that left local memory.
    pub(super) fn write_back(&mut self) -> usize {
        let core = Arc::clone(&self.core);
        let mut gone = 0;
        let mut write = 0;
        for index in 0..self.batch.len() {
            let leaver = self.batch[index];
            if !leaver.is_moved {
                continue;
            }
            let slot = core.frames.slot(leaver.frame);
            let cell =
                core.table.cell(leaver.page).expect("pages on their way out are in the table");
            let bytes = bytes_at(core.staging_of(leaver.frame));
            let is_clean = match core.slot_bytes(slot) {
                Some(stored) => is_stored(bytes, stored),
                None => leaver.clean_copy.is_some_and(|copy| {
                    bytes == bytes_at(self.scratch.base() as usize + copy as usize * PAGE_BYTES)
                }),
            };
            if is_clean {
                gone += 1;
                count(&core.counters.clean);
                cell.settle(Entry::standby(leaver.frame, false));
                self.standby.push_back(leaver.frame);
            } else if is_zero(bytes) {
                gone += 1;
                count(&core.counters.zero);
                count(&core.counters.evicted);
                core.evictions.fetch_add(1, Ordering::Relaxed);
                if slot != NO_SLOT {
                    core.slots.give(slot);
                }
                // No one finds the frame by its page from here on: it can be given back later.
                cell.settle(Entry::EMPTY);
                self.leaving.push(leaver.frame);
            } else {
                self.batch[write] = leaver;
                write += 1;
            }
        }
        self.batch.truncate(write);
        self.find_slots();
        gone + self.write()
    }

    /// Finds a slot for each page of the batch that may not be written where it was. Pages without one return to
    /// the program.
    fn find_slots(&mut self) {
        let core = Arc::clone(&self.core);
        let needs = |leaver: &Leaver| {
            let slot = core.frames.slot(leaver.frame);
            slot == NO_SLOT || core.slots.is_frozen(slot)
        };
        let mut missing = self.batch.iter().filter(|leaver| needs(leaver)).count();
        let (mut next, mut left) = (0, 0);
        let mut kept = 0;
        for index in 0..self.batch.len() {
            let leaver = self.batch[index];
            let is_refused = self.is_cut_off
                || needs(&leaver) && left == 0 && {
                    match core.slots.take_run(missing) {
                        Some((first, run)) => {
                            (next, left) = (first, run);
                            missing -= run;
                            false
                        }
                        None => {
                            self.is_full = true;
                            true
                        }
                    }
                };
            if is_refused {
                return_page(&core, leaver);
                continue;
            }
            if needs(&leaver) {
                let before = core.frames.slot(leaver.frame);
                if before != NO_SLOT {
                    core.slots.give(before);
                }
                core.frames.set_slot(leaver.frame, next);
                (next, left) = (next + 1, left - 1);
            }
            self.batch[kept] = leaver;
            kept += 1;
        }
        self.batch.truncate(kept);
    }

    /// Writes the batch, adjacent pages of adjacent slots together. Returns the number of pages written.
    fn write(&mut self) -> usize {
        let core = Arc::clone(&self.core);
        let mut written = 0;
        let mut first = 0;
        while first < self.batch.len() {
            let slot = |leaver: &Leaver| core.frames.slot(leaver.frame);
            let run = run_length(&self.batch[first..], |before, after| {
                after.frame == before.frame + 1 && slot(after) == slot(before) + 1
            });
            let Leaver { frame, .. } = self.batch[first];
            let (to, length) = (slot(&self.batch[first]), run * PAGE_BYTES);
            let is_written = match core.slot_bytes(to) {
                Some(stored) => {
                    core.store.begin_write();
                    // SAFETY: the frames' places are there, and the slots are these pages'.
                    unsafe { copy_out(stored, core.staging_of(frame) as *const u8, length) };
                    core.store.end_write(u64::from(to) * PAGE_BYTES as u64, length as u64);
                    core.store.check().is_ok()
                }
                None => self.send(to, core.staging_of(frame), length),
            };
            for index in first..first + run {
                let leaver = self.batch[index];
                self.settle_written(&core, leaver, is_written);
            }
            written += if is_written { run } else { 0 };
            first += run;
        }
        count_all(&core.counters.written, written);
        if self.lane.as_mut().is_some_and(|lane| lane.push().is_err()) {
            self.cut_off();
        }
        written
    }

    fn settle_written(&mut self, core: &Core, leaver: Leaver, is_written: bool) {
        let Leaver { page, frame, .. } = leaver;
        let cell = core.table.cell(page).expect("pages on their way out are in the table");
        if !is_written {
            self.is_cut_off = core.store.check().is_err();
            return return_page(core, leaver);
        }
        if core.mapped.is_some() {
            cell.settle(Entry::standby(frame, false));
            self.standby.push_back(frame);
            return;
        }
        let generation = &self.generations[frame as usize];
        let number = generation.load(Ordering::Relaxed).wrapping_add(1);
        generation.store(number, Ordering::Relaxed);
        self.sent.push_back(Sent { frame, generation: number });
        cell.settle(Entry::staged(frame));
    }

    /// Hands bytes to the lane.
    fn send(&mut self, slot: u32, from: usize, length: usize) -> bool {
        while self.requests.len() >= MAX_OUTSTANDING {
            self.confirm();
        }
        // SAFETY: the places of frames that leave: the evictor's alone until they are settled.
        let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, length) };
        let offset = u64::from(slot) * PAGE_BYTES as u64;
        let asked = self.lane.as_mut().is_some_and(|lane| lane.ask_write(offset, bytes).is_ok());
        match asked {
            true => self.requests.push_back(length / PAGE_BYTES),
            false => self.cut_off(),
        }
        asked
    }

    /// Takes the answers that are there.
    pub(super) fn confirm_ready(&mut self) {
        while !self.requests.is_empty() && self.lane.as_mut().is_some_and(|lane| lane.is_ready()) {
            self.confirm();
        }
    }

    /// Waits for the oldest answer: its pages are in the store.
    pub(super) fn confirm(&mut self) {
        let Some(lane) = &mut self.lane else { return self.cut_off() };
        if lane.take(&mut []).is_err() {
            return self.cut_off();
        }
        let core = Arc::clone(&self.core);
        let pages = self.requests.pop_front().unwrap_or(0);
        for sent in self.sent.drain(..pages) {
            if self.generations[sent.frame as usize].load(Ordering::Relaxed) != sent.generation {
                continue;
            }
            let page = core.frames.page(sent.frame);
            let Some(cell) = core.table.cell(page).filter(|_| page != 0) else { continue };
            let seen = cell.load();
            if let Some(next) = seen.on_confirmed().filter(|_| seen.frame() == sent.frame)
                && cell.step(seen, next)
            {
                self.standby.push_back(sent.frame);
            }
        }
    }

    /// The lane failed, which it does for good: pages that it was given and did not confirm return to the program.
    fn cut_off(&mut self) {
        let core = Arc::clone(&self.core);
        self.requests.clear();
        for sent in self.sent.drain(..) {
            let page = core.frames.page(sent.frame);
            let Some(cell) = core.table.cell(page).filter(|_| page != 0) else { continue };
            let seen = cell.load();
            if seen.state() == State::Staged
                && seen.frame() == sent.frame
                && cell.step(seen, Entry::held(sent.frame))
            {
                return_page(
                    &core,
                    Leaver { page, frame: sent.frame, clean_copy: None, is_moved: true },
                );
            }
        }
        self.lane = None;
        self.is_cut_off = true;
    }
}

/// Length of the run that a slice begins with.
fn run_length(batch: &[Leaver], is_next: impl Fn(&Leaver, &Leaver) -> bool) -> usize {
    1 + batch.windows(2).take_while(|pair| is_next(&pair[0], &pair[1])).count()
}

/// Copies pages of the program one after the other; returns the number of those that could be copied.
fn copy_pages(from: &[libc::iovec], to: *mut u8) -> usize {
    if from.is_empty() {
        return 0;
    }
    let into = libc::iovec { iov_base: to.cast(), iov_len: from.len() * PAGE_BYTES };
    // SAFETY: the target is the evictor's own and long enough; the kernel checks the sources.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &into, 1, from.as_ptr(), from.len() as u64, 0)
    };
    copied.max(0) as usize / PAGE_BYTES
}

/// Puts a page that is in the staging area and in transit back where it was.
fn return_page(core: &Core, leaver: Leaver) {
    let Some(cell) = core.table.cell(leaver.page) else { return };
    if core.move_back(leaver.page, leaver.frame) {
        cell.settle(Entry::present(leaver.frame, true));
    } else {
        cell.settle(Entry::EMPTY);
        core.release(leaver.frame);
    }
}

/// Moves a single page into the staging area, by whatever way there is. Returns false if it stays or is gone.
fn take_one(core: &Core, leaver: &Leaver) -> bool {
    let staging = core.staging_of(leaver.frame);
    let cell = core.table.cell(leaver.page).expect("pages on their way out are in the table");
    for _ in 0..MOVE_ATTEMPTS {
        let (_, result) = core.uffd.move_pages(staging, leaver.page, PAGE_BYTES);
        match result.map_err(|error| error.raw_os_error()) {
            Ok(()) => return true,
            Err(Some(libc::ENOENT)) => {
                // The program dropped it by a call that no one told us of.
                cell.settle(Entry::EMPTY);
                core.release(leaver.frame);
                return false;
            }
            Err(Some(libc::EBUSY)) => {
                // A child of fork shares it: as if for a write, the kernel gives the program its own.
                // SAFETY: changes no byte of the page, wherever it is.
                unsafe {
                    libc::madvise(leaver.page as *mut _, PAGE_BYTES, libc::MADV_POPULATE_WRITE);
                }
            }
            Err(Some(libc::EAGAIN)) => std::thread::yield_now(),
            Err(Some(libc::EINVAL)) if core.space.take_read_only(core, leaver.page, staging) => {
                return true;
            }
            Err(_) => break,
        }
    }
    cell.settle(Entry::present(leaver.frame, true));
    false
}
