//! The timing of cores that execute programs: out of order, speculative, cycle by cycle (soNUMA
//! Table 1, Manycore NI Table 2: "ARM Cortex-A15-like, 64-bit, out of order, 3-wide
//! dispatch/retirement, 60-entry ROB").
//!
//! ```text
//!             predicted path                       oldest first            in order
//!   front ───────────────────▶ dispatch ─────────▶ issue, execute ───────▶ retire ──▶ store buffer
//!   (fetch, L1I,               (rename, ROB,       (units, loads)          │            │
//!    predictor)   ◀──────────── queues) ◀───────── redirect ───────────────┘            ▼
//!                                                     ▲  L1: Port::load            Port::store
//! ```
//!
//! Everything that the front end predicts is executed for real, with values in physical registers;
//! a wrong path is thrown away and has cost what it cost. What an instruction does is defined once,
//! in [`rackmem_riscv::exec`]; this module decides when, and which value a load gets.
//!
//! | file | content |
//! |---|---|
//! | `front` | fetch, L1 of instructions, stages up to dispatch |
//! | `predict` | gshare, return stack, indirect targets, loads that wait |
//! | `rename` | physical registers |
//! | `slot` | the reorder buffer's entries, and masks over them |
//! | `dispatch`, `issue`, `complete`, `retire` | the stages |
//! | `loads`, `store_queue`, `store_buffer`, `head` | memory accesses; `head`: those that wait to be the oldest |
//! | `squash` | the end of wrong paths |
//! | `pipeline`, `track`, `tally` | lives of instructions, functions of threads, counts by time: recorded for people |
//! | `sleep` | cores that repeat themselves |
//!
//! # Time
//!
//! [`Core::tick`] moves on by a cycle and says when it has to be called again; in between the core
//! would only wait. The owner tells of lines that arrive ([`Core::complete`]) or go away
//! ([`Core::lost`]) in the cycle in which that happens, before that cycle's tick.
//!
//! A core that repeats itself without writing anything, as one that polls does, sleeps, although
//! each of its cycles does something: from its state and that of its lines follows what it will do
//! until one of these lines goes away. It then makes up for the cycles in between. Counts and
//! cycles are the same as without sleeping, bit for bit (`sleep.rs`).
//!
//! # Memory model
//!
//! RVWMO, by these rules:
//!
//! - Stores leave after they have retired, a line after the other, and are visible to all when the L1
//!   has the line for itself. So they depend on whatever is before them. Those to a line that is
//!   waited for leave together: a store joins an older one, and so passes those between the two,
//!   unless a fence that orders stores is one of these.
//! - Loads read whenever they can. A load whose line went away between its read and the read of an
//!   older load of the same line is executed again, and so are loads that read before an older
//!   store turned out to write there. A load gets the data of the youngest older store that has
//!   all its bytes, or waits for stores that have some.
//! - Fences wait until they are the oldest; younger loads wait for fences that name reads or inputs
//!   as successors. If writes or outputs come before and anything but writes after, the stores have
//!   to have left; if only writes come after, later stores join no earlier ones.
//! - Atomics wait until they are the oldest and all stores have left; younger loads wait for them.
//!   So each is acquire and release, whatever it asks for. A reservation ends when its line goes.
//!
//! [`litmus`](crate::litmus) holds cores against the model.
//!
//! # Left out
//!
//! Translation takes no time: there is no TLB. Targets of direct branches are known when they are
//! fetched. There are no scheduler entries: an instruction waits for operands in the ROB.
//! Accesses that lie in two lines are not atomic.

mod complete;
mod dispatch;
mod front;
mod head;
mod issue;
mod loads;
mod ops;
mod outside;
mod pipeline;
mod place;
mod predict;
mod rename;
mod retire;
mod sleep;
mod slot;
mod spec;
mod squash;
mod stats;
mod store_buffer;
mod store_queue;
mod tally;
mod track;

use rackmem_riscv::space::Fault;
use rackmem_riscv::{Hart, Mark, abi};
use serde::{Deserialize, Serialize};

