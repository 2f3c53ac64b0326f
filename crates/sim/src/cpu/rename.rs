//! Physical registers: names, values, and the instructions that wait for them.

use rackmem_riscv::{Hart, Reg};

use super::spec::MAX_WINDOW;

/// One for every register, and one for every instruction that may be in flight: they never run out.
const PHYSICAL: usize = Reg::COUNT + MAX_WINDOW as usize;

/// The registers of a core. Physical register 0 is `x0`.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    map: [u8; Reg::COUNT],
    value: [u64; PHYSICAL],
    /// The slot of the instruction that writes it, until it has.
    producer: [u8; PHYSICAL],
    /// The slots of instructions that wait for it.
    waiters: [u64; PHYSICAL],
    /// Whether its value is there.
    ready: [bool; PHYSICAL],
    free: [u8; MAX_WINDOW as usize],
    /// Positions in `free`, which is a ring.
    taken: u32,
    given: u32,
}

impl Registers {
    pub(super) fn new() -> Registers {
        Registers {
            map: std::array::from_fn(|register| register as u8),
            value: [0; PHYSICAL],
            producer: [0; PHYSICAL],
            waiters: [0; PHYSICAL],
            ready: [true; PHYSICAL],
            free: std::array::from_fn(|entry| (Reg::COUNT + entry) as u8),
            taken: 0,
            given: MAX_WINDOW,
        }
    }

    /// The physical register that holds, or will hold, a register's value.
    #[inline(always)]
    pub(super) fn physical(&self, register: u8) -> u8 {
        self.map[usize::from(register & 63)]
    }

    #[inline(always)]
    pub(super) fn is_ready(&self, physical: u8) -> bool {
        self.ready[usize::from(physical) % PHYSICAL]
    }

    #[inline(always)]
    pub(super) fn value(&self, physical: u8) -> u64 {
        self.value[usize::from(physical) % PHYSICAL]
    }

    /// Gives a register a new name, to be written by the instruction in `slot`; returns the new
    /// and the old one.
    #[inline(always)]
    pub(super) fn rename(&mut self, register: u8, slot: u8) -> (u8, u8) {
        let new = self.free[(self.taken % MAX_WINDOW) as usize];
        self.taken = self.taken.wrapping_add(1);
        self.ready[usize::from(new) % PHYSICAL] = false;
        self.waiters[usize::from(new) % PHYSICAL] = 0;
        self.producer[usize::from(new) % PHYSICAL] = slot;
        let old = std::mem::replace(&mut self.map[usize::from(register & 63)], new);
        (new, old)
    }

    /// Takes the latest [`Registers::rename`] back.
    pub(super) fn undo(&mut self, register: u8, new: u8, old: u8) {
        self.taken = self.taken.wrapping_sub(1);
        self.free[(self.taken % MAX_WINDOW) as usize] = new;
        self.map[usize::from(register & 63)] = old;
        self.ready[usize::from(new) % PHYSICAL] = true;
    }

    /// Nobody can ask for the old name any more.
    #[inline(always)]
    pub(super) fn release(&mut self, old: u8) {
        self.free[(self.given % MAX_WINDOW) as usize] = old;
        self.given = self.given.wrapping_add(1);
    }

    /// Has `slot` wait for a register; whether it did not yet.
    #[inline(always)]
    pub(super) fn wait(&mut self, physical: u8, slot: u8) -> bool {
        let waiters = &mut self.waiters[usize::from(physical) % PHYSICAL];
        let is_new = *waiters >> slot & 1 == 0;
        *waiters |= 1 << slot;
        is_new
    }

    /// The value is there. Returns the slots that waited for it.
    #[inline(always)]
    pub(super) fn write(&mut self, physical: u8, value: u64) -> u64 {
        self.value[usize::from(physical) % PHYSICAL] = value;
        self.ready[usize::from(physical) % PHYSICAL] = true;
        std::mem::take(&mut self.waiters[usize::from(physical) % PHYSICAL])
    }

    /// The instructions in these slots wait for nothing any more.
    pub(super) fn forget(&mut self, slots: u64) {
        self.waiters.iter_mut().for_each(|waiters| *waiters &= !slots);
    }

    /// Copies all registers to a hart. Nothing may be in flight.
    pub(super) fn save(&self, hart: &mut Hart) {
        let (x, f) = self.map.split_at(32);
        x.iter().zip(&mut hart.x).for_each(|(&name, to)| *to = self.value(name));
        f.iter().zip(&mut hart.f).for_each(|(&name, to)| *to = self.value(name));
    }

    /// Copies all registers from a hart. Nothing may be in flight.
    pub(super) fn restore(&mut self, hart: &Hart) {
        for (register, &value) in hart.x.iter().chain(&hart.f).enumerate().skip(1) {
            self.value[usize::from(self.map[register])] = value;
        }
    }

    /// Visits the meaning of all registers' names.
    pub(super) fn visit(&self, head: u64, put: &mut impl FnMut(u64)) {
        self.map.iter().for_each(|&name| self.visit_one(name, head, put));
    }

    /// Visits the meaning of a name: a value, or an instruction, by its distance from the one at `head`.
    pub(super) fn visit_one(&self, name: u8, head: u64, put: &mut impl FnMut(u64)) {
        let is_ready = self.is_ready(name);
        put(is_ready.into());
        match is_ready {
            true => put(self.value(name)),
            false => put(u64::from(self.producer[usize::from(name)]).wrapping_sub(head) & 63),
        }
    }
}
