//! A core that executes a program, between its L1 and the cycles of the chip.

use rackmem_riscv::space::{Fault, Wanted};
use rackmem_riscv::{Hart, Inst};

use super::cache::PrivateCache;
use super::layout::Line;
use super::wires::{Event, Wires};
use crate::cpu::{Core, CpuSpec, Next, Port, Program, Stop, Translate, Words};
use crate::engine::Cycle;

/// A core that executes a program.
#[derive(Clone, Debug)]
pub struct Cpu {
    number: u16,
    core: Core,
    /// When it has had its latest cycle.
    ticked_at: Cycle,
    /// What came of this cycle, if it has come before the end of all messages.
    ticked: Option<Next>,
}

impl Cpu {
    /// Core `number`, which begins with these registers in the cycle after this one.
    pub fn new(number: u16, spec: &CpuSpec, hart: &Hart, wires: &mut Wires) -> Cpu {
        wires.tick_next(number);
        Cpu { number, core: Core::new(spec, hart, wires.now), ticked_at: 0, ticked: None }
    }

    /// Its registers; it has stopped.
    pub fn hart(&self) -> Hart {
        self.core.hart()
    }

    /// The timing of the core.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Goes on after a stop with these registers, at cycle `at` or in the next one.
    pub fn resume(&mut self, hart: &Hart, at: Cycle, wires: &mut Wires) {
        let before = at.max(wires.now + 1) - 1;
        self.core.resume(hart, before);
        self.tick_at(before + 1, wires);
    }

    /// Something has happened in the L1: accesses that waited may be tried again, if any, and some
    /// blocks have gone.
    ///
    /// What has come is used at once, before the next message: from the NI cache behind it, a block
    /// may be asked back in the very cycle in which it arrives, again and again.
    #[inline]
    pub fn told(&mut self, is_complete: bool, l1: &mut PrivateCache, wires: &mut Wires) {
        self.note_lost(l1, wires);
        if !is_complete || !self.core.complete() {
            return;
        }
        if self.ticked.is_some() {
            return wires.tick_next(self.number);
        }
        let now = wires.now;
        self.ticked = Some(self.core.tick(now, &mut View { l1, wires }));
        self.ticked_at = now;
        self.note_lost(l1, wires);
        wires.tick_now(self.number);
    }

    /// Somebody outside of the coherence domain, such as the operating system, has changed a block
    /// after this cycle's tick.
    pub fn changed(&mut self, line: Line, wires: &mut Wires) {
        if self.core.lost(line) {
            wires.tick_next(self.number);
        }
    }

    /// One cycle, after all messages of this cycle; whether it has stopped.
    #[inline]
    pub fn tick(&mut self, l1: &mut PrivateCache, wires: &mut Wires) -> Option<Stop> {
        let now = wires.now;
        let next = match self.ticked.take() {
            Some(next) => next,
            None => {
                let next = self.core.tick(now, &mut View { l1, wires });
                self.ticked_at = now;
                self.note_lost(l1, wires);
                next
            }
        };
        match next {
            Next::At(at) => self.tick_at(at, wires),
            Next::Told => {}
            Next::Stopped(stop) => return Some(stop),
        }
        None
    }

    /// Tells the core which blocks have gone, taken away or driven out.
    #[inline]
    fn note_lost(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        for line in l1.lost.drain(..) {
            if !self.core.lost(line) {
                continue;
            }
            match self.ticked_at == wires.now {
                true => wires.tick_next(self.number),
                false => wires.tick_now(self.number),
            }
        }
    }

    /// Wakes it, with its counts up to the end of this cycle: something is about to change that it
    /// could not be told of.
    pub fn settle(&mut self, l1: &mut PrivateCache, wires: &mut Wires) {
        if self.core.stopped().is_some() {
            return;
        }
        let now = wires.now;
        self.core.settle(now, &mut View { l1, wires });
        wires.tick_next(self.number);
    }

    /// Instructions have changed.
    pub fn forget_instructions(&mut self) {
        self.core.forget_instructions();
    }

    #[inline]
    fn tick_at(&self, at: Cycle, wires: &mut Wires) {
        if at <= wires.now + 1 {
            wires.tick_next(self.number);
        } else {
            wires.wheel.at(at, Event::Cpu(self.number));
        }
    }
}

/// What a core sees in a cycle.
struct View<'a> {
    l1: &'a mut PrivateCache,
    wires: &'a mut Wires,
}

impl Port for View<'_> {
    #[inline]
    fn load(&mut self, line: Line) -> Option<Words> {
        self.l1.load(line, self.wires)
    }

    #[inline]
    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        self.l1.store(line, self.wires, change)
    }
}

impl Translate for View<'_> {
    #[inline]
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        self.wires.mmu.translate(address, wanted)
    }
}

impl Program for View<'_> {
    #[inline]
    fn inst(&mut self, pc: u64) -> Result<Inst, Fault> {
        let Wires { mmu, image, .. } = &mut *self.wires;
        mmu.inst(pc, image.as_ref().expect("programs have memory"))
    }

    fn fence_i(&mut self) {
        self.wires.mmu.forget_instructions();
    }
}
