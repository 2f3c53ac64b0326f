//! The evictor: sends pages away ahead of need, so that faults find free frames.
//!
//! A thread of its own. Its hand goes round the frames, oldest first. A page that it meets is moved to the
//! staging area, which is atomic against the program's writes, and from there written back (`writeback.rs`);
//! then it lies in standby for a while, where it can be had back for a cheap fault. The kernel does not tell which
//! pages are in use, but these faults do: a page that was taken back from the staging area, or from the lender within
//! the time in which the whole cache is replaced, is passed over once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::core::{Area, Core, NOWHERE, drop_pages};
use super::entry::{Entry, State};
use super::frames::NO_SLOT;
use super::options::PAGE_BYTES;
use super::pagemap::Pagemap;
use super::statistics::{count, count_all};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::{Lane, MAX_OUTSTANDING};
use rackmem_lease::sync::wait::Event;

/// Interval of looks for ended children of fork while the evictor is idle.
const CHILD_CHECK: Duration = Duration::from_millis(200);
/// Most pages that go from standby in one step.
const RETIRED: usize = 1024;
/// Idle rounds after which the evictor assumes that nothing can be evicted, and the time between two of them.
const PATIENCE: usize = 20;
const IDLE: Duration = Duration::from_micros(200);

/// Commands to the evictor, and its answers.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) is_to_stop: AtomicBool,
    pub(crate) is_to_rest: AtomicBool,
    pub(crate) is_resting: AtomicBool,
    /// Requests to send everything away, and the number of those that were carried out.
    pub(crate) flushes: AtomicU32,
    pub(crate) flushed: AtomicU32,
    /// Signalled with any answer.
    pub(crate) answered: Event,
}

impl Orders {
    /// Brings the evictor to rest, with nothing on its way.
    pub(crate) fn rest(&self, core: &Core) {
        self.is_to_rest.store(true, Ordering::SeqCst);
        core.evictor.signal();
        self.wait_until(|| self.is_resting.load(Ordering::Acquire));
    }

    /// Ends the rest.
    pub(crate) fn go(&self, core: &Core) {
        self.is_to_rest.store(false, Ordering::SeqCst);
        core.evictor.signal();
        self.wait_until(|| !self.is_resting.load(Ordering::Acquire));
    }

    /// Resets the commands in the child of a fork, which has no evictor yet.
    pub(crate) fn reset(&self) {
        self.is_to_rest.store(false, Ordering::Relaxed);
        self.is_resting.store(false, Ordering::Relaxed);
        self.flushed.store(self.flushes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.answered.forget_waiters();
    }

    /// Evicts all pages, and waits until it is done.
    pub(crate) fn flush(&self, core: &Core) {
        let wanted = self.flushes.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        core.evictor.signal();
        self.wait_until(|| (self.flushed.load(Ordering::Acquire).wrapping_sub(wanted) as i32) >= 0);
    }

    fn wait_until(&self, done: impl Fn() -> bool) {
        loop {
            let ticket = self.answered.ticket();
            if done() {
                return;
            }
            self.answered.wait(ticket, None);
        }
    }
}

/// A page on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaver {
    pub(super) page: usize,
    pub(super) frame: u32,
    /// Index in `scratch` of a copy made before the page was taken, if the store has the same bytes.
    pub(super) clean_copy: Option<u32>,
    pub(super) is_moved: bool,
}

/// A page that was handed to the lane, and its frame's generation then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) frame: u32,
    pub(super) generation: u32,
}

/// Whether a frame's page lies in standby: a child of fork begins with those of its parent.
fn is_in_standby(core: &Core, frame: u32) -> bool {
    let entry = core.table.cell(core.frames.page(frame)).map(|cell| cell.load());
    entry.is_some_and(|entry| {
        entry.state() == State::Standby && !entry.is_trap() && entry.frame() == frame
    })
}

pub(crate) struct Evictor {
    pub(super) core: Arc<Core>,
    orders: Arc<Orders>,
    pub(super) lane: Option<Box<dyn Lane>>,
    pub(super) pagemap: Option<Pagemap>,
    /// Copies of pages as they were before they were taken.
    pub(super) scratch: Area,
    pub(super) batch: Vec<Leaver>,
    pub(super) sent: VecDeque<Sent>,
    /// Pages of each request to the lane.
    pub(super) requests: VecDeque<usize>,
    /// Write-backs of each frame: an answer is about one generation.
    pub(super) generations: rackmem_lease::sync::Lazy<AtomicU32>,
    /// Frames in standby, oldest first; some were taken back since.
    pub(super) standby: VecDeque<u32>,
    /// Frames that are free once their places in the staging area are.
    pub(super) leaving: Vec<u32>,
    hand: usize,
    idle_rounds: usize,
    /// The last batch found no slot.
    pub(super) is_full: bool,
    /// The store takes nothing any more.
    pub(super) is_cut_off: bool,
}

