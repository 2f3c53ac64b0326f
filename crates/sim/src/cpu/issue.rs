//! Issue: an instruction with all operands goes to a unit, the oldest first.

use rackmem_riscv::exec::split;

use super::ops::{Kind, UNITS, Unit};
use super::outside::Outside;
use super::slot::Stage;
use super::{Core, Stop};

impl Core {
    /// Begins what can begin in this cycle.
    #[inline]
    pub(super) fn issue(&mut self, outside: &mut impl Outside) {
        let mut candidates = self.masks.ready;
        if candidates == 0 {
            return;
        }
        let mut room = self.room();
        let mut width = self.spec.issue_width;
        while candidates != 0 && width > 0 {
            let slot = self.oldest(candidates);
            candidates &= !(1 << slot);
            let entry = &self.slots[usize::from(slot)];
            let kind = entry.kind;
            let unit = entry.unit as usize;
            if room[unit] == 0 {
                continue;
            }
            self.masks.ready &= !(1 << slot);
            if kind == Kind::Load && self.masks.barriers & self.older(slot) != 0 {
                self.block(slot);
                continue;
            }
            room[unit] -= 1;
            width -= 1;
            self.active = true;
            self.begin(slot, kind, outside);
        }
    }

    /// Number of instructions that each unit can begin in this cycle.
    fn room(&self) -> [u32; UNITS] {
        let free = |unit: usize| u32::from(self.free_at[unit] <= self.now);
        let mut room = [0; UNITS];
        room[Unit::Alu as usize] = self.spec.alus;
        room[Unit::Mul as usize] = self.spec.multipliers;
        room[Unit::Div as usize] = free(0);
        room[Unit::Fp as usize] = self.spec.fp_units;
        room[Unit::FpDiv as usize] = free(1);
        room[Unit::Memory as usize] = self.spec.memory_ports;
        room
    }

    #[inline(always)]
    fn begin(&mut self, slot: u8, kind: Kind, outside: &mut impl Outside) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.issue(slot, self.now);
        }
        let info = self.ops[self.slots[usize::from(slot)].inst.op as usize];
        let mut cycles = u64::from(info.cycles);
        let stage = match kind {
            Kind::Load | Kind::Atomic => Stage::Address,
            Kind::Store if self.slots[usize::from(slot)].stage == Stage::Data => {
                cycles = 1;
                Stage::Executing
            }
            Kind::Store => Stage::Address,
            _ => {
                self.execute(slot, outside);
                Stage::Executing
            }
        };
        match info.unit {
            Unit::Div => self.free_at[0] = self.now + cycles,
            Unit::FpDiv => self.free_at[1] = self.now + cycles,
            _ => {}
        }
        self.schedule(slot, stage, cycles);
    }

    /// Has the slot's event happen so many cycles from now.
    #[inline(always)]
    pub(super) fn schedule(&mut self, slot: u8, stage: Stage, cycles: u64) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.stage = stage;
        entry.due = self.now + cycles;
        self.due.add(entry.due, slot);
    }

    /// Computes what an instruction leaves behind. It shows when its cycles are over.
    #[inline(always)]
    fn execute(&mut self, slot: u8, outside: &mut impl Outside) {
        let entry = &mut self.slots[usize::from(slot)];
        let info = &self.ops[entry.inst.op as usize];
        let scratch = &mut self.scratch;
        let registers = info.sources(&entry.inst);
        for (register, name) in registers.into_iter().zip(entry.sources) {
            let value = self.registers.value(name);
            match register < 32 {
                true => scratch.x[usize::from(register)] = value,
                false => scratch.f[usize::from(register & 31)] = value,
            }
        }
        scratch.pc = entry.pc;
        scratch.fflags = self.fflags;
        scratch.frm = self.frm;
        let (now, retired) = (self.now, self.stats.executed());
        let counter = |counter| outside.counter(counter, now, retired);
        if split::issue(scratch, &entry.inst, counter).is_err() {
            self.trap_at(slot, Stop::Illegal);
            return;
        }
        entry.target = scratch.pc;
        entry.result = match entry.dest {
            0 => 0,
            dest @ 1..32 => scratch.x[usize::from(dest)],
            dest => scratch.f[usize::from(dest & 31)],
        };
        entry.flags = scratch.fflags;
        if entry.kind == Kind::Csr {
            // It is alone: nothing before it can be undone, nothing after it has begun.
            self.fflags = scratch.fflags;
            self.frm = scratch.frm;
            self.sleep.disturb();
        }
    }
}
