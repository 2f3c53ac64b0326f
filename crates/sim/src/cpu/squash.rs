//! The end of wrong paths: instructions are taken back, the youngest first.

use super::ops::Kind;
use super::{Core, SLOTS};
use crate::engine::Cycle;

impl Core {
    /// Takes the instruction with this number back, and all younger ones. The caller redirects the
    /// front end.
    pub(super) fn squash(&mut self, first: u64) {
        let mut slots = 0u64;
        while self.tail > first {
            self.tail -= 1;
            let number = (self.tail % SLOTS) as u8;
            slots |= 1 << number;
            if let Some(pipeline) = &mut self.pipeline {
                pipeline.squash(number, self.now);
            }
            let slot = self.slots[usize::from(number)];
            if slot.dest != 0 {
                self.registers.undo(slot.dest, slot.name, slot.old);
            }
            match slot.kind {
                Kind::Load => self.loads -= 1,
                Kind::Store => self.stores.truncate(slot.store),
                _ => {}
            }
        }
        if slots == 0 {
            return;
        }
        self.stats.squashed += u64::from(slots.count_ones());
        self.masks.remove(slots);
        self.due.remove(slots);
        self.registers.forget(slots);
        if self.head == self.tail {
            self.alone = false;
            self.head_waits = false;
        }
    }

    /// Fetches from elsewhere from cycle `at` on.
    pub(super) fn redirect(&mut self, pc: u64, at: Cycle) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.redirect(&self.front, self.now);
        }
        self.front.redirect(pc, at);
    }

    /// Executes the instruction in a slot again, and all younger ones.
    pub(super) fn repeat(&mut self, slot: u8) {
        let entry = self.slots[usize::from(slot)];
        self.squash(self.head + self.age(slot));
        self.predictor.restore(&entry.before);
        self.redirect(entry.pc, self.now);
    }
}
