//! The system calls that a program needs, as a state machine.
//!
//! [`Kernel::call`] reads the registers of a hart that executed `ecall`, carries out the call and
//! leaves the result in `a0`. Its [`Reply`] says what the hart does next and which others wake up.
//! The kernel has no clock and no thread: time, output, files and free harts come from the [`Host`],
//! user memory through [`UserMemory`], and the driver of the harts puts them to sleep. So a driver
//! with simulated time can charge any time for each call.
//!
//! One kernel is one process; its threads share everything. Signals come from the process itself: sent by its threads,
//! its faults ([`Kernel::fault`]) and its timers ([`Kernel::expire`]).
//!
//! A driver may have calls of its own: it looks at `a7` before it calls the kernel, and gets
//! addresses for the mappings of such calls from [`Kernel::reserve`].

mod beyond;
mod errno;
mod files;
mod futex;
mod limits;
mod memory;
mod misc;
mod named;
pub mod network;
mod number;
mod ranges;
mod resident;
mod robust;
mod saved;
mod scheduling;
mod services;
mod shared;
mod signals;
mod synthetic;
mod threads;
mod timers;
mod waiting;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use errno::Errno;
pub(crate) use memory::{LARGEST_HEAP, MAPPINGS_BOTTOM};
pub use named::Code;
pub use number::name as call_name;
pub use services::{Change, Entry, Host, Kind, OpenMode, Opened, Status, Stream, UserMemory};
pub use signals::signal_name;
pub use synthetic::Program;
pub use timers::Expired;
pub use waiting::{Caused, Interrupted};

use crate::hart::{Hart, abi};
use crate::names;
use crate::space::in_pages;
use files::{Files, Held};
use futex::Futexes;
use limits::Limits;
use memory::Memory;
use shared::Shared;
use signals::{Info, Signals, To};
use synthetic::Process;
use threads::Threads;
use timers::Timers;
use waiting::Sleeper;

/// Effect of a system call on the calling hart. Its `pc` is behind the `ecall` already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It runs on.
    Return,
    /// It lets others run first.
    Yield,
    /// It runs on, and another hart begins.
    Spawn {
        /// Number of the hart that begins. Where there are fewer, it takes turns with others.
        hart: usize,
        /// The registers that it begins with.
        state: Box<Hart>,
    },
    /// It sleeps until it is named in [`Reply::woken`], or until this time if there is one; then
    /// [`Kernel::time_out`] has to be called.
    Sleep {
        /// As [`Host::now_ns`].
        until_ns: Option<u64>,
    },
    /// Its thread is over; the hart is free.
    ExitThread,
    /// The program ends with this exit code.
    Exit(i32),
    /// The program ends by this signal, which it has sent itself and does not handle: 6 for `abort()`.
    Killed(i32),
}

/// The outcome of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Next step of the calling hart.
    pub effect: Effect,
    /// Harts that were asleep and run again, in the order in which they were woken, and those that run and have a
    /// signal to handle: [`Kernel::interrupt`] prepares them as soon as they stand between two instructions.
    pub woken: Vec<usize>,
}

/// Result of most calls: a value for `a0`, or an error.
type Result<T = u64, E = Errno> = core::result::Result<T, E>;

/// Arguments and surroundings of a call.
struct Context<'a> {
    /// The number of the calling hart.
    hart: usize,
    /// Its registers, `pc` behind the `ecall`.
    state: &'a Hart,
    memory: &'a mut dyn UserMemory,
    host: &'a mut dyn Host,
    woken: Vec<usize>,
    /// Time at which the call gives up; of one that is made again only.
    deadline: Option<u64>,
    /// Open files that the call has named, with those of before it was made again.
    held: Held,
    /// The call is made again when something has changed, or at this time.
    wait: Option<Option<u64>>,
    /// Bytes that the call has moved to or from a socket, also before it was made again.
    moved: u64,
    /// Something has changed that others may wait for.
    has_changed: bool,
    /// A signal for the caller.
    raised: Option<Info>,
}

/// The process as the kernel sees it.
#[derive(Serialize, Deserialize)]
pub struct Kernel {
    memory: Memory,
    shared: Shared,
    files: Files,
    threads: Threads,
    futexes: Futexes,
    signals: Signals,
    timers: Timers,
    #[serde(default)]
    limits: Limits,
    /// The time of the last call, or of the last timer.
    now_ns: u64,
    /// Harts that sleep in a call.
    sleepers: BTreeMap<usize, Sleeper>,
    /// Bytes that their calls have moved to or from sockets, which checkpoints do not keep.
    #[serde(skip)]
    partly: BTreeMap<usize, u64>,
    program: Program,
    warned: Vec<u64>,
}

impl Kernel {
    /// A process whose heap begins at `heap`, with one thread, on hart 0. `seed` is that of
    /// `getrandom` and `/dev/urandom`.
    pub fn new(heap: u64, seed: u64) -> Kernel {
        Kernel {
            memory: Memory::new(heap),
            shared: Shared::default(),
            files: Files::new(seed),
            threads: Threads::new(),
            futexes: Futexes::default(),
            signals: Signals::new(),
            timers: Timers::default(),
            limits: Limits::default(),
            now_ns: 0,
            sleepers: BTreeMap::new(),
            partly: BTreeMap::new(),
            program: Program::default(),
            warned: Vec::new(),
        }
    }

