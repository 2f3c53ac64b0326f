//! The functions that a thread is in, by the calls and returns that retire.
//!
//! A call is a jump that keeps its return address in `ra` or `t0`, a return one to the address in these, as in the
//! hints to return stacks (RISC-V unprivileged specification, table 3). A return ends the function that was called from
//! there, and all that it has called. One to another place is a `longjmp` or the unwinding of an exception: it ends the
//! functions that were called with the stack pointer where it is now, or below. If the function that it comes to is not
//! the next one then, it is on another stack, of a coroutine, and nothing is known of its callers. A jump into another
//! function puts that in the place of the one that jumps (a tail call).

use rackmem_riscv::{Hart, JumpHint, abi};

use super::super::ops::Kind;
use super::super::slot::Slot;
use super::{DEEPEST, Frame, Track, What};
use crate::engine::Cycle;

impl Frame {
    /// Whether the thread is in it at this address. Of handlers and calls, only their ends are known.
    fn holds(&self, pc: u64) -> bool {
        match self.what {
            What::Function(_) => self.code.contains(&pc),
            _ => true,
        }
    }
}

impl Track {
    /// An instruction retires.
    pub(in super::super) fn retire(&mut self, entry: &Slot, now: Cycle) {
        if usize::from(entry.dest) == abi::SP {
            self.sp = entry.result;
        }
        if entry.kind != Kind::Jump || self.is_over || self.symbols.is_empty() {
            return;
        }
        match entry.inst.jump_hint() {
            JumpHint::Call | JumpHint::ReturnAndCall => {
                self.enter(entry.target, entry.pc.wrapping_add(entry.inst.len.into()), now);
            }
            JumpHint::Return => self.leave(entry.target, now),
            JumpHint::None => self.jump(entry.target, now),
        }
    }

    /// The core goes on at `pc`, with this stack pointer, in cycle `now`. It may have been elsewhere without timing.
    pub fn go_on(&mut self, pc: u64, sp: u64, now: Cycle) {
        self.sp = sp;
        if self.symbols.is_empty() || self.frames.last().is_some_and(|top| top.holds(pc)) {
            return;
        }
        match self.frames.is_empty() {
            true => self.begin(pc, now),
            false => self.land(pc, now),
        }
    }

    /// From now on the core executes without timing: nothing is known of its functions.
    pub fn forget(&mut self, now: Cycle) {
        self.beyond = 0;
        self.cut(0, now);
    }

    /// A handler of a signal begins.
    pub(super) fn handle(&mut self, hart: &Hart, now: Cycle) {
        let frame = Frame { what: What::Handler, code: 0..0, back: 0, sp: self.sp, place: None };
        self.open(frame, now);
        self.sp = hart.x[abi::SP];
        if !self.symbols.is_empty() {
            self.enter(hart.pc, hart.x[abi::RA], now);
        }
    }

    /// The function at an address, called with this return address and stack pointer.
    fn function(&self, pc: u64, back: u64, sp: u64) -> Frame {
        let code = self.symbols.range(pc);
        let what = What::Function(code.as_ref().map(|code| code.start));
        Frame { what, code: code.unwrap_or_default(), back, sp, place: None }
    }

    /// A function that nothing is known of the callers of.
    fn begin(&mut self, pc: u64, now: Cycle) {
        self.open(self.function(pc, 0, u64::MAX), now);
    }

    fn enter(&mut self, pc: u64, back: u64, now: Cycle) {
        match self.frames.len() < DEEPEST {
            true => self.open(self.function(pc, back, self.sp), now),
            false => self.beyond += 1,
        }
    }

    fn leave(&mut self, target: u64, now: Cycle) {
        if self.beyond > 0 {
            if self.frames.last().is_some_and(|top| self.sp <= top.sp) {
                self.beyond -= 1;
                return;
            }
            self.beyond = 0;
        }
        let is_left =
            |frame: &Frame| matches!(frame.what, What::Function(_)) && frame.back == target;
        match self.frames.iter().rposition(is_left) {
            Some(at) => {
                self.cut(at, now);
                self.jump(target, now);
            }
            None => self.land(target, now),
        }
    }

    /// The thread jumps within a function, or to another one.
    fn jump(&mut self, target: u64, now: Cycle) {
        let Some(top) = self.frames.last() else { return self.begin(target, now) };
        if self.beyond > 0 || top.holds(target) {
            return;
        }
        let next = self.function(target, top.back, top.sp);
        if next.what != top.what {
            self.close(now);
            self.open(next, now);
        }
    }

    /// The thread has come to a place that nothing was called from.
    fn land(&mut self, target: u64, now: Cycle) {
        if self.symbols.range(target).is_some_and(|code| code.start == target) {
            return self.jump(target, now);
        }
        self.beyond = 0;
        let alive = self.frames.iter().rposition(|frame| frame.sp > self.sp);
        self.cut(alive.map_or(0, |at| at + 1), now);
        if !self.frames.last().is_some_and(|top| top.holds(target)) {
            self.cut(0, now);
            self.begin(target, now);
        }
    }
}
