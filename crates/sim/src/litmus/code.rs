//! Short programs, instruction by instruction.

use rackmem_riscv::encode::{b, i, opcode, r, s, u};

/// Registers that programs use.
#[allow(missing_docs)] // The names are those of the calling convention.
pub mod register {
    pub const ZERO: u32 = 0;
    pub const T0: u32 = 5;
    pub const T1: u32 = 6;
    pub const T2: u32 = 7;
    pub const A0: u32 = 10;
    pub const A1: u32 = 11;
    pub const A2: u32 = 12;
    pub const A3: u32 = 13;
    pub const A4: u32 = 14;
    pub const A5: u32 = 15;
}
pub use register::*;

/// A fence between all accesses of memory.
pub const RW_RW: i32 = 0x33;
/// A fence between stores.
pub const W_W: i32 = 0x11;
/// A fence between loads.
pub const R_R: i32 = 0x22;

/// A program being written. Places are numbers of instructions.
#[derive(Clone, Default)]
pub struct Code {
    /// Encoded instructions.
    pub words: Vec<u32>,
}

impl Code {
    /// The place of the next instruction.
    pub fn here(&self) -> usize {
        self.words.len()
    }

    /// Adds an encoded instruction.
    pub fn word(&mut self, word: u32) -> &mut Code {
        self.words.push(word);
        self
    }

    /// Adds the same instructions again and again.
    pub fn repeat(&mut self, times: usize, words: &[u32]) -> &mut Code {
        (0..times).for_each(|_| self.words.extend(words));
        self
    }

    /// `rd = rs1 + imm`.
    pub fn addi(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Code {
        self.word(addi(rd, rs1, imm))
    }

    /// `rd = rs1 + rs2`.
    pub fn add(&mut self, rd: u32, rs1: u32, rs2: u32) -> &mut Code {
        self.word(r(opcode::OP, 0, 0, rd, rs1, rs2))
    }

    /// `rd = rs1 ^ rs2`.
    pub fn xor(&mut self, rd: u32, rs1: u32, rs2: u32) -> &mut Code {
        self.word(r(opcode::OP, 4, 0, rd, rs1, rs2))
    }

    /// A 32-bit constant, sign-extended.
    pub fn li(&mut self, rd: u32, value: i32) -> &mut Code {
        self.word(u(opcode::LUI, rd, value.wrapping_add(0x800)));
        self.word(i(opcode::OP_IMM_32, 0, rd, rd, value << 20 >> 20))
    }

    /// Loads eight bytes.
    pub fn ld(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Code {
        self.word(ld(rd, rs1, imm))
    }

    /// Stores eight bytes.
    pub fn sd(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Code {
        self.word(s(opcode::STORE, 3, rs1, rs2, imm))
    }

    /// Stores four bytes.
    pub fn sw(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Code {
        self.word(s(opcode::STORE, 2, rs1, rs2, imm))
    }

    /// A fence; `sets` has the bits of predecessors, then those of successors.
    pub fn fence(&mut self, sets: i32) -> &mut Code {
        self.word(i(opcode::MISC_MEM, 0, 0, 0, sets))
    }

    /// `funct5` as in the specification; 64 bits; `order` is 2 for acquire, 1 for release.
    pub fn atomic(&mut self, funct5: u32, order: u32, rd: u32, rs1: u32, rs2: u32) -> &mut Code {
        self.word(r(opcode::AMO, 3, funct5 << 2 | order, rd, rs1, rs2))
    }

    /// A branch to a place that is known: 0 beq, 1 bne, 4 blt.
    pub fn branch(&mut self, condition: u32, rs1: u32, rs2: u32, to: usize) -> &mut Code {
        let distance = (to as i32 - self.here() as i32) * 4;
        self.word(b(condition, rs1, rs2, distance))
    }

    /// Branches if two registers differ.
    pub fn bne(&mut self, rs1: u32, rs2: u32, to: usize) -> &mut Code {
        self.branch(1, rs1, rs2, to)
    }

    /// Branches if two registers are the same.
    pub fn beq(&mut self, rs1: u32, rs2: u32, to: usize) -> &mut Code {
        self.branch(0, rs1, rs2, to)
    }

    /// Reads the cycle counter.
    pub fn rdcycle(&mut self, rd: u32) -> &mut Code {
        self.word(i(opcode::SYSTEM, 2, rd, 0, 0xc00))
    }

    /// The end: a breakpoint.
    pub fn stop(&mut self) -> &mut Code {
        self.word(0x0010_0073)
    }
}

/// `rd = rs1 + imm`, encoded.
pub fn addi(rd: u32, rs1: u32, imm: i32) -> u32 {
    i(opcode::OP_IMM, 0, rd, rs1, imm)
}

/// A load of eight bytes, encoded.
pub fn ld(rd: u32, rs1: u32, imm: i32) -> u32 {
    i(opcode::LOAD, 3, rd, rs1, imm)
}
