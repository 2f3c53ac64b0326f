//! Loads, and what stores have to do with them before they leave.

use rackmem_riscv::Class;
use rackmem_riscv::exec::split::register_value;
use rackmem_riscv::space::{Cause, Fault, Wanted};

use super::ops::Kind;
use super::outside::Outside;
use super::place::{Place, read, truncated};
use super::slot::Stage;
use super::store_queue::{Found, is_older};
use super::{Core, Stop};
use crate::block::{BLOCK_BYTES, Line};

/// Whether a load may have an effect, or somebody else answers it.
#[inline(always)]
fn must_be_oldest(place: &Place, outside: &impl Outside) -> bool {
    place.lines[0] >= outside.special_from() && !outside.is_plain(place.lines[0])
}

/// Whether an access is none that special lines take: an atomic, or one of two lines.
fn is_refused(kind: Kind, place: &Place) -> bool {
    kind == Kind::Atomic || place.crosses()
}

impl Core {
    /// The address of a load, a store or an atomic is known.
    #[inline]
    pub(super) fn address_done(&mut self, slot: u8, outside: &mut impl Outside) {
        let entry = &self.slots[usize::from(slot)];
        let kind = entry.kind;
        match self.locate(slot, outside) {
            Err(fault) => {
                self.trap_at(slot, Stop::Fault(fault));
                self.slots[usize::from(slot)].stage = Stage::Done;
                self.masks.done |= 1 << slot;
            }
            Ok(place) => {
                self.slots[usize::from(slot)].place = place;
                match kind {
                    Kind::Load if must_be_oldest(&place, outside) => {
                        self.slots[usize::from(slot)].stage = Stage::Head;
                    }
                    Kind::Load => self.access(slot, false, outside),
                    Kind::Store => self.store_placed(slot),
                    _ => self.slots[usize::from(slot)].stage = Stage::Head,
                }
            }
        }
    }

    /// Translates the address of an access.
    #[inline(always)]
    fn locate(&mut self, slot: u8, outside: &mut impl Outside) -> Result<Place, Fault> {
        let entry = &self.slots[usize::from(slot)];
        let size = self.ops[entry.inst.op as usize].size;
        let base = self.registers.value(entry.sources[0]);
        let reads = matches!(entry.inst.class(), Class::Load | Class::LoadReserved);
        let wanted = if reads { Wanted::Read } else { Wanted::Write };
        let address = match entry.kind {
            Kind::Atomic => base,
            _ => base.wrapping_add_signed(entry.inst.imm.into()),
        };
        if entry.kind == Kind::Atomic && address % u64::from(size) != 0 {
            return Err(Fault { address, wanted, cause: Cause::Misaligned });
        }
        let physical = outside.translate(address, wanted)?;
        let mut place = Place {
            lines: [physical / BLOCK_BYTES; 2],
            offset: (physical % BLOCK_BYTES) as u8,
            size,
        };
        if place.lines[0] >= outside.special_from() && is_refused(entry.kind, &place) {
            return Err(Fault { address, wanted, cause: Cause::NotMemory });
        }
        if place.crosses() {
            let second = address.wrapping_add(place.first_bytes().into());
            place.lines[1] = outside.translate(second, wanted)? / BLOCK_BYTES;
        }
        Ok(place)
    }

    /// A load begins its access; `again` after it had to wait for a line.
    #[inline]
    fn access(&mut self, slot: u8, again: bool, outside: &mut impl Outside) {
        self.ports_used += 1;
        let entry = &mut self.slots[usize::from(slot)];
        if entry.parts == 0 && !(self.stores.is_empty() && self.buffer.is_empty()) {
            let waits = self.predictor.waits(entry.pc);
            let found = self.stores.find(&entry.place, entry.store, waits, &self.buffer);
            match found {
                Found::Nothing => {}
                Found::Wait => return self.block(slot),
                // There, a load need not read the stored value.
                Found::All(..) if entry.place.lines[0] >= outside.special_from() => {
                    return self.block(slot);
                }
                Found::All(raw, position) => {
                    entry.result = register_value(&entry.inst, raw);
                    entry.source_store = Some(position);
                    self.masks.bound |= 1 << slot;
                    let cycles = self.spec.forward_cycles.into();
                    return self.schedule(slot, Stage::Reading, cycles);
                }
            }
        }
        self.read(slot, again, outside);
    }

    /// A load reads the L1, or waits for its line.
    #[inline]
    fn read(&mut self, slot: u8, again: bool, outside: &mut impl Outside) {
        let place = self.slots[usize::from(slot)].place;
        let last = usize::from(place.crosses());
        let mut part = usize::from(self.slots[usize::from(slot)].parts);
        while part <= last {
            let Some(words) = outside.load(place.lines[part]) else {
                return self.miss(slot, again);
            };
            self.sleep.record(place.lines[part], &words);
            let first = place.first_bytes();
            let entry = &mut self.slots[usize::from(slot)];
            match part {
                0 => entry.result = read(&words, place.offset, first),
                _ => entry.result |= read(&words, 0, place.size - first) << (8 * first),
            }
            part += 1;
            entry.parts = part as u8;
            self.masks.bound |= 1 << slot;
            if self.masks.stale != 0 {
                self.keep_order(slot);
            }
        }
        let entry = &mut self.slots[usize::from(slot)];
        entry.result = register_value(&entry.inst, entry.result);
        self.masks.filled |= u64::from(again) << slot;
        let cycles = if again { self.spec.refill_cycles } else { self.spec.l1_cycles };
        self.schedule(slot, Stage::Reading, cycles.into());
    }

