//! Retirement, in order; and the stores that leave after it.

use rackmem_riscv::{Inst, Mark, Op};

use super::ops::Kind;
use super::outside::Outside;
use super::place::Place;
use super::store_buffer::Special;
use super::{Core, Retired, SLOTS, Stop};
use crate::block::BLOCK_BYTES;

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
                let place = entry.place;
                if !self.retire_store(&place, outside) {
                    return false;
                }
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
        if self.is_recorded {
            self.record(slot);
        }
        true
    }

    /// Records the instruction in a slot, which retires.
    #[cold]
    fn record(&mut self, slot: u8) {
        let entry = &self.slots[usize::from(slot)];
        if let Some(retired) = &mut self.retired {
            retired.push(Retired { pc: entry.pc, result: entry.result });
        }
        if let Some(pipeline) = &mut self.pipeline {
            let position = (entry.kind == Kind::Store).then(|| self.buffer.position(&entry.place));
            pipeline.retire(slot, position, self.now);
        }
        if let Some(tally) = &mut self.tally {
            tally.retire(self.masks.missing, self.now);
            if let Some(track) = &mut self.track {
                track.retire(entry, self.now);
            }
        }
    }

    /// The oldest instruction's store goes to the store buffer, if there is room.
    #[inline]
    fn retire_store(&mut self, place: &Place, outside: &mut impl Outside) -> bool {
        let line = place.lines[0];
        let is_special = line >= outside.special_from();
        if !self.buffer.has_room(place, is_special) {
            return false;
        }
        let is_waited_for = outside.is_waited_for(line);
        if is_waited_for && !self.store_and_wait(outside) {
            return false;
        }
        let store = self.stores.retire();
        match is_special {
            true => self.buffer.push_special(store, is_waited_for),
            false => self.buffer.push(store),
        }
        self.stats.stores += 1;
        self.sleep.disturb();
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
        if !self.buffer.is_empty() {
            return;
        }
        let entry = self.slots[usize::from(slot)];
        self.stopped = Some(self.traps[usize::from(slot)]);
        self.squash(self.head);
        self.predictor.restore(&entry.before);
        self.sleep.disturb();
    }

    /// The oldest retired stores leave, if there is a port and their line is there.
    #[inline]
    pub(super) fn drain(&mut self, outside: &mut impl Outside) {
        if self.ports_used >= self.spec.memory_ports {
            return self.buffer.pass_over();
        }
        self.buffer.has_port();
        if self.stores_wait {
            return self.ask_ahead(outside);
        }
        let Some(entry) = self.buffer.oldest() else { return };
        if let Some(special) = entry.special {
            let address = entry.line * BLOCK_BYTES + u64::from(special.offset);
            return self.drain_special(address, special, outside);
        }
        self.active = true;
        if !outside.store(entry.line, |words| entry.put(words)) {
            self.stats.store_misses += u64::from(entry.wait());
            self.stores_wait = true;
            return;
        }
        self.have_left();
    }

    fn have_left(&mut self) {
        self.ports_used += 1;
        self.sleep.disturb();
        let position = self.buffer.pop();
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.store(position, self.now);
        }
        self.unblock();
    }

    /// A store that the core waits for leaves before it retires; whether it has.
    fn store_and_wait(&mut self, outside: &mut impl Outside) -> bool {
        if !self.buffer.is_empty() || self.head_waits {
            return false;
        }
        let slot = (self.head % SLOTS) as usize;
        let store = self.stores.get_mut(self.slots[slot].store);
        let address = store.place.lines[0] * BLOCK_BYTES + u64::from(store.place.offset);
        let has_left = outside.special_store(address, store.place.size, store.data);
        self.head_waits = !has_left;
        has_left
    }

    /// The same for what is no ordinary memory.
    fn drain_special(&mut self, address: u64, store: Special, outside: &mut impl Outside) {
        self.active = true;
        if !store.has_left && !outside.special_store(address, store.size, store.data) {
            self.sleep.disturb();
            self.stores_wait = true;
            return;
        }
        self.have_left();
    }

    /// While the oldest stores wait, the lines of some behind them are asked for, one a cycle.
    fn ask_ahead(&mut self, outside: &mut impl Outside) {
        let Some(entry) = self.buffer.next_to_ask(self.spec.stores_ahead) else { return };
        if entry.special.is_some() {
            return;
        }
        self.active = true;
        self.ports_used += 1;
        if !outside.store(entry.line, |_| ()) {
            self.stats.store_misses += u64::from(entry.wait());
        }
    }
}

const _: () = assert!(BLOCK_BYTES == 64, "offsets in a line are bytes, and words are eight");

/// The stop at an instruction that does not execute.
pub(super) fn stop_of(inst: &Inst) -> Stop {
    match inst.op {
        Op::Ecall => Stop::Ecall,
        Op::Ebreak => Stop::Ebreak,
        Op::Mark => Mark::of(inst.imm).map_or(Stop::Illegal, Stop::Mark),
        _ => Stop::Illegal,
    }
}
