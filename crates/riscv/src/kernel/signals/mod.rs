//! Signals: handlers, masks, and what is on its way to a thread.
//!
//! A handler runs when its thread comes out of a system call or wakes from one, and in a driver that looks between
//! instructions ([`Kernel::interrupt`](super::Kernel::interrupt)) then, too. Handlers of faults run at once.

mod frame;
mod numbers;
mod queue;

pub use numbers::signal_name;
pub(super) use queue::{Info, Source};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::numbers::{SIGKILL, SIGSEGV, SIGSTOP, is_harmless};
use self::queue::Queue;
use super::saved::{Checked, require};
use super::{Context, Errno, Result, UserMemory, number};
use crate::hart::{Hart, abi};
use crate::space::{PAGE, Permissions};

pub(super) use numbers::SIGPIPE;

/// The number of the last signal.
const LAST: u64 = 64;

/// What a program has asked to happen at a signal.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Action {
    handler: u64,
    flags: u64,
    mask: u64,
}

const DEFAULT: u64 = 0;
const IGNORE: u64 = 1;

impl Action {
    const ON_STACK: u64 = 0x0800_0000;
    const RESTART: u64 = 0x1000_0000;
    const NO_DEFER: u64 = 0x4000_0000;
    const RESET: u64 = 0x8000_0000;

    const fn is_on_stack(&self) -> bool {
        self.flags & Self::ON_STACK != 0
    }
}

/// The stack that a thread has set aside for handlers; none if its size is 0.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct AltStack {
    start: u64,
    size: u64,
}

impl AltStack {
    const ON_IT: u64 = 1;
    const DISABLED: u64 = 2;

    const fn holds(&self, sp: u64) -> bool {
        self.size > 0 && sp.wrapping_sub(self.start) <= self.size
    }

    const fn flags(&self, sp: u64) -> u64 {
        match self.size {
            0 => Self::DISABLED,
            _ if self.holds(sp) => Self::ON_IT,
            _ => 0,
        }
    }
}

/// Signals of a thread.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Thread {
    mask: u64,
    /// The mask that returns after a call with a mask of its own.
    before: Option<u64>,
    pending: Queue,
    /// The signals for which it waits in `rt_sigtimedwait`; 0 if it does not.
    awaited: u64,
    stack: AltStack,
}

/// What becomes of a signal that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Ignored,
    /// It ends the program; the thread on this hart would have had it.
    Kills(usize),
    /// The thread on this hart handles it, or takes it in the call in which it waits for signals.
    Waits(usize),
    /// All threads to which it may go block it: one that does not any more handles it.
    Pends,
}

/// The threads to which a signal may go.
#[derive(Clone, Copy, Debug)]
pub(super) enum To<'a> {
    /// The one on this hart.
    Thread(usize),
    /// Any one of those on these harts, and the first one that does not block it.
    Process(&'a [usize]),
}

/// Signals of a process.
#[derive(Serialize, Deserialize)]
pub(super) struct Signals {
    /// By signal; the first one is none.
    actions: Vec<Action>,
    /// By hart.
    threads: Vec<Thread>,
    /// Signals to the process that all threads block.
    pending: Queue,
    /// By timer that has sent a signal: how often it was due again before a handler had the last one.
    overruns: BTreeMap<u32, u32>,
    /// The code to which handlers return.
    trampoline: Option<u64>,
}

/// The place of a signal in a mask.
const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// Signals that no mask holds back.
const UNBLOCKABLE: u64 = bit(SIGKILL) | bit(SIGSTOP);

/// The first signal of a mask.
fn lowest(mask: u64) -> Option<u64> {
    (mask != 0).then(|| u64::from(mask.trailing_zeros()) + 1)
}

impl Signals {
    pub(super) fn new() -> Signals {
        Signals {
            actions: vec![Action::default(); LAST as usize + 1],
            threads: Vec::new(),
            pending: Queue::default(),
            overruns: BTreeMap::new(),
            trampoline: None,
        }
    }

