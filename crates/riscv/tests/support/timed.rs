//! The smallest driver that knows about time: harts issue in order, loads complete later and bind
//! their value then.
//!
//! A hart goes on behind a load that is under way until it meets an instruction that needs the
//! register. Stores, atomics, fences and system calls wait for all loads before them. Latencies
//! come from a closure, so that completions overtake each other as wildly as a test wants.

use rackmem_riscv::code::Code;
use rackmem_riscv::elf::Image;
use rackmem_riscv::exec::Trap;
use rackmem_riscv::exec::split::{Access, AccessKind, Issued, complete, issue};
use rackmem_riscv::kernel::{Effect, Host, Kernel};
use rackmem_riscv::space::{AddressSpace, Fault};
use rackmem_riscv::{Hart, Inst, Reg, abi};

/// A load under way.
struct Pending {
    due: u64,
    inst: Inst,
    access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    Asleep,
}

struct Core {
    hart: Hart,
    state: State,
    /// The cycle that it has come to.
    clock: u64,
    pending: Vec<Pending>,
    reserved_line: Option<u64>,
}

/// Harts, memory and kernel of one program.
pub struct Timed<H, L> {
    space: AddressSpace,
    code: Code,
    kernel: Kernel,
    pub host: H,
    latency: L,
    cores: Vec<Core>,
    /// Instructions issued by all harts.
    pub instructions: u64,
}

const LINE: u64 = 64;

impl Core {
    fn new(hart: Hart, clock: u64) -> Core {
        Core { hart, state: State::Running, clock, pending: Vec::new(), reserved_line: None }
    }

    /// Brings the values of loads that are due by `cycle` to their registers.
    fn complete_until(&mut self, cycle: u64, space: &mut AddressSpace) -> Result<(), Fault> {
        let Core { hart, pending, .. } = self;
        let mut fault = None;
        pending.retain(|load| {
            if load.due > cycle {
                return true;
            }
            match space.load(load.access.address, load.access.size) {
                Ok(value) => complete(hart, &load.inst, value),
                Err(error) => fault = Some(error),
            }
            false
        });
        fault.map_or(Ok(()), Err)
    }

    /// The cycle in which the last load that `inst` has to wait for completes.
    fn ready(&self, inst: &Inst) -> u64 {
        let registers = inst.sources().into_iter().chain([inst.dest()]).flatten();
        let waits = |register: Reg| {
            self.pending.iter().filter(move |load| load.inst.dest() == Some(register))
        };
        registers.flat_map(waits).map(|load| load.due).max().unwrap_or(0)
    }

    fn all_done(&self) -> u64 {
        self.pending.iter().map(|load| load.due).max().unwrap_or(0)
    }
}

impl<H: Host, L: FnMut(u64) -> u64> Timed<H, L> {
    /// A program that is loaded and has its stack. `latency` gives the cycles of a load from an
    /// address.
    pub fn new(space: AddressSpace, image: &Image, sp: u64, host: H, latency: L) -> Self {
        let mut hart = Hart::new(image.entry);
        hart.x[abi::SP] = sp;
        Timed {
            space,
            code: Code::new(),
            kernel: Kernel::new(image.end, 0),
            host,
            latency,
            cores: vec![Core::new(hart, 0)],
            instructions: 0,
        }
    }

    /// Runs to the end; returns the exit code and the cycles it took.
    pub fn run(&mut self) -> Result<(i32, u64), Fault> {
        loop {
            let running = self.cores.iter().enumerate().filter(|(_, c)| c.state == State::Running);
            let next = running.min_by_key(|(_, core)| core.clock);
            let number = next.expect("somebody runs").0;
            if let Some(code) = self.step(number)? {
                return Ok((code, self.cores[number].clock));
            }
        }
    }

    /// One instruction of one hart.
    fn step(&mut self, number: usize) -> Result<Option<i32>, Fault> {
        let core = &mut self.cores[number];
        let inst = *self.code.get(core.hart.pc, &self.space)?;
        core.clock = (core.clock + 1).max(core.ready(&inst));
        core.complete_until(core.clock, &mut self.space)?;
        self.instructions += 1;
        let clock = core.clock;
        match issue(&mut core.hart, &inst, |_| clock) {
            Ok(Issued::Done) => Ok(None),
            Ok(Issued::Access(access)) => {
                self.access(number, inst, access)?;
                Ok(None)
            }
            Err(Trap::Ecall) => {
                self.drain(number)?;
                Ok(self.system_call(number))
            }
            Err(trap) => panic!("{trap:?} at {:#x}", self.cores[number].hart.pc),
        }
    }

    fn drain(&mut self, number: usize) -> Result<(), Fault> {
        let core = &mut self.cores[number];
        core.clock = core.clock.max(core.all_done());
        core.complete_until(core.clock, &mut self.space)
    }

    fn access(&mut self, number: usize, inst: Inst, access: Access) -> Result<(), Fault> {
        if access.kind == AccessKind::Load {
            let core = &mut self.cores[number];
            let due = core.clock + (self.latency)(access.address);
            core.pending.push(Pending { due, inst, access });
            return Ok(());
        }
        self.drain(number)?;
        let Access { address, size, data, .. } = access;
        let line = address / LINE;
        let value = match access.kind {
            AccessKind::Store => {
                self.store(number, address, size, data)?;
                0
            }
            AccessKind::Amo(op) => {
                let old = self.space.load(address, size)?;
                self.store(number, address, size, op.apply(size, old, data))?;
                old
            }
            AccessKind::LoadReserved => {
                self.cores[number].reserved_line = Some(line);
                self.space.load(address, size)?
            }
            AccessKind::StoreConditional => {
                let stands = self.cores[number].reserved_line.take() == Some(line);
                if stands {
                    self.store(number, address, size, data)?;
                }
                u64::from(!stands)
            }
            AccessKind::FenceI => {
                self.code.clear();
                0
            }
            AccessKind::Fence { .. } | AccessKind::Load => 0,
        };
        if access.has_value() {
            complete(&mut self.cores[number].hart, &inst, value);
        }
        Ok(())
    }

    /// A store that the others see at once: their reservations of the line are gone.
    fn store(&mut self, number: usize, address: u64, size: u8, data: u64) -> Result<(), Fault> {
        for (other, core) in self.cores.iter_mut().enumerate() {
            if other != number && core.reserved_line == Some(address / LINE) {
                core.reserved_line = None;
            }
        }
        self.space.store(address, size, data)
    }

    fn system_call(&mut self, number: usize) -> Option<i32> {
        let core = &mut self.cores[number];
        let reply = self.kernel.call(number, &mut core.hart, &mut self.space, &mut self.host);
        let clock = core.clock;
        match reply.effect {
            Effect::Exit(code) => return Some(code),
            Effect::Killed(signal) => return Some(128 + signal),
            Effect::Sleep { .. } => core.state = State::Asleep,
            Effect::ExitThread => core.state = State::Idle,
            Effect::Spawn { hart, state } => {
                let new = Core::new(*state, clock);
                if hart == self.cores.len() {
                    self.cores.push(new);
                } else {
                    self.cores[hart] = new;
                }
            }
            Effect::Return | Effect::Yield => {}
        }
        for woken in reply.woken {
            self.cores[woken].state = State::Running;
            self.cores[woken].clock = clock;
        }
        None
    }
}