    /// The same process, which knows its program: files below `/proc/self` tell of it.
    #[must_use]
    pub fn with_program(mut self, program: Program) -> Kernel {
        self.program = program;
        self
    }

    /// The parts of files that are mapped as code, in the order of their addresses: those of libraries.
    pub fn code(&self) -> Vec<Code> {
        self.memory.named.code()
    }

    /// Number of the thread on this hart, for a driver's error messages.
    pub fn thread_id(&self, hart: usize) -> Option<u64> {
        self.threads.id_on(hart)
    }

    /// Whether a call looks at a clock and does nothing else: systems have faster ways for that.
    pub const fn is_clock(number: u64) -> bool {
        matches!(number, number::CLOCK_GETTIME | number::GETTIMEOFDAY)
    }

    /// Takes `length` bytes of addresses, in whole pages, for mappings of a driver: device memory,
    /// shared segments. The driver maps them. `None` if there is no room.
    pub fn reserve(&mut self, length: u64) -> Option<u64> {
        self.memory.reserve(length)
    }

    /// Whether all of such a range is still mapped, and no part of it is now one of the program's without memory.
    pub fn holds(&self, address: u64, length: u64) -> bool {
        self.memory.holds(address, address + length)
    }

    /// Carries out the system call that hart number `hart` asks for, with its `pc` at the `ecall`.
    pub fn call(
        &mut self,
        hart: usize,
        state: &mut Hart,
        memory: &mut dyn UserMemory,
        host: &mut dyn Host,
    ) -> Reply {
        state.pc = state.pc.wrapping_add(waiting::ECALL_BYTES);
        let number = state.x[abi::A7];
        self.now_ns = host.now_ns();
        let sleeper = self.sleepers.remove(&hart);
        let has_ticked = self.files.tick(self.now_ns);
        if number == number::RT_SIGRETURN {
            let mut effect = self.end_handler(hart, state, memory, host);
            if let Some(signal) = self.signals.deliver(hart, state, memory) {
                effect = Effect::Killed(signal);
            }
            return Reply { effect, woken: Vec::new() };
        }
        // A call that is made again gives up when it would have the first time.
        let partly = self.partly.remove(&hart);
        let (deadline, moved, held) = match sleeper {
            Some(Sleeper::Retry(until_ns)) => {
                (until_ns, partly.unwrap_or(0), self.files.held(hart))
            }
            _ => {
                self.files.stop_opening(hart);
                (None, 0, Held::new())
            }
        };
        let mut context = Context {
            hart,
            state,
            memory,
            host,
            woken: Vec::new(),
            deadline,
            held,
            wait: None,
            moved,
            has_changed: false,
            raised: None,
        };
        let mut outcome = self.outcome(number, &mut context);
        if let Some(signal) = context.raised {
            outcome.1 = self.send(&mut context, To::Thread(hart), signal);
        }
        let Context { mut woken, held, wait, moved, has_changed, .. } = context;
        let waits = wait.is_some() && !self.signals.is_due(hart);
        let has_closed = !waits && self.files.let_go(hart);
        if waits {
            self.files.hold(hart, held);
        }
        if has_changed || has_ticked || has_closed {
            woken.extend(self.retrying().filter(|hart| !woken.contains(hart)).collect::<Vec<_>>());
        }
        if memory.is_deferred() {
            return Reply { effect: Effect::Sleep { until_ns: None }, woken };
        }
        let mut effect = self.settle((hart, moved), state, wait, outcome);
        if matches!(effect, Effect::Return | Effect::Yield) {
            if let Some(signal) = self.signals.deliver(hart, state, memory) {
                effect = Effect::Killed(signal);
            }
            self.signals.restore_mask(hart);
        }
        Reply { effect, woken }
    }

