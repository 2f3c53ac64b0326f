//! Completion: results reach the instructions that wait for them, branches are resolved.

use super::ops::Kind;
use super::outside::Outside;
use super::slot::Stage;
use super::{Core, SLOTS};

impl Core {
    /// Handles the events of this cycle, the oldest instruction first.
    #[inline]
    pub(super) fn events(&mut self, outside: &mut impl Outside) {
        let mut slots = self.due.take(self.now);
        while slots != 0 {
            let slot = self.oldest(slots);
            slots &= !(1 << slot);
            self.active = true;
            match self.slots[usize::from(slot)].stage {
                Stage::Executing => self.finish(slot),
                Stage::Address => self.address_done(slot, outside),
                Stage::Reading => self.reading_done(slot, outside),
                stage => unreachable!("nothing is due for an instruction that is {stage:?}"),
            }
            // Some may have turned out to be on a wrong path.
            slots &= self.masks.live;
        }
    }

    /// An instruction has its result.
    #[inline(always)]
    pub(super) fn finish(&mut self, slot: u8) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.stage = Stage::Done;
        self.masks.done |= 1 << slot;
        let kind = entry.kind;
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.complete(slot, self.now);
        }
        if entry.dest != 0 && self.masks.trapped >> slot & 1 == 0 {
            let woken = self.registers.write(entry.name, entry.result);
            self.wake_slots(woken);
        }
        match kind {
            Kind::Jump => self.resolve(slot),
            Kind::Store => self.take_data(slot),
            _ => {}
        }
    }

    #[inline(always)]
    fn wake_slots(&mut self, mut woken: u64) {
        while woken != 0 {
            let slot = woken.trailing_zeros();
            woken &= woken - 1;
            let entry = &mut self.slots[slot as usize % SLOTS as usize];
            entry.waits -= 1;
            self.masks.ready |= u64::from(entry.waits == 0) << slot;
        }
    }

    /// A branch or jump is known to go where it goes.
    #[inline(always)]
    fn resolve(&mut self, slot: u8) {
        let entry = &self.slots[usize::from(slot)];
        if entry.target != entry.next {
            self.mispredicted(slot);
        }
    }

    #[inline(never)]
    fn mispredicted(&mut self, slot: u8) {
        let entry = self.slots[usize::from(slot)];
        self.squash(self.head + self.age(slot) + 1);
        self.predictor.restore(&entry.before);
        self.predictor.note(entry.pc, &entry.inst, entry.target);
        self.redirect(entry.target, self.now);
    }
}
