//! The out-of-order core beside the interpreter, instruction by instruction.
//!
//! Both run the same program with the same system calls. After each instruction that the core retires, the interpreter
//! executes one: addresses and results have to be equal, and at each system call all registers. Whether a store
//! conditional succeeds is up to the core, as the specification leaves it open.

mod interpreter;
mod memory;

use rackmem_riscv::host::{LocalHost, Output};
use rackmem_riscv::kernel::{Effect, Kernel, UserMemory};
use rackmem_riscv::space::AddressSpace;
use rackmem_riscv::{Hart, abi, elf, stack};

use self::interpreter::Interpreter;
use self::memory::Memory;
use crate::cpu::{Core, CpuSpec, Next, Stop};
use crate::engine::Cycle;

/// More than the ready-built programs need.
const STACK_BYTES: u64 = 1 << 20;

/// Cycles without a retired instruction after which a program is given up.
const PATIENCE_CYCLES: Cycle = 1_000_000;

/// The result for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Instructions that were compared.
    pub compared: u64,
    /// Of these, the ones on which both agree.
    pub agreed: u64,
    /// The first difference, which ends the comparison.
    pub difference: Option<String>,
    /// Exit status of the program; none if it started a thread, which ends the comparison.
    pub status: Option<i32>,
}

/// Runs a program on both, until its end, its first thread or the first difference.
///
/// # Errors
/// The program cannot be loaded, does what no program may do, or does not come to an end.
pub fn compare(file: &[u8], args: &[&str], spec: &CpuSpec) -> Result<Agreement, String> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let (ours, space) = Process::load(file, &args)?;
    let (theirs, their_space) = Process::load(file, &args)?;
    // A core that sleeps does not retire what it repeats.
    let spec = CpuSpec { sleeps: false, ..spec.clone() };
    let mut core = Core::new(&spec, &ours.hart, 0);
    core.record_retired();
    let interpreter = Interpreter::new(theirs, their_space);
    let memory = Memory::new(space);
    Pair { core, ours, memory, interpreter, now: 0, result: Agreement::default() }.run()
}

/// A process with one thread: everything but its memory.
struct Process {
    hart: Hart,
    kernel: Kernel,
    host: LocalHost,
}

impl Process {
    fn load(file: &[u8], args: &[String]) -> Result<(Process, AddressSpace), String> {
        let mut space = AddressSpace::new();
        let image = elf::load(file, &mut space).map_err(|error| error.to_string())?;
        let sp = stack::set_up(&mut space, STACK_BYTES, &image, args, &[], [1; 16])
            .map_err(|error| error.to_string())?;
        let mut hart = Hart::new(image.entry & !1);
        hart.x[abi::SP] = sp;
        let kernel = Kernel::new(image.end, 0);
        let host = LocalHost::new(2, Output::Capture, None);
        Ok((Process { hart, kernel, host }, space))
    }

    /// Makes the system call at which it stands, after so many instructions; each is a nanosecond.
    fn call(&mut self, instructions: u64, memory: &mut dyn UserMemory) -> Effect {
        self.host.now_ns = self.host.now_ns.max(instructions);
        let effect = self.kernel.call(0, &mut self.hart, memory, &mut self.host).effect;
        if let Effect::Sleep { until_ns: Some(until) } = effect {
            self.host.now_ns = until;
            self.kernel.time_out(0, &mut self.hart);
        }
        effect
    }
}

struct Pair {
    core: Core,
    ours: Process,
    memory: Memory,
    interpreter: Interpreter,
    now: Cycle,
    result: Agreement,
}

impl Pair {
    fn run(mut self) -> Result<Agreement, String> {
        let mut last_retired = 0;
        loop {
            self.now += 1;
            self.memory.step(self.now, &mut self.core);
            let next = self.core.tick(self.now, &mut self.memory);
            if self.compare_retired() {
                last_retired = self.now;
            }
            if self.result.difference.is_some() {
                break;
            }
            match next {
                Next::Stopped(Stop::Ecall) if self.call() => break,
                Next::Stopped(Stop::Ecall) => {}
                Next::Stopped(stop) => {
                    return Err(format!("{stop:?} at {:#x}", self.core.hart().pc));
                }
                _ if self.now - last_retired > PATIENCE_CYCLES => {
                    return Err(format!("nothing retires after {:#x}", self.core.oldest_pc()));
                }
                _ => {}
            }
        }
        Ok(self.result)
    }

    /// Lets the interpreter execute what the core has retired. Returns whether it was anything.
    fn compare_retired(&mut self) -> bool {
        let retired = self.core.take_retired();
        for one in &retired {
            self.result.compared += 1;
            if let Err(difference) = self.interpreter.step(one) {
                self.result.difference = Some(difference);
                break;
            }
            self.result.agreed += 1;
        }
        !retired.is_empty()
    }

    /// A system call of both. Returns whether the comparison is over.
    fn call(&mut self) -> bool {
        self.ours.hart = self.core.hart();
        let pc = self.ours.hart.pc;
        let mut differs = self.interpreter.differs(&self.ours.hart);
        let effect = self.ours.call(self.result.agreed, &mut self.memory.space);
        let same = effect == self.interpreter.call(self.result.agreed);
        differs = differs
            .or((!same).then(|| "effects".to_owned()))
            .or_else(|| self.interpreter.differs(&self.ours.hart));
        if let Some(what) = differs {
            self.result.difference = Some(format!("the system call at {pc:#x}: {what}"));
            return true;
        }
        match effect {
            Effect::Return | Effect::Yield | Effect::Sleep { until_ns: Some(_) } => {}
            Effect::Exit(status) => {
                self.result.status = Some(status);
                return true;
            }
            _ => return true,
        }
        self.memory.forget_instructions();
        self.core.forget_instructions();
        self.core.resume(&self.ours.hart, self.now);
        false
    }
}
