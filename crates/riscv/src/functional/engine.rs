//! Harts in turn, and between them the kernel.

use super::blocks::{Blocks, Break};
use super::bus::{Bus, Stop};
use super::error::{Failure, RunError, Why};
use super::{End, Options, Outcome};
use crate::code::fetch;
use crate::elf::Image;
use crate::exec::{Exit, Trap, execute};
use crate::hart::{Hart, abi};
use crate::host::LocalHost;
use crate::kernel::{Caused, Effect, Expired, Interrupted, Kernel};
use crate::space::{AddressSpace, Fault};
use crate::{Symbols, disassemble};

/// A reservation does not outlive a slice, so a slice has to be longer than the loops that the
/// specification promises to end: 16 instructions from load reserved to the branch back.
const SHORTEST_SLICE: u64 = 64;

/// Scheduling state of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has no thread.
    Idle,
    Running,
    /// Until a wake-up, or until this time in nanoseconds.
    Asleep(Option<u64>),
}

struct Thread {
    hart: Hart,
    state: State,
}

/// Reasons for the end of a slice.
enum Pause {
    /// It is used up.
    Used,
    Ecall,
    /// Let the next one have its turn, with everything as it is.
    Refresh,
    Failed(Why),
}

/// One program and everything around it.
pub(super) struct Engine<'a> {
    space: AddressSpace,
    image: Image,
    blocks: Blocks,
    code_version: u64,
    kernel: Kernel,
    host: LocalHost,
    threads: Vec<Thread>,
    options: &'a Options,
    instructions: u64,
    /// The line that the running hart has reserved.
    reservation: Option<u64>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        space: AddressSpace,
        image: Image,
        sp: u64,
        kernel: Kernel,
        host: LocalHost,
        options: &'a Options,
    ) -> Engine<'a> {
        let mut hart = Hart::new(image.entry & !1);
        hart.x[abi::SP] = sp;
        Engine {
            blocks: Blocks::new(),
            code_version: space.code_version(),
            kernel,
            space,
            image,
            host,
            threads: vec![Thread { hart, state: State::Running }],
            options,
            instructions: 0,
            reservation: None,
        }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Result<Outcome, RunError> {
        let ended = self.run_to_end();
        self.kernel.end(&mut self.space, &mut self.host);
        ended.map(|(number, end)| self.outcome(number, end))
    }

    /// Returns the hart that ends the program, and the end.
    fn run_to_end(&mut self) -> Result<(usize, End), RunError> {
        loop {
            let mut ran = false;
            for number in 0..self.threads.len() {
                if let Some((hart, signal)) = self.expire() {
                    return Ok((hart, End::Killed(signal)));
                }
                self.wake_if_due(number);
                if self.threads[number].state != State::Running {
                    continue;
                }
                ran = true;
                if let Some(end) = self.slice(number)? {
                    return Ok((number, end));
                }
            }
            if !ran {
                self.skip_to_next_deadline()?;
            }
        }
    }

    /// One turn of a hart. Returns the end of the program, if it ends.
    fn slice(&mut self, number: usize) -> Result<Option<End>, RunError> {
        // Others may have stored to the line since this hart's last turn.
        self.reservation = None;
        if self.kernel.is_due(number) {
            let hart = &mut self.threads[number].hart;
            let Interrupted { woken, killed } =
                self.kernel.interrupt(number, hart, &mut self.space);
            if let Some(signal) = killed {
                return Ok(Some(End::Killed(signal)));
            }
            self.wake(woken);
            self.note_code();
        }
        let mut left = self.options.slice.max(SHORTEST_SLICE);
        while left > 0 && !self.is_timer_due() {
            let limit = self.limit(number, left)?;
            let (done, pause) = self.step(number, limit);
            left -= done;
            self.instructions += done;
            self.host.now_ns += done;
            match pause {
                Pause::Used | Pause::Refresh => {}
                Pause::Failed(why) if self.is_handled(number, &why) => {}
                Pause::Failed(why) => return Err(self.failure(number, why)),
                Pause::Ecall => {
                    left = left.saturating_sub(1);
                    match self.system_call(number) {
                        Effect::Exit(code) => return Ok(Some(End::Exit(code))),
                        Effect::Killed(signal) => return Ok(Some(End::Killed(signal))),
                        Effect::Return | Effect::Spawn { .. } => {}
                        Effect::Yield | Effect::Sleep { .. } | Effect::ExitThread => break,
                    }
                }
            }
        }
        Ok(None)
    }

    /// Instructions that may be executed now without passing the limit of the run, or the next timer.
    fn limit(&self, number: usize, left: u64) -> Result<u64, RunError> {
        if self.options.stop.as_ref().is_some_and(|stop| stop.take()) {
            return Err(self.failure(number, Why::Interrupted));
        }
        let left = match self.kernel.next_timer() {
            Some(due) => left.min(due.saturating_sub(self.host.now_ns).max(1)),
            None => left,
        };
        let left = match self.options.max_ns {
            None => left,
            // Each instruction is a nanosecond.
            Some(limit) => match limit.saturating_sub(self.host.now_ns) {
                0 => return Err(self.failure(number, Why::TooLate(limit))),
                rest => left.min(rest),
            },
        };
        let Some(limit) = self.options.max_instructions else { return Ok(left) };
        match limit.saturating_sub(self.instructions) {
            0 => Err(self.failure(number, Why::TooLong(limit))),
            rest => Ok(left.min(rest)),
        }
    }

    /// Executes up to `limit` instructions of one hart; returns how many it was.
    fn step(&mut self, number: usize, limit: u64) -> (u64, Pause) {
        let hart = &mut self.threads[number].hart;
        let mut bus = Bus::new(&mut self.space, &mut self.reservation);
        let (done, broken) = self.blocks.run(hart, &mut bus, limit);
        let (exit, inst) = match broken {
            None => return (done, Pause::Used),
            Some(Break::Fetch(fault)) => return (done, Pause::Failed(Why::Fault(fault))),
            Some(Break::Exit(exit, inst)) => (exit, inst),
        };
        match exit {
            Exit::Trap(Trap::Illegal) => (done, Pause::Failed(Why::Illegal)),
            Exit::Trap(Trap::Ebreak) => (done, Pause::Failed(Why::Breakpoint)),
            Exit::Trap(Trap::Ecall) => (done, Pause::Ecall),
            Exit::Trap(Trap::Mark(_)) => {
                hart.pc += u64::from(inst.len);
                (done + 1, Pause::Refresh)
            }
            Exit::Stop(Stop::Fault(fault)) => (done, Pause::Failed(self.explain(number, fault))),
            Exit::Stop(Stop::FenceI) => {
                hart.pc += u64::from(inst.len);
                self.blocks.clear();
                (done + 1, Pause::Refresh)
            }
            Exit::Stop(Stop::Counter) => {
                bus.count = Some(self.host.now_ns + done);
                let read = execute(hart, &inst, &mut bus);
                debug_assert!(read.is_ok(), "counters can always be read");
                (done + 1, Pause::Refresh)
            }
        }
    }

    fn system_call(&mut self, number: usize) -> Effect {
        self.instructions += 1;
        self.host.now_ns += 1;
        let thread = &mut self.threads[number];
        let reply = self.kernel.call(number, &mut thread.hart, &mut self.space, &mut self.host);
        match &reply.effect {
            Effect::Sleep { until_ns } => thread.state = State::Asleep(*until_ns),
            Effect::ExitThread => thread.state = State::Idle,
            Effect::Spawn { hart, state } => self.start(*hart, Hart::clone(state)),
            _ => {}
        }
        self.wake(reply.woken);
        self.note_code();
        reply.effect
    }

    /// Forgets decoded instructions if pages of code have changed.
    fn note_code(&mut self) {
        if self.code_version != self.space.code_version() {
            self.code_version = self.space.code_version();
            self.blocks.clear();
        }
    }

    /// Whether the program handles a failure of an instruction itself, and goes on with that.
    fn is_handled(&mut self, number: usize, why: &Why) -> bool {
        let what = match *why {
            Why::Fault(fault) | Why::StackOverflow(fault) => Caused::Fault(fault),
            Why::Illegal => Caused::Illegal,
            Why::Breakpoint => Caused::Breakpoint,
            _ => return false,
        };
        let hart = &mut self.threads[number].hart;
        let is_handled = self.kernel.fault(number, hart, what, &mut self.space, &mut self.host);
        self.note_code();
        is_handled
    }

    fn start(&mut self, number: usize, hart: Hart) {
        let idle = || Thread { hart: Hart::new(0), state: State::Idle };
        if number >= self.threads.len() {
            self.threads.resize_with(number + 1, idle);
        }
        self.threads[number] = Thread { hart, state: State::Running };
    }

    /// Harts run again that were asleep.
    fn wake(&mut self, harts: Vec<usize>) {
        for hart in harts {
            self.threads[hart].state = State::Running;
        }
    }

    fn wake_if_due(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        if matches!(thread.state, State::Asleep(Some(until)) if until <= self.host.now_ns) {
            self.kernel.time_out(number, &mut thread.hart);
            thread.state = State::Running;
        }
    }

    fn is_timer_due(&self) -> bool {
        self.kernel.next_timer().is_some_and(|due| due <= self.host.now_ns)
    }

    /// Has the kernel send the signals of timers that are due. Returns the hart and the signal that end the program, if
    /// one does.
    fn expire(&mut self) -> Option<(usize, i32)> {
        if !self.is_timer_due() {
            return None;
        }
        let Expired { woken, killed } = self.kernel.expire(self.host.now_ns);
        self.wake(woken);
        killed
    }

    /// No hart runs: time passes until one does.
    fn skip_to_next_deadline(&mut self) -> Result<(), RunError> {
        let deadlines = self.threads.iter().filter_map(|thread| match thread.state {
            State::Asleep(until) => until,
            _ => None,
        });
        let asleep = |thread: &Thread| thread.state != State::Idle;
        let first = self.threads.iter().position(asleep).unwrap_or(0);
        // Later than that is never: no program executes so long.
        const NEVER: u64 = 1 << 63;
        let deadlines = deadlines.chain(self.kernel.next_timer());
        match deadlines.filter(|&deadline| deadline < NEVER).min() {
            Some(deadline) => {
                self.host.now_ns = self.host.now_ns.max(deadline);
                // A timer whose signal nobody wants wakes nobody.
                self.limit(first, 1).map(|_| ())
            }
            None => Err(self.failure(first, Why::Deadlock)),
        }
    }

    /// Faults that look like a stack that was too small are called so.
    fn explain(&self, number: usize, fault: Fault) -> Why {
        let sp = self.threads[number].hart.x[abi::SP];
        let page = self.space.permissions(fault.address);
        let page = page.or_else(|| self.kernel.reserved(fault.address));
        Why::of(fault, sp, self.options.stack_size, page)
    }

    fn failure(&self, number: usize, why: Why) -> RunError {
        let pc = self.threads[number].hart.pc;
        let instruction = fetch(pc, &self.space).ok();
        RunError::Failure(Box::new(Failure {
            hart: number,
            pc,
            location: self.symbols().describe(pc).to_string(),
            instruction: instruction.map(|inst| disassemble(&inst, pc).to_string()),
            instructions: self.instructions,
            why,
        }))
    }

    /// Those of the program and the libraries that it has loaded.
    fn symbols(&self) -> Symbols {
        self.host.symbols_with(&self.image.symbols, &self.kernel.code())
    }

    fn outcome(self, number: usize, end: End) -> Outcome {
        let pc = self.threads[number].hart.pc;
        Outcome {
            end,
            place: format!("hart {number} at {}", self.symbols().describe(pc)),
            instructions: self.instructions,
            time_ns: self.host.now_ns,
            stdout: self.host.stdout,
            stderr: self.host.stderr,
            warnings: self.host.warnings,
        }
    }
}
