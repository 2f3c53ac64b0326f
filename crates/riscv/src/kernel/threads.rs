//! Threads: their harts, beginnings and ends.

use serde::{Deserialize, Serialize};

use super::saved::{Checked, require};
use super::scheduling::Priorities;
use super::{Context, Effect, Errno, Kernel, Program, Result, number, robust, synthetic};
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
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) id: u64,
    /// Address of the futex that becomes zero, and whose waiter wakes, at the end of the thread; 0 for none.
    clear_at_exit: u64,
    /// Address of the head of its list of robust mutexes; 0 for none.
    #[serde(default)]
    robust_list: u64,
    #[serde(default)]
    pub(super) traits: Traits,
}

/// Properties that a thread has from the one that has made it.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Traits {
    /// Ends with zeros; all are zero if the thread has the name of the program, or none.
    pub name: [u8; 16],
    /// The program has set a name without letters.
    #[serde(default)]
    pub is_nameless: bool,
    pub priorities: Priorities,
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
        let first = Thread { id: PROCESS, ..Thread::default() };
        Threads { on: vec![Some(first)], last_id: PROCESS }
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

    /// The thread on a hart.
    fn on_hart(&mut self, hart: usize) -> Option<&mut Thread> {
        self.on.get_mut(hart)?.as_mut()
    }

    /// The thread with this number. 0 stands for the one on `hart`, and so does the process once its first thread has
    /// ended.
    pub(super) fn find(&mut self, hart: usize, id: u64) -> Result<&mut Thread> {
        let hart = match u64::from(id as u32) {
            0 => Some(hart),
            PROCESS => self.hart_of(PROCESS).or(Some(hart)),
            id => self.hart_of(id),
        };
        hart.and_then(|hart| self.on_hart(hart)).ok_or(Errno::SRCH)
    }

    /// All threads.
    pub(super) fn all(&self) -> impl Iterator<Item = &Thread> {
        self.on.iter().flatten()
    }

    /// The same to change them.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.on.iter_mut().flatten()
    }

    /// The name that the first thread has been given, if one has been.
    pub(super) fn name(&self) -> Option<String> {
        let first = self.all().find(|thread| thread.id == PROCESS)?;
        let Traits { name, is_nameless, .. } = first.traits;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        (length > 0 || is_nameless).then(|| String::from_utf8_lossy(&name[..length]).into_owned())
    }

    pub(super) fn call(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
        program: &Program,
    ) -> Option<Result> {
        if let Some(result) = self.scheduling_call(number, context) {
            return Some(result);
        }
        let [a0, a1, ..] = context.args();
        Some(match number {
            number::SET_TID_ADDRESS => {
                if let Some(thread) = self.on_hart(context.hart) {
                    thread.clear_at_exit = a0;
                }
                Ok(self.id_on(context.hart).unwrap_or(PROCESS))
            }
            number::GETTID => Ok(self.id_on(context.hart).unwrap_or(PROCESS)),
            number::GETPID => Ok(PROCESS),
            number::GETPPID => Ok(1),
            number::SET_ROBUST_LIST => self.set_robust_list(context.hart, a0, a1),
            number::GET_ROBUST_LIST => self.robust_list(context),
            number::GETPGID | number::GETSID => self.find(context.hart, a0).map(|_| PROCESS),
            // The process leads its session.
            number::SETSID => Err(Errno::PERM),
            number::SETPGID => self.set_group(context.hart, a0, a1),
            number::WAIT4 | number::WAITID => Err(no_child(number, context.args())),
            number::PRCTL => self.control(context, program),
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

    /// `setpgid`: a leader of a session keeps its group.
    fn set_group(&mut self, hart: usize, process: u64, group: u64) -> Result {
        if (group as i32) < 0 {
            return Err(Errno::INVAL);
        }
        self.find(hart, process)?;
        Err(Errno::PERM)
    }

    fn set_robust_list(&mut self, hart: usize, head: u64, size: u64) -> Result {
        if size != robust::HEAD_BYTES {
            return Err(Errno::INVAL);
        }
        self.find(hart, 0)?.robust_list = head;
        Ok(0)
    }

    /// `get_robust_list`.
    fn robust_list(&mut self, context: &mut Context<'_>) -> Result {
        let [id, to_head, to_size, ..] = context.args();
        let head = self.find(context.hart, id)?.robust_list;
        context.write_words(to_size, &[robust::HEAD_BYTES])?;
        context.write_words(to_head, &[head])?;
        Ok(0)
    }

    /// `prctl`: names of threads, and properties that all processes have.
    fn control(&mut self, context: &mut Context<'_>, program: &Program) -> Result {
        const SET_DEATH_SIGNAL: u64 = 1;
        const GET_DUMPABLE: u64 = 3;
        const SET_DUMPABLE: u64 = 4;
        const SET_NAME: u64 = 15;
        const GET_NAME: u64 = 16;
        const GET_NO_NEW_PRIVILEGES: u64 = 39;
        let [option, argument, ..] = context.args();
        match option {
            SET_NAME => {
                let name = read_name(context, argument)?;
                let traits = &mut self.find(context.hart, 0)?.traits;
                (traits.name, traits.is_nameless) = (name, name[0] == 0);
                Ok(0)
            }
            GET_NAME => {
                let Traits { mut name, is_nameless, .. } = self.find(context.hart, 0)?.traits;
                if name[0] == 0 && !is_nameless {
                    name = short_name(synthetic::comm(program).as_bytes());
                }
                context.memory.write(argument, &name)?;
                Ok(0)
            }
            GET_DUMPABLE => Ok(1),
            SET_DEATH_SIGNAL | SET_DUMPABLE | GET_NO_NEW_PRIVILEGES => Ok(0),
            _ => Err(Errno::INVAL),
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

/// A name as threads have it: 15 bytes at most, and zeros behind it.
fn short_name(name: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    let length = name.len().min(short.len() - 1);
    short[..length].copy_from_slice(&name[..length]);
    short
}

/// The beginning of a string that ends with a zero.
fn read_name(context: &mut Context<'_>, address: u64) -> Result<[u8; 16]> {
    let mut name = [0; 16];
    for (offset, place) in (0..15).zip(&mut name) {
        let mut byte = [0];
        context.memory.read(address.wrapping_add(offset), &mut byte)?;
        if byte[0] == 0 {
            break;
        }
        *place = byte[0];
    }
    Ok(name)
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
        let mut traits = self.threads.find(context.hart, 0)?.traits;
        traits.priorities.fork();
        self.threads.start(hart, Thread { id, clear_at_exit, robust_list: 0, traits });
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
        let thread = thread.unwrap_or_default();
        self.release_robust(context, thread.id, thread.robust_list);
        let address = thread.clear_at_exit;
        // As in Linux it does not matter if the address is bad by now.
        if address != 0 && context.memory.write(address, &[0; 4]).is_ok() {
            context.woken.extend(self.futexes.wake(address, 1, u32::MAX));
        }
        let is_last = self.threads.on.iter().all(Option::is_none);
        Ok((code, if is_last { Effect::Exit(code as i32) } else { Effect::ExitThread }))
    }
}

/// The error of `wait4` and `waitid`: the process has no children.
fn no_child(number: u64, args: [u64; 6]) -> Errno {
    const NO_HANG: u32 = 1;
    const STOPPED: u32 = 2;
    const EXITED: u32 = 4;
    const CONTINUED: u32 = 8;
    const NO_WAIT: u32 = 0x100_0000;
    const OF_LINUX: u32 = 0xe000_0000;
    const LAST_KIND: u32 = 3;
    let common = NO_HANG | STOPPED | CONTINUED | OF_LINUX;
    let is_right = match number {
        number::WAIT4 => args[2] as u32 & !common == 0,
        _ => {
            let options = args[3] as u32;
            options & !(common | EXITED | NO_WAIT) == 0
                && options & (STOPPED | EXITED | CONTINUED) != 0
                && args[0] as u32 <= LAST_KIND
        }
    };
    if is_right { Errno::CHILD } else { Errno::INVAL }
}