pub use outside::{Outside, Port, Program, Translate};
pub use pipeline::{Life, Lives, Stretch};
pub(crate) use place::{read as read_word, write as write_word};
pub use spec::{CpuSpec, MAX_LATENCY, MAX_WINDOW};
pub use stats::Stats;
pub use tally::Tally;
pub use track::{Call, Room, Slice, Slices, Track, What};

use crate::block::Line;
use crate::engine::Cycle;
use front::Front;
use ops::OpTable;
use pipeline::Pipeline;
use predict::Predictor;
use rename::Registers;
use sleep::Sleep;
use slot::{Due, Masks, Slot};
use store_buffer::StoreBuffer;
use store_queue::StoreQueue;

/// The reason why a core has stopped: it has come to an instruction that it does not execute. Everything
/// before it is done, and its stores have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// A system call; the `pc` is that of the `ecall`.
    Ecall,
    /// A breakpoint.
    Ebreak,
    /// No instruction, or one with a reserved rounding mode.
    Illegal,
    /// An access, or a fetch, that translation does not allow.
    Fault(Fault),
    /// A region of interest begins or ends; the `pc` is that of the hint.
    Mark(Mark),
    /// None: it was asked to stop where it is ([`Core::pause`]).
    Paused,
}

/// Instructions of [`Core::step`] at most: more than the loops from a load reserved to its store conditional that the
/// specification promises to end.
const MOST_STEPS: u32 = 64;

/// The time at which a core has to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// In this cycle, unless it is told something before.
    At(Cycle),
    /// As soon as it is told something.
    Told,
    /// After [`Core::resume`].
    Stopped(Stop),
}

/// Slots are numbered modulo this.
const SLOTS: u64 = MAX_WINDOW as u64;

/// An out-of-order core: its window, its queues and its predictors.
#[derive(Clone, Debug)]
pub struct Core {
    spec: CpuSpec,
    ops: Box<OpTable>,
    front: Front,
    predictor: Predictor,
    registers: Registers,
    slots: Box<[Slot; MAX_WINDOW as usize]>,
    /// The reasons of those that trap.
    traps: Box<[Stop; MAX_WINDOW as usize]>,
    /// Numbers of the oldest instruction in flight and of the next one to be dispatched; modulo
    /// [`SLOTS`] they are slots.
    head: u64,
    tail: u64,
    masks: Masks,
    due: Due,
    stores: StoreQueue,
    /// Those that have retired.
    buffer: StoreBuffer,
    /// Loads in flight.
    loads: u32,
    /// Registers with which instructions are executed.
    scratch: Hart,
    fflags: u8,
    frm: u8,
    reservation: Option<Line>,
    /// Cycles from which on the units that do one thing at a time are free: [`ops::Unit::Div`] and `FpDiv`.
    free_at: [Cycle; 2],
    /// An instruction that has to be alone is in flight.
    alone: bool,
    /// The oldest instruction waits for a line.
    head_waits: bool,
    /// The store buffer waits for a line.
    stores_wait: bool,
    /// Something may have arrived.
    told: bool,
    /// It is to stop as soon as what is in flight has retired.
    is_pausing: bool,
    /// Instructions that it may execute before.
    steps_left: u32,
    /// Something has happened in this cycle.
    active: bool,
    /// Accesses that began in this cycle.
    ports_used: u32,
    /// The cycle that it has come to.
    now: Cycle,
    stall: Stall,
    stopped: Option<Stop>,
    stats: Stats,
    sleep: Sleep,
    /// Retired instructions since the last [`Core::take_retired`]; none unless they are recorded.
    retired: Option<Vec<Retired>>,
    /// The lives of instructions, if they are recorded.
    pipeline: Option<Box<Pipeline>>,
    /// Counts by intervals, if they are recorded.
    tally: Option<Box<Tally>>,
    /// The track of its thread, which is told of what retires while there is a tally.
    track: Option<Box<Track>>,
    /// Whether any of these is recorded.
    is_recorded: bool,
}

/// An instruction that has retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Virtual address of its first byte.
    pub pc: u64,
    /// The value of its destination register, if it has one.
    pub result: u64,
}