    fn miss(&mut self, slot: u8, again: bool) {
        self.stats.load_misses += u64::from(!again);
        self.slots[usize::from(slot)].stage = Stage::Missing;
        self.masks.missing |= 1 << slot;
        if let Some(tally) = &mut self.tally {
            tally.miss(self.masks.missing, self.now);
        }
        self.sleep.disturb();
    }

    /// The value of a load is there, unless its line has gone in the meantime: then it is not the
    /// value of this cycle.
    #[inline(always)]
    pub(super) fn reading_done(&mut self, slot: u8, outside: &mut impl Outside) {
        let bit = 1 << slot;
        let entry = &mut self.slots[usize::from(slot)];
        let is_old = self.masks.stale & !self.masks.filled & bit != 0;
        if !is_old || entry.source_store.is_some() {
            return self.finish(slot);
        }
        entry.parts = 0;
        self.masks.bound &= !bit;
        self.masks.stale &= !bit;
        self.stats.replays += 1;
        self.access(slot, false, outside);
    }

    /// Something has arrived: all that waited tries again.
    #[inline(always)]
    pub(super) fn retry(&mut self, outside: &mut impl Outside) {
        if !std::mem::take(&mut self.told) {
            return;
        }
        self.active = true;
        self.head_waits = false;
        self.stores_wait = false;
        self.front.complete();
        if self.buffer.is_starved() {
            self.drain(outside);
        }
        let mut missing = std::mem::take(&mut self.masks.missing);
        while missing != 0 {
            let slot = self.oldest(missing);
            missing &= !(1 << slot);
            self.access(slot, true, outside);
            missing &= self.masks.live;
        }
        // Arriving data have a way of their own into the registers.
        self.ports_used = 0;
    }

    /// A line has gone: what was read from it may be old.
    pub(super) fn mark_stale(&mut self, line: Line) {
        let mut bound = self.masks.bound;
        while bound != 0 {
            let slot = bound.trailing_zeros();
            bound &= bound - 1;
            let is_there = self.slots[slot as usize].place.touches(line);
            self.masks.stale |= u64::from(is_there) << slot;
        }
    }

    /// A load has read after a younger one of the same place, and in between the line had gone: the
    /// younger one is executed again.
    fn keep_order(&mut self, slot: u8) {
        let place = self.slots[usize::from(slot)].place;
        let younger = self.masks.live & !self.older(slot) & !(1 << slot);
        let mut stale = self.masks.stale & younger;
        while stale != 0 {
            let other = self.oldest(stale);
            stale &= !(1 << other);
            if self.slots[usize::from(other)].place.overlaps(&place) {
                self.stats.load_flushes += 1;
                return self.repeat(other);
            }
        }
    }

    /// A load waits for a store or a fence.
    pub(super) fn block(&mut self, slot: u8) {
        self.slots[usize::from(slot)].stage = Stage::Blocked;
        self.masks.blocked |= 1 << slot;
    }

    /// Some store or fence has got on: the loads that wait for any of them try again.
    #[inline(always)]
    pub(super) fn unblock(&mut self) {
        self.masks.ready |= std::mem::take(&mut self.masks.blocked);
    }

    /// A store knows where it goes.
    fn store_placed(&mut self, slot: u8) {
        let entry = &self.slots[usize::from(slot)];
        let (place, position, data) = (entry.place, entry.store, entry.sources[1]);
        let store = self.stores.get_mut(position);
        store.place = place;
        store.has_place = true;
        self.undo_early_loads(slot);
        self.unblock();
        if self.registers.is_ready(data) {
            self.finish(slot);
            return;
        }
        let entry = &mut self.slots[usize::from(slot)];
        entry.stage = Stage::Data;
        entry.waits = 1;
        self.registers.wait(data, slot);
    }

    /// A store has its data.
    pub(super) fn take_data(&mut self, slot: u8) {
        let entry = &self.slots[usize::from(slot)];
        let value = self.registers.value(entry.sources[1]);
        let store = self.stores.get_mut(entry.store);
        store.data = truncated(value, entry.place.size);
        store.has_data = true;
        self.unblock();
    }

    /// Loads that should have seen this store, and have read already, are executed again.
    #[inline(always)]
    fn undo_early_loads(&mut self, slot: u8) {
        let younger = !self.older(slot);
        let mut loads = self.masks.bound & younger;
        let entry = &self.slots[usize::from(slot)];
        while loads != 0 {
            let load = self.oldest(loads);
            loads &= !(1 << load);
            let other = &self.slots[usize::from(load)];
            let came_before = other.source_store.is_none_or(|from| is_older(from, entry.store));
            if came_before && other.place.overlaps(&entry.place) {
                self.predictor.should_wait(other.pc);
                self.stats.store_flushes += 1;
                return self.repeat(load);
            }
        }
    }
}
