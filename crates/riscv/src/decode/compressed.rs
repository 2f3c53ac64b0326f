//! Compressed instructions (C) as the 32-bit instructions that they stand for.

use crate::encode::{b, i, j, opcode, r, s, u};

/// The fields of a compressed instruction.
struct Half(u32);

impl Half {
    /// Bits `low .. low + count` of the instruction, moved to bit `to`.
    const fn take(&self, low: u32, count: u32, to: u32) -> u32 {
        (self.0 >> low & ((1 << count) - 1)) << to
    }

    /// The register in bits 11 to 7.
    const fn rd(&self) -> u32 {
        self.take(7, 5, 0)
    }

    /// The register in bits 6 to 2.
    const fn rs2(&self) -> u32 {
        self.take(2, 5, 0)
    }

    /// The register in bits 9 to 7, one of `x8..x15`.
    const fn short_rs1(&self) -> u32 {
        self.take(7, 3, 0) + 8
    }

    /// The register in bits 4 to 2, one of `x8..x15`.
    const fn short_rs2(&self) -> u32 {
        self.take(2, 3, 0) + 8
    }

    /// The signed 6-bit immediate of the CI format.
    const fn imm(&self) -> i32 {
        sign_extend(self.take(12, 1, 5) | self.take(2, 5, 0), 6)
    }

    /// The shift amount: the same bits, unsigned.
    const fn shift(&self) -> i32 {
        (self.take(12, 1, 5) | self.take(2, 5, 0)) as i32
    }

    const fn offset_word(&self) -> i32 {
        (self.take(10, 3, 3) | self.take(6, 1, 2) | self.take(5, 1, 6)) as i32
    }

    const fn offset_double(&self) -> i32 {
        (self.take(10, 3, 3) | self.take(5, 2, 6)) as i32
    }

    const fn jump(&self) -> i32 {
        let imm = self.take(12, 1, 11)
            | self.take(11, 1, 4)
            | self.take(9, 2, 8)
            | self.take(8, 1, 10)
            | self.take(7, 1, 6)
            | self.take(6, 1, 7)
            | self.take(3, 3, 1)
            | self.take(2, 1, 5);
        sign_extend(imm, 12)
    }

    const fn branch(&self) -> i32 {
        let imm = self.take(12, 1, 8)
            | self.take(10, 2, 3)
            | self.take(5, 2, 6)
            | self.take(3, 2, 1)
            | self.take(2, 1, 5);
        sign_extend(imm, 9)
    }
}

