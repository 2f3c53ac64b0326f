//! Random programs of integer, floating-point memory, atomic and control instructions, full and
//! compressed. They write a window of memory and all registers to standard output at their end.

use rackmem_riscv::encode::{b, i, j, opcode, r, s, u};
use rackmem_riscv::{Op, decode, expand};

use super::asm::{DATA, Program};
use super::rng::Rng;

/// Data that instructions may touch: from `POINTER - 2048` to `POINTER + 2047`.
pub const WINDOW: u64 = 4096;

/// Registers are dumped behind it: 31 integer ones, 32 floating-point ones, `fcsr`.
pub const DUMP: u64 = 64 * 8;

/// Points to the middle of the window.
const POINTER: u32 = 31;

/// Points to the word of an atomic.
const SCRATCH: u32 = 30;

/// A program of so many steps, and the code of the last one.
pub fn generate(seed: u64, steps: usize) -> (Program, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let mut program = Program::default();
    for _ in 0..(WINDOW + DUMP) / 8 {
        let word = rng.integer();
        program.data.extend(word.to_le_bytes());
    }
    program.li(POINTER, (DATA + WINDOW / 2) as i32);
    for register in 1..31 {
        program.ld(register, POINTER, (8 * register) as i32 - 256);
    }
    for register in 0..32 {
        program.fld(register, POINTER, (8 * register) as i32);
    }
    let mut last = 0;
    for _ in 0..steps {
        last = program.code.len();
        instruction(&mut program, &mut rng);
    }
    let last = program.code[last..].to_vec();
    dump(&mut program);
    (program, last)
}

fn dump(program: &mut Program) {
    // The pointer is about to be needed for something else; its value is known.
    program.li(POINTER, (DATA + WINDOW) as i32);
    for register in 1..31 {
        program.sd(register, POINTER, 8 * (register as i32 - 1));
    }
    for register in 0..32 {
        program.fsd(register, POINTER, 8 * (31 + register as i32));
    }
    program.word(i(opcode::SYSTEM, 2, 1, 0, 3));
    program.sd(1, POINTER, 8 * 63);
    program.write_and_exit(DATA, WINDOW + DUMP);
}

/// Any register but the two that hold pointers.
fn rd(rng: &mut Rng) -> u32 {
    rng.below(30) as u32
}

fn instruction(program: &mut Program, rng: &mut Rng) {
    match rng.below(16) {
        0..4 => program.word(register(rng)),
        4..6 => program.word(immediate(rng)),
        6 => program.word(memory(rng)),
        7 => program.word(float_memory(rng)),
        8 => atomic(program, rng),
        9 => branch(program, rng),
        10 => jump(program, rng),
        11 => program.word(upper(rng)),
        12 => program.word(i(opcode::SYSTEM, rng.pick(&[1, 2, 3, 5, 6, 7]), rd(rng), rd(rng), 1)),
        _ => program.half(compressed(rng)),
    }
}

fn register(rng: &mut Rng) -> u32 {
    loop {
        let funct7 = rng.pick(&[0, 1, 1, 0x20]);
        let code = rng.pick(&[opcode::OP, opcode::OP_32]);
        let word = r(code, rng.below(8) as u32, funct7, rd(rng), any(rng), any(rng));
        if decode(word).op != Op::Illegal {
            return word;
        }
    }
}

/// Any register, as a source.
fn any(rng: &mut Rng) -> u32 {
    rng.below(32) as u32
}

fn immediate(rng: &mut Rng) -> u32 {
    loop {
        let code = rng.pick(&[opcode::OP_IMM, opcode::OP_IMM_32]);
        let imm = match rng.below(2) {
            0 => rng.next() as i32,
            _ => rng.below(64) as i32 | rng.pick(&[0, 0x400]),
        };
        let word = i(code, rng.below(8) as u32, rd(rng), any(rng), imm);
        if decode(word).op != Op::Illegal {
            return word;
        }
    }
}

fn upper(rng: &mut Rng) -> u32 {
    u(rng.pick(&[opcode::LUI, opcode::AUIPC]), rd(rng), rng.next() as i32)
}

/// An offset from the pointer that stays in the window, aligned or not.
fn offset(rng: &mut Rng) -> i32 {
    let offset = rng.below(WINDOW - 8) as i32 - 2048;
    if rng.below(4) == 0 { offset } else { offset & !7 }
}

fn memory(rng: &mut Rng) -> u32 {
    let offset = offset(rng);
    if rng.below(2) == 0 {
        return i(opcode::LOAD, rng.below(7) as u32, rd(rng), POINTER, offset);
    }
    s(opcode::STORE, rng.below(4) as u32, POINTER, any(rng), offset)
}

fn float_memory(rng: &mut Rng) -> u32 {
    let (size, offset) = (2 + rng.below(2) as u32, offset(rng));
    if rng.below(2) == 0 {
        return i(opcode::LOAD_FP, size, any(rng), POINTER, offset);
    }
    s(opcode::STORE_FP, size, POINTER, any(rng), offset)
}

/// An atomic, or a pair of load reserved and store conditional.
fn atomic(program: &mut Program, rng: &mut Rng) {
    const OPS: [u32; 9] = [0, 1, 4, 8, 12, 16, 20, 24, 28];
    let size = 2 + rng.below(2) as u32;
    let order = rng.below(4) as u32;
    program.addi(SCRATCH, POINTER, rng.below(250) as i32 * 8);
    let op = |funct5: u32, rd, rs2| r(opcode::AMO, size, funct5 << 2 | order, rd, SCRATCH, rs2);
    if rng.below(4) == 0 {
        program.word(op(2, rd(rng), 0));
        program.word(op(3, rd(rng), any(rng)));
        // The reservation is gone: this one fails.
        program.word(op(3, rd(rng), any(rng)));
        return;
    }
    program.word(op(rng.pick(&OPS), rd(rng), any(rng)));
}

/// A branch over the next few instructions, taken or not.
fn branch(program: &mut Program, rng: &mut Rng) {
    let condition = rng.pick(&[0, 1, 4, 5, 6, 7]);
    program.word(b(condition, any(rng), any(rng), 12));
    program.word(register(rng));
    program.word(immediate(rng));
}

/// A jump over the next instruction, direct or through a register.
fn jump(program: &mut Program, rng: &mut Rng) {
    let link = rd(rng);
    if rng.below(2) == 0 {
        program.word(j(link, 8));
        program.word(register(rng));
        return;
    }
    program.word(u(opcode::AUIPC, SCRATCH, 0));
    // Bit 0 of the target is ignored.
    program.word(i(opcode::JALR, 0, link, SCRATCH, 13));
    program.word(register(rng));
}

/// A compressed instruction that touches neither memory, control flow nor pointers.
fn compressed(rng: &mut Rng) -> u16 {
    loop {
        let half = rng.next() as u16;
        let Some(word) = expand(half) else { continue };
        let inst = decode(word);
        let is_arithmetic = inst.access_size() == 0
            && matches!(word & 0x7f, opcode::OP | opcode::OP_32 | opcode::OP_IMM | opcode::LUI)
            || word & 0x7f == opcode::OP_IMM_32;
        if is_arithmetic && inst.rd < SCRATCH as u8 {
            return half;
        }
    }
}