/// The reason why nothing was dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stall {
    None,
    RobFull,
    QueueFull,
    Starved,
    Other,
}

impl Core {
    /// A core that begins with these registers, and fetches its first instruction in the cycle
    /// after `now`.
    ///
    /// # Panics
    /// If [`CpuSpec::check`] finds something wrong.
    pub fn new(spec: &CpuSpec, hart: &Hart, now: Cycle) -> Core {
        if let Err((setting, problem)) = spec.check() {
            panic!("{setting}: {problem}");
        }
        let mut core = Core {
            spec: spec.clone(),
            ops: ops::table(spec),
            front: Front::new(hart.pc, now + 1, spec),
            predictor: Predictor::new(spec),
            registers: Registers::new(),
            slots: Box::new([Slot::EMPTY; MAX_WINDOW as usize]),
            traps: Box::new([Stop::Ecall; MAX_WINDOW as usize]),
            head: 0,
            tail: 0,
            masks: Masks::default(),
            due: Due::new(),
            stores: StoreQueue::new(),
            buffer: StoreBuffer::new(spec.store_buffer),
            loads: 0,
            scratch: Hart::new(0),
            fflags: 0,
            frm: 0,
            reservation: None,
            free_at: [0; 2],
            alone: false,
            head_waits: false,
            stores_wait: false,
            told: false,
            is_pausing: false,
            steps_left: 0,
            active: false,
            ports_used: 0,
            now,
            stall: Stall::Other,
            stopped: Some(Stop::Ecall),
            stats: Stats::default(),
            sleep: Sleep::new(spec.sleeps),
            retired: None,
            pipeline: None,
            tally: None,
            track: None,
            is_recorded: false,
        };
        core.resume(hart, now);
        core
    }

    /// A core that stands still, as after [`Core::pause`], and has counted so much.
    ///
    /// # Panics
    /// As [`Core::new`].
    pub fn paused(spec: &CpuSpec, stats: Stats, now: Cycle) -> Core {
        let core = Core::new(spec, &Hart::new(0), now);
        Core { stopped: Some(Stop::Paused), stats, ..core }
    }

    /// Fills the tables of the predictors with nonsense; `targets` are where jumps may be said to
    /// go. What a program computes does not depend on it.
    pub fn scramble_predictors(&mut self, seed: u64, targets: &[u64]) {
        self.predictor.scramble(seed, targets);
    }

    /// The registers of a core that has stopped.
    pub fn hart(&self) -> Hart {
        let pc = match self.stopped {
            Some(Stop::Paused) => self.front.next_pc(),
            _ => self.slot(self.head).pc,
        };
        let mut hart = Hart::new(pc);
        self.registers.save(&mut hart);
        hart.fflags = self.fflags;
        hart.frm = self.frm;
        hart
    }

    /// Goes on after a stop, with these registers, from the cycle after `now`.
    ///
    /// # Panics
    /// If the core has not stopped.
    pub fn resume(&mut self, hart: &Hart, now: Cycle) {
        assert!(self.stopped.take().is_some(), "only a core that has stopped can go on");
        self.is_pausing = false;
        // It may be another thread that goes on.
        self.reservation = None;
        self.squash(self.head);
        self.registers.restore(hart);
        self.fflags = hart.fflags;
        self.frm = hart.frm;
        self.redirect(hart.pc, now + 1);
        self.stall = Stall::Other;
        self.now = now;
        self.sleep.disturb();
        if let Some(track) = &mut self.track {
            track.go_on(hart.pc, hart.x[abi::SP], now + 1);
        }
    }

    /// Has it stop, with [`Stop::Paused`], as soon as all that is in flight has retired and all stores have left; or
    /// takes that back. It may come to another stop before; one that has not begun stops at once.
    pub fn pause(&mut self, is_asked: bool) {
        self.is_pausing = is_asked && self.stopped.is_none();
        self.steps_left = 0;
        if self.is_pausing && self.stats == Stats::default() {
            self.stopped = Some(Stop::Paused);
        }
    }