    /// Checks what was read, of a process with so many threads at most.
    pub(super) fn check(&self, most_threads: usize) -> Checked {
        let Signals { actions, threads, pending, trampoline, overruns: _ } = self;
        require(actions.len() == LAST as usize + 1, || {
            format!("signals.actions: has {} entries, must be {}", actions.len(), LAST + 1)
        })?;
        require(threads.len() <= most_threads, || {
            format!(
                "signals.threads: has {} entries, must be {most_threads} at most",
                threads.len()
            )
        })?;
        pending.check().map_err(|wrong| format!("signals.pending.{wrong}"))?;
        for (hart, thread) in threads.iter().enumerate() {
            let checked = thread.pending.check();
            checked.map_err(|wrong| format!("signals.threads[{hart}].pending.{wrong}"))?;
        }
        let expected = super::memory::TRAMPOLINE;
        require(trampoline.is_none_or(|at| at == expected), || {
            format!("signals.trampoline: must be {expected}, or null")
        })
    }

    fn thread(&mut self, hart: usize) -> &mut Thread {
        if hart >= self.threads.len() {
            self.threads.resize_with(hart + 1, Thread::default);
        }
        &mut self.threads[hart]
    }

    /// A thread begins with the mask of the one that has made it.
    pub(super) fn start(&mut self, hart: usize, parent: usize) {
        let mask = self.thread(parent).mask;
        *self.thread(hart) = Thread { mask, ..Thread::default() };
    }

