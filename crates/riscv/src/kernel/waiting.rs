//! Harts that wait in a call: how they go on, and what interrupts them.

use serde::{Deserialize, Serialize};

use super::signals::{Info, Sent, Source, To};
use super::{Context, Effect, Errno, Host, Kernel, Result, UserMemory, misc, number};
use crate::hart::{Hart, abi};
use crate::space::{Cause, Fault, Permissions, Wanted};

/// Length of the instruction that makes a call: `ecall` has no short form.
pub(super) const ECALL_BYTES: u64 = 4;

/// What a hart waits for that sleeps in a call.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Sleeper {
    /// It makes the call again when something has changed; its `pc` is at the `ecall`. The time at which it gives up.
    Retry(Option<u64>),
    /// It waits for a futex. The first argument, whose register has the result already.
    Futex(u64),
    /// It sleeps until this time.
    Time(u64),
}

/// What an instruction of a program causes instead of completing.
#[derive(Clone, Copy, Debug)]
pub enum Caused {
    /// An access that is not allowed.
    Fault(Fault),
    /// It is none.
    Illegal,
    /// `ebreak`.
    Breakpoint,
}

/// The outcome of [`Kernel::interrupt`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupted {
    /// Other harts that were asleep and run again: the call that was interrupted has closed a file.
    pub woken: Vec<usize>,
    /// The signal that ends the program, if one does.
    pub killed: Option<i32>,
}

impl Context<'_> {
    /// Nothing can be done now: the call is made again when something has changed, or at this time.
    pub(super) fn block(&mut self, until_ns: Option<u64>) -> Errno {
        self.wait = Some(until_ns);
        Errno::AGAIN
    }

    /// The same for a file that waits; others return the error.
    pub(super) fn would_block(&mut self, waits: bool) -> Errno {
        if waits { self.block(None) } else { Errno::AGAIN }
    }
}

/// Calls with a mask of signals for their time: the mask.
fn call_mask(number: u64, context: &mut Context<'_>) -> Result<Option<u64>> {
    const BYTES: u64 = 8;
    let args = context.args();
    let (at, size) = match number {
        number::PPOLL => (args[3], args[4]),
        number::EPOLL_PWAIT | number::EPOLL_PWAIT2 => (args[4], args[5]),
        number::RT_SIGSUSPEND if args[1] != BYTES => return Err(Errno::INVAL),
        number::RT_SIGSUSPEND => return context.read_u64(args[0]).map(Some),
        number::PSELECT6 if args[5] != 0 => {
            (context.read_u64(args[5])?, context.read_u64(args[5].wrapping_add(BYTES))?)
        }
        _ => (0, 0),
    };
    match at {
        0 => Ok(None),
        _ if size != BYTES => Err(Errno::INVAL),
        _ => context.read_u64(at).map(Some),
    }
}

/// Whether a call that a signal has interrupted may begin again.
const fn may_restart(number: u64) -> bool {
    use number::{
        CLOCK_NANOSLEEP, EPOLL_PWAIT, EPOLL_PWAIT2, NANOSLEEP, PPOLL, PSELECT6, RT_SIGSUSPEND,
        RT_SIGTIMEDWAIT,
    };
    !matches!(
        number,
        PPOLL
            | PSELECT6
            | EPOLL_PWAIT
            | EPOLL_PWAIT2
            | RT_SIGSUSPEND
            | RT_SIGTIMEDWAIT
            | NANOSLEEP
            | CLOCK_NANOSLEEP
    )
}

impl Kernel {
    /// The outcome of a call: a value, and the effect on the hart.
    pub(super) fn outcome(&mut self, number: u64, context: &mut Context<'_>) -> (Result, Effect) {
        match call_mask(number, context) {
            Err(errno) => return (Err(errno), Effect::Return),
            Ok(Some(mask)) => self.signals.mask_for_call(context.hart, mask),
            Ok(None) => {}
        }
        let outcome = match self.control(number, context) {
            Some(outcome) => outcome,
            None => self.service(number, context).map(|value| (value, Effect::Return)),
        };
        match outcome {
            Ok((value, effect)) => (Ok(value), effect),
            Err(errno) => (Err(errno), Effect::Return),
        }
    }

