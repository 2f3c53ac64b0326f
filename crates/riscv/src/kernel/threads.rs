//! Threads: their harts, beginnings and ends.

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use super::{Context, Effect, Errno, Kernel, Result, number};
use crate::hart::abi;

/// The process, and its first thread.
pub(super) const PROCESS: u64 = 1000;

const CLONE_VM: u64 = 0x100;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

/// Threads of a process at a time.
pub(super) const MAX_THREADS: usize = 1024;

/// A thread that runs or sleeps on a hart.
#[derive(Serialize, Deserialize)]
struct Thread {
    id: u64,
    /// Address of the futex that becomes zero, and whose waiter wakes, at the end of the thread; 0 for none.
    clear_at_exit: u64,
}

/// Arguments of `clone`.
struct Clone {
    flags: u64,
    /// The end of the thread's stack; 0 for that of the caller.
    stack: u64,
    parent_tid: u64,
    tls: u64,
    child_tid: u64,
}

/// The threads of a process by hart.
#[derive(Serialize, Deserialize)]
pub(super) struct Threads {
    on: Vec<Option<Thread>>,
    last_id: u64,
}

impl Threads {
    pub(super) fn new() -> Threads {
        Threads { on: vec![Some(Thread { id: PROCESS, clear_at_exit: 0 })], last_id: PROCESS }
    }

    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        const LAST_ID: u64 = 1 << 31;
        let Threads { on, last_id } = self;
        require(on.len() <= MAX_THREADS, || {
            format!("threads.on: has {} places, and a process {MAX_THREADS} at most", on.len())
        })?;
        require((PROCESS..LAST_ID).contains(last_id), || {
            format!("threads.last_id: is {last_id}, must be {PROCESS} to {}", LAST_ID - 1)
        })?;
        let late = on.iter().flatten().find(|thread| !(PROCESS..=*last_id).contains(&thread.id));
        require(late.is_none(), || {
            let id = late.map_or(0, |thread| thread.id);
            format!("threads.on: a thread has the number {id}, must be {PROCESS} to {last_id}")
        })
    }

    /// The hart of the thread with this number.
    pub(super) fn hart_of(&self, id: u64) -> Option<usize> {
        self.on.iter().position(|thread| thread.as_ref().is_some_and(|thread| thread.id == id))
    }

    /// Harts with threads, ascending.
    pub(super) fn harts(&self) -> Vec<usize> {
        let used = self.on.iter().enumerate().filter(|(_, thread)| thread.is_some());
        used.map(|(hart, _)| hart).collect()
    }

    /// Number of threads.
    pub(super) fn count(&self) -> usize {
        self.on.iter().flatten().count()
    }

    pub(super) fn id_on(&self, hart: usize) -> Option<u64> {
        Some(self.on.get(hart)?.as_ref()?.id)
    }

    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, ..] = context.args();
        Some(match number {
            number::SET_TID_ADDRESS => {
                if let Some(Some(thread)) = self.on.get_mut(context.hart) {
                    thread.clear_at_exit = a0;
                }
                Ok(self.id_on(context.hart).unwrap_or(PROCESS))
            }
            number::GETTID => Ok(self.id_on(context.hart).unwrap_or(PROCESS)),
            number::GETPID => Ok(PROCESS),
            number::GETPPID => Ok(1),
            number::SET_ROBUST_LIST => Ok(0),
            number::GETPGID | number::GETSID => Ok(PROCESS),
            number::PRCTL => prctl(context, a0, a1),
            number::GETPRIORITY | number::SETPRIORITY => Ok(0),
            number::SCHED_GETSCHEDULER => self.scheduled(a0),
            number::SCHED_GETPARAM | number::SCHED_SETPARAM if a1 == 0 => Err(Errno::INVAL),
            number::SCHED_GETPARAM => self
                .scheduled(a0)
                .and_then(|_| context.memory.write(a1, &[0; 4]).map(|()| 0).map_err(Errno::from)),
            number::SCHED_SETSCHEDULER if a2 == 0 => Err(Errno::INVAL),
            number::SCHED_SETSCHEDULER | number::SCHED_SETPARAM => self.scheduled(a0),
            number::SCHED_GET_PRIORITY_MAX => Ok(if matches!(a0, 1 | 2) { 99 } else { 0 }),
            number::SCHED_GET_PRIORITY_MIN => Ok(if matches!(a0, 1 | 2) { 1 } else { 0 }),
            number::SCHED_SETAFFINITY => Ok(0),
            number::SCHED_GETAFFINITY => affinity(context, a1, a2),
            number::GETCPU => {
                let hart = ((context.hart % context.host.harts()) as u32).to_le_bytes();
                let write = |memory: &mut dyn super::UserMemory, to, bytes: &[u8]| {
                    if to == 0 { Ok(()) } else { memory.write(to, bytes) }
                };
                write(context.memory, a0, &hart)
                    .and_then(|()| write(context.memory, a1, &[0; 4]))
                    .map(|()| 0)
                    .map_err(Errno::from)
            }
            _ => return None,
        })
    }

    /// The policy of a thread, of which there is one: `SCHED_OTHER`. 0 stands for the caller.
    fn scheduled(&self, id: u64) -> Result {
        match id as i32 {
            ..0 => Err(Errno::INVAL),
            0 => Ok(0),
            _ => self.hart_of(u64::from(id as u32)).map(|_| 0).ok_or(Errno::SRCH),
        }
    }

    /// The lowest number without a thread: those from the number of harts on have to take turns.
    fn free_hart(&self) -> Option<usize> {
        let gap = self.on.iter().position(Option::is_none).unwrap_or(self.on.len());
        (gap < MAX_THREADS).then_some(gap)
    }

    fn start(&mut self, hart: usize, thread: Thread) {
        self.last_id = thread.id;
        if hart >= self.on.len() {
            self.on.resize_with(hart + 1, || None);
        }
        self.on[hart] = Some(thread);
    }
}

