//! The operating system of a node: it runs one process, whose threads share the cores.

mod leases;
mod letters;
mod saved;
mod timers;
mod traced;

use std::io;

use rackmem_riscv::code::fetch;
use rackmem_riscv::functional::{Failure, Why};
use rackmem_riscv::host::{Input, LocalHost, Output};
use rackmem_riscv::kernel::{Caused, Effect, Interrupted, Kernel, Program};
use rackmem_riscv::space::{AddressSpace, Fault};
use rackmem_riscv::{Hart, Mark, Symbols, abi, disassemble, elf, stack};
use serde::{Deserialize, Serialize};

use super::borrow::{self, Lending};
use super::checkpoint::NEVER;
use super::device::{Answer, Device};
use super::outcome::{Crash, End};
use super::pages::{Pages, User};
use super::post::Post;
use super::tracks::{Recorder, Tracks};
use super::turns::{TURN_NS, Turns};
use super::{ExecError, Options, Process};
use crate::chip::Chip;
use crate::chip::bridge::RDMA_LINE;
use crate::chip::cpu::Cpu;
use crate::chip::ni::Ni;
use crate::chip::wires::Pace;
use crate::cpu::{Lives, Stats as Counted, Stop, Stretch};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;

/// The state of a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Thread {
    Idle,
    Running,
    /// It would run, but another one has its core.
    Ready {
        hart: Box<Hart>,
    },
    /// It is in a call until it is woken, or until a cycle.
    Asleep {
        hart: Box<Hart>,
        until: Option<Cycle>,
    },
    /// It is in a call until a word of memory changes; it is looked at now and then.
    Watching {
        hart: Box<Hart>,
        address: u64,
        value: u64,
        next: Cycle,
        until: Option<Cycle>,
    },
    /// It is in a call until another node has answered, or a copy is complete; signals wait.
    Asking {
        hart: Box<Hart>,
    },
}

impl Thread {
    pub const fn is_idle(&self) -> bool {
        matches!(self, Thread::Idle)
    }
}

pub struct System {
    nid: u16,
    kernel: Kernel,
    /// Input and output of the process; output stays here until it is taken.
    pub host: LocalHost,
    pages: Pages,
    pub device: Device,
    /// The driver of borrowed memory, if there is any.
    lending: Option<Lending>,
    post: Post,
    symbols: Symbols,
    /// By number; that of a thread is not that of its core.
    threads: Vec<Thread>,
    turns: Turns,
    machine: Machine,
    call_cycles: Cycle,
    clock_cycles: Cycle,
    clock_ghz: f64,
    stack_bytes: u64,
    /// The cycle of the next timer: something is due that the chip knows nothing of.
    pub next_timer: Option<Cycle>,
    /// The cycle with which the process begins, and its first thread until then.
    pub begin: Cycle,
    first: Option<Box<Hart>>,
    /// The end of the process and its cycle, if it has ended.
    pub end: Option<(End, Cycle)>,
    /// Begins and ends of regions of interest that its threads have come to.
    pub marks: Vec<(Cycle, Mark)>,
    /// Counters of the cores, kept when the process ends.
    counted: Vec<Counted>,
    /// The lives of instructions that cores are to record.
    pipeline: Option<Stretch>,
    /// Those of each core, when the process has ended.
    pub lives: Vec<(u16, Lives)>,
    /// Records what threads do, if that is asked for, until the process ends.
    recorder: Option<Box<Recorder>>,
    /// What was recorded, when the process has ended.
    pub tracks: Tracks,
}

