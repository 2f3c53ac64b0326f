//! Signals: handlers, masks, and what is on its way to a thread.
//!
//! A handler runs when its thread comes out of a system call or wakes from one, and in a driver that looks between
//! instructions ([`Kernel::interrupt`](super::Kernel::interrupt)) then, too. Handlers of faults run at once.

mod frame;
mod numbers;

pub use numbers::signal_name;

use serde::{Deserialize, Serialize};

use self::frame::Info;
use self::numbers::{SIGKILL, SIGSEGV, SIGSTOP, is_harmless};
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
    pending: u64,
    stack: AltStack,
}

/// What becomes of a signal that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Ignored,
    /// It ends the program.
    Kills,
    /// The thread on this hart handles it, now or when it does not block it any more.
    Waits(usize),
}

/// Signals of a process.
#[derive(Serialize, Deserialize)]
pub(super) struct Signals {
    /// By signal; the first one is none.
    actions: Vec<Action>,
    /// By hart.
    threads: Vec<Thread>,
    /// The code to which handlers return.
    trampoline: Option<u64>,
}

/// The place of a signal in a mask.
const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

impl Signals {
    pub(super) fn new() -> Signals {
        Signals {
            actions: vec![Action::default(); LAST as usize + 1],
            threads: Vec::new(),
            trampoline: None,
        }
    }

    /// Checks what was read, of a process with so many threads at most.
    pub(super) fn check(&self, most_threads: usize) -> Checked {
        let Signals { actions, threads, trampoline } = self;
        require(actions.len() == LAST as usize + 1, || {
            format!("signals.actions: has {} entries, must be {}", actions.len(), LAST + 1)
        })?;
        require(threads.len() <= most_threads, || {
            format!(
                "signals.threads: has {} entries, must be {most_threads} at most",
                threads.len()
            )
        })?;
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
        self.threads.get(hart).is_some_and(|thread| thread.pending & !thread.mask != 0)
    }

    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::RT_SIGACTION => self.action(context, (a0, a1, a2, a3)),
            number::RT_SIGPROCMASK => self.change_mask(context, (a0, a1, a2, a3)),
            number::RT_SIGPENDING => {
                let pending = self.thread(context.hart).pending;
                context.write_words(a0, &[pending]).map(|()| 0)
            }
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
                Some(Action { handler, flags, mask })
            }
        };
        if old != 0 {
            context.write_words(old, &[handler, flags, mask])?;
        }
        if let Some(action) = asked {
            self.actions[signal as usize] = action;
            if action.handler == IGNORE {
                self.threads.iter_mut().for_each(|thread| thread.pending &= !bit(signal));
            }
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
        if old != 0 {
            context.write_words(old, &[before])?;
        }
        self.set_mask(context.hart, after);
        Ok(0)
    }

    fn set_mask(&mut self, hart: usize, mask: u64) {
        self.thread(hart).mask = mask & !(bit(SIGKILL) | bit(SIGSTOP));
    }

    /// `sigaltstack`.
    fn alternate(&mut self, context: &mut Context<'_>, new: u64, old: u64) -> Result {
        const SMALLEST: u64 = 2048;
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
        if old != 0 {
            context.write_words(old, &[before.start, before.flags(sp), before.size])?;
        }
        let Some((start, flags, size)) = asked else { return Ok(0) };
        if before.holds(sp) {
            return Err(Errno::PERM);
        }
        let is_disabled = u64::from(flags) & AltStack::DISABLED != 0;
        if !is_disabled && size < SMALLEST {
            return Err(Errno::NOMEM);
        }
        let stack = if is_disabled { AltStack::default() } else { AltStack { start, size } };
        self.thread(context.hart).stack = stack;
        Ok(0)
    }

    /// Sends a signal to the thread on a hart.
    pub(super) fn send(&mut self, hart: usize, signal: u64) -> Sent {
        let action = self.actions[signal as usize];
        let is_blocked = self.thread(hart).mask & bit(signal) != 0;
        match action.handler {
            IGNORE => Sent::Ignored,
            DEFAULT if is_harmless(signal) => Sent::Ignored,
            DEFAULT if !is_blocked => Sent::Kills,
            _ => {
                self.thread(hart).pending |= bit(signal);
                Sent::Waits(hart)
            }
        }
    }

    /// The thread that handles a signal to the process: `hart` if it does not block it, or another one of `harts`.
    pub(super) fn receiver(&mut self, hart: usize, harts: &[usize], signal: u64) -> usize {
        let mut candidates = [hart].into_iter().chain(harts.iter().copied());
        candidates.find(|&hart| self.thread(hart).mask & bit(signal) == 0).unwrap_or(hart)
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
        let thread = self.threads.get(hart)?;
        let due = thread.pending & !thread.mask;
        (due != 0).then(|| u64::from(due.trailing_zeros()) + 1)
    }

    /// Has a hart run the handlers of signals that are due. Returns the signal that ends the program, if one does.
    pub(super) fn deliver(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
    ) -> Option<i32> {
        const SENT_BY_TGKILL: i32 = -6;
        while let Some(signal) = self.next_due(hart) {
            self.thread(hart).pending &= !bit(signal);
            let action = self.actions[signal as usize];
            match action.handler {
                IGNORE => continue,
                DEFAULT if is_harmless(signal) => continue,
                DEFAULT => return Some(signal as i32),
                _ => {}
            }
            let info = Info { signal: signal as u32, code: SENT_BY_TGKILL, address: 0 };
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
        let info = Info { signal: signal as u32, code, address };
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
        let own = if action.flags & Action::NO_DEFER != 0 { 0 } else { bit(info.signal.into()) };
        self.thread(hart).before = None;
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
