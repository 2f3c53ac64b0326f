//! Cores that repeat themselves.
//!
//! A core that polls executes the same loop again and again. When its whole state is the same as it
//! was some cycles ago, but for the time, and nothing that it did since can be seen outside or
//! depends on the time, then it will do the same for ever, until a line that it has read goes away.
//! So it sleeps. When such a line goes, or the owner wants to know how it stands, it skips as many
//! whole periods as have passed, and executes the rest of the current one with the lines as they
//! were.
//!
//! The core looks at the ends of loop iterations. The state at the first, second, fourth, eighth ...
//! one since anything was written or missed is kept and compared with the later ones (as in Brent's
//! search for cycles), so that periods of several iterations are found, too. A digest of what has
//! retired tells most states apart before they are looked at. It also tells most loops that do not
//! repeat themselves, such as those over arrays, before their first states are kept: none of their
//! iterations is like one of the latest before it.

use arrayvec::ArrayVec;
use rackmem_riscv::Inst;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::space::{Fault, Wanted};

use super::outside::{Outside, Port, Program, Translate};
use super::slot::Slot;
use super::stats::Stats;
use super::{Core, SLOTS};
use crate::block::{Line, Words};
use crate::engine::Cycle;

/// The most lines that a loop may read and still be slept through.
const LINES: usize = 8;

/// Iterations to which another one is compared.
const RECENT: usize = 4;

/// Iterations after which states are kept, whatever the latest iterations were like.
const PATIENCE: u32 = 16;

/// Words that most states fit in.
const STATE_WORDS: usize = 2048;

type Lines = ArrayVec<(Line, Words), LINES>;

/// A state to compare with.
#[derive(Clone, Copy, Debug)]
struct Reference {
    at: Cycle,
    digest: u64,
    stats: Stats,
}

/// The core's knowledge of its repetitions.
#[derive(Clone, Debug)]
pub(super) struct Sleep {
    is_on: bool,
    /// Nothing was written, missed, or read from a clock since the last look.
    is_quiet: bool,
    has_looped: bool,
    /// Of what has retired since the last look.
    digest: u64,
    /// Digests of the latest iterations.
    recent: [u64; RECENT],
    looks: u32,
    next_reference: u32,
    reference: Option<Reference>,
    state: Vec<u64>,
    current: Vec<u64>,
    /// Read since the reference.
    lines: Lines,
    /// The length of a repetition, if asleep.
    period: Option<Cycle>,
    lost: ArrayVec<Line, LINES>,
}

impl Sleep {
    pub(super) fn new(is_on: bool) -> Sleep {
        Sleep {
            is_on,
            is_quiet: false,
            has_looped: false,
            digest: 0,
            recent: [0; RECENT],
            looks: 0,
            next_reference: 1,
            reference: None,
            state: Vec::new(),
            current: Vec::new(),
            lines: Lines::new(),
            period: None,
            lost: ArrayVec::new(),
        }
    }

    /// The core does something that does not repeat, or that others see.
    #[inline(always)]
    pub(super) fn disturb(&mut self) {
        self.is_quiet = false;
    }

    #[inline(always)]
    pub(super) fn note(&mut self, pc: u64, result: u64) {
        let mixed = self.digest.rotate_left(5) ^ pc ^ result;
        self.digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// An iteration has ended. Its digest, and whether one of the latest before it had the same.
    fn end_iteration(&mut self) -> (u64, bool) {
        self.has_looped = false;
        let digest = std::mem::take(&mut self.digest);
        let is_familiar = self.recent.contains(&digest);
        self.recent.rotate_right(1);
        self.recent[0] = digest;
        (digest, is_familiar)
    }

    /// A branch or jump backwards has retired.
    #[inline(always)]
    pub(super) fn looped(&mut self) {
        self.has_looped = true;
    }

    #[inline(always)]
    pub(super) fn record(&mut self, line: Line, words: &Words) {
        if self.reference.is_none() || self.lines.iter().any(|(known, _)| *known == line) {
            return;
        }
        if self.lines.try_push((line, *words)).is_err() {
            self.disturb();
        }
    }

    /// A line went away while the core was awake.
    pub(super) fn watch(&mut self, line: Line) {
        if self.lines.iter().any(|(known, _)| *known == line) {
            self.disturb();
        }
    }

    /// A line went away while it slept; whether that concerns it.
    pub(super) fn lost(&mut self, line: Line) -> bool {
        let is_mine = self.lines.iter().any(|(known, _)| *known == line);
        if is_mine && !self.lost.contains(&line) {
            self.lost.push(line);
        }
        is_mine
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.period.is_some()
    }

    pub(super) fn must_wake(&self) -> bool {
        !self.lost.is_empty()
    }

    #[inline(always)]
    pub(super) fn wants_to_look(&self) -> bool {
        self.has_looped && self.is_on
    }

    fn start_over(&mut self) {
        self.is_quiet = true;
        self.has_looped = false;
        self.looks = 0;
        self.next_reference = 1;
        self.reference = None;
        self.lines.clear();
    }
}

impl Core {
    /// Looks whether the core repeats itself; if so, it sleeps from now on.
    pub(super) fn repeats_itself(&mut self) -> bool {
        let (digest, is_familiar) = self.sleep.end_iteration();
        if !self.sleep.is_quiet {
            self.sleep.start_over();
            return false;
        }
        self.sleep.looks = self.sleep.looks.saturating_add(1);
        if !self.is_closed() {
            return false;
        }
        if let Some(reference) = self.sleep.reference
            && reference.digest == digest
            && self.is_as_before()
        {
            self.sleep.period = Some(self.now - reference.at);
            return true;
        }
        if self.sleep.looks >= self.sleep.next_reference {
            self.sleep.next_reference = self.sleep.looks.saturating_mul(2);
            self.sleep.reference = None;
            if is_familiar || self.sleep.looks >= PATIENCE {
                self.keep_state(digest);
            }
        }
        false
    }

