//! Integer instructions where they are easily got wrong. Operands and results stand here as
//! numbers, so that no arithmetic checks itself.

use rackmem_riscv::encode::{i, j, opcode, r, u};
use rackmem_riscv::exec::split::{Issued, issue};
use rackmem_riscv::{Hart, Op, decode};

const MIN: u64 = 0x8000_0000_0000_0000;
const MAX: u64 = 0x7fff_ffff_ffff_ffff;
const ONES: u64 = u64::MAX;
const MIN32: u64 = 0xffff_ffff_8000_0000;

/// The instruction's result in `a0` for these values of `a0` and `a1`.
fn result(word: u32, a: u64, b: u64) -> u64 {
    let mut hart = Hart::new(0x1000);
    (hart.x[10], hart.x[11]) = (a, b);
    assert_eq!(issue(&mut hart, &decode(word), |_| 0), Ok(Issued::Done));
    hart.x[10]
}

fn reg(code: u32, funct7: u32, funct3: u32) -> u32 {
    r(code, funct3, funct7, 10, 10, 11)
}

fn check(op: Op, word: u32, cases: &[(u64, u64, u64)]) {
    assert_eq!(decode(word).op, op);
    for &(a, b, expected) in cases {
        let result = result(word, a, b);
        assert_eq!(result, expected, "{op:?} of {a:#x} and {b:#x} is {result:#x}");
    }
}

/// The table "Semantics for division by zero and division overflow".
#[test]
fn division_never_traps() {
    let word = |funct3| reg(opcode::OP, 1, funct3);
    check(Op::Div, word(4), &[(7, 0, ONES), (MIN, ONES, MIN), (-7i64 as u64, 2, -3i64 as u64)]);
    check(Op::Divu, word(5), &[(7, 0, ONES), (MIN, ONES, 0), (ONES, 2, MAX)]);
    check(Op::Rem, word(6), &[(7, 0, 7), (MIN, ONES, 0), (-7i64 as u64, 2, ONES)]);
    check(Op::Remu, word(7), &[(7, 0, 7), (MIN, ONES, MIN), (ONES, 16, 15)]);
    let word = |funct3| reg(opcode::OP_32, 1, funct3);
    check(Op::Divw, word(4), &[(7, 0, ONES), (MIN32, ONES, MIN32), (1 << 32, 1 << 32, ONES)]);
    check(Op::Divuw, word(5), &[(7, 1 << 32, ONES), (MIN32, 1, MIN32), (ONES, 2, 0x7fff_ffff)]);
    check(Op::Remw, word(6), &[(MIN32, 0, MIN32), (MIN32, ONES, 0), (0xffff_fff9, 2, ONES)]);
    check(Op::Remuw, word(7), &[(0x8000_0000, 0, MIN32), (0xffff_ffff, 16, 15)]);
}

#[test]
fn upper_halves_of_products() {
    let word = |funct3| reg(opcode::OP, 1, funct3);
    check(Op::Mulh, word(1), &[(MIN, MIN, 1 << 62), (ONES, ONES, 0), (MIN, 2, ONES)]);
    check(Op::Mulhsu, word(2), &[(ONES, ONES, ONES), (MIN, ONES, MIN), (2, MIN, 1)]);
    check(Op::Mulhu, word(3), &[(ONES, ONES, ONES - 1), (MIN, 2, 1), (MIN, MIN, 1 << 62)]);
    check(Op::Mulw, reg(opcode::OP_32, 1, 0), &[(0x1_0000, 0x8000, MIN32), (ONES, ONES, 1)]);
}

#[test]
fn shifts_use_the_low_bits() {
    check(Op::Sll, reg(opcode::OP, 0, 1), &[(1, 64, 1), (1, 127, MIN), (1, 63, MIN)]);
    check(Op::Srl, reg(opcode::OP, 0, 5), &[(MIN, 63, 1), (MIN, 64, MIN)]);
    check(Op::Sra, reg(opcode::OP, 0x20, 5), &[(MIN, 63, ONES), (MIN, 64, MIN)]);
    check(Op::Sllw, reg(opcode::OP_32, 0, 1), &[(1, 32, 1), (1, 31, MIN32)]);
    check(Op::Srlw, reg(opcode::OP_32, 0, 5), &[(MIN32, 31, 1), (MIN32, 32, MIN32)]);
    check(Op::Sraw, reg(opcode::OP_32, 0x20, 5), &[(0x8000_0000, 31, ONES)]);
    check(Op::Srai, i(opcode::OP_IMM, 5, 10, 10, 0x43f), &[(MIN, 0, ONES)]);
    check(Op::Srliw, i(opcode::OP_IMM_32, 5, 10, 10, 1), &[(MIN32, 0, 0x4000_0000)]);
}

#[test]
fn words_are_sign_extended() {
    check(Op::Addw, reg(opcode::OP_32, 0, 0), &[(0x7fff_ffff, 1, MIN32), (1 << 32, 5, 5)]);
    check(Op::Subw, reg(opcode::OP_32, 0x20, 0), &[(0, 1, ONES), (MIN32, 1, 0x7fff_ffff)]);
    check(Op::Addiw, i(opcode::OP_IMM_32, 0, 10, 10, -1), &[(0, 0, ONES), (1 << 32, 0, ONES)]);
    check(Op::Lui, u(opcode::LUI, 10, i32::MIN), &[(0, 0, MIN32)]);
    check(Op::Auipc, u(opcode::AUIPC, 10, -4096), &[(0, 0, 0)]);
}

#[test]
fn comparisons_know_signs() {
    check(Op::Slt, reg(opcode::OP, 0, 2), &[(MIN, MAX, 1), (MAX, MIN, 0), (ONES, 0, 1)]);
    check(Op::Sltu, reg(opcode::OP, 0, 3), &[(MIN, MAX, 0), (MAX, MIN, 1), (0, ONES, 1)]);
    // The immediate is sign-extended first, then compared without sign.
    check(Op::Sltiu, i(opcode::OP_IMM, 3, 10, 10, -1), &[(MAX, 0, 1), (ONES, 0, 0)]);
}

#[test]
fn jumps_link_and_clear_the_lowest_bit() {
    let after = |word: u32, x10| {
        let mut hart = Hart::new(0x1000);
        hart.x[10] = x10;
        assert_eq!(issue(&mut hart, &decode(word), |_| 0), Ok(Issued::Done));
        (hart.pc, hart.x[10])
    };
    assert_eq!(after(i(opcode::JALR, 0, 10, 10, 4), 0x2001), (0x2004, 0x1004), "rd is rs1");
    assert_eq!(after(j(10, -0x1000), 0), (0, 0x1004));
    assert_eq!(after(0x9502, 0x2000), (0x2000, 0x2000), "c.jalr a0");
    assert_eq!(after(j(0, 0x10_0000 - 2), 7), (0x1000 + 0xf_fffe, 7), "the farthest");
}

#[test]
fn x0_stays_zero() {
    let mut hart = Hart::new(0x1000);
    for word in [i(opcode::OP_IMM, 0, 0, 0, 5), u(opcode::LUI, 0, 4096), j(0, 8)] {
        assert_eq!(issue(&mut hart, &decode(word), |_| 0), Ok(Issued::Done));
        assert_eq!(hart.x, [0; 32]);
    }
}