/// `prctl`: names of threads, and what a process without others always is.
fn prctl(context: &mut Context<'_>, option: u64, argument: u64) -> Result {
    const SET_DEATH_SIGNAL: u64 = 1;
    const GET_DUMPABLE: u64 = 3;
    const SET_DUMPABLE: u64 = 4;
    const SET_NAME: u64 = 15;
    const GET_NAME: u64 = 16;
    const GET_NO_NEW_PRIVILEGES: u64 = 39;
    match option {
        // Names of threads are for people who look at the process from outside.
        SET_NAME => context.read_string(argument).map(|_| 0),
        GET_NAME => context.write_words(argument, &[0, 0]).map(|()| 0),
        GET_DUMPABLE => Ok(1),
        SET_DEATH_SIGNAL | SET_DUMPABLE | GET_NO_NEW_PRIVILEGES => Ok(0),
        _ => Err(Errno::INVAL),
    }
}

/// One bit per hart; returns the bytes that were written.
fn affinity(context: &mut Context<'_>, size: u64, to: u64) -> Result {
    let harts = context.host.harts();
    let words: Vec<u64> = (0..harts.div_ceil(64))
        .map(|word| match harts - word * 64 {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        })
        .collect();
    let bytes = words.len() as u64 * 8;
    if size < bytes || size % 8 != 0 {
        return Err(Errno::INVAL);
    }
    context.write_words(to, &words)?;
    Ok(bytes)
}

impl Kernel {
    /// Whether there has ever been a second thread.
    pub fn has_had_threads(&self) -> bool {
        self.threads.last_id != PROCESS
    }

    /// A new thread, with the lowest number that is free.
    pub(super) fn clone_thread(&mut self, context: &mut Context<'_>) -> Result<(u64, Effect)> {
        // The order of arguments of RISC-V: flags, stack, parent's tid, tls, child's tid.
        let [flags, stack, parent_tid, tls, child_tid, _] = context.args();
        self.begin_thread(context, &Clone { flags, stack, parent_tid, tls, child_tid })
    }

    /// `clone3`: the same with a structure of arguments.
    pub(super) fn clone_thread_3(&mut self, context: &mut Context<'_>) -> Result<(u64, Effect)> {
        const SMALLEST: u64 = 64;
        let [at, size, ..] = context.args();
        if size < SMALLEST {
            return Err(Errno::INVAL);
        }
        let mut words = [0; 8];
        for (index, word) in (0..).zip(&mut words) {
            *word = context.read_u64(at.wrapping_add(8 * index))?;
        }
        let [flags, _, child_tid, parent_tid, _, stack, stack_size, tls] = words;
        let stack = if stack == 0 { 0 } else { stack.wrapping_add(stack_size) };
        self.begin_thread(context, &Clone { flags, stack, parent_tid, tls, child_tid })
    }

    fn begin_thread(&mut self, context: &mut Context<'_>, clone: &Clone) -> Result<(u64, Effect)> {
        let Clone { flags, stack, parent_tid, tls, child_tid } = *clone;
        if flags & (CLONE_VM | CLONE_THREAD) != CLONE_VM | CLONE_THREAD {
            context.host.warn("clone() without CLONE_VM and CLONE_THREAD: no processes here");
            return Err(Errno::NOSYS);
        }
        let Some(hart) = self.threads.free_hart() else {
            context.host.warn(&format!(
                "a process has {MAX_THREADS} threads at most; the program gets EAGAIN"
            ));
            return Err(Errno::AGAIN);
        };
        let id = self.threads.last_id + 1;
        for (flag, to) in [(CLONE_PARENT_SETTID, parent_tid), (CLONE_CHILD_SETTID, child_tid)] {
            if flags & flag != 0 {
                context.memory.write(to, &(id as u32).to_le_bytes())?;
            }
        }
        let clear_at_exit = if flags & CLONE_CHILD_CLEARTID != 0 { child_tid } else { 0 };
        self.threads.start(hart, Thread { id, clear_at_exit });
        self.signals.start(hart, context.hart);
        let mut state = Box::new(context.state.clone());
        state.x[abi::A0] = 0;
        if stack != 0 {
            state.x[abi::SP] = stack;
        }
        if flags & CLONE_SETTLS != 0 {
            state.x[abi::TP] = tls;
        }
        Ok((id, Effect::Spawn { hart, state }))
    }

    /// Ends a thread, and with the last one the program.
    pub(super) fn exit_thread(&mut self, context: &mut Context<'_>) -> Result<(u64, Effect)> {
        let code = context.args()[0];
        let thread = self.threads.on.get_mut(context.hart).and_then(Option::take);
        let address = thread.map_or(0, |thread| thread.clear_at_exit);
        // As in Linux it does not matter if the address is bad by now.
        if address != 0 && context.memory.write(address, &[0; 4]).is_ok() {
            context.woken.extend(self.futexes.wake(address, 1, u32::MAX));
        }
        let is_last = self.threads.on.iter().all(Option::is_none);
        Ok((code, if is_last { Effect::Exit(code as i32) } else { Effect::ExitThread }))
    }
}