    /// Whether a handler of this thread has to run.
    pub(super) fn is_due(&self, hart: usize) -> bool {
        self.next_due(hart).is_some()
    }

    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::RT_SIGACTION => self.action(context, (a0, a1, a2, a3)),
            number::RT_SIGPROCMASK => self.change_mask(context, (a0, a1, a2, a3)),
            number::RT_SIGPENDING if a1 > 8 => Err(Errno::INVAL),
            number::RT_SIGPENDING => {
                let pending = self.thread(context.hart).pending.mask() | self.pending.mask();
                context.write_words(a0, &[pending]).map(|()| 0)
            }
            number::RT_SIGTIMEDWAIT => self.wait_for(context, (a0, a1, a2, a3)),
            number::RT_SIGSUSPEND => Err(context.block(None)),
            number::SIGALTSTACK => self.alternate(context, a0, a1),
            _ => return None,
        })
    }

    fn action(
        &mut self,
        context: &mut Context<'_>,
        (signal, new, old, size): (u64, u64, u64, u64),
    ) -> Result {
        let is_fixed = signal == SIGKILL || signal == SIGSTOP;
        if signal == 0 || signal > LAST || size != 8 || (new != 0 && is_fixed) {
            return Err(Errno::INVAL);
        }
        let Action { handler, flags, mask } = self.actions[signal as usize];
        let asked = match new {
            0 => None,
            _ => {
                let mut words = [0; 3];
                for (at, word) in (0..).zip(&mut words) {
                    *word = context.read_u64(new.wrapping_add(8 * at))?;
                }
                let [handler, flags, mask] = words;
                Some(Action { handler, flags, mask: mask & !UNBLOCKABLE })
            }
        };
        if let Some(action) = asked {
            self.actions[signal as usize] = action;
            if action.handler == IGNORE {
                let threads = self.threads.iter_mut().map(|thread| &mut thread.pending);
                threads.chain([&mut self.pending]).for_each(|pending| pending.forget(signal));
            }
        }
        // As on Linux a bad address is no reason to keep the old action.
        if old != 0 {
            context.write_words(old, &[handler, flags, mask])?;
        }
        Ok(0)
    }

    fn change_mask(
        &mut self,
        context: &mut Context<'_>,
        (how, new, old, size): (u64, u64, u64, u64),
    ) -> Result {
        if size != 8 {
            return Err(Errno::INVAL);
        }
        let change = if new == 0 { None } else { Some(context.read_u64(new)?) };
        let before = self.thread(context.hart).mask;
        let after = match (change, how) {
            (None, _) => before,
            (Some(mask), 0) => before | mask,
            (Some(mask), 1) => before & !mask,
            (Some(mask), 2) => mask,
            _ => return Err(Errno::INVAL),
        };
        self.set_mask(context.hart, after);
        if old != 0 {
            context.write_words(old, &[before])?;
        }
        Ok(0)
    }

    fn set_mask(&mut self, hart: usize, mask: u64) {
        self.thread(hart).mask = mask & !UNBLOCKABLE;
    }

    /// `sigaltstack`.
    fn alternate(&mut self, context: &mut Context<'_>, new: u64, old: u64) -> Result {
        const SMALLEST: u64 = 2048;
        const AUTO_DISARM: u32 = 1 << 31;
        let sp = context.state.x[abi::SP];
        let before = self.thread(context.hart).stack;
        let asked = match new {
            0 => None,
            _ => Some((
                context.read_u64(new)?,
                context.read_u32(new.wrapping_add(8))?,
                context.read_u64(new.wrapping_add(16))?,
            )),
        };
        if let Some((start, flags, size)) = asked {
            if before.holds(sp) {
                return Err(Errno::PERM);
            }
            let is_disabled = match u64::from(flags & !AUTO_DISARM) {
                AltStack::DISABLED => true,
                0 | AltStack::ON_IT => false,
                _ => return Err(Errno::INVAL),
            };
            if !is_disabled && size < SMALLEST {
                return Err(Errno::NOMEM);
            }
            let stack = if is_disabled { AltStack::default() } else { AltStack { start, size } };
            self.thread(context.hart).stack = stack;
        }
        if old != 0 {
            context.write_words(old, &[before.start, before.flags(sp), before.size])?;
        }
        Ok(0)
    }

    /// The hart of the thread that is to have a signal, and whether it takes it at once.
    fn receiver(&mut self, to: To<'_>, signal: u64) -> (usize, bool) {
        let one;
        let harts = match to {
            To::Thread(hart) => {
                one = [hart];
                &one[..]
            }
            To::Process(harts) => harts,
        };
        let awaits = |hart: &usize| self.awaits(*hart, signal);
        if let Some(&hart) = harts.iter().find(|hart| awaits(hart)) {
            return (hart, true);
        }
        let takes =
            |hart: usize| self.threads.get(hart).is_none_or(|one| one.mask & bit(signal) == 0);
        match harts.iter().find(|&&hart| takes(hart)) {
            Some(&hart) => (hart, true),
            None => (harts.first().copied().unwrap_or(0), false),
        }
    }

    /// Whether a thread waits for this signal in a call.
    pub(super) fn awaits(&self, hart: usize, signal: u64) -> bool {
        self.threads.get(hart).is_some_and(|thread| thread.awaited & bit(signal) != 0)
    }

    /// Sends a signal.
    pub(super) fn send(&mut self, to: To<'_>, info: Info) -> Sent {
        let signal = info.signal;
        let (hart, takes) = self.receiver(to, signal);
        // As in Linux, one that is blocked waits even if it is ignored.
        if takes && !self.awaits(hart, signal) {
            match self.actions[signal as usize].handler {
                IGNORE => return Sent::Ignored,
                DEFAULT if is_harmless(signal) => return Sent::Ignored,
                DEFAULT => return Sent::Kills(hart),
                _ => {}
            }
        }
        if matches!(to, To::Process(_)) && !takes {
            self.pending.push(info);
            return Sent::Pends;
        }
        self.thread(hart).pending.push(info);
        Sent::Waits(hart)
    }

    /// `rt_sigtimedwait`: takes a signal of a set, or waits for one.
    fn wait_for(
        &mut self,
        context: &mut Context<'_>,
        (set, to, timeout, size): (u64, u64, u64, u64),
    ) -> Result {
        if size != 8 {
            return Err(Errno::INVAL);
        }
        let wanted = context.read_u64(set)? & !UNBLOCKABLE;
        let hart = context.hart;
        self.thread(hart).awaited = 0;
        let waiting = self.thread(hart).pending.mask() | self.pending.mask();
        if let Some(signal) = lowest(waiting & wanted)
            && let Some(info) = self.take(hart, signal)
        {
            if to != 0 {
                context.memory.write(to, &info.bytes())?;
            }
            return Ok(signal);
        }
        // In vain until the time is over.
        let waits = context.wait_for(timeout).map_or_else(|errno| errno, |_| Errno::AGAIN);
        if context.wait.is_some() {
            self.thread(hart).awaited = wanted;
        }
        Err(waits)
    }

    /// A mask for the time of one call.
    pub(super) fn mask_for_call(&mut self, hart: usize, mask: u64) {
        if self.thread(hart).before.is_none() {
            self.thread(hart).before = Some(self.threads[hart].mask);
        }
        self.set_mask(hart, mask);
    }

    /// The end of such a call.
    pub(super) fn restore_mask(&mut self, hart: usize) {
        if let Some(mask) = self.thread(hart).before.take() {
            self.thread(hart).mask = mask;
        }
    }

    /// Whether the call that the next due signal interrupts begins again after it.
    pub(super) fn restarts(&self, hart: usize) -> bool {
        let due = self.next_due(hart);
        due.is_some_and(|signal| self.actions[signal as usize].flags & Action::RESTART != 0)
    }

    fn next_due(&self, hart: usize) -> Option<u64> {
        let none = Thread::default();
        let thread = self.threads.get(hart).unwrap_or(&none);
        lowest((thread.pending.mask() | self.pending.mask()) & !thread.mask)
    }

    /// Takes a signal that waits for a thread.
    fn take(&mut self, hart: usize, signal: u64) -> Option<Info> {
        let info = self.thread(hart).pending.take(signal).or_else(|| self.pending.take(signal))?;
        if let Source::Timer { id, overruns, .. } = info.source {
            self.overruns.insert(id, overruns);
        }
        Some(info)
    }

    /// `timer_getoverrun`: how often a timer was due again before its last signal came to a handler.
    pub(super) fn overruns(&self, timer: u32) -> u32 {
        self.overruns.get(&timer).copied().unwrap_or(0)
    }

    /// A timer starts anew, or is gone: its signal is not on its way any more.
    pub(super) fn forget_timer(&mut self, timer: u32) {
        let threads = self.threads.iter_mut().map(|thread| &mut thread.pending);
        threads.chain([&mut self.pending]).for_each(|pending| pending.forget_timer(timer));
        self.overruns.remove(&timer);
    }

    /// Counts further times at which a timer was due; `false` if no signal of it is on its way.
    pub(super) fn overrun(&mut self, timer: u32, count: u32) -> bool {
        let threads = self.threads.iter_mut().map(|thread| &mut thread.pending);
        threads.chain([&mut self.pending]).any(|pending| pending.overrun(timer, count))
    }

    /// Has a hart run the handlers of signals that are due. Returns the signal that ends the program, if one does.
    pub(super) fn deliver(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
    ) -> Option<i32> {
        while let Some(signal) = self.next_due(hart) {
            let Some(info) = self.take(hart, signal) else { continue };
            let action = self.actions[signal as usize];
            match action.handler {
                IGNORE => continue,
                DEFAULT if is_harmless(signal) => continue,
                DEFAULT => return Some(signal as i32),
                _ => {}
            }
            if !self.begin(hart, state, memory, &info) {
                return Some(SIGSEGV as i32);
            }
        }
        None
    }

    /// Has a hart handle a fault of its own. `false` if the program does not handle it.
    pub(super) fn fault(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
        (signal, code, address): (u64, i32, u64),
    ) -> bool {
        let is_handled = self.actions[signal as usize].handler > IGNORE;
        let is_blocked = self.thread(hart).mask & bit(signal) != 0;
        let info = Info { signal, code, source: Source::Fault { address } };
        is_handled && !is_blocked && self.begin(hart, state, memory, &info)
    }

    /// Makes the frame of a handler; `false` if there is no room for it.
    fn begin(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
        info: &Info,
    ) -> bool {
        let Some(trampoline) = self.trampoline(memory) else { return false };
        let action = self.actions[info.signal as usize];
        let thread = self.thread(hart).clone();
        let mask = thread.before.unwrap_or(thread.mask);
        let what = (&action, &thread.stack);
        if frame::push(state, memory, info, what, (mask, trampoline)).is_err() {
            return false;
        }
        let own = if action.flags & Action::NO_DEFER != 0 { 0 } else { bit(info.signal) };
        self.thread(hart).before = None;
        self.thread(hart).awaited = 0;
        self.set_mask(hart, thread.mask | action.mask | own);
        if action.flags & Action::RESET != 0 {
            self.actions[info.signal as usize] = Action::default();
        }
        true
    }

    /// The end of a handler. `false` if its frame is not there any more.
    pub(super) fn end(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
    ) -> bool {
        let popped = frame::pop(state, memory);
        if let Ok(mask) = popped {
            self.set_mask(hart, mask);
        }
        popped.is_ok()
    }

    /// The page to which handlers return: `li a7, 139; ecall`, which unwinders know.
    fn trampoline(&mut self, memory: &mut dyn UserMemory) -> Option<u64> {
        const CODE: [u32; 2] = [0x08b0_0893, 0x0000_0073];
        if self.trampoline.is_none() {
            let at = super::memory::TRAMPOLINE;
            let bytes: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
            if !memory.map(at, PAGE, Permissions::READ_WRITE) {
                return None;
            }
            memory.write(at, &bytes).ok()?;
            memory.protect(at, PAGE, Permissions { read: true, write: false, execute: true });
            self.trampoline = Some(at);
        }
        self.trampoline
    }
}