    /// Has it execute one instruction, and stop with [`Stop::Paused`] when all stores have left; or to come to another
    /// stop before. After a load reserved it goes on to the end of the reservation.
    ///
    /// # Panics
    /// If it has stopped.
    pub fn step(&mut self) {
        assert!(self.stopped.is_none(), "a core goes on before it executes anything");
        self.is_pausing = true;
        self.steps_left = MOST_STEPS;
    }

    /// Dispatches an instruction that is to be executed before the pause. Whether it is time for the pause.
    fn come_to_pause(&mut self) -> bool {
        self.stall = Stall::Other;
        if self.head != self.tail || !self.buffer.is_empty() {
            return false;
        }
        let is_within = self.steps_left == MOST_STEPS || self.reservation.is_some();
        if self.steps_left == 0 || !is_within {
            return true;
        }
        if self.dispatch_one() == Stall::None {
            self.steps_left -= 1;
            self.active = true;
        }
        false
    }

    /// Instructions of the program have changed, by other means than this core's stores.
    pub fn forget_instructions(&mut self) {
        self.front.clear_cache();
        self.sleep.disturb();
    }

    /// Records the instructions that retire, for [`Core::take_retired`]. A core that sleeps records nothing.
    pub fn record_retired(&mut self) {
        self.retired.get_or_insert_default();
        self.is_recorded = true;
    }

