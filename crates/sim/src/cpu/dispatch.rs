//! Dispatch: from the front end into the reorder buffer, with renamed registers.

use super::front::Fetched;
use super::ops::Kind;
use super::slot::{Slot, Stage};
use super::{Core, SLOTS, Stall, Stop};

impl Core {
    /// Dispatches as many instructions as there are and fit.
    #[inline]
    pub(super) fn dispatch(&mut self) {
        self.stall = Stall::None;
        for number in 0..self.spec.dispatch_width {
            let stall = self.dispatch_one();
            if stall != Stall::None {
                self.stall = if number == 0 { stall } else { Stall::None };
                return;
            }
            self.active = true;
        }
    }

    #[inline(always)]
    pub(super) fn dispatch_one(&mut self) -> Stall {
        let Some(fetched) = self.front.peek(self.now) else { return Stall::Starved };
        let kind = self.ops[fetched.inst.op as usize].kind;
        if self.tail - self.head >= u64::from(self.spec.rob_entries) {
            return Stall::RobFull;
        }
        let is_full = match kind {
            Kind::Load => self.loads >= self.spec.load_queue,
            Kind::Store => self.stores.in_flight() >= self.spec.store_queue,
            _ => false,
        };
        if is_full {
            return Stall::QueueFull;
        }
        if self.alone || kind == Kind::Csr && self.head != self.tail {
            return Stall::Other;
        }
        let fetched = *fetched;
        self.front.pop();
        self.enter(&fetched, kind);
        Stall::None
    }

    #[inline(always)]
    fn enter(&mut self, fetched: &Fetched, kind: Kind) {
        let number = (self.tail % SLOTS) as u8;
        self.tail += 1;
        let info = &self.ops[fetched.inst.op as usize];
        let sources = info.sources(&fetched.inst).map(|register| self.registers.physical(register));
        let (dest, unit) = (info.dest(&fetched.inst), info.unit);
        // A store needs its data only when its place is known.
        let needed = if kind == Kind::Store { 1 } else { 3 };
        let mut waits = 0;
        for &source in &sources[..needed] {
            if !self.registers.is_ready(source) {
                waits += u8::from(self.registers.wait(source, number));
            }
        }
        let (name, old) = if dest == 0 { (0, 0) } else { self.registers.rename(dest, number) };
        self.slots[usize::from(number) % SLOTS as usize] = Slot {
            inst: fetched.inst,
            pc: fetched.pc,
            next: fetched.next,
            sources,
            dest,
            name,
            old,
            waits,
            kind,
            unit,
            store: self.stores.tail(),
            before: fetched.before,
            ..Slot::EMPTY
        };
        let bit = 1 << number;
        self.masks.live |= bit;
        self.masks.ready |= u64::from(waits == 0) << number;
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.dispatch(number, fetched, self.now);
        }
        self.classify(number, kind, bit, fetched.faults);
    }

    /// Notes the properties of some kinds of instructions.
    #[inline(always)]
    fn classify(&mut self, number: u8, kind: Kind, bit: u64, faults: bool) {
        match kind {
            Kind::Plain | Kind::Jump => {}
            Kind::Load => self.loads += 1,
            Kind::Store => self.stores.push(),
            Kind::Atomic => self.masks.barriers |= bit,
            Kind::Csr => self.alone = true,
            Kind::Fence | Kind::FenceI => {
                self.masks.ready &= !bit;
                self.slots[usize::from(number)].stage = Stage::Head;
                if self.holds_loads_back(number) {
                    self.masks.barriers |= bit;
                }
            }
            Kind::System => {
                self.masks.ready &= !bit;
                self.masks.done |= bit;
                let slot = &mut self.slots[usize::from(number)];
                slot.stage = Stage::Done;
                let stop = super::retire::stop_of(&slot.inst);
                let fault = self.front.fault().filter(|_| faults);
                self.trap_at(number, fault.map_or(stop, Stop::Fault));
            }
        }
    }
}