    /// Puts the caller to sleep if its call says so, after it has moved so many bytes of a socket.
    pub(super) fn settle(
        &mut self,
        (hart, moved): (usize, u64),
        state: &mut Hart,
        wait: Option<Option<u64>>,
        (result, effect): (Result, Effect),
    ) -> Effect {
        let is_due = self.signals.is_due(hart);
        if let Some(until_ns) = wait
            && !is_due
        {
            state.pc = state.pc.wrapping_sub(ECALL_BYTES);
            self.sleepers.insert(hart, Sleeper::Retry(until_ns));
            if moved > 0 {
                self.partly.insert(hart, moved);
            }
            return Effect::Sleep { until_ns };
        }
        if let Effect::Sleep { until_ns } = effect {
            let is_futex = state.x[abi::A7] == number::FUTEX;
            let sleeper = match is_futex {
                true => Sleeper::Futex(state.x[abi::A0]),
                false => Sleeper::Time(until_ns.unwrap_or(u64::MAX)),
            };
            self.sleepers.insert(hart, sleeper);
        }
        let interrupted = match wait {
            Some(_) if moved > 0 => Ok(moved),
            Some(_) => Err(Errno::INTR),
            None => result,
        };
        state.x[abi::A0] = interrupted.unwrap_or_else(Errno::result);
        effect
    }

    /// Harts that make their calls again.
    pub(super) fn retrying(&self) -> impl Iterator<Item = usize> {
        let retries = |(_, sleeper): &(&usize, &Sleeper)| matches!(sleeper, Sleeper::Retry(_));
        self.sleepers.iter().filter(retries).map(|(&hart, _)| hart)
    }

    /// Prepares a hart that was woken, or that stands between two instructions: a signal may have come for it.
    pub fn interrupt(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
    ) -> Interrupted {
        if !self.signals.is_due(hart) {
            return Interrupted::default();
        }
        let restarts = self.signals.restarts(hart) && may_restart(state.x[abi::A7]);
        self.files.stop_opening(hart);
        let partly = self.partly.remove(&hart);
        match self.sleepers.remove(&hart) {
            // A call that has done something says what, and does not begin again; nor does one with a timeout.
            Some(Sleeper::Retry(until_ns))
                if partly.is_some() || !restarts || until_ns.is_some() =>
            {
                state.pc = state.pc.wrapping_add(ECALL_BYTES);
                state.x[abi::A0] = partly.unwrap_or(Errno::INTR.result());
            }
            Some(Sleeper::Futex(first)) if self.futexes.remove(hart) => {
                if restarts && state.x[abi::A0 + 3] == 0 {
                    state.pc = state.pc.wrapping_sub(ECALL_BYTES);
                    state.x[abi::A0] = first;
                } else {
                    state.x[abi::A0] = Errno::INTR.result();
                }
            }
            Some(Sleeper::Time(until_ns)) => {
                let rest = until_ns.saturating_sub(self.now_ns);
                let result = misc::write_rest(state, memory, rest).and(Err(Errno::INTR));
                state.x[abi::A0] = result.unwrap_or_else(Errno::result);
            }
            _ => {}
        }
        // One that begins again names its files anew.
        let has_closed = self.files.let_go(hart);
        let killed = self.signals.deliver(hart, state, memory);
        self.signals.restore_mask(hart);
        let woken = if has_closed { self.retrying().collect() } else { Vec::new() };
        Interrupted { woken, killed }
    }

    /// Permissions of an address that is reserved without memory: none. Otherwise they are the memory's matter.
    pub fn reserved(&self, address: u64) -> Option<Permissions> {
        self.memory.is_reserved(address).then_some(Permissions::NONE)
    }

    /// Whether a signal waits for a hart, which [`Kernel::interrupt`] would deliver.
    pub fn is_due(&self, hart: usize) -> bool {
        self.signals.is_due(hart)
    }

    /// Ends the sleep of a hart whose time has come.
    pub fn time_out(&mut self, hart: usize, state: &mut Hart) {
        if !matches!(self.sleepers.get(&hart), Some(Sleeper::Retry(_))) {
            self.sleepers.remove(&hart);
        }
        if self.futexes.remove(hart) {
            state.x[abi::A0] = Errno::TIMEDOUT.result();
        }
    }