    /// Whether nothing is under way outside.
    fn is_closed(&self) -> bool {
        self.stores.is_empty()
            && self.buffer.is_empty()
            && self.masks.missing == 0
            && !self.front.is_waiting()
            && !self.head_waits
            && !self.told
    }

    fn keep_state(&mut self, digest: u64) {
        let mut state = std::mem::take(&mut self.sleep.state);
        state.clear();
        state.reserve(STATE_WORDS);
        self.visit(&mut |word| state.push(word));
        self.sleep.state = state;
        self.sleep.lines.clear();
        self.sleep.reference = Some(Reference { at: self.now, digest, stats: self.stats });
    }

    fn is_as_before(&mut self) -> bool {
        let mut current = std::mem::take(&mut self.sleep.current);
        current.clear();
        self.visit(&mut |word| current.push(word));
        let is_same = current == self.sleep.state;
        self.sleep.current = current;
        is_same
    }

    /// Everything that decides what the core does from now on, with times relative to now, slots
    /// relative to the oldest, and registers by what they hold. There are no stores.
    fn visit(&self, put: &mut impl FnMut(u64)) {
        self.front.visit(self.now, put);
        self.predictor.visit(put);
        self.registers.visit(self.head, put);
        let head = (self.head % SLOTS) as u32;
        self.masks.all().iter().for_each(|mask| put(mask.rotate_right(head)));
        put(self.tail - self.head);
        (self.head..self.tail).for_each(|number| self.visit_slot(self.slot(number), put));
        self.free_at.iter().for_each(|at| put(at.saturating_sub(self.now)));
        put(u64::from(self.fflags) << 8 | u64::from(self.frm));
        put(self.reservation.map_or(u64::MAX, |line| line));
        put(u64::from(self.alone));
        put(self.stall as u64);
    }

    fn visit_slot(&self, slot: &Slot, put: &mut impl FnMut(u64)) {
        put(slot.pc);
        put(slot.next);
        put(slot.target);
        put(slot.result);
        put(if slot.has_event() { slot.due - self.now } else { 0 });
        let names = slot.sources.iter().chain([&slot.old]);
        names.for_each(|&name| self.registers.visit_one(name, self.head, put));
        put(u64::from_le_bytes([
            slot.waits,
            slot.stage as u8,
            slot.flags,
            slot.parts,
            slot.place.offset,
            slot.place.size,
            slot.source_store.is_some().into(),
            slot.kind as u8,
        ]));
        slot.place.lines.iter().for_each(|&line| put(line));
        slot.before.visit(put);
    }

    /// Makes up for the cycles before `now`, and wakes up.
    pub(super) fn wake(&mut self, now: Cycle, outside: &mut impl Outside) {
        let (Some(period), Some(reference)) = (self.sleep.period.take(), self.sleep.reference)
        else {
            return;
        };
        let counted = self.stats.since(&reference.stats);
        let lines = self.sleep.lines.clone();
        let mut replay = Replay { outside, lines: &lines };
        while self.now + 1 < now {
            let periods = (self.idle_to().min(now - 1) - self.now) / period;
            if periods == 0 {
                self.cycle(self.now + 1, &mut replay);
                continue;
            }
            self.stats.repeat(&counted, periods);
            self.shift(periods * period);
        }
        self.sleep.start_over();
        for line in std::mem::take(&mut self.sleep.lost) {
            self.mark_stale(line);
        }
    }

    /// Up to this cycle it may skip cycles, as nothing is recorded in them.
    fn idle_to(&self) -> Cycle {
        let lives = self.pipeline.as_ref().map(|pipeline| pipeline.idle_to(self.now));
        let counts = self.tally.as_ref().map(|tally| tally.idle_to(self.now));
        lives.into_iter().chain(counts).min().unwrap_or(Cycle::MAX)
    }

    /// Moves the core on in time as it is.
    fn shift(&mut self, cycles: Cycle) {
        self.now += cycles;
        self.due.shift(cycles);
        self.front.shift(cycles);
        self.free_at.iter_mut().for_each(|at| *at += cycles);
        self.slots.iter_mut().for_each(|slot| slot.due += cycles);
    }
}

/// The surroundings, with lines as they were.
struct Replay<'a, O> {
    outside: &'a mut O,
    lines: &'a Lines,
}

impl<O: Outside> Port for Replay<'_, O> {
    fn load(&mut self, line: Line) -> Option<Words> {
        let known = self.lines.iter().find(|(known, _)| *known == line);
        debug_assert!(known.is_some(), "a repetition reads what was read before");
        known.map(|(_, words)| *words)
    }

    fn store(&mut self, _: Line, _: impl FnOnce(&mut Words)) -> bool {
        unreachable!("a repetition writes nothing");
    }

    fn fetch(&mut self, _: Line) -> bool {
        unreachable!("a repetition finds its instructions in the cache");
    }
}

impl<O: Outside> Translate for Replay<'_, O> {
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        self.outside.translate(address, wanted)
    }
}

impl<O: Outside> Program for Replay<'_, O> {
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        self.outside.inst(pc)
    }

    fn fence_i(&mut self) {
        unreachable!("a repetition changes nothing");
    }

    fn counter(&mut self, counter: Counter, now: Cycle, retired: u64) -> u64 {
        self.outside.counter(counter, now, retired)
    }
}
