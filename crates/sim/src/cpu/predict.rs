//! Branch prediction: gshare, a return stack, and a table of the targets of indirect jumps; and
//! which loads should not overtake stores.
//!
//! Histories are kept as predicted, and put right when a path turns out wrong. Tables learn when
//! instructions retire, so wrong paths teach them nothing.

use rackmem_riscv::{Inst, JumpHint, Op};

use super::spec::CpuSpec;
use crate::engine::Random;

/// Loads that are told apart by the table of those that wait; a power of two.
const WAITERS: u64 = 1024;

/// State to be restored after a wrong path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) history: u32,
    pub(super) depth: u32,
    pub(super) top: u64,
}

impl Checkpoint {
    /// All that matters of it: a return stack has at most 64 entries, a power of two.
    pub(super) fn visit(&self, put: &mut impl FnMut(u64)) {
        put(self.history.into());
        put(u64::from(self.depth) & 63);
        put(self.top);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Predictor {
    /// Otherwise nothing is known of where a branch goes.
    predicts: bool,
    history: u32,
    history_mask: u32,
    /// Position of the next entry of the return stack; it wraps.
    depth: u32,
    stack: Box<[u64]>,
    /// 0 to 3; taken from 2 on.
    counters: Box<[u8]>,
    indirect: Box<[(u64, u64)]>,
    waiters: Box<[bool]>,
    /// Number of changes of the tables.
    changes: u64,
}

impl Predictor {
    pub(super) fn new(spec: &CpuSpec) -> Predictor {
        Predictor {
            predicts: spec.predicts,
            history: 0,
            history_mask: (1 << spec.history_bits) - 1,
            depth: 0,
            stack: vec![0; spec.return_stack as usize].into(),
            counters: vec![1; 1 << spec.history_bits].into(),
            indirect: vec![(u64::MAX, 0); spec.indirect_targets as usize].into(),
            waiters: vec![false; WAITERS as usize].into(),
            changes: 0,
        }
    }

    /// Fills all tables with nonsense that a program may have left.
    pub(super) fn scramble(&mut self, seed: u64, targets: &[u64]) {
        let mut random = Random::new(seed, 0);
        let target = |random: &mut Random| match targets.len() {
            0 => 0,
            n => targets[random.below(n as u64) as usize],
        };
        self.counters.iter_mut().for_each(|counter| *counter = random.below(4) as u8);
        self.waiters.iter_mut().for_each(|waits| *waits = random.below(2) == 0);
        for entry in &mut self.indirect {
            *entry = (target(&mut random), target(&mut random));
        }
        self.stack.iter_mut().for_each(|entry| *entry = target(&mut random));
        self.history = random.bits() as u32 & self.history_mask;
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { history: self.history, depth: self.depth, top: self.stack[self.top()] }
    }

    pub(super) fn restore(&mut self, checkpoint: &Checkpoint) {
        self.history = checkpoint.history;
        self.depth = checkpoint.depth;
        let top = self.top();
        self.stack[top] = checkpoint.top;
    }

    /// Predicts the address of the instruction after a branch or jump, when it is fetched.
    #[inline]
    pub(super) fn predict(&mut self, pc: u64, inst: &Inst) -> u64 {
        let behind = pc.wrapping_add(inst.len.into());
        if !self.predicts {
            self.note(pc, inst, behind);
            return behind;
        }
        match inst.op {
            Op::Jal => {
                let target = pc.wrapping_add_signed(inst.imm.into());
                self.note(pc, inst, target);
                target
            }
            Op::Jalr => {
                let target = match inst.jump_hint() {
                    JumpHint::Return | JumpHint::ReturnAndCall => self.stack[self.top()],
                    _ => self.indirect_target(pc).unwrap_or(behind),
                };
                self.note(pc, inst, target);
                target
            }
            _ => {
                let taken = self.counters[self.counter(pc, self.history)] >= 2;
                let target = pc.wrapping_add_signed(inst.imm.into());
                let next = if taken { target } else { behind };
                self.note(pc, inst, next);
                next
            }
        }
    }

    /// A branch or jump goes to `next`: history and return stack follow.
    pub(super) fn note(&mut self, pc: u64, inst: &Inst, next: u64) {
        let behind = pc.wrapping_add(inst.len.into());
        match inst.op {
            Op::Jal | Op::Jalr => match inst.jump_hint() {
                JumpHint::None => {}
                JumpHint::Call => self.push(behind),
                JumpHint::Return => self.depth = self.depth.wrapping_sub(1),
                JumpHint::ReturnAndCall => {
                    self.depth = self.depth.wrapping_sub(1);
                    self.push(behind);
                }
            },
            _ => {
                let taken = u32::from(next != behind);
                self.history = (self.history << 1 | taken) & self.history_mask;
            }
        }
    }

    /// A branch or jump has retired.
    pub(super) fn learn(&mut self, pc: u64, inst: &Inst, next: u64, before: &Checkpoint) {
        match inst.op {
            Op::Jal => {}
            Op::Jalr => {
                let entry = self.indirect_entry(pc);
                if self.indirect[entry] != (pc, next) {
                    self.indirect[entry] = (pc, next);
                    self.changes += 1;
                }
            }
            _ => {
                let taken = next != pc.wrapping_add(inst.len.into());
                let index = self.counter(pc, before.history);
                let counter = &mut self.counters[index];
                let new = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
                self.changes += u64::from(new != *counter);
                *counter = new;
            }
        }
    }

    /// Whether the load at `pc` should wait until the addresses of all older stores are known.
    #[inline]
    pub(super) fn waits(&self, pc: u64) -> bool {
        self.waiters[waiter(pc)]
    }

    /// The load at `pc` has overtaken a store that it should not have.
    pub(super) fn should_wait(&mut self, pc: u64) {
        self.changes += u64::from(!self.waiters[waiter(pc)]);
        self.waiters[waiter(pc)] = true;
    }

    /// All that predictions depend on; tables by how often they have changed.
    pub(super) fn visit(&self, put: &mut impl FnMut(u64)) {
        put(self.changes);
        put(self.history.into());
        put(u64::from(self.depth) & 63);
        self.stack.iter().for_each(|&entry| put(entry));
    }

    #[inline]
    fn top(&self) -> usize {
        self.depth.wrapping_sub(1) as usize % self.stack.len()
    }

    fn push(&mut self, target: u64) {
        self.depth = self.depth.wrapping_add(1);
        let top = self.top();
        self.stack[top] = target;
    }

    #[inline]
    fn counter(&self, pc: u64, history: u32) -> usize {
        ((pc >> 1) ^ u64::from(history)) as usize & (self.counters.len() - 1)
    }

    fn indirect_entry(&self, pc: u64) -> usize {
        (pc >> 1) as usize & (self.indirect.len() - 1)
    }

    fn indirect_target(&self, pc: u64) -> Option<u64> {
        let (of, target) = self.indirect[self.indirect_entry(pc)];
        (of == pc).then_some(target)
    }
}

fn waiter(pc: u64) -> usize {
    (pc >> 1) as usize & (WAITERS as usize - 1)
}