/// The streams and files of a node's process.
fn host(
    Process { nid, job, .. }: Process<'_>,
    cores: usize,
    machine: &Machine,
    options: &Options<'_>,
) -> Result<LocalHost, ExecError> {
    let mut host = LocalHost::new(cores, Output::Capture, options.folder.as_deref());
    host.memory_bytes = machine.memory.size_bytes;
    host.input = if nid == 0 { options.input } else { Input::Empty };
    host.allow_arguments(job.args);
    for path in &options.allowed {
        let refused = |error: io::Error| ExecError::Allowed(path.clone(), error.to_string());
        host.allow(path).map_err(refused)?;
    }
    if let Some(path) = &options.libraries {
        let refused = |error: io::Error| ExecError::Libraries(path.clone(), error.to_string());
        host.set_libraries(path).map_err(refused)?;
    }
    Ok(host)
}

/// Length of `ecall` and of hints.
const INST_BYTES: u64 = 4;

const ETIMEDOUT: i64 = 110;
const EFAULT: i64 = 14;

impl System {
    /// Loads the program into a node and starts its first thread.
    ///
    /// # Errors
    /// It is no program.
    pub fn new(
        process: Process<'_>,
        machine: &Machine,
        options: &Options<'_>,
        pages: Pages,
        chip: &mut Chip,
    ) -> Result<System, ExecError> {
        let mut space = AddressSpace::new();
        let (mut system, image) =
            System::bare((process, machine, options), pages, &mut space, chip)?;
        let Process { nid, nodes, job } = process;
        let stack_bytes = system.stack_bytes;
        let free_bytes = system.pages.driver.free_bytes();
        if stack_bytes > free_bytes {
            return Err(ExecError::Machine(format!(
                "system.stack_bytes: is {stack_bytes}, and {free_bytes} bytes of memory.size_bytes = {} are left for \
                 a program; make it smaller",
                machine.memory.size_bytes
            )));
        }
        let seed = machine.seed;
        let random = std::array::from_fn(|at| (seed as u8) ^ (at as u8).wrapping_mul(37));
        let own = [format!("RACKMEM_NODE={nid}"), format!("RACKMEM_NODES={nodes}")];
        let env: Vec<String> = job.env.iter().cloned().chain(own).collect();
        let sp = stack::set_up(&mut space, stack_bytes, &image, job.args, &env, random);
        let sp = sp.map_err(|error| ExecError::Program(job.name().to_owned(), error))?;
        let program = Program { args: job.args.to_vec(), env, stack_bytes };
        system.kernel = Kernel::new(image.end, seed).with_program(program);
        system.kernel.join_network(nid, process.others(machine));
        system.install(&space, chip)?;
        // The memory that a program begins with is the node's own.
        if let Some(lending) = system.lending.as_mut().filter(|_| machine.window.heap) {
            system.pages.plugged.is_first = true;
            system.pages.plugged.add(lending.borrow_all(chip));
        }
        let mut hart = Hart::new(image.entry);
        hart.x[abi::SP] = sp;
        system.begin = options.begins.get(usize::from(nid)).copied().unwrap_or_default();
        system.first = Some(Box::new(hart));
        system.begin(chip);
        system.next_timer = system.first.is_some().then_some(system.begin);
        Ok(system)
    }

    /// Without a process; and the program, as it begins in `space`.
    ///
    /// # Errors
    /// It is no program, or a file that it is to be allowed cannot be read.
    pub fn bare(
        (process, machine, options): (Process<'_>, &Machine, &Options<'_>),
        pages: Pages,
        space: &mut AddressSpace,
        chip: &Chip,
    ) -> Result<(System, elf::Image), ExecError> {
        let Process { nid, nodes, job } = process;
        let cores = chip.tiles.len();
        let mut host = host(process, cores, machine, options)?;
        let image = elf::load_with(job.program, |name| host.linker(name), space)
            .map_err(|error| ExecError::Program(job.name().to_owned(), error))?;
        let symbols = image.symbols.clone();
        let system = System {
            nid,
            kernel: Kernel::new(0, machine.seed),
            host,
            device: Device::new(nid, nodes, machine.system.contexts),
            recorder: Recorder::of(options.trace, &symbols, cores),
            lending: Lending::of(nid, nodes, machine),
            post: Post::new(machine),
            pages,
            symbols,
            threads: vec![Thread::Idle; cores],
            turns: Turns::new(cores),
            machine: machine.clone(),
            call_cycles: Cycle::from(machine.system.call_cycles),
            clock_cycles: Cycle::from(machine.system.clock_cycles),
            clock_ghz: machine.clock_ghz,
            stack_bytes: machine.system.stack_bytes,
            next_timer: None,
            begin: 0,
            first: None,
            end: None,
            marks: Vec::new(),
            counted: Vec::new(),
            pipeline: options.pipeline.clone(),
            lives: Vec::new(),
            tracks: Tracks::default(),
        };
        Ok((system, image))
    }

