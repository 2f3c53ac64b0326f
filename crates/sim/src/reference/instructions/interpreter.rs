//! The interpreter, an instruction at a time.

use rackmem_riscv::code::Code;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::exec::execute;
use rackmem_riscv::kernel::Effect;
use rackmem_riscv::space::{AddressSpace, Fault};
use rackmem_riscv::{AmoOp, Hart, Port, Reg, f_name, x_name};

use super::Process;
use crate::cpu::Retired;

pub(super) struct Interpreter {
    process: Process,
    space: AddressSpace,
    code: Code,
    executed: u64,
}

impl Interpreter {
    pub(super) fn new(process: Process, space: AddressSpace) -> Interpreter {
        Interpreter { process, space, code: Code::new(), executed: 0 }
    }

    /// Executes an instruction. The error says in what it differs from the one that the core has retired.
    pub(super) fn step(&mut self, retired: &Retired) -> Result<(), String> {
        let hart = &mut self.process.hart;
        let pc = hart.pc;
        if retired.pc != pc {
            return Err(format!("the core is at {:#x}, the interpreter at {pc:#x}", retired.pc));
        }
        let failed = |what: String| format!("the interpreter at {pc:#x}: {what}");
        let inst = *self.code.get(pc, &self.space).map_err(|fault| failed(format!("{fault:?}")))?;
        let mut bus = Bus {
            space: &mut self.space,
            executed: self.executed,
            conditional: retired.result == 0,
            has_new_code: false,
        };
        execute(hart, &inst, &mut bus).map_err(|exit| failed(format!("{exit:?}")))?;
        let has_new_code = bus.has_new_code;
        self.executed += 1;
        if let Some(register) = inst.dest()
            && value(hart, register) != retired.result
        {
            let (theirs, ours, name) = (value(hart, register), retired.result, name(register));
            return Err(format!("{name} after {pc:#x}: {ours:#x}, in the interpreter {theirs:#x}"));
        }
        if has_new_code {
            self.code.clear();
        }
        Ok(())
    }

    pub(super) fn call(&mut self, instructions: u64) -> Effect {
        self.code.clear();
        self.process.call(instructions, &mut self.space)
    }

    /// The first register that is another one than here.
    pub(super) fn differs(&self, ours: &Hart) -> Option<String> {
        let theirs = &self.process.hart;
        let registers = (0..Reg::COUNT as u8).map(Reg);
        let differs = |&register: &Reg| value(ours, register) != value(theirs, register);
        match registers.into_iter().find(differs) {
            Some(register) => Some(name(register).to_owned()),
            None => (ours != theirs).then(|| "pc or floating-point flags".to_owned()),
        }
    }
}

fn value(hart: &Hart, register: Reg) -> u64 {
    match register.is_float() {
        true => hart.f[register.index() - 32],
        false => hart.x[register.index()],
    }
}

fn name(register: Reg) -> &'static str {
    let number = (register.index() % 32) as u8;
    if register.is_float() { f_name(number) } else { x_name(number) }
}

/// Memory for one instruction.
struct Bus<'a> {
    space: &'a mut AddressSpace,
    /// The value of all counters.
    executed: u64,
    /// Whether a store conditional succeeds.
    conditional: bool,
    has_new_code: bool,
}

impl Port for Bus<'_> {
    type Stop = Fault;

    fn load(&mut self, address: u64, size: u8) -> Result<u64, Fault> {
        self.space.load(address, size)
    }

    fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Fault> {
        self.space.store(address, size, data)
    }

    fn amo(&mut self, op: AmoOp, address: u64, size: u8, operand: u64) -> Result<u64, Fault> {
        let old = self.space.load(address, size)?;
        self.space.store(address, size, op.apply(size, old, operand))?;
        Ok(old)
    }

    fn load_reserved(&mut self, address: u64, size: u8) -> Result<u64, Fault> {
        self.space.load(address, size)
    }

    fn store_conditional(&mut self, address: u64, size: u8, data: u64) -> Result<bool, Fault> {
        if self.conditional {
            self.space.store(address, size, data)?;
        }
        Ok(self.conditional)
    }

    fn fence(&mut self, _predecessors: u8, _successors: u8) -> Result<(), Fault> {
        Ok(())
    }

    fn fence_i(&mut self) -> Result<(), Fault> {
        self.has_new_code = true;
        Ok(())
    }

    fn counter(&mut self, _counter: Counter) -> Result<u64, Fault> {
        Ok(self.executed)
    }
}
