//! Properties of each operation for the pipeline, in one table.

use rackmem_riscv::{Class, Inst, Op, Reg};

use super::spec::CpuSpec;

/// The unit that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Unit {
    Alu,
    Mul,
    Div,
    Fp,
    FpDiv,
    Memory,
}

pub(super) const UNITS: usize = 6;

/// The way of an instruction through the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Computes a register.
    Plain,
    /// Branches and jumps.
    Jump,
    Load,
    Store,
    /// Waits for its turn at the head of the ROB.
    Atomic,
    Fence,
    FenceI,
    /// Executed alone.
    Csr,
    /// Does not execute.
    System,
}

/// Maps an operand's register field to the register's number in both files together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operand {
    mask: u8,
    base: u8,
}

impl Operand {
    fn of(register: Option<Reg>) -> Operand {
        match register {
            None => Operand::default(),
            Some(register) => Operand { mask: 31, base: if register.is_float() { 32 } else { 0 } },
        }
    }

    /// The register, given the field; `x0` if there is none.
    #[inline(always)]
    pub(super) fn register(self, field: u8) -> u8 {
        (field & self.mask) + self.base
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpInfo {
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    pub(super) cycles: u8,
    pub(super) size: u8,
    rd: Operand,
    sources: [Operand; 3],
}

impl OpInfo {
    /// The registers that an instruction reads; `x0` stands for none.
    #[inline(always)]
    pub(super) fn sources(&self, inst: &Inst) -> [u8; 3] {
        let [a, b, c] = self.sources;
        [a.register(inst.rs1), b.register(inst.rs2), c.register(inst.rs3)]
    }

    /// The register that it writes; `x0` stands for none.
    #[inline(always)]
    pub(super) fn dest(&self, inst: &Inst) -> u8 {
        self.rd.register(inst.rd)
    }
}

pub(super) type OpTable = [OpInfo; 256];

/// The table of a core.
pub(super) fn table(spec: &CpuSpec) -> Box<OpTable> {
    let mut table = Box::new([info(Op::Illegal, spec); 256]);
    for &op in Op::ALL {
        table[op as usize] = info(op, spec);
    }
    table
}

fn info(op: Op, spec: &CpuSpec) -> OpInfo {
    let probe = Inst { op, rd: 1, rs1: 1, rs2: 1, rs3: 1, ..Inst::illegal(0, 4) };
    let (kind, unit, cycles) = place(op, spec);
    OpInfo {
        kind,
        unit,
        cycles: cycles as u8,
        size: op.access_size(),
        rd: Operand::of(probe.dest()),
        sources: probe.sources().map(Operand::of),
    }
}

fn place(op: Op, spec: &CpuSpec) -> (Kind, Unit, u32) {
    match op.class() {
        Class::Alu => (Kind::Plain, Unit::Alu, 1),
        Class::Mul => (Kind::Plain, Unit::Mul, spec.mul_cycles),
        Class::Div => (Kind::Plain, Unit::Div, spec.div_cycles),
        Class::FpAdd => (Kind::Plain, Unit::Fp, spec.fp_add_cycles),
        Class::FpMul => (Kind::Plain, Unit::Fp, spec.fp_mul_cycles),
        Class::FpFma => (Kind::Plain, Unit::Fp, spec.fma_cycles),
        Class::FpDiv | Class::FpSqrt => (Kind::Plain, Unit::FpDiv, spec.fp_div_cycles),
        Class::FpConvert => (Kind::Plain, Unit::Fp, spec.convert_cycles),
        Class::FpMove => (Kind::Plain, Unit::Fp, spec.move_cycles),
        Class::Load => (Kind::Load, Unit::Memory, spec.address_cycles),
        Class::Store => (Kind::Store, Unit::Memory, spec.address_cycles),
        Class::Amo | Class::LoadReserved | Class::StoreConditional => {
            (Kind::Atomic, Unit::Memory, spec.address_cycles)
        }
        Class::Fence if op == Op::FenceI => (Kind::FenceI, Unit::Alu, 1),
        Class::Fence => (Kind::Fence, Unit::Alu, 1),
        Class::Branch | Class::Jump => (Kind::Jump, Unit::Alu, 1),
        Class::Csr => (Kind::Csr, Unit::Alu, 1),
        Class::System => (Kind::System, Unit::Alu, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_agrees_with_the_instructions() {
        let table = table(&CpuSpec::default());
        for &op in Op::ALL {
            let inst = Inst { op, rd: 7, rs1: 8, rs2: 0, rs3: 31, ..Inst::illegal(0, 4) };
            let info = &table[op as usize];
            let number = |register: Option<Reg>| register.map_or(0, |register| register.0);
            assert_eq!(info.sources(&inst), inst.sources().map(number), "{op:?}");
            assert_eq!(info.dest(&inst), number(inst.dest()), "{op:?}");
        }
    }
}