    /// Has a hart handle what its instruction has caused, if the program handles that. The `pc` is at the instruction.
    pub fn fault(
        &mut self,
        hart: usize,
        state: &mut Hart,
        what: Caused,
        memory: &mut dyn UserMemory,
        host: &mut dyn Host,
    ) -> bool {
        const SIGILL: u64 = 4;
        const SIGTRAP: u64 = 5;
        const SIGBUS: u64 = 7;
        const SIGSEGV: u64 = 11;
        let (signal, code, address) = match what {
            Caused::Illegal => (SIGILL, 1, state.pc),
            Caused::Breakpoint => (SIGTRAP, 1, state.pc),
            Caused::Fault(fault) => {
                let beyond = self.memory.beyond.at(fault.address);
                if beyond.is_some() && self.has_grown(fault.address, memory, host) {
                    return true;
                }
                let is_beyond = beyond.is_some_and(|permissions| match fault.wanted {
                    Wanted::Read => permissions.read,
                    Wanted::Write => permissions.write,
                    Wanted::Execute => permissions.execute,
                });
                let (signal, code) = match fault.cause {
                    Cause::Unmapped if is_beyond => (SIGBUS, 2),
                    Cause::Unmapped if self.memory.is_reserved(fault.address) => (SIGSEGV, 2),
                    Cause::Unmapped => (SIGSEGV, 1),
                    Cause::Forbidden => (SIGSEGV, 2),
                    Cause::Misaligned => (SIGBUS, 1),
                    Cause::NotMemory => (SIGBUS, 3),
                    // As if Linux had ended the program.
                    Cause::Exhausted => return false,
                };
                (signal, code, fault.address)
            }
        };
        self.signals.fault(hart, state, memory, (signal, code, address))
    }

    /// `kill`, `tkill`, `tgkill`, `rt_sigqueueinfo` and `rt_tgsigqueueinfo`.
    pub(super) fn kill(&mut self, context: &mut Context<'_>, number: u64) -> Result<(u64, Effect)> {
        const PROCESS: i32 = super::threads::PROCESS as i32;
        const LAST: u64 = 64;
        const BY_KILL: i32 = 0;
        const BY_TGKILL: i32 = -6;
        let [a0, a1, a2, a3, ..] = context.args();
        let (process, thread, signal, from) = match number {
            number::KILL => (a0 as i32, None, a1, None),
            number::TKILL => (PROCESS, Some(a0), a1, None),
            number::TGKILL => (a0 as i32, Some(a1), a2, None),
            number::RT_SIGQUEUEINFO => (a0 as i32, None, a1, Some(a2)),
            _ => (a0 as i32, Some(a1), a2, Some(a3)),
        };
        if signal > LAST {
            return Err(Errno::INVAL);
        }
        let (code, value) = match from {
            Some(info) => (
                context.read_u32(info.wrapping_add(8))? as i32,
                context.read_u64(info.wrapping_add(24))?,
            ),
            None => (if thread.is_some() { BY_TGKILL } else { BY_KILL }, 0),
        };
        if ![PROCESS, 0, -PROCESS].contains(&process) {
            return Err(Errno::SRCH);
        }
        let hart = match thread {
            Some(id) => Some(self.threads.hart_of(id).ok_or(Errno::SRCH)?),
            None => None,
        };
        if signal == 0 {
            return Ok((0, Effect::Return));
        }
        let info = Info { signal, code, source: Source::Program { value } };
        let harts = [&[context.hart], &self.threads.harts()[..]].concat();
        let to = hart.map_or(To::Process(&harts), To::Thread);
        Ok((0, self.send(context, to, info)))
    }

    /// Sends a signal to a thread, or to any one.
    pub(super) fn send(&mut self, context: &mut Context<'_>, to: To<'_>, info: Info) -> Effect {
        match self.signals.send(to, info) {
            Sent::Ignored | Sent::Pends => {}
            Sent::Kills(_) => return Effect::Killed(info.signal as i32),
            Sent::Waits(hart) => {
                if hart != context.hart && self.is_for(hart, info.signal) {
                    context.woken.push(hart);
                }
            }
        }
        Effect::Return
    }

    /// Whether a thread that sleeps goes on for a signal that waits for it.
    pub(super) fn is_for(&self, hart: usize, signal: u64) -> bool {
        self.signals.is_due(hart) || self.signals.awaits(hart, signal)
    }

    /// The return from a handler.
    pub(super) fn end_handler(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
        host: &mut dyn Host,
    ) -> Effect {
        if self.signals.end(hart, state, memory) {
            return Effect::Return;
        }
        host.warn("rt_sigreturn() without the frame of a handler on the stack");
        Effect::Killed(11)
    }
}
