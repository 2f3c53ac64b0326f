//! The lives of instructions, for people to look at: the cycle in which each came to each stage.
//!
//! A core records them only when it is asked to, and does the same with and without it. One that
//! repeats itself still sleeps; it goes through the cycles of the stretch when it wakes.

use std::ops::Range;

use rackmem_riscv::Inst;

use super::SLOTS;
use super::front::{ENTRIES, Fetched, Front};
use super::spec::{MAX_LATENCY, MAX_WINDOW};
use crate::engine::Cycle;

/// In so many cycles all that is in flight retires in a core that repeats itself, which waits for nothing but its
/// units. Such cores skip no cycles closer to a stretch: in states that are the same, ages may differ.
const TURNOVER_CYCLES: Cycle = ((ENTRIES + MAX_WINDOW) * (MAX_LATENCY + 1)) as Cycle;

/// The part of a run in which lives are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Cycles in which instructions retire, or are thrown away.
    pub cycles: Range<Cycle>,
    /// Instructions of a core that are recorded at most.
    pub most: usize,
}

/// The life of an instruction: cycles in which it came to its stages, 0 for those that it did not come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// A number that grows in the order of fetch.
    pub order: u64,
    /// Virtual address of its first byte.
    pub pc: u64,
    /// The instruction; an illegal one if there was none to be fetched.
    pub inst: Inst,
    /// It was fetched.
    pub fetched: Cycle,
    /// The front end was through with it.
    pub decoded: Cycle,
    /// It had renamed registers and an entry of the reorder buffer.
    pub dispatched: Cycle,
    /// A unit began with it for the first time; what needs none begins when it is complete.
    pub issued: Cycle,
    /// Its result was there.
    pub completed: Cycle,
    /// It retired; 0 if it was thrown away, or stopped the core.
    pub retired: Cycle,
    /// All that it stored had left for the L1.
    pub stored: Cycle,
}

impl Life {
    const EMPTY: Life = Life {
        order: 0,
        pc: 0,
        inst: Inst::illegal(0, 0),
        fetched: 0,
        decoded: 0,
        dispatched: 0,
        issued: 0,
        completed: 0,
        retired: 0,
        stored: 0,
    };
}

/// The recorded instructions of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// In the order in which they were fetched.
    pub instructions: Vec<Life>,
    /// The first cycle of which instructions are missing, because there was no room.
    pub whole_to: Option<Cycle>,
}

#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    stretch: Stretch,
    front_end_cycles: Cycle,
    /// Instructions that have left the front end.
    fetched: u64,
    /// Those in flight, by slot.
    in_flight: Box<[Life; SLOTS as usize]>,
    ended: Lives,
    /// Stores that have not left: position in the store buffer, place in `ended`.
    leaving: Vec<(u32, usize)>,
}

impl Pipeline {
    pub(super) fn new(stretch: Stretch, front_end_cycles: u32) -> Pipeline {
        Pipeline {
            stretch,
            front_end_cycles: front_end_cycles.into(),
            fetched: 0,
            in_flight: Box::new([Life::EMPTY; SLOTS as usize]),
            ended: Lives::default(),
            leaving: Vec::new(),
        }
    }

    /// All that has ended, in the order of fetch.
    pub(super) fn take(&mut self) -> Lives {
        self.leaving.clear();
        let mut lives = std::mem::take(&mut self.ended);
        lives.instructions.sort_unstable_by_key(|life| life.order);
        lives
    }

    /// Forgets all that has ended.
    pub(super) fn forget(&mut self) {
        self.take();
    }

    /// Records no more.
    pub(super) fn stop(&mut self) {
        self.stretch.cycles = 0..0;
    }

    /// An instruction leaves the front end, for the reorder buffer or for nowhere.
    fn leave_front(&mut self, fetched: &Fetched, now: Cycle) -> Life {
        self.fetched += 1;
        let Fetched { inst, pc, ready_at, .. } = *fetched;
        let decoded = if ready_at <= now { ready_at } else { 0 };
        let fetched = ready_at - self.front_end_cycles;
        Life { order: self.fetched, pc, inst, fetched, decoded, ..Life::EMPTY }
    }

    #[cold]
    pub(super) fn dispatch(&mut self, slot: u8, fetched: &Fetched, now: Cycle) {
        let life = self.leave_front(fetched, now);
        self.in_flight[usize::from(slot)] = Life { dispatched: now, ..life };
    }

    #[cold]
    pub(super) fn issue(&mut self, slot: u8, now: Cycle) {
        let life = &mut self.in_flight[usize::from(slot)];
        life.issued = if life.issued == 0 { now } else { life.issued };
    }

    #[cold]
    pub(super) fn complete(&mut self, slot: u8, now: Cycle) {
        self.issue(slot, now);
        self.in_flight[usize::from(slot)].completed = now;
    }

    /// An instruction retires; a store, to this position in the store buffer.
    #[cold]
    pub(super) fn retire(&mut self, slot: u8, position: Option<u32>, now: Cycle) {
        let place = self.ended.instructions.len();
        let is_kept = self.end(Life { retired: now, ..self.in_flight[usize::from(slot)] }, now);
        self.leaving.extend(position.filter(|_| is_kept).map(|position| (position, place)));
    }

    /// An instruction in flight is thrown away.
    #[cold]
    pub(super) fn squash(&mut self, slot: u8, now: Cycle) {
        self.end(self.in_flight[usize::from(slot)], now);
    }

    /// All that has not come further than the front end is thrown away.
    #[cold]
    pub(super) fn redirect(&mut self, front: &Front, now: Cycle) {
        for fetched in front.queued() {
            let life = self.leave_front(fetched, now);
            self.end(life, now);
        }
    }

    /// The stores at a position of the store buffer leave.
    #[cold]
    pub(super) fn store(&mut self, position: u32, now: Cycle) {
        let Pipeline { leaving, ended, .. } = self;
        leaving.retain(|&(at, place)| {
            if at == position {
                ended.instructions[place].stored = now;
            }
            at != position
        });
    }

    /// A life ends in this cycle; whether it is recorded.
    fn end(&mut self, life: Life, now: Cycle) -> bool {
        if !self.stretch.cycles.contains(&now) {
            return false;
        }
        let has_room = !self.is_full();
        match has_room {
            true => self.ended.instructions.push(life),
            false => _ = self.ended.whole_to.get_or_insert(now),
        }
        has_room
    }

    fn is_full(&self) -> bool {
        self.ended.instructions.len() >= self.stretch.most
    }

    /// Up to this cycle a core that repeats itself may skip cycles after `now`, as nothing is recorded in them nor of
    /// what is in flight then.
    pub(super) fn idle_to(&self, now: Cycle) -> Cycle {
        let Range { start, end } = self.stretch.cycles;
        let is_over = now + 1 >= end || self.ended.whole_to.is_some();
        if is_over { Cycle::MAX } else { start.saturating_sub(TURNOVER_CYCLES).max(now) }
    }
}
