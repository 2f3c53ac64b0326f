//! A worker resolves faults: a lane, and the requests that it was given.
//!
//! A handler thread has one worker; with inline delivery, faulting threads share a pool of them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::core::{Area, Core};
use super::entry::{Cell, Entry, OnFault, STAMPS, State};
use super::frames::NO_SLOT;
use super::options::{MAX_PREFETCH_PAGES, PAGE_BYTES};
use super::run::{Run, deliver, give_up};
use super::statistics::count;
use super::streams::Plan;
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::Lane;

/// Result of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// The page is there.
    Done,
    /// It was asked for.
    Asked,
    /// It is in transit, as seen.
    Transit(Entry),
    /// The local cache is full.
    Full,
    /// The page is not borrowed.
    NotOurs,
    /// The page is lost.
    Lost,
}

/// A lane, and the runs that it was asked for.
pub(crate) struct Worker {
    lane: Option<Box<dyn Lane>>,
    asked: VecDeque<Run>,
    /// Held for a plan, and not asked for yet.
    ahead: Vec<Run>,
    buffer: Area,
}

impl Worker {
    /// A worker with a lane of its own, if the store needs lanes.
    pub(crate) fn new(core: &Core) -> Result<Worker> {
        let lane = if core.mapped.is_none() { Some(core.store.lane()?) } else { None };
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let buffer = Area::new(MAX_PREFETCH_PAGES * PAGE_BYTES, protection)
            .map_err(|error| Error::io("cannot map a buffer for pages", error))?;
        Ok(Worker {
            lane,
            asked: VecDeque::with_capacity(core.options.window + MAX_PREFETCH_PAGES + 1),
            ahead: Vec::with_capacity(MAX_PREFETCH_PAGES),
            buffer,
        })
    }

    /// Requests whose answers were not taken.
    pub(crate) fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// Whether another fault may be asked for.
    pub(crate) fn has_room(&self, core: &Core) -> bool {
        self.asked.len() < core.options.window
    }

    /// Whether `finish` would not wait.
    pub(crate) fn is_ready(&mut self) -> bool {
        !self.asked.is_empty() && self.lane.as_mut().is_none_or(|lane| lane.is_ready())
    }

    /// Answers a fault, or asks the store for the page.
    pub(crate) fn fault(&mut self, core: &Core, page: usize, is_write: bool) -> Outcome {
        let Some(cell) = core.table.cell(page) else { return Outcome::NotOurs };
        loop {
            let seen = cell.load();
            let outcome = match seen.on_fault() {
                OnFault::Wait => return Outcome::Transit(seen),
                OnFault::GiveUp => return Outcome::Lost,
                OnFault::Look => look(core, cell, seen, page),
                OnFault::MoveBack => self.rescue(core, cell, seen, page),
                OnFault::Zero if !core.table.is_managed(page) => return Outcome::NotOurs,
                OnFault::Zero | OnFault::Fetch => {
                    let Some(frame) = core.take_frame(0) else { return full(core) };
                    core.table.touch(page);
                    if !cell.step(seen, Entry::held(frame)) {
                        core.frames.give(frame);
                        continue;
                    }
                    Some(self.bring(core, cell, seen, page, frame, is_write))
                }
            };
            if let Some(outcome) = outcome {
                count(&core.counters.faults);
                return outcome;
            }
        }
    }

    /// Brings a page that is held, and those that probably follow it.
    fn bring(
        &mut self,
        core: &Core,
        cell: &Cell,
        seen: Entry,
        page: usize,
        frame: u32,
        is_write: bool,
    ) -> Outcome {
        let fault_at = Some(Instant::now());
        // Before the page is there: then the program goes on, and another worker would meet the stream amid its plan.
        let plan = core.streams.with(|streams| streams.on_fault((page / PAGE_BYTES) as u64));
        let is_asked = seen.state() != State::Empty;
        self.hold_ahead(core, plan, usize::from(is_asked));
        let outcome = if seen.state() == State::Empty {
            core.frames.assign(frame, page, NO_SLOT);
            first_touch(core, cell, page, frame, is_write)
        } else {
            let slot = seen.slot();
            core.frames.assign(frame, page, slot);
            let away = core.evictions.load(Ordering::Relaxed).wrapping_sub(seen.stamp()) % STAMPS;
            let is_hot = (away as usize) < core.frames.budget();
            let run = Run { page, slot, count: 1, trap: None, fault_at, is_hot };
            self.ask(core, run)
        };
        self.bring_ahead(core);
        outcome
    }

    /// Moves a page back that was on its way out, or was put aside as a trap.
    fn rescue(&mut self, core: &Core, cell: &Cell, seen: Entry, page: usize) -> Option<Outcome> {
        let frame = seen.frame();
        if !cell.step(seen, Entry::held(frame)) {
            return None;
        }
        if !core.move_back(page, frame) {
            cell.settle(Entry::EMPTY);
            core.release(frame);
            return Some(Outcome::NotOurs);
        }
        cell.settle(Entry::present(frame, !seen.is_trap()));
        if seen.is_trap() {
            count(&core.counters.prefetch_hits);
            let plan = core.streams.with(|streams| streams.on_trap((page / PAGE_BYTES) as u64));
            self.hold_ahead(core, plan, 0);
            self.bring_ahead(core);
        } else {
            count(&core.counters.rescued);
        }
        Some(Outcome::Done)
    }