    /// Those of the program and the libraries that it has loaded.
    fn symbols(&self) -> Symbols {
        self.host.symbols_with(&self.symbols, &self.kernel.code())
    }

    /// Takes the output since the last call: standard output and error.
    pub fn take_output(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.host.stdout), std::mem::take(&mut self.host.stderr))
    }

    pub fn instructions(&self, chip: &Chip) -> u64 {
        self.counted(chip).map(Counted::executed).sum()
    }

    /// Instructions that were executed without timing.
    pub fn fast_forwarded(&self, chip: &Chip) -> u64 {
        self.counted(chip).map(|counted| counted.fast_forwarded).sum()
    }

    /// Counters of all cores, of those that run last.
    fn counted<'a>(&'a self, chip: &'a Chip) -> impl Iterator<Item = &'a Counted> {
        let running = chip.tiles.iter().filter_map(|tile| tile.cpu.as_ref());
        self.counted.iter().chain(running.map(|cpu| cpu.core().stats()))
    }

    /// Serves the cores that have stopped in this cycle, and those whose time has come.
    pub fn step(&mut self, chip: &mut Chip) {
        let now = chip.wires.now;
        if let Some((number, misuse)) = chip.wires.misuse.take()
            && self.end.is_none()
        {
            let cpu = chip.tiles[usize::from(number)].cpu.as_ref();
            let pc = cpu.map_or(0, |cpu| cpu.core().oldest_pc());
            self.crash(usize::from(number), pc, Why::Misuse(misuse.to_string()), chip);
        }
        for (core, stop) in std::mem::take(&mut chip.stops) {
            if self.end.is_some() {
                break;
            }
            // A core that waits in a call may be looked at once more.
            let Some(number) = self.turns.holder(usize::from(core)) else { continue };
            let hart = match &chip.tiles[usize::from(core)].cpu {
                Some(cpu) => cpu.hart(),
                None => continue,
            };
            self.note_stop(number, hart.pc, chip);
            match stop {
                Stop::Ecall => self.call(number, hart, chip),
                Stop::Ebreak => self.fail(number, hart, Caused::Breakpoint, chip),
                Stop::Illegal => self.fail(number, hart, Caused::Illegal, chip),
                Stop::Fault(fault) => self.fail(number, hart, Caused::Fault(fault), chip),
                Stop::Mark(mark) => self.mark(number, hart, mark, chip),
                Stop::Paused => self.give_way(number, hart, chip),
            }
        }
        self.begin(chip);
        self.interrupts(chip);
        self.hear(chip);
        if self.end.is_none() && self.next_timer.is_some_and(|at| at <= now) {
            self.timers(chip);
        }
        self.send_segments(now);
        self.next_timer = self.earliest_timer(now);
    }

    /// Handles interrupts of devices: threads that wait for their count look at it.
    fn interrupts(&mut self, chip: &mut Chip) {
        if chip.wires.interrupts.is_empty() || self.end.is_some() {
            return;
        }
        chip.settle();
        for line in std::mem::take(&mut chip.wires.interrupts) {
            match line {
                RDMA_LINE => self.end_copies(chip),
                _ => self.lending.iter().for_each(|lending| lending.interrupted(line, chip)),
            }
        }
        for number in 0..self.threads.len() {
            if let Thread::Watching { hart, .. } = self.threads[number].clone() {
                self.look(number, *hart, chip);
            }
        }
    }

    pub fn stop(&mut self, end: End, chip: &mut Chip) {
        if self.end.is_some() {
            return;
        }
        let now = chip.wires.now;
        chip.settle();
        chip.send_stores();
        self.kernel.end(&mut User { pages: &mut self.pages, chip }, &mut self.host);
        for (number, tile) in (0..).zip(&mut chip.tiles) {
            if let Some(mut cpu) = tile.cpu.take() {
                self.counted.push(*cpu.core().stats());
                self.lives.extend(self.pipeline.as_ref().map(|_| (number, cpu.take_lives())));
                self.note_core_end(&mut cpu, number, now);
            }
            tile.l1.lost.clear();
        }
        chip.wires.cpus_next = 0;
        self.threads.fill(Thread::Idle);
        self.first = None;
        self.next_timer = None;
        // A failure ends the run, and the others need not complain about it.
        if end.is_success() {
            self.device.end(&mut User { pages: &mut self.pages, chip });
        }
        self.tracks =
            self.recorder.take().map_or_else(Tracks::default, |recorder| recorder.finish(now));
        self.end = Some((end, now));
    }

    /// Adds the cores' counters; the process has ended.
    pub fn write_stats(&self, chip: &Chip, stats: &mut Figures) {
        for (core, counted) in self.counted(chip).enumerate() {
            for (name, value) in counted.named() {
                stats.insert(format!("core[{core}].{name}"), value as f64);
            }
        }
        self.post.write_stats(stats);
        self.lending.iter().for_each(|lending| lending.write_stats(stats));
    }

    /// Whether a thread executes instructions; if nothing is left to happen they are a loop.
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread, Thread::Running | Thread::Ready { .. }))
    }

    /// The state of each thread, one line each, for people.
    pub fn describe(&self, chip: &Chip) -> Vec<String> {
        let mut lines = Vec::new();
        if self.first.is_some() {
            lines.push(format!("node {}: has not begun, begins in cycle {}", self.nid, self.begin));
        }
        let symbols = self.symbols();
        for (number, thread) in self.threads.iter().enumerate() {
            let core = self.turns.core_of(number);
            let what = match thread {
                Thread::Idle => continue,
                Thread::Running => match &chip.tiles[core].cpu {
                    Some(cpu) => {
                        format!("executes at {}", symbols.describe(cpu.pc()))
                    }
                    None => continue,
                },
                Thread::Ready { hart } => {
                    format!("waits for its turn at {}", symbols.describe(hart.pc))
                }
                Thread::Asleep { hart, .. } | Thread::Watching { hart, .. } => {
                    format!("sleeps in a system call at {}", symbols.describe(hart.pc))
                }
                Thread::Asking { hart } => {
                    format!("waits for another node at {}", symbols.describe(hart.pc))
                }
            };
            lines.push(format!("node {}, core {core}: {what}", self.nid));
        }
        lines
    }

    fn install(&mut self, space: &AddressSpace, chip: &mut Chip) -> Result<(), ExecError> {
        for (address, permissions, content) in space.pages() {
            let mut user = User { pages: &mut self.pages, chip };
            user.pages.map(user.chip, address, rackmem_riscv::space::PAGE, permissions);
            if let Some(bytes) = content {
                user.install(address, bytes);
            }
            if self.pages.is_exhausted {
                return Err(ExecError::Machine(format!(
                    "memory.size_bytes: the program does not fit; give the nodes more, or programs a smaller stack \
                     than system.stack_bytes = {}",
                    self.stack_bytes
                )));
            }
        }
        Ok(())
    }

    /// The process begins, if it is time.
    fn begin(&mut self, chip: &mut Chip) {
        if let Some(hart) = self.first.take_if(|_| self.begin <= chip.wires.now) {
            self.start(0, &hart, chip);
        }
    }

    /// A thread begins.
    fn start(&mut self, number: usize, hart: &Hart, chip: &mut Chip) {
        if number >= self.threads.len() {
            self.threads.resize(number + 1, Thread::Idle);
        }
        self.note_start(number, hart);
        self.resume_after(0, number, hart, chip);
    }

    /// Goes on after a call.
    fn resume(&mut self, number: usize, hart: &Hart, chip: &mut Chip) {
        self.resume_after(self.call_cycles, number, hart, chip);
    }

    /// Goes on so many cycles later, or when the core of the thread is free.
    fn resume_after(&mut self, cycles: Cycle, number: usize, hart: &Hart, chip: &mut Chip) {
        let core = self.turns.core_of(number);
        match self.turns.holder(core) {
            None => {
                let turn = self.cycle_of(TURN_NS);
                self.turns.begin(number, chip.wires.now + turn);
            }
            Some(holder) if holder != number => {
                self.threads[number] = Thread::Ready { hart: Box::new(hart.clone()) };
                self.note_ready(number, chip.wires.now);
                return;
            }
            Some(_) => {}
        }
        let Chip { tiles, wires, .. } = chip;
        let track = self.note_resume(number, hart, cycles, tiles[core].cpu.as_mut(), wires.now);
        match &mut tiles[core].cpu {
            Some(cpu) => {
                *cpu.track() = track;
                cpu.resume(hart, wires.now + cycles, wires);
            }
            none => {
                let mut cpu = Cpu::new(core as u16, &self.machine, hart, wires);
                self.record(&mut cpu);
                cpu.begin_track(track, hart, wires.now);
                *none = Some(cpu);
            }
        }
        self.threads[number] = Thread::Running;
    }

    /// A thread that runs is something else from now on, and gives its core to the next one.
    fn leave(&mut self, number: usize, thread: Thread, chip: &mut Chip) {
        self.note_leave(number, &thread, chip);
        self.threads[number] = thread;
        self.turns.leave(number);
        let mut others = self.turns.after(number, self.threads.len());
        let next = others.find(|&other| matches!(self.threads[other], Thread::Ready { .. }));
        let Some(next) = next else { return };
        let Thread::Ready { hart } = std::mem::replace(&mut self.threads[next], Thread::Idle)
        else {
            return;
        };
        self.resume_or_kill(next, hart, chip);
    }

    /// A thread goes on, with a handler first if it has a signal.
    fn resume_or_kill(&mut self, number: usize, mut hart: Box<Hart>, chip: &mut Chip) {
        let mut user = User { pages: &mut self.pages, chip };
        let Interrupted { woken, killed } = self.kernel.interrupt(number, &mut hart, &mut user);
        match killed {
            Some(signal) => self.kill(number, signal, hart.pc, chip),
            None => self.resume(number, &hart, chip),
        }
        woken.into_iter().for_each(|woken| self.wake(woken, chip));
    }

    /// A thread lets others have its core first.
    fn give_way(&mut self, number: usize, hart: Hart, chip: &mut Chip) {
        chip.settle();
        chip.show_stores();
        self.leave(number, Thread::Ready { hart: Box::new(hart) }, chip);
        self.after_call(number, chip);
    }

    /// An instruction does not complete: the program handles that, or ends.
    fn fail(&mut self, core: usize, mut hart: Hart, what: Caused, chip: &mut Chip) {
        chip.settle();
        chip.show_stores();
        let mut user = User { pages: &mut self.pages, chip };
        if self.kernel.fault(core, &mut hart, what, &mut user, &mut self.host) {
            self.resume(core, &hart, chip);
            return self.after_call(core, chip);
        }
        let why = match what {
            Caused::Fault(fault) => self.explain(fault, &hart, chip),
            Caused::Illegal => Why::Illegal,
            Caused::Breakpoint => Why::Breakpoint,
        };
        self.crash(core, hart.pc, why, chip);
    }

    /// A region of interest begins or ends.
    fn mark(&mut self, number: usize, mut hart: Hart, mark: Mark, chip: &mut Chip) {
        hart.pc = hart.pc.wrapping_add(INST_BYTES);
        self.marks.push((chip.wires.now, mark));
        self.note_mark(number, mark, chip);
        let wires = &chip.wires;
        let stays = mark == Mark::Begin && wires.pace == Pace::Fast && wires.holds_at_begin;
        let cycles = if stays { Cycle::MAX - wires.now } else { 0 };
        self.resume_after(cycles, number, &hart, chip);
    }

    fn call(&mut self, number: usize, mut hart: Hart, chip: &mut Chip) {
        // Cores that repeat themselves would not notice the changes of the call.
        chip.settle();
        chip.show_stores();
        self.host.now_ns = self.ns(chip.wires.now);
        self.note_call(number, &hart, chip);
        if let Some(answer) = self.driver_call(number, &hart, chip) {
            self.answer(number, hart, answer, chip);
        } else {
            let mut user = User { pages: &mut self.pages, chip };
            let is_clock = Kernel::is_clock(hart.x[abi::A7]);
            user.pages.may_wait = self.lending.as_ref().is_some_and(Lending::can_plug);
            let before = user.pages.may_wait.then(|| hart.clone());
            let mut reply = self.kernel.call(number, &mut hart, &mut user, &mut self.host);
            let missing_bytes = std::mem::take(&mut user.pages.missing_bytes);
            if let Some(before) = before.filter(|_| missing_bytes > 0) {
                if self.plug(number, missing_bytes, &before, chip) {
                    return self.after_call(number, chip);
                }
                hart = before;
                let mut user = User { pages: &mut self.pages, chip };
                user.pages.may_wait = false;
                reply = self.kernel.call(number, &mut hart, &mut user, &mut self.host);
            }
            match reply.effect {
                Effect::Return if is_clock => {
                    self.resume_after(self.clock_cycles, number, &hart, chip);
                }
                effect => self.effect(number, hart, effect, chip),
            }
            for woken in reply.woken {
                self.wake(woken, chip);
            }
        }
        self.after_call(number, chip);
    }

    fn effect(&mut self, number: usize, hart: Hart, effect: Effect, chip: &mut Chip) {
        match effect {
            Effect::Return => self.resume(number, &hart, chip),
            Effect::Yield => self.leave(number, Thread::Ready { hart: Box::new(hart) }, chip),
            Effect::Spawn { hart: on, state } => {
                self.start(on, &state, chip);
                self.resume(number, &hart, chip);
            }
            Effect::Sleep { until_ns } => {
                let until = until_ns.map(|ns| self.cycle_of(ns).max(chip.wires.now + 1));
                let until = until.filter(|&at| at < NEVER);
                self.leave(number, Thread::Asleep { hart: Box::new(hart), until }, chip);
            }
            Effect::ExitThread => self.leave(number, Thread::Idle, chip),
            Effect::Exit(code) => self.stop(End::Exit(code), chip),
            Effect::Killed(signal) => self.kill(number, signal, hart.pc, chip),
        }
    }

    /// Has a driver carry out a call, if it is a driver's.
    fn driver_call(&mut self, number: usize, hart: &Hart, chip: &mut Chip) -> Option<Answer> {
        let call = hart.x[abi::A7];
        let args = std::array::from_fn(|at| hart.x[abi::A0 + at]);
        let (kernel, mut user) = (&mut self.kernel, User { pages: &mut self.pages, chip });
        match &mut self.lending {
            Some(lending) if borrow::has_call(call) => {
                Some(lending.call(number, call, args, kernel, &mut user))
            }
            _ if Device::has_call(call) => {
                let core = self.turns.core_of(number) as u16;
                Some(self.device.call(core, call, args, kernel, &mut user))
            }
            _ => None,
        }
    }

    fn answer(&mut self, number: usize, mut hart: Hart, answer: Answer, chip: &mut Chip) {
        hart.pc = hart.pc.wrapping_add(INST_BYTES);
        match answer {
            Answer::Value(value) => {
                hart.x[abi::A0] = value;
                self.resume(number, &hart, chip);
            }
            Answer::Watch { address, value, timeout_ns } => {
                let now = chip.wires.now;
                let until = self.host.now_ns.checked_add(timeout_ns).map(|ns| self.cycle_of(ns));
                let (hart, next) = (Box::new(hart), now + 1);
                let until = until.map(|at| at.max(next));
                let thread = Thread::Watching { hart, address, value, next, until };
                self.leave(number, thread, chip);
            }
            Answer::Asking => {
                self.leave(number, Thread::Asking { hart: Box::new(hart) }, chip);
            }
        }
    }

    /// Handles the effects of a call besides those on data: changed code and translations, memory
    /// exhausted.
    fn after_call(&mut self, number: usize, chip: &mut Chip) {
        if self.pages.code_changed {
            self.note_libraries(chip);
        }
        let Pages { code_changed, translations_changed, is_exhausted, space, .. } = &mut self.pages;
        if std::mem::take(code_changed) {
            chip.wires.mmu.forget_instructions();
            for cpu in chip.tiles.iter_mut().filter_map(|tile| tile.cpu.as_mut()) {
                cpu.forget_instructions();
            }
        }
        if std::mem::take(translations_changed)
            && let Ni::Sonuma(node) = &mut chip.ni
        {
            node.rmc.invalidate_translations(Some(space.asid), None);
        }
        if std::mem::take(is_exhausted) && self.end.is_none() {
            const SIGKILL: i32 = 9;
            let why = "memory.size_bytes: the node's memory is full; give it more";
            let place = format!("core {}", self.turns.core_of(number));
            self.host.stderr.extend_from_slice(format!("{place}: {why}\n").as_bytes());
            self.stop(End::Killed { signal: SIGKILL, place }, chip);
        }
    }

    /// A thread that sleeps goes on, and one that runs looks whether it has a signal. One that waits for its turn does
    /// so when that begins.
    fn wake(&mut self, number: usize, chip: &mut Chip) {
        match &self.threads[number] {
            Thread::Asleep { hart, .. } => self.resume_or_kill(number, hart.clone(), chip),
            Thread::Running => self.stop_between(number, chip),
            _ => {}
        }
    }

    /// Ends the process by a signal that it does not handle.
    fn kill(&mut self, number: usize, signal: i32, pc: u64, chip: &mut Chip) {
        let core = self.turns.core_of(number);
        let place = format!("core {core} at {}", self.symbols().describe(pc));
        self.stop(End::Killed { signal, place }, chip);
    }

    /// Faults that look like a stack that was too small are called so.
    fn explain(&self, fault: Fault, hart: &Hart, chip: &Chip) -> Why {
        let page = chip.wires.mmu.page(fault.address).map(|page| page.permissions);
        let page = page.or_else(|| self.kernel.reserved(fault.address));
        Why::of(fault, hart.x[abi::SP], self.stack_bytes, page)
    }

    fn crash(&mut self, number: usize, pc: u64, why: Why, chip: &mut Chip) {
        let text = chip.wires.image.as_ref().map(|image| chip.wires.mmu.text(image));
        let instruction = text.and_then(|text| fetch(pc, &text).ok());
        let failure = Failure {
            hart: self.turns.core_of(number),
            pc,
            location: self.symbols().describe(pc).to_string(),
            instruction: instruction.map(|inst| disassemble(&inst, pc).to_string()),
            instructions: self.instructions(chip),
            why,
        };
        self.stop(End::Crashed(Crash { failure: Box::new(failure) }), chip);
    }

    fn ns(&self, cycle: Cycle) -> u64 {
        (cycle as f64 / self.clock_ghz) as u64
    }

    fn cycle_of(&self, ns: u64) -> Cycle {
        (ns as f64 * self.clock_ghz).ceil() as Cycle
    }
}