impl Evictor {
    pub(crate) fn new(core: &Arc<Core>, orders: &Arc<Orders>) -> Result<Evictor> {
        let batch = core.options.batch_pages;
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let no_memory = |error| Error::io("cannot map the evictor's tables", error);
        let room = core.marks.standby + core.marks.high + RETIRED + 8 * batch;
        let mut standby = VecDeque::with_capacity(room);
        standby.extend(
            (0..core.frames.used_span() as u32).filter(|&frame| is_in_standby(core, frame)),
        );
        Ok(Evictor {
            lane: if core.mapped.is_none() { Some(core.store.lane()?) } else { None },
            pagemap: if core.notes_writes() { Pagemap::open() } else { None },
            scratch: Area::new(batch * PAGE_BYTES, protection).map_err(no_memory)?,
            batch: Vec::with_capacity(batch),
            sent: VecDeque::with_capacity(MAX_OUTSTANDING * batch),
            requests: VecDeque::with_capacity(MAX_OUTSTANDING),
            generations: rackmem_lease::sync::Lazy::new(core.frames.capacity())
                .map_err(no_memory)?,
            standby,
            leaving: Vec::with_capacity(RETIRED + batch),
            hand: 0,
            idle_rounds: 0,
            is_full: false,
            is_cut_off: core.store.check().is_err(),
            orders: Arc::clone(orders),
            core: Arc::clone(core),
        })
    }

    /// Sends pages away until told to stop.
    pub(crate) fn run(mut self) {
        // SAFETY: takes nothing.
        self.core.evictor_tid.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        self.core.evictor_core.store(NOWHERE, Ordering::Relaxed);
        let core = Arc::clone(&self.core);
        let orders = Arc::clone(&self.orders);
        let mut is_active = false;
        loop {
            let ticket = core.evictor.ticket();
            if orders.is_to_stop.load(Ordering::Acquire) {
                return self.drain();
            }
            if orders.is_to_rest.load(Ordering::SeqCst) {
                self.rest();
                continue;
            }
            let wanted = orders.flushes.load(Ordering::Acquire);
            if wanted != orders.flushed.load(Ordering::Relaxed) {
                self.flush();
                orders.flushed.store(wanted, Ordering::Release);
                orders.answered.signal();
                continue;
            }
            self.confirm_ready();
            let free = core.frames.free();
            is_active = free < if is_active { core.marks.high } else { core.marks.low };
            if is_active {
                self.round(ticket, core.marks.high, core.marks.standby);
            } else if self.requests.is_empty() {
                let limit = core.space.has_children().then_some(CHILD_CHECK);
                core.space.reap(&core);
                core.evictor.wait(ticket, limit);
            } else {
                self.confirm();
            }
        }
    }

    fn rest(&mut self) {
        self.drain();
        self.orders.is_resting.store(true, Ordering::Release);
        self.orders.answered.signal();
        loop {
            let ticket = self.core.evictor.ticket();
            if !self.orders.is_to_rest.load(Ordering::SeqCst) {
                break;
            }
            self.core.evictor.wait(ticket, None);
        }
        self.orders.is_resting.store(false, Ordering::Release);
        self.orders.answered.signal();
    }

    /// Waits for all answers.
    fn drain(&mut self) {
        while !self.requests.is_empty() {
            self.confirm();
        }
    }

    /// Sends everything away that can be.
    fn flush(&mut self) {
        let mut idle = 0;
        while idle < PATIENCE && self.core.frames.in_use() != 0 {
            let ticket = self.core.evictor.ticket();
            let before = self.core.frames.in_use();
            self.retire(usize::MAX, 0);
            if !self.is_cut_off {
                self.stage();
            }
            self.drain();
            self.retire(usize::MAX, 0);
            if self.core.frames.in_use() < before {
                idle = 0;
            } else {
                self.core.evictor.wait(ticket, Some(IDLE));
                idle += 1;
            }
        }
    }

    /// One step towards `high` free frames, with `standby` pages kept in standby.
    fn round(&mut self, ticket: u32, high: usize, standby: usize) {
        let core = Arc::clone(&self.core);
        let missing = high.saturating_sub(core.frames.free());
        let mut is_progress = self.retire(missing, standby) != 0 || core.frames.free() >= high;
        let is_short = self.standby.len() + self.sent.len() < missing + standby;
        if !is_progress && is_short && !self.is_cut_off {
            is_progress = self.stage();
        }
        if core.frames.free() < core.marks.low {
            // Faults may be waiting: what is in standby goes before its time.
            let missing = high.saturating_sub(core.frames.free());
            is_progress |= self.retire(missing, 0) != 0;
        }
        if is_progress {
            self.idle_rounds = 0;
        } else if !self.requests.is_empty() {
            self.confirm();
        } else {
            self.idle(ticket);
        }
    }

