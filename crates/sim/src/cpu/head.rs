//! Instructions that wait until they are the oldest: fences, atomics, and loads that may have effects.

use rackmem_riscv::exec::split::{self, AccessKind, Issued};

use super::Core;
use super::ops::Kind;
use super::outside::Outside;
use super::place::{Place, read, truncated, write};
use super::slot::Stage;
use crate::block::BLOCK_BYTES;

/// Bits of the sets of a fence.
mod set {
    pub(super) const INPUT: u8 = 8;
    pub(super) const OUTPUT: u8 = 4;
    pub(super) const READ: u8 = 2;
    pub(super) const WRITE: u8 = 1;
}

impl Core {
    /// Whether the instruction in a slot waits to be the oldest.
    pub(super) fn waits_to_be_oldest(&self, slot: u8) -> bool {
        self.slots[usize::from(slot)].stage == Stage::Head
    }

    /// Predecessors and successors of a fence.
    fn sets(&self, slot: u8) -> [u8; 2] {
        let imm = self.slots[usize::from(slot)].inst.imm;
        [(imm >> 4 & 15) as u8, (imm & 15) as u8]
    }

    /// Whether younger loads wait for a fence.
    pub(super) fn holds_loads_back(&self, slot: u8) -> bool {
        let is_data = self.slots[usize::from(slot)].kind == Kind::Fence;
        !is_data || self.sets(slot)[1] & (set::READ | set::INPUT) != 0
    }

    /// The oldest instruction has waited for that; whether it is done already.
    pub(super) fn at_head(&mut self, slot: u8, outside: &mut impl Outside) -> bool {
        let kind = self.slots[usize::from(slot)].kind;
        let stores_have_left = self.buffer.is_empty();
        match kind {
            Kind::Fence => {
                let [before, after] = self.sets(slot);
                let orders_stores = before & (set::WRITE | set::OUTPUT) != 0;
                // Stores leave in order anyway.
                let only_stores = after & !set::WRITE == 0 && outside.keeps_stores_in_order();
                if self.head_waits || orders_stores && !only_stores && !stores_have_left {
                    return false;
                }
                if orders_stores && !outside.fence() {
                    self.head_waits = true;
                    return false;
                }
                if orders_stores {
                    self.buffer.seal();
                }
                self.finish(slot);
                true
            }
            Kind::FenceI => {
                if stores_have_left {
                    self.fence_i(slot, outside);
                }
                stores_have_left
            }
            Kind::Load => {
                if stores_have_left && !self.head_waits {
                    self.special_load(slot, outside);
                }
                false
            }
            _ => {
                if stores_have_left && !self.head_waits {
                    self.atomic(slot, outside);
                }
                false
            }
        }
    }

    /// Everything younger is fetched again.
    fn fence_i(&mut self, slot: u8, outside: &mut impl Outside) {
        let entry = self.slots[usize::from(slot)];
        self.squash(self.head + 1);
        self.predictor.restore(&entry.before);
        self.front.clear_cache();
        self.redirect(entry.pc.wrapping_add(entry.inst.len.into()), self.now);
        outside.fence_i();
        self.sleep.disturb();
        self.finish(slot);
    }

    /// Loads what is no ordinary memory, or waits for it.
    fn special_load(&mut self, slot: u8, outside: &mut impl Outside) {
        self.sleep.disturb();
        let Place { lines, offset, size } = self.slots[usize::from(slot)].place;
        let address = lines[0] * BLOCK_BYTES + u64::from(offset);
        let Some(raw) = outside.special_load(address, size) else {
            self.head_waits = true;
            return;
        };
        let entry = &mut self.slots[usize::from(slot)];
        entry.result = split::register_value(&entry.inst, truncated(raw, size));
        self.active = true;
        self.schedule(slot, Stage::Executing, self.spec.l1_cycles.into());
    }

    /// Carries the oldest instruction's atomic access out, or waits for its line.
    fn atomic(&mut self, slot: u8, outside: &mut impl Outside) {
        self.sleep.disturb();
        let Some(raw) = self.atomic_access(slot, outside) else {
            self.head_waits = true;
            return;
        };
        let entry = &mut self.slots[usize::from(slot)];
        entry.result = split::register_value(&entry.inst, raw);
        self.active = true;
        self.schedule(slot, Stage::Executing, self.spec.l1_cycles.into());
    }

    fn atomic_access(&mut self, slot: u8, outside: &mut impl Outside) -> Option<u64> {
        let entry = &mut self.slots[usize::from(slot)];
        let (line, offset, size) = (entry.place.lines[0], entry.place.offset, entry.place.size);
        let inst = entry.inst;
        self.scratch.x[usize::from(inst.rs1 & 31)] = self.registers.value(entry.sources[0]);
        self.scratch.x[usize::from(inst.rs2 & 31)] = self.registers.value(entry.sources[1]);
        let Ok(Issued::Access(access)) = split::issue(&mut self.scratch, &inst, |_| 0) else {
            unreachable!("atomics access memory");
        };
        let mut raw = 0;
        let done = match access.kind {
            AccessKind::LoadReserved => {
                let words = outside.load(line);
                if let Some(words) = &words {
                    raw = read(words, offset, size);
                    self.reservation = Some(line);
                }
                words.is_some()
            }
            AccessKind::Amo(op) => outside.store(line, |words| {
                raw = read(words, offset, size);
                write(words, offset, size, op.apply(size, raw, access.data));
            }),
            _ if self.reservation != Some(line) => {
                raw = 1;
                self.stats.failed_conditionals += 1;
                self.reservation = None;
                true
            }
            _ => {
                let done = outside.store(line, |words| write(words, offset, size, access.data));
                if done {
                    self.reservation = None;
                }
                done
            }
        };
        let is_load = access.kind == AccessKind::LoadReserved;
        if !done && !std::mem::replace(&mut self.slots[usize::from(slot)].parts, 1).eq(&1) {
            self.stats.load_misses += u64::from(is_load);
            self.stats.store_misses += u64::from(!is_load);
        }
        done.then_some(raw)
    }
}
