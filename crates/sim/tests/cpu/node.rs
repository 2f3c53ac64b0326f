//! Cores around one memory, and a kernel.

use std::fs::File;
use std::io;

use rackmem_riscv::kernel::{Effect, Host, Kernel, OpenMode, Stream};
use rackmem_riscv::space::{AddressSpace, Permissions};
use rackmem_riscv::{Hart, abi, elf, stack};
use rackmem_sim::cpu::{Core, CpuSpec, Next, Stop};
use rackmem_sim::engine::Cycle;

use crate::code::Code;
use crate::memory::{Delays, Memory, Notice, View};

/// Address of short programs; each has a page.
pub const CODE: u64 = 0x1_0000;

/// Address of their data.
pub const DATA: u64 = 0x40_0000;

/// Bytes of them.
pub const DATA_BYTES: u64 = 1 << 20;

/// Cores, and when they are to be looked at.
pub struct Node {
    pub cores: Vec<Core>,
    pub memory: Memory,
    due: Vec<Option<Cycle>>,
    pub now: Cycle,
    notices: Vec<Notice>,
    /// Cycles of cores that were simulated one by one.
    pub ticks: u64,
    /// Whether to look at all cores in all cycles.
    pub is_busy: bool,
}

impl Node {
    pub fn new(memory: Memory) -> Node {
        Node {
            cores: Vec::new(),
            memory,
            due: Vec::new(),
            now: 0,
            notices: Vec::new(),
            ticks: 0,
            is_busy: false,
        }
    }

    /// A node of one core per program, all registers zero but `a0` = [`DATA`]; its instructions are
    /// in its cache.
    pub fn short(programs: &[Code], spec: &CpuSpec, delays: Delays, seed: u64) -> Node {
        let mut space = AddressSpace::new();
        let executable = Permissions { read: true, write: false, execute: true };
        space.map(DATA, DATA_BYTES, Permissions::READ_WRITE);
        for (number, program) in programs.iter().enumerate() {
            let address = CODE + (number as u64) * 0x4000;
            let bytes: Vec<u8> = program.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            space.map(address, 0x4000, executable);
            space.install(address, &bytes);
        }
        let mut node = Node::new(Memory::new(space, delays, seed));
        for number in 0..programs.len() {
            let address = CODE + (number as u64) * 0x4000;
            let mut hart = Hart::new(address);
            hart.x[10] = DATA;
            node.memory.warm(number, address, 0x4000, false);
            node.add(Core::new(spec, &hart, 0));
        }
        node
    }

    pub fn add(&mut self, core: Core) {
        self.cores.push(core);
        self.due.push(Some(self.now + 1));
    }

    /// Runs until a core stops, or nothing is due any more, or to the end of cycle `limit`.
    pub fn run_to_stop(&mut self, limit: Cycle) -> Option<(usize, Stop)> {
        loop {
            let cores = self.due.iter().flatten().min().copied();
            let busy = self.is_busy.then_some(self.now + 1);
            let next = cores.into_iter().chain(self.memory.next()).chain(busy).min()?;
            if next > limit {
                return None;
            }
            if let Some(stop) = self.step(next) {
                return Some(stop);
            }
        }
    }

    /// Runs until all cores have stopped.
    pub fn run(&mut self, limit: Cycle) {
        while self.cores.iter().any(|core| core.stopped().is_none()) {
            let stopped = self.run_to_stop(limit);
            assert!(stopped.is_some(), "after {limit} cycles the cores have not all stopped");
        }
    }

    /// One cycle; if several cores stop, the others are found at once next time.
    fn step(&mut self, now: Cycle) -> Option<(usize, Stop)> {
        self.now = now;
        self.memory.step(now, &mut self.notices);
        for notice in std::mem::take(&mut self.notices) {
            let (core, wants) = match notice {
                Notice::Complete(core) => (core, self.cores[core].complete()),
                Notice::Lost(core, line) => (core, self.cores[core].lost(line)),
            };
            if wants {
                self.due[core] = Some(now);
            }
        }
        let mut stopped = None;
        for core in 0..self.cores.len() {
            let is_running = self.cores[core].stopped().is_none();
            if self.due[core].is_some_and(|due| due <= now) || self.is_busy && is_running {
                self.ticks += 1;
                let mut view = View { memory: &mut self.memory, core, now };
                let next = self.cores[core].tick(now, &mut view);
                self.due[core] = match next {
                    Next::At(at) => Some(at),
                    Next::Told => None,
                    Next::Stopped(stop) => {
                        stopped = stopped.or(Some((core, stop)));
                        None
                    }
                };
            }
        }
        stopped
    }

    /// Brings all counts up to now.
    pub fn settle(&mut self) {
        for core in 0..self.cores.len() {
            let mut view = View { memory: &mut self.memory, core, now: self.now };
            self.cores[core].settle(self.now, &mut view);
            if self.cores[core].stopped().is_none() {
                self.due[core] = Some(self.now + 1);
            }
        }
    }