    /// Nothing could leave: pages may be in transit for a moment; or the store is full, its lender is lost, or
    /// the program forbids it. Then local memory grows beyond its limit rather than stop the program.
    fn idle(&mut self, ticket: u32) {
        let core = &self.core;
        core.space.reap(core);
        self.idle_rounds += 1;
        let is_for_good = self.is_cut_off || self.is_full || self.idle_rounds > PATIENCE;
        if !is_for_good {
            return core.evictor.wait(ticket, Some(IDLE));
        }
        self.idle_rounds = 0;
        let limit = core.frames.limit();
        if limit < core.frames.capacity() {
            let raised = (limit + core.marks.high).min(core.frames.capacity());
            // First: a thread that gets one of these frames may read the counter at once.
            count_all(&core.counters.overdrawn, raised - limit);
            core.frames.set_limit(raised);
        } else {
            core.is_exhausted.store(true, Ordering::Release);
            core.evictor.wait(ticket, Some(IDLE));
        }
        core.freed.signal();
    }

    /// Takes a batch of pages out of the program, and begins to write them back. Returns whether any left.
    pub(super) fn stage(&mut self) -> bool {
        self.sweep();
        self.is_full = false;
        if self.batch.is_empty() {
            return false;
        }
        self.look_for_clean();
        self.take_out();
        let moved = self.write_back();
        self.free_leaving();
        moved != 0
    }

    /// Turns the hand until a batch of pages is on its way, or all were passed twice.
    fn sweep(&mut self) {
        let core = Arc::clone(&self.core);
        self.batch.clear();
        let span = core.frames.used_span();
        for _ in 0..2 * span {
            if self.batch.len() >= core.options.batch_pages {
                return;
            }
            let frame = (self.hand % span) as u32;
            self.hand = (self.hand + 1) % span;
            let page = core.frames.page(frame);
            let Some(cell) = core.table.cell(page).filter(|_| page != 0) else { continue };
            let seen = cell.load();
            if seen.is_trap() && seen.frame() == frame {
                // No stream has come by: from now on a page in standby like others.
                if cell.step(seen, Entry::standby(frame, false)) {
                    self.standby.push_back(frame);
                }
                continue;
            }
            let Some(next) = seen.on_sweep().filter(|_| seen.frame() == frame) else { continue };
            if cell.step(seen, next) && next.state() == State::Leaving {
                self.batch.push(Leaver { page, frame, clean_copy: None, is_moved: false });
            }
        }
    }

    /// Lets up to `wanted` pages go from standby, while more than `keep` are there. Returns the number of those that
    /// went.
    fn retire(&mut self, wanted: usize, keep: usize) -> usize {
        let core = Arc::clone(&self.core);
        let mut gone = 0;
        while gone < wanted.min(RETIRED) && self.standby.len() > keep && !self.is_cut_off {
            let Some(frame) = self.standby.pop_front() else { break };
            let page = core.frames.page(frame);
            let Some(cell) = core.table.cell(page).filter(|_| page != 0) else { continue };
            let seen = cell.load();
            let slot = core.frames.slot(frame);
            let stamp = core.evictions.load(Ordering::Relaxed);
            let Some(away) =
                seen.on_retire(slot, stamp).filter(|_| seen.frame() == frame && slot != NO_SLOT)
            else {
                continue;
            };
            if cell.step(seen, away) {
                core.evictions.fetch_add(1, Ordering::Relaxed);
                count(&core.counters.evicted);
                self.leaving.push(frame);
                gone += 1;
            }
        }
        self.free_leaving();
        gone
    }

    /// Empties the places of frames in the staging area, and gives the frames back.
    pub(super) fn free_leaving(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let core = &self.core;
        self.leaving.sort_unstable();
        let mut first = 0;
        while first < self.leaving.len() {
            let mut end = first + 1;
            while end < self.leaving.len() && self.leaving[end] == self.leaving[end - 1] + 1 {
                end += 1;
            }
            drop_pages(core.staging_of(self.leaving[first]), (end - first) * PAGE_BYTES);
            first = end;
        }
        let returned = self.leaving.len();
        // The lowest comes last, and is given out first.
        for frame in self.leaving.drain(..).rev() {
            core.frames.give(frame);
        }
        let limit = core.frames.limit();
        if limit > core.frames.budget() {
            core.frames.set_limit(limit.saturating_sub(returned));
        }
        core.freed.signal();
    }
}