    /// Calls that do more than return a value; `None` for the others.
    fn control(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result<(u64, Effect)>> {
        let [a0, ..] = context.args();
        Some(match number {
            number::EXIT => self.exit_thread(context),
            number::EXIT_GROUP => Ok((0, Effect::Exit(a0 as i32))),
            number::CLONE => self.clone_thread(context),
            number::CLONE3 => self.clone_thread_3(context),
            number::FUTEX => self.futex(context),
            number::SCHED_YIELD => Ok((0, Effect::Yield)),
            number::NANOSLEEP => misc::nanosleep(context, a0),
            number::CLOCK_NANOSLEEP => misc::clock_nanosleep(context, &self.threads),
            number::KILL
            | number::TKILL
            | number::TGKILL
            | number::RT_SIGQUEUEINFO
            | number::RT_TGSIGQUEUEINFO => self.kill(context, number),
            _ => return None,
        })
    }

    /// Calls that return a value.
    fn service(&mut self, number: u64, context: &mut Context<'_>) -> Result {
        if number == number::MMAP && context.args()[3] & memory::MAP_ANONYMOUS == 0 {
            return self.map_file(context);
        }
        if let Some(result) = self.memory_call(number, context) {
            return result;
        }
        if let Some(result) = self.signals.call(number, context) {
            return result;
        }
        if let Some(result) = self.timer_call(number, context) {
            return result;
        }
        if let Some(result) = self.file_call(number, context) {
            return result;
        }
        if let Some(result) = self.threads.call(number, context, &self.program) {
            return result;
        }
        if let Some(result) = self.limit_call(number, context) {
            return result;
        }
        if let Some(result) = misc::clock_call(number, context, &self.threads) {
            return result;
        }
        if let Some(result) = misc::call(number, context, &mut self.files.random) {
            return result;
        }
        if !number::is_optional(number) && !self.warned.contains(&number) {
            self.warned.push(number);
            let name = number::name(number).unwrap_or("that Linux does not have either");
            context.host.warn(&format!(
                "system call {number} ({name}) is not implemented; the program gets ENOSYS"
            ));
        }
        Err(Errno::NOSYS)
    }

    /// Calls on memory: shared mappings of files may be in it.
    fn memory_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        if self.has_shared() {
            context.host.await_earlier();
        }
        if let Some(result) = self.before_memory_call(number, context) {
            return Some(result);
        }
        let result = self.memory.call(number, context)?;
        if result.is_ok() || (number, result) == (number::MPROTECT, Err(Errno::NOMEM)) {
            self.after_memory_call(number, context);
        }
        Some(result)
    }

    /// Calls on files: shared mappings may show them.
    fn file_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let has_shared = self.has_shared();
        if has_shared || self.files.has_any_on_disk() {
            context.host.await_earlier();
        }
        let mut places = if has_shared { self.files.places(number, context) } else { Vec::new() };
        for place in places.extract_if(.., |place| place.reads) {
            if let Err(errno) = self.before_read(context, &place) {
                return Some(Err(errno));
            }
        }
        let process = Process {
            program: &self.program,
            memory: &self.memory,
            name: self.threads.name().unwrap_or_else(|| synthetic::comm(&self.program)),
            threads: self.threads.count(),
        };
        let result = self.files.call(number, context, &process)?;
        if let Ok(count) = result
            && !matches!(number, number::FTRUNCATE | number::FALLOCATE)
        {
            places.iter_mut().for_each(|place| place.to = place.begin.saturating_add(count));
        }
        if let (number::OPENAT, Ok(file)) = (number, result)
            && has_shared
            && files::empties(context)
        {
            places.extend(self.files.emptied(file));
        }
        if number == number::TRUNCATE && has_shared {
            places.extend(self.files.truncated(context, &process));
        }
        for place in places.into_iter().filter(|_| result.is_ok()) {
            self.after_write(context, &place);
        }
        Some(result)
    }
}

impl Context<'_> {
    /// The six arguments.
    fn args(&self) -> [u64; 6] {
        core::array::from_fn(|index| self.state.x[abi::A0 + index])
    }

    /// Copies user memory up to the first page that cannot be read. Returns how many bytes these are; that there are
    /// none is an error.
    fn read_some(&mut self, address: u64, bytes: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        for (at, length) in in_pages(address, bytes.len()) {
            match self.memory.read(at, &mut bytes[done..done + length]) {
                Err(fault) if done == 0 => return Err(fault.into()),
                Err(_) => break,
                Ok(()) => done += length,
            }
        }
        Ok(done)
    }

    /// The same the other way.
    fn write_some(&mut self, address: u64, bytes: &[u8]) -> Result<usize> {
        let mut done = 0;
        for (at, length) in in_pages(address, bytes.len()) {
            match self.memory.write(at, &bytes[done..done + length]) {
                Err(fault) if done == 0 => return Err(fault.into()),
                Err(_) => break,
                Ok(()) => done += length,
            }
        }
        Ok(done)
    }

    fn read_u32(&mut self, address: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.memory.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read_u64(&mut self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write_words(&mut self, address: u64, words: &[u64]) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.memory.write(address, &bytes)?)
    }

    /// A string that ends with a zero, of at most 4 KiB, as the text of a name.
    fn read_string(&mut self, address: u64) -> Result<String> {
        const LONGEST: u64 = 4096;
        let mut bytes = Vec::new();
        for offset in 0..LONGEST {
            let mut byte = [0];
            self.memory.read(address.wrapping_add(offset), &mut byte)?;
            if byte[0] == 0 {
                return Ok(names::text_of(&bytes));
            }
            bytes.push(byte[0]);
        }
        Err(Errno::NAMETOOLONG)
    }

    /// A `struct timespec` in nanoseconds.
    fn read_time(&mut self, address: u64) -> Result<u64> {
        let seconds = self.read_u64(address)?;
        let nanoseconds = self.read_u64(address.wrapping_add(8))?;
        if nanoseconds >= 1_000_000_000 || seconds > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        Ok(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
    }
}
