//! Retirement, in order; and the stores that leave after it.

use rackmem_riscv::{Inst, Op};

use super::ops::Kind;
use super::outside::Outside;
use super::place::write;
use super::{Core, LINE_BYTES, Retired, SLOTS, Stop};

impl Core {
    /// Retires what is done, and does what waited to be the oldest.
    #[inline]
    pub(super) fn retire(&mut self, outside: &mut impl Outside) {
        let mut retired = 0u64;
        for _ in 0..self.spec.retire_width {
            let slot = (self.head % SLOTS) as u8;
            if self.masks.done >> slot & 1 == 0 {
                let waits = self.head != self.tail && self.waits_to_be_oldest(slot);
                if !waits || !self.at_head(slot, outside) {
                    break;
                }
            }
            if !self.retire_one(slot, outside) {
                break;
            }
            retired |= 1 << slot;
            self.head += 1;
        }
        if retired != 0 {
            self.active = true;
            self.masks.remove(retired);
        }
    }

    /// Retires the oldest instruction, unless it has to wait for the store buffer.
    #[inline(always)]
    fn retire_one(&mut self, slot: u8, outside: &mut impl Outside) -> bool {
        if self.masks.trapped >> slot & 1 != 0 {
            self.trap(slot);
            return false;
        }
        let entry = &self.slots[usize::from(slot)];
        match entry.kind {
            Kind::Plain => {}
            Kind::Load => {
                self.loads -= 1;
                self.stats.loads += 1;
                self.stats.forwarded += u64::from(entry.source_store.is_some());
            }
            Kind::Jump => self.retire_jump(slot),
            Kind::Store => {
                if self.stores.retired() >= self.spec.store_buffer {
                    return false;
                }
                if outside.is_waited_for(entry.place.lines[0]) && !self.store_and_wait(outside) {
                    return false;
                }
                self.stores.retire();
                self.stats.stores += 1;
                self.sleep.disturb();
            }
            _ => self.retire_rare(slot),
        }
        let entry = &self.slots[usize::from(slot)];
        if entry.dest != 0 {
            self.registers.release(entry.old);
        }
        self.fflags |= entry.flags;
        self.stats.retired += 1;
        self.sleep.note(entry.pc, entry.result);
        if let Some(retired) = &mut self.retired {
            retired.push(Retired { pc: entry.pc, result: entry.result });
        }
        true
    }

    #[inline(always)]
    fn retire_jump(&mut self, slot: u8) {
        let entry = &self.slots[usize::from(slot)];
        self.stats.branches += 1;
        self.stats.mispredictions += u64::from(entry.target != entry.next);
        self.predictor.learn(entry.pc, &entry.inst, entry.target, &entry.before);
        if entry.target <= entry.pc {
            self.sleep.looped();
        }
    }

    fn retire_rare(&mut self, slot: u8) {
        match self.slots[usize::from(slot)].kind {
            Kind::Csr => self.alone = false,
            Kind::Atomic => self.stats.atomics += 1,
            _ => {}
        }
        self.masks.barriers &= !(1 << slot);
        self.unblock();
    }

    /// The instruction in a slot traps when it is the oldest.
    #[cold]
    pub(super) fn trap_at(&mut self, slot: u8, stop: Stop) {
        self.traps[usize::from(slot)] = stop;
        self.masks.trapped |= 1 << slot;
    }

    /// The oldest instruction traps, when all stores before it have left. Its slot keeps the `pc`.
    fn trap(&mut self, slot: u8) {
        if self.stores.retired() != 0 {
            return;
        }
        let entry = self.slots[usize::from(slot)];
        self.stopped = Some(self.traps[usize::from(slot)]);
        self.squash(self.head);
        self.predictor.restore(&entry.before);
        self.sleep.disturb();
    }

    /// The oldest retired store leaves, if there is a port and the line is there.
    #[inline]
    pub(super) fn drain(&mut self, outside: &mut impl Outside) {
        if self.ports_used >= self.spec.memory_ports {
            return;
        }
        if self.stores_wait {
            return self.ask_ahead(outside);
        }
        let Some(store) = self.stores.oldest() else { return };
        let place = store.place;
        if place.lines[0] >= outside.special_from() {
            return self.drain_special(outside);
        }
        let first = place.first_bytes();
        let (line, offset, size, data) = match store.half_done {
            false => (place.lines[0], place.offset, first, store.data),
            true => (place.lines[1], 0, place.size - first, store.data >> (8 * first)),
        };
        if !outside.store(line, |words| write(words, offset, size, data)) {
            self.stats.store_misses += u64::from(!store.missed);
            store.missed = true;
            self.stores_wait = true;
            self.active = true;
            return;
        }
        self.active = true;
        self.ports_used += 1;
        self.sleep.disturb();
        if place.crosses() && !store.half_done {
            store.half_done = true;
            return;
        }
        self.stores.pop();
        self.unblock();
    }

    /// A store that the core waits for leaves before it retires; whether it has.
    fn store_and_wait(&mut self, outside: &mut impl Outside) -> bool {
        if self.stores.retired() != 0 || self.head_waits {
            return false;
        }
        let slot = (self.head % SLOTS) as usize;
        let store = self.stores.get_mut(self.slots[slot].store);
        let address = store.place.lines[0] * LINE_BYTES + u64::from(store.place.offset);
        store.half_done = outside.special_store(address, store.place.size, store.data);
        self.head_waits = !store.half_done;
        store.half_done
    }

    /// The same for what is no ordinary memory.
    fn drain_special(&mut self, outside: &mut impl Outside) {
        let Some(store) = self.stores.oldest() else { return };
        let (place, data, has_left) = (store.place, store.data, store.half_done);
        let address = place.lines[0] * LINE_BYTES + u64::from(place.offset);
        self.active = true;
        self.sleep.disturb();
        if !has_left && !outside.special_store(address, place.size, data) {
            self.stores_wait = true;
            return;
        }
        self.ports_used += 1;
        self.stores.pop();
        self.unblock();
    }

    /// While the oldest store waits, the lines of some behind it are asked for, one a cycle.
    fn ask_ahead(&mut self, outside: &mut impl Outside) {
        let Some(store) = self.stores.next_to_ask(self.spec.stores_ahead) else { return };
        if store.place.lines[0] >= outside.special_from() {
            return;
        }
        self.active = true;
        self.ports_used += 1;
        if !outside.store(store.place.lines[0], |_| ()) {
            self.stats.store_misses += u64::from(!store.missed);
            store.missed = true;
        }
    }
}

const _: () = assert!(LINE_BYTES == 64, "offsets in a line are bytes, and words are eight");

/// The stop at an instruction that does not execute.
pub(super) fn stop_of(inst: &Inst) -> Stop {
    match inst.op {
        Op::Ecall => Stop::Ecall,
        Op::Ebreak => Stop::Ebreak,
        _ => Stop::Illegal,
    }
}