    pub fn x(&self, core: usize, register: u32) -> u64 {
        self.cores[core].hart().x[register as usize]
    }
}

/// A program with its kernel.
pub struct System {
    pub node: Node,
    kernel: Kernel,
    world: World,
    spec: CpuSpec,
    /// Cycles that a system call takes.
    call_cycles: Cycle,
    asleep: Vec<bool>,
}

#[derive(Default)]
struct World {
    output: Vec<u8>,
    now: Cycle,
}

impl Host for World {
    fn now_ns(&mut self) -> u64 {
        self.now / 2
    }

    fn output(&mut self, _: Stream, bytes: &[u8]) -> io::Result<()> {
        self.output.extend(bytes);
        Ok(())
    }

    fn input(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn open(&mut self, _: &str, _: OpenMode) -> io::Result<File> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn harts(&self) -> usize {
        8
    }

    fn warn(&mut self, message: &str) {
        panic!("{message}");
    }
}

impl System {
    pub fn new(file: &[u8], spec: &CpuSpec, delays: Delays, seed: u64) -> System {
        let mut space = AddressSpace::new();
        let image = elf::load(file, &mut space).expect("it is a program");
        let sp = stack::set_up(&mut space, 1 << 20, &image, &["test".into()], &[], [1; 16]);
        let mut hart = Hart::new(image.entry);
        hart.x[abi::SP] = sp;
        let mut node = Node::new(Memory::new(space, delays, seed));
        node.add(Core::new(spec, &hart, 0));
        System {
            node,
            kernel: Kernel::new(image.end, 0),
            world: World::default(),
            spec: spec.clone(),
            call_cycles: 100,
            asleep: vec![false],
        }
    }

    /// Runs to the end. Returns the exit code and the output.
    pub fn run(&mut self, limit: Cycle) -> (i32, Vec<u8>) {
        loop {
            let (core, stop) = self.next_stop(limit);
            assert_eq!(stop, Stop::Ecall, "at {:#x}", self.node.cores[core].hart().pc);
            if let Some(code) = self.call(core) {
                return (code, std::mem::take(&mut self.world.output));
            }
        }
    }

    /// Runs until nothing is due any more, or to the end of cycle `limit`.
    pub fn run_to_silence(&mut self, limit: Cycle) {
        while let Some((core, stop)) = self.node.run_to_stop(limit) {
            assert_eq!(stop, Stop::Ecall, "at {:#x}", self.node.cores[core].hart().pc);
            assert_eq!(self.call(core), None, "it ends");
        }
    }

    /// A core that has stopped and is not asleep in a call.
    fn next_stop(&mut self, limit: Cycle) -> (usize, Stop) {
        loop {
            for (number, core) in self.node.cores.iter().enumerate() {
                if let (Some(stop), false) = (core.stopped(), self.asleep[number]) {
                    return (number, stop);
                }
            }
            let stopped = self.node.run_to_stop(limit);
            assert!(stopped.is_some(), "nothing goes on after cycle {}", self.node.now);
        }
    }

    fn call(&mut self, number: usize) -> Option<i32> {
        let now = self.node.now;
        self.world.now = now;
        let mut hart = self.node.cores[number].hart();
        let space = &mut self.node.memory.space;
        let reply = self.kernel.call(number, &mut hart, space, &mut self.world);
        let goes_on = match reply.effect {
            Effect::Exit(code) => return Some(code),
            Effect::Killed(signal) => return Some(128 + signal),
            Effect::Sleep { .. } => {
                self.node.cores[number].resume(&hart, now);
                self.node.due[number] = None;
                false
            }
            Effect::ExitThread => {
                self.asleep[number] = true;
                return self.wake(&reply.woken);
            }
            Effect::Spawn { hart: on, state } => {
                self.spawn(on, &state);
                true
            }
            Effect::Return | Effect::Yield => true,
        };
        if goes_on {
            self.node.cores[number].resume(&hart, now + self.call_cycles);
            self.node.due[number] = Some(now + self.call_cycles + 1);
        }
        self.wake(&reply.woken)
    }

    fn spawn(&mut self, on: usize, state: &Hart) {
        let (now, node) = (self.node.now, &mut self.node);
        if on == node.cores.len() {
            node.add(Core::new(&self.spec, state, now));
            self.asleep.push(false);
        } else {
            node.cores[on].resume(state, now);
            node.due[on] = Some(now + 1);
            self.asleep[on] = false;
        }
    }

    fn wake(&mut self, woken: &[usize]) -> Option<i32> {
        for &core in woken {
            self.node.due[core] = Some(self.node.now + self.call_cycles);
        }
        None
    }
}