    /// Holds the pages of a plan as far as they are away and there is room, beside `others` that will be asked for.
    fn hold_ahead(&mut self, core: &Core, plan: Plan, others: usize) {
        let room = match core.mapped {
            Some(_) => MAX_PREFETCH_PAGES,
            None => core.options.window.saturating_sub(self.asked.len() + others),
        };
        let mut run: Option<Run> = None;
        let mut index = 0;
        while index < plan.count && self.ahead.len() < room {
            let page = (plan.page(index) as usize).wrapping_mul(PAGE_BYTES);
            index += 1;
            let Some((cell, seen)) = core.table.cell(page).map(|cell| (cell, cell.load())) else {
                break;
            };
            let slot = match seen.state() {
                State::Away => seen.slot(),
                State::Empty if plan.stride == 1 && core.table.is_managed(page) => NO_SLOT,
                State::Empty => break,
                _ => continue,
            };
            let Some(frame) = core.take_frame(core.marks.reserve) else {
                index -= 1;
                break;
            };
            core.table.touch(page);
            if !cell.step(seen, Entry::held(frame)) {
                core.frames.give(frame);
                continue;
            }
            core.frames.assign(frame, page, slot);
            self.ahead.extend(run.take_if(|run| !run.is_continued(page, slot)));
            let run = run.get_or_insert(Run {
                page,
                slot,
                count: 0,
                trap: None,
                fault_at: None,
                is_hot: false,
            });
            if index - 1 == plan.trap && slot != NO_SLOT {
                run.trap = Some(run.count);
            }
            run.count += 1;
        }
        self.ahead.extend(run);
        if index < plan.count {
            // The stream will be here again, and goes on then.
            core.streams.with(|streams| streams.cut(plan, index));
        }
    }

    /// Brings the runs that are held ahead, and sends all requests.
    fn bring_ahead(&mut self, core: &Core) {
        for index in 0..self.ahead.len() {
            self.ask(core, self.ahead[index]);
        }
        self.ahead.clear();
        self.push(core);
    }

    /// Brings the pages of a run, all held, if that can be done at once; otherwise asks for them.
    fn ask(&mut self, core: &Core, run: Run) -> Outcome {
        if run.slot == NO_SLOT {
            deliver(core, &run, core.zeros());
            return Outcome::Done;
        }
        if let Some(bytes) = core.slot_bytes(run.slot) {
            // The bytes are right as long as they are mapped: only whether the lease is over is to be looked at.
            if run.is_demand() && core.store.check().is_err() {
                core.lose(run.page, core.table.cell(run.page).map(|cell| cell.load().frame()));
                return Outcome::Lost;
            }
            deliver(core, &run, bytes);
            return Outcome::Done;
        }
        let asked = match &mut self.lane {
            Some(lane) => lane.ask_read(run.offset(), run.bytes()),
            None => Err(Error::refused("the lane is broken".to_owned())),
        };
        self.asked.push_back(run);
        if asked.is_err() {
            self.lose(core);
        }
        Outcome::Asked
    }

    fn push(&mut self, core: &Core) {
        if self.asked.is_empty() {
            return;
        }
        if self.lane.as_mut().is_some_and(|lane| lane.push().is_err()) {
            self.lose(core);
        }
    }

    /// Waits for the oldest answer, and delivers its pages.
    pub(crate) fn finish(&mut self, core: &Core) {
        let (Some(run), Some(lane)) = (self.asked.front().copied(), &mut self.lane) else { return };
        // SAFETY: the buffer is this worker's alone, and as long as the longest run.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.buffer.base(), run.bytes()) };
        if lane.take(bytes).is_err() {
            return self.lose(core);
        }
        self.asked.pop_front();
        deliver(core, &run, bytes.as_ptr());
    }

    /// The lane failed, which it does for good: gives up the runs that it was asked for.
    fn lose(&mut self, core: &Core) {
        self.lane = None;
        while let Some(run) = self.asked.pop_front() {
            give_up(core, &run);
        }
    }
}

fn full(core: &Core) -> Outcome {
    if core.is_exhausted.load(Ordering::Acquire) {
        return Outcome::Lost;
    }
    count(&core.counters.full_waits);
    core.evictor.signal();
    Outcome::Full
}

/// The page is new: zeros.
fn first_touch(core: &Core, cell: &Cell, page: usize, frame: u32, is_write: bool) -> Outcome {
    let result = match is_write {
        // The kernel's page of zeros would only be replaced at once.
        true => core.uffd.copy(page, core.zeros(), PAGE_BYTES, false).1,
        false => core.uffd.zero(page),
    };
    match result.map_err(|error| error.raw_os_error()) {
        Ok(()) => {}
        Err(Some(libc::EEXIST)) => core.uffd.wake(page),
        Err(Some(libc::EAGAIN)) if core.copy_in(page, core.zeros(), PAGE_BYTES, false) => {}
        Err(_) => {
            cell.settle(Entry::EMPTY);
            core.release(frame);
            return Outcome::NotOurs;
        }
    }
    cell.settle(Entry::present(frame, false));
    count(&core.counters.first_touches);
    Outcome::Done
}

/// The page should be there. If it is not, the program dropped it without telling, and it is zero.
fn look(core: &Core, cell: &Cell, seen: Entry, page: usize) -> Option<Outcome> {
    let frame = seen.frame();
    if !cell.step(seen, Entry::held(frame)) {
        return None;
    }
    match core.uffd.zero(page).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EEXIST | libc::EAGAIN)) => {
            cell.settle(seen);
            core.uffd.wake(page);
        }
        Ok(()) => {
            let slot = core.frames.slot(frame);
            if slot != NO_SLOT {
                core.slots.give(slot);
            }
            core.frames.set_slot(frame, NO_SLOT);
            cell.settle(Entry::present(frame, false));
        }
        Err(_) => {
            cell.settle(Entry::EMPTY);
            core.release(frame);
            return Some(Outcome::NotOurs);
        }
    }
    Some(Outcome::Done)
}