const fn sign_extend(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

const SP: u32 = 2;

/// The 32-bit instruction that a compressed one stands for, `None` if it is reserved or no
/// compressed instruction.
pub const fn expand(half: u16) -> Option<u32> {
    let c = Half(half as u32);
    match (half & 3, half >> 13) {
        (0, funct3) => quadrant_0(&c, funct3),
        (1, funct3) => quadrant_1(&c, funct3),
        (2, funct3) => quadrant_2(&c, funct3),
        _ => None,
    }
}

/// Loads and stores of the short registers, and `c.addi4spn`.
const fn quadrant_0(c: &Half, funct3: u16) -> Option<u32> {
    let (rd, rs1) = (c.short_rs2(), c.short_rs1());
    Some(match funct3 {
        0 => {
            let imm = c.take(11, 2, 4) | c.take(7, 4, 6) | c.take(6, 1, 2) | c.take(5, 1, 3);
            if imm == 0 {
                return None;
            }
            i(opcode::OP_IMM, 0, rd, SP, imm as i32)
        }
        1 => i(opcode::LOAD_FP, 3, rd, rs1, c.offset_double()),
        2 => i(opcode::LOAD, 2, rd, rs1, c.offset_word()),
        3 => i(opcode::LOAD, 3, rd, rs1, c.offset_double()),
        5 => s(opcode::STORE_FP, 3, rs1, rd, c.offset_double()),
        6 => s(opcode::STORE, 2, rs1, rd, c.offset_word()),
        7 => s(opcode::STORE, 3, rs1, rd, c.offset_double()),
        _ => return None,
    })
}

/// Immediates, arithmetic of the short registers, jumps and branches.
const fn quadrant_1(c: &Half, funct3: u16) -> Option<u32> {
    let rd = c.rd();
    Some(match funct3 {
        0 => i(opcode::OP_IMM, 0, rd, rd, c.imm()),
        1 if rd != 0 => i(opcode::OP_IMM_32, 0, rd, rd, c.imm()),
        2 => i(opcode::OP_IMM, 0, rd, 0, c.imm()),
        3 if c.imm() == 0 => return None,
        3 if rd == SP => i(opcode::OP_IMM, 0, SP, SP, stack_adjustment(c)),
        3 => u(opcode::LUI, rd, c.imm() << 12),
        4 => return arithmetic(c),
        5 => j(0, c.jump()),
        6 => b(0, c.short_rs1(), 0, c.branch()),
        7 => b(1, c.short_rs1(), 0, c.branch()),
        _ => return None,
    })
}

/// The immediate of `c.addi16sp`.
const fn stack_adjustment(c: &Half) -> i32 {
    let imm =
        c.take(12, 1, 9) | c.take(6, 1, 4) | c.take(5, 1, 6) | c.take(3, 2, 7) | c.take(2, 1, 5);
    sign_extend(imm, 10)
}

const fn arithmetic(c: &Half) -> Option<u32> {
    let (rd, rs2) = (c.short_rs1(), c.short_rs2());
    Some(match (c.take(10, 2, 0), c.take(12, 1, 2) | c.take(5, 2, 0)) {
        (0, _) => i(opcode::OP_IMM, 5, rd, rd, c.shift()),
        (1, _) => i(opcode::OP_IMM, 5, rd, rd, c.shift() | 0x400),
        (2, _) => i(opcode::OP_IMM, 7, rd, rd, c.imm()),
        (_, 0) => r(opcode::OP, 0, 0x20, rd, rd, rs2),
        (_, 1) => r(opcode::OP, 4, 0, rd, rd, rs2),
        (_, 2) => r(opcode::OP, 6, 0, rd, rd, rs2),
        (_, 3) => r(opcode::OP, 7, 0, rd, rd, rs2),
        (_, 4) => r(opcode::OP_32, 0, 0x20, rd, rd, rs2),
        (_, 5) => r(opcode::OP_32, 0, 0, rd, rd, rs2),
        _ => return None,
    })
}

/// Loads and stores on the stack, moves, indirect jumps.
const fn quadrant_2(c: &Half, funct3: u16) -> Option<u32> {
    let (rd, rs2) = (c.rd(), c.rs2());
    let load_double = (c.take(12, 1, 5) | c.take(5, 2, 3) | c.take(2, 3, 6)) as i32;
    let load_word = (c.take(12, 1, 5) | c.take(4, 3, 2) | c.take(2, 2, 6)) as i32;
    let store_double = (c.take(10, 3, 3) | c.take(7, 3, 6)) as i32;
    let store_word = (c.take(9, 4, 2) | c.take(7, 2, 6)) as i32;
    Some(match funct3 {
        0 => i(opcode::OP_IMM, 1, rd, rd, c.shift()),
        1 => i(opcode::LOAD_FP, 3, rd, SP, load_double),
        2 if rd != 0 => i(opcode::LOAD, 2, rd, SP, load_word),
        3 if rd != 0 => i(opcode::LOAD, 3, rd, SP, load_double),
        4 => return move_or_jump(c),
        5 => s(opcode::STORE_FP, 3, SP, rs2, store_double),
        6 => s(opcode::STORE, 2, SP, rs2, store_word),
        7 => s(opcode::STORE, 3, SP, rs2, store_double),
        _ => return None,
    })
}

const fn move_or_jump(c: &Half) -> Option<u32> {
    const EBREAK: u32 = 0x0010_0073;
    let (rd, rs2) = (c.rd(), c.rs2());
    Some(match (c.take(12, 1, 0), rd, rs2) {
        (0, 0, 0) => return None,
        (0, _, 0) => i(opcode::JALR, 0, 0, rd, 0),
        (0, _, _) => r(opcode::OP, 0, 0, rd, 0, rs2),
        (_, 0, 0) => EBREAK,
        (_, _, 0) => i(opcode::JALR, 0, 1, rd, 0),
        (_, _, _) => r(opcode::OP, 0, 0, rd, rd, rs2),
    })
}