    /// The instructions that have retired since this was last asked, oldest first.
    pub fn take_retired(&mut self) -> Vec<Retired> {
        self.retired.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Counts instructions that were executed in its place, without timing.
    pub fn count_fast_forwarded(&mut self, instructions: u64) {
        self.stats.fast_forwarded += instructions;
    }

    /// Records the lives of instructions from now on.
    pub fn record_lives(&mut self, stretch: Stretch) {
        self.pipeline = Some(Box::new(Pipeline::new(stretch, self.spec.front_end_cycles)));
        self.is_recorded = true;
    }

    /// Forgets the lives that were recorded. For a core that sleeps, [`Core::settle`] comes first.
    pub fn forget_lives(&mut self) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.forget();
        }
    }

    /// Records no more lives. For a core that sleeps, [`Core::settle`] comes first.
    pub fn stop_lives(&mut self) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.stop();
        }
    }

    /// Counts by intervals from now on.
    pub fn record_tally(&mut self, tally: Tally) {
        self.tally = Some(Box::new(tally));
        self.is_recorded = true;
    }

    /// What was counted. For a core that sleeps, [`Core::settle`] comes first.
    pub fn take_tally(&mut self) -> Option<Tally> {
        self.tally.take().map(|tally| *tally)
    }

    /// The track of the thread that it executes.
    pub fn track(&mut self) -> &mut Option<Box<Track>> {
        &mut self.track
    }

    /// The lives that were recorded. For a core that sleeps, [`Core::settle`] comes first.
    pub fn take_lives(&mut self) -> Lives {
        self.pipeline.as_mut().map_or_else(Lives::default, |pipeline| pipeline.take())
    }

    /// Counters so far. For a core that sleeps, [`Core::settle`] comes first.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Address of the oldest instruction that has not retired, or of the next one to be fetched.
    pub fn oldest_pc(&self) -> u64 {
        if self.head == self.tail { self.front.pc() } else { self.slot(self.head).pc }
    }

    /// The reason why it has stopped, if it has.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// Whether it sleeps because it repeats itself.
    pub fn is_asleep(&self) -> bool {
        self.sleep.is_asleep()
    }

    /// Some line has arrived, or become writable: accesses that were refused are tried again at
    /// the next tick. Whether that has to be in this cycle.
    pub fn complete(&mut self) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        let waits = self.masks.missing != 0
            || self.stores_wait
            || self.head_waits
            || self.front.is_waiting();
        self.told |= waits;
        waits
    }

    /// A line can not be read any more. Whether a tick is needed in this cycle.
    pub fn lost(&mut self, line: Line) -> bool {
        let was_reserved = self.reservation == Some(line);
        if was_reserved {
            self.reservation = None;
            self.told |= self.head_waits;
        }
        if self.stopped.is_some() {
            return false;
        }
        if self.sleep.is_asleep() {
            return self.sleep.lost(line);
        }
        self.mark_stale(line);
        self.sleep.watch(line);
        was_reserved && self.head_waits
    }

    /// Moves on to cycle `now` and says when to be called again. May be called earlier than that.
    #[inline]
    pub fn tick(&mut self, now: Cycle, outside: &mut impl Outside) -> Next {
        if let Some(stop) = self.stopped {
            return Next::Stopped(stop);
        }
        if self.sleep.is_asleep() {
            if !self.sleep.must_wake() {
                return Next::Told;
            }
            self.wake(now, outside);
        }
        self.cycle(now, outside);
        if let Some(stop) = self.stopped {
            return Next::Stopped(stop);
        }
        if self.sleep.wants_to_look() && !self.is_pausing && self.repeats_itself() {
            return Next::Told;
        }
        self.next()
    }

    /// Brings the counts up to the end of cycle `now`, for which there has been a tick if one was
    /// due. A core that slept does not sleep any more; the next tick is in the cycle after.
    ///
    /// Also to be called, with the cycle before, when something is about to change that a core that
    /// sleeps is not told of: mappings, and instructions.
    pub fn settle(&mut self, now: Cycle, outside: &mut impl Outside) {
        if self.sleep.is_asleep() {
            self.wake(now + 1, outside);
        }
        if self.stopped.is_none() && now > self.now {
            self.account(now - self.now);
            self.now = now;
        }
    }

    fn cycle(&mut self, now: Cycle, outside: &mut impl Outside) {
        if now <= self.now {
            return;
        }
        self.account(now - self.now - 1);
        self.now = now;
        self.active = false;
        self.ports_used = 0;
        self.retry(outside);
        if self.buffer.is_passed_over() {
            self.drain(outside);
        }
        self.events(outside);
        self.drain(outside);
        self.retire(outside);
        if self.stopped.is_some() {
            self.account(1);
            return;
        }
        self.issue(outside);
        if !self.is_pausing {
            self.dispatch();
        } else if self.come_to_pause() {
            self.stopped = Some(Stop::Paused);
            self.account(1);
            return;
        }
        let Core { front, ops, predictor, stats, .. } = self;
        self.active |= front.fetch(now, ops, predictor, stats, outside);
        if self.front.has_missed() {
            self.sleep.disturb();
        }
        self.account(1);
    }

    /// Counts cycles that are like the latest one.
    #[inline]
    fn account(&mut self, cycles: u64) {
        let cycles_of = |stall| if self.stall == stall { cycles } else { 0 };
        self.stats.cycles += cycles;
        self.stats.rob_full += cycles_of(Stall::RobFull);
        self.stats.queue_full += cycles_of(Stall::QueueFull);
        self.stats.starved += cycles_of(Stall::Starved);
    }

    /// The next cycle with something to do: the next one if anything has happened, else the one in which
    /// something comes by itself.
    #[inline]
    fn next(&self) -> Next {
        let now = self.now;
        if self.active || self.told {
            return Next::At(now + 1);
        }
        let later = |at: Cycle| (at > now).then_some(at);
        let units = if self.masks.ready == 0 { [None; 2] } else { self.free_at.map(later) };
        let events = [self.due.next(now), self.front.next(now), units[0], units[1]];
        events.into_iter().flatten().min().map_or(Next::Told, Next::At)
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % SLOTS) as usize]
    }

    /// Number of instructions that are older than the one in a slot.
    #[inline(always)]
    fn age(&self, slot: u8) -> u64 {
        u64::from(slot).wrapping_sub(self.head) % SLOTS
    }

    /// The slot of the oldest instruction in a mask that is not empty.
    #[inline(always)]
    fn oldest(&self, mask: u64) -> u8 {
        let head = (self.head % SLOTS) as u32;
        ((mask.rotate_right(head).trailing_zeros() + head) % SLOTS as u32) as u8
    }

    /// The slots of all instructions older than the one in a slot.
    #[inline(always)]
    fn older(&self, slot: u8) -> u64 {
        ((1u64 << self.age(slot)) - 1).rotate_left((self.head % SLOTS) as u32)
    }
}
