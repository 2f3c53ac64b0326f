//! The pre-decoded form of an instruction, and its properties for timing models.

use serde::{Deserialize, Serialize};

use crate::op::{Class, Format, Kind, Op};

/// One instruction, decoded once and executed many times: 16 bytes.
///
/// A compressed instruction is held in its expanded form; only [`Inst::len`] and [`Inst::raw`]
/// distinguish it from the full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// Operation; that of the expanded form for compressed instructions.
    pub op: Op,
    /// Number of the destination register, 0 if there is none.
    pub rd: u8,
    /// Number of the first source register, or the immediate of `csrrwi` and its like.
    pub rs1: u8,
    /// Number of the second source register.
    pub rs2: u8,
    /// Number of the third source register (fused multiply-add).
    pub rs3: u8,
    /// Floating point: the rounding mode as encoded. Atomics: [`Inst::ACQUIRE`] and
    /// [`Inst::RELEASE`].
    pub rm: u8,
    /// Length in bytes: 2 or 4.
    pub len: u8,
    /// Immediate, sign-extended. The register number for Zicsr; `fm`, `pred` and `succ` for fences.
    pub imm: i32,
    /// The instruction as it stands in memory; 16 bits of it if it is compressed.
    pub raw: u32,
}

const _: () = assert!(size_of::<Inst>() == 16);

/// A register that an instruction reads or writes: `x0..x31` are 0 to 31, `f0..f31` are 32 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u8);

impl Reg {
    /// Number of registers, both files together.
    pub const COUNT: usize = 64;

    /// Integer register `number`.
    pub const fn x(number: u8) -> Reg {
        Reg(number)
    }

    /// Floating-point register `number`.
    pub const fn f(number: u8) -> Reg {
        Reg(32 + number)
    }

    /// Whether it is a floating-point register.
    pub const fn is_float(self) -> bool {
        self.0 >= 32
    }

    /// The index in an array of [`Reg::COUNT`] entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A hint that marks a region of interest, as `rackmem/region.h` has them. To other machines it is no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mark {
    /// `slti x0, x0, 1`
    Begin,
    /// `slti x0, x0, 2`
    End,
}

impl Mark {
    /// The mark with this number, the immediate of the instruction.
    pub const fn of(number: i32) -> Option<Mark> {
        match number {
            1 => Some(Mark::Begin),
            2 => Some(Mark::End),
            _ => None,
        }
    }
}

/// Hint of a jump to the return address stack (unprivileged specification, table "Return-address
/// stack prediction hints").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JumpHint {
    /// The jump touches no return stack.
    None,
    /// Push the address after the jump.
    Call,
    /// Pop the target.
    Return,
    /// Pop the target, then push the address after the jump.
    ReturnAndCall,
}

impl Inst {
    /// Bit of [`Inst::rm`]: no later access may be seen before this atomic.
    pub const ACQUIRE: u8 = 2;
    /// Bit of [`Inst::rm`]: no earlier access may be seen after this atomic.
    pub const RELEASE: u8 = 1;

    /// An encoding without an instruction; executing it is an illegal-instruction trap.
    pub const fn illegal(raw: u32, len: u8) -> Inst {
        Inst { op: Op::Illegal, rd: 0, rs1: 0, rs2: 0, rs3: 0, rm: 0, len, imm: 0, raw }
    }

    /// The functional unit it needs.
    #[inline]
    pub fn class(&self) -> Class {
        self.op.class()
    }

    /// Bytes that it moves to or from memory, 0 if none.
    #[inline]
    pub fn access_size(&self) -> u8 {
        self.op.access_size()
    }

    /// The register that it writes. `x0` is none.
    pub fn dest(&self) -> Option<Reg> {
        let operands = self.op.format().operands();
        match operands.rd {
            Kind::Int if self.rd != 0 => Some(Reg::x(self.rd)),
            Kind::Float => Some(Reg::f(self.rd)),
            _ => None,
        }
    }

    /// The registers that it reads. `x0` is none.
    pub fn sources(&self) -> [Option<Reg>; 3] {
        let operands = self.op.format().operands();
        let register = |kind, number| match kind {
            Kind::Int if number != 0 => Some(Reg::x(number)),
            Kind::Float => Some(Reg::f(number)),
            _ => None,
        };
        [
            register(operands.rs1, self.rs1),
            register(operands.rs2, self.rs2),
            register(operands.rs3, self.rs3),
        ]
    }

    /// Its hint to the return address stack; [`JumpHint::None`] unless it is `jal` or `jalr`.
    pub fn jump_hint(&self) -> JumpHint {
        let is_link = |register: u8| register == 1 || register == 5;
        match self.op {
            Op::Jal if is_link(self.rd) => JumpHint::Call,
            Op::Jalr => match (is_link(self.rd), is_link(self.rs1)) {
                (false, false) => JumpHint::None,
                (false, true) => JumpHint::Return,
                (true, true) if self.rd != self.rs1 => JumpHint::ReturnAndCall,
                (true, _) => JumpHint::Call,
            },
            _ => JumpHint::None,
        }
    }

    /// Target address of a branch or `jal` at `pc`; `None` for everything else.
    pub fn target(&self, pc: u64) -> Option<u64> {
        match self.op.format() {
            Format::Branch | Format::Jal => Some(pc.wrapping_add_signed(self.imm.into())),
            _ => None,
        }
    }
}
