//! Cores around one memory.

use rackmem_riscv::Hart;
use rackmem_riscv::space::{AddressSpace, Permissions};

use super::code::Code;
use super::memory::{Delays, Memory, Notice, View};
use crate::cpu::{Core, CpuSpec, Next, Stop};
use crate::engine::Cycle;

/// Address of short programs; each has [`CODE_BYTES`].
pub const CODE: u64 = 0x1_0000;

/// Bytes of each of them at most.
pub const CODE_BYTES: u64 = 0x4000;

/// Address of the program of a core.
pub fn code_address(core: usize) -> u64 {
    CODE + core as u64 * CODE_BYTES
}

/// Address of their data.
pub const DATA: u64 = 0x40_0000;

/// Bytes that are mapped there: a megabyte.
pub const DATA_BYTES: u64 = 1 << 20;

/// A short program, and the registers with which it starts.
#[derive(Clone)]
pub struct Start {
    /// Its instructions.
    pub code: Code,
    /// Integer registers, the first one being zero.
    pub registers: [u64; 32],
}

/// Memory for short programs of so many cores, and their data.
pub fn space(cores: usize) -> AddressSpace {
    let mut space = AddressSpace::new();
    let executable = Permissions { read: true, write: false, execute: true };
    space.map(DATA, DATA_BYTES, Permissions::READ_WRITE);
    space.map(CODE, cores as u64 * CODE_BYTES, executable);
    space
}

/// Cores, and when they are to be looked at.
pub struct Node {
    /// By number.
    pub cores: Vec<Core>,
    /// The memory that they share.
    pub memory: Memory,
    /// By core: the cycle in which it has to be looked at.
    pub due: Vec<Option<Cycle>>,
    /// The cycle that it has come to.
    pub now: Cycle,
    notices: Vec<Notice>,
    /// Cycles of cores that were simulated one by one.
    pub ticks: u64,
    /// Whether to look at all cores in all cycles.
    pub is_busy: bool,
}

impl Node {
    /// A node without cores.
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
        let mut registers = [0; 32];
        registers[10] = DATA;
        let started: Vec<Start> =
            programs.iter().map(|code| Start { code: code.clone(), registers }).collect();
        Node::started(space(programs.len()), &started, spec, delays, seed)
    }

    /// A node of one core per program, in an address space of [`space`]; its instructions are in its
    /// cache.
    pub fn started(
        mut space: AddressSpace,
        programs: &[Start],
        spec: &CpuSpec,
        delays: Delays,
        seed: u64,
    ) -> Node {
        for (number, start) in programs.iter().enumerate() {
            let words = start.code.words.iter();
            let mut bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
            assert!(bytes.len() <= CODE_BYTES as usize, "short programs have {CODE_BYTES} bytes");
            // What is behind the end may be fetched on a wrong path.
            bytes.resize(CODE_BYTES as usize, 0);
            space.install(code_address(number), &bytes);
        }
        let mut node = Node::new(Memory::new(space, delays, seed));
        for (number, start) in programs.iter().enumerate() {
            let address = code_address(number);
            let hart = Hart { x: start.registers, ..Hart::new(address) };
            let bytes = 4 * start.code.words.len() as u64;
            node.memory.warm(number, address, bytes + 256, false);
            node.add(Core::new(spec, &hart, 0));
        }
        node
    }

    /// Adds a core that begins in the next cycle.
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
    ///
    /// # Panics
    /// They have not after so many cycles.
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

    /// A register of a core that has stopped.
    pub fn x(&self, core: usize, register: u32) -> u64 {
        self.cores[core].hart().x[register as usize]
    }
}
