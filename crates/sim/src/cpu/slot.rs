//! Instructions in flight, and which of them are in which state.

use rackmem_riscv::Inst;

use super::ops::{Kind, Unit};
use super::place::Place;
use super::predict::Checkpoint;
use crate::engine::Cycle;

/// The stage of an instruction's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Waits for operands, a unit, or its turn.
    #[default]
    Waiting,
    /// In a unit; has its result when its event is due.
    Executing,
    Address,
    /// Reads the L1; the value is there when its event is due.
    Reading,
    /// Waits for a line.
    Missing,
    /// A load that waits for a store or a fence.
    Blocked,
    /// A store that has its place and waits for its data.
    Data,
    /// Waits to be the oldest.
    Head,
    Done,
}

/// An instruction in flight. It takes two lines of the host's caches, not parts of three.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) inst: Inst,
    pub(super) pc: u64,
    /// Address at which the next one was fetched.
    pub(super) next: u64,
    /// Destination of a branch or jump.
    pub(super) target: u64,
    pub(super) result: u64,
    /// Cycle of its event, in stages that have one.
    pub(super) due: Cycle,
    /// Physical registers that it reads.
    pub(super) sources: [u8; 3],
    /// The register that it writes, 0 if none; its name and the one before.
    pub(super) dest: u8,
    pub(super) name: u8,
    pub(super) old: u8,
    /// Registers that it waits for.
    pub(super) waits: u8,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    pub(super) stage: Stage,
    /// Floating-point flags to be raised when it retires.
    pub(super) flags: u8,
    /// Loads: mask of the two lines that have been read.
    pub(super) parts: u8,
    pub(super) place: Place,
    /// The position that a store has, or would have, in the store queue.
    pub(super) store: u32,
    /// Loads: the position of the store that gave the value.
    pub(super) source_store: Option<u32>,
    /// The predictor before it was fetched.
    pub(super) before: Checkpoint,
}

const _: () = assert!(size_of::<Slot>() == 128);

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        inst: Inst::illegal(0, 0),
        pc: 0,
        next: 0,
        target: 0,
        result: 0,
        due: 0,
        sources: [0; 3],
        dest: 0,
        name: 0,
        old: 0,
        waits: 0,
        kind: Kind::System,
        unit: Unit::Alu,
        stage: Stage::Waiting,
        flags: 0,
        parts: 0,
        place: Place { lines: [0; 2], offset: 0, size: 0 },
        store: 0,
        source_store: None,
        before: Checkpoint { history: 0, depth: 0, top: 0 },
    };

    /// Whether an event of it is due some time.
    pub(super) fn has_event(&self) -> bool {
        matches!(self.stage, Stage::Executing | Stage::Address | Stage::Reading)
    }
}

/// Slots by state: a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Masks {
    /// Hold an instruction.
    pub(super) live: u64,
    /// Could begin if there were a unit.
    pub(super) ready: u64,
    pub(super) done: u64,
    /// Loads without their line.
    pub(super) missing: u64,
    /// Loads that wait for a store or a fence.
    pub(super) blocked: u64,
    /// Fences and atomics that younger loads may not overtake.
    pub(super) barriers: u64,
    /// Loads that have begun to read.
    pub(super) bound: u64,
    /// Those of them whose line has gone since.
    pub(super) stale: u64,
    /// Those of them that keep what they have read all the same: they had to wait for it, and to
    /// begin again might never end.
    pub(super) filled: u64,
    /// Trap when they are the oldest.
    pub(super) trapped: u64,
}

impl Masks {
    /// Takes slots out of all of them.
    pub(super) fn remove(&mut self, slots: u64) {
        let keep = !slots;
        self.live &= keep;
        self.ready &= keep;
        self.done &= keep;
        self.missing &= keep;
        self.blocked &= keep;
        self.barriers &= keep;
        self.bound &= keep;
        self.stale &= keep;
        self.filled &= keep;
        self.trapped &= keep;
    }

    pub(super) fn all(&self) -> [u64; 10] {
        [
            self.live,
            self.ready,
            self.done,
            self.missing,
            self.blocked,
            self.barriers,
            self.bound,
            self.stale,
            self.filled,
            self.trapped,
        ]
    }
}

/// Events by cycle: a mask of slots for each of the next cycles.
#[derive(Clone, Debug)]
pub(super) struct Due {
    at: [u64; 64],
    /// Cycles (modulo 64) with anything.
    occupied: u64,
}

impl Due {
    pub(super) fn new() -> Due {
        Due { at: [0; 64], occupied: 0 }
    }

    /// The slot's event is at cycle `at`, less than 64 cycles from now.
    #[inline(always)]
    pub(super) fn add(&mut self, at: Cycle, slot: u8) {
        let place = (at % 64) as usize;
        self.at[place] |= 1 << slot;
        self.occupied |= 1 << place;
    }

    /// Takes the slots whose events are now.
    #[inline(always)]
    pub(super) fn take(&mut self, now: Cycle) -> u64 {
        let place = (now % 64) as usize;
        self.occupied &= !(1 << place);
        std::mem::take(&mut self.at[place])
    }

    /// The cycle of the next event after `now`.
    #[inline]
    pub(super) fn next(&self, now: Cycle) -> Option<Cycle> {
        let from_next = self.occupied.rotate_right(((now + 1) % 64) as u32);
        (from_next != 0).then(|| now + 1 + u64::from(from_next.trailing_zeros()))
    }

    /// Forgets events of these slots.
    pub(super) fn remove(&mut self, slots: u64) {
        for (place, at) in self.at.iter_mut().enumerate() {
            *at &= !slots;
            self.occupied &= !(u64::from(*at == 0) << place);
        }
    }

    /// Moves all events on in time.
    pub(super) fn shift(&mut self, cycles: Cycle) {
        let by = (cycles % 64) as usize;
        self.at.rotate_right(by);
        self.occupied = self.occupied.rotate_left(by as u32);
    }
}
