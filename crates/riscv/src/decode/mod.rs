//! Instruction words to [`Inst`].

mod compressed;

pub use compressed::expand;

use crate::csr;
use crate::encode::opcode;
use crate::op::{Kind, Operands};
use crate::{Inst, Mark, Op};

/// Bytes of the instruction that begins with these 16 bits: 2 or 4. The longer encodings that the
/// specification reserves count as 4 and are illegal.
#[inline]
pub const fn length(first: u16) -> u8 {
    if first & 3 == 3 { 4 } else { 2 }
}

/// Decodes the instruction in the low bits of `word`: 16 of them if they are a compressed one.
///
/// Words that are no instruction of RV64GC user mode decode to [`Op::Illegal`].
pub fn decode(word: u32) -> Inst {
    if length(word as u16) == 4 {
        return full(word);
    }
    let half = word as u16;
    match expand(half) {
        Some(word) => Inst { len: 2, raw: half.into(), ..full(word) },
        None => Inst::illegal(half.into(), 2),
    }
}

/// The fields that lie in the same place in every format.
struct Fields(u32);

impl Fields {
    const fn bits(&self, low: u32, count: u32) -> u32 {
        self.0 >> low & ((1 << count) - 1)
    }

    const fn funct3(&self) -> u32 {
        self.bits(12, 3)
    }

    const fn funct7(&self) -> u32 {
        self.bits(25, 7)
    }

    const fn rs2(&self) -> u32 {
        self.bits(20, 5)
    }

    const fn imm_i(&self) -> i32 {
        self.0 as i32 >> 20
    }

    const fn imm_s(&self) -> i32 {
        (self.0 as i32 >> 25 << 5) | self.bits(7, 5) as i32
    }

    const fn imm_b(&self) -> i32 {
        (self.0 as i32 >> 31 << 12)
            | (self.bits(7, 1) << 11 | self.bits(25, 6) << 5 | self.bits(8, 4) << 1) as i32
    }

    const fn imm_j(&self) -> i32 {
        (self.0 as i32 >> 31 << 20)
            | (self.bits(12, 8) << 12 | self.bits(20, 1) << 11 | self.bits(21, 10) << 1) as i32
    }

    /// An instruction with all register fields as they stand.
    fn inst(&self, op: Op, imm: i32) -> Inst {
        Inst {
            op,
            rd: self.bits(7, 5) as u8,
            rs1: self.bits(15, 5) as u8,
            rs2: self.rs2() as u8,
            rs3: self.bits(27, 5) as u8,
            rm: 0,
            len: 4,
            imm,
            raw: self.0,
        }
    }
}

/// Decodes a 32-bit instruction.
fn full(word: u32) -> Inst {
    let fields = Fields(word);
    let decoded = match word & 0x7f {
        opcode::LUI => Some(fields.inst(Op::Lui, (word & 0xffff_f000) as i32)),
        opcode::AUIPC => Some(fields.inst(Op::Auipc, (word & 0xffff_f000) as i32)),
        opcode::JAL => Some(fields.inst(Op::Jal, fields.imm_j())),
        opcode::JALR if fields.funct3() == 0 => Some(fields.inst(Op::Jalr, fields.imm_i())),
        opcode::BRANCH => branch(&fields),
        opcode::LOAD => load(&fields),
        opcode::STORE => store(&fields),
        opcode::OP_IMM => immediate(&fields),
        opcode::OP_IMM_32 => immediate_word(&fields),
        opcode::OP => register(&fields),
        opcode::OP_32 => register_word(&fields),
        opcode::MISC_MEM => fence(&fields),
        opcode::SYSTEM => system(&fields),
        opcode::AMO => atomic(&fields),
        opcode::LOAD_FP => float_memory(&fields, [Op::Flw, Op::Fld], fields.imm_i()),
        opcode::STORE_FP => float_memory(&fields, [Op::Fsw, Op::Fsd], fields.imm_s()),
        opcode::MADD => fused(&fields, [Op::FmaddS, Op::FmaddD]),
        opcode::MSUB => fused(&fields, [Op::FmsubS, Op::FmsubD]),
        opcode::NMSUB => fused(&fields, [Op::FnmsubS, Op::FnmsubD]),
        opcode::NMADD => fused(&fields, [Op::FnmaddS, Op::FnmaddD]),
        opcode::OP_FP => float(&fields),
        _ => None,
    };
    decoded.map_or(Inst::illegal(word, 4), without_unused)
}

/// Zeroes the register fields that the format does not use, so that equal instructions are equal
/// values whichever encoding they come from.
fn without_unused(inst: Inst) -> Inst {
    let Operands { rd, rs1, rs2, rs3 } = inst.op.format().operands();
    let keep = |kind, number| if kind == Kind::None { 0 } else { number };
    Inst {
        rd: keep(rd, inst.rd),
        rs1: keep(rs1, inst.rs1),
        rs2: keep(rs2, inst.rs2),
        rs3: keep(rs3, inst.rs3),
        ..inst
    }
}

fn branch(fields: &Fields) -> Option<Inst> {
    let op = match fields.funct3() {
        0 => Op::Beq,
        1 => Op::Bne,
        4 => Op::Blt,
        5 => Op::Bge,
        6 => Op::Bltu,
        7 => Op::Bgeu,
        _ => return None,
    };
    Some(fields.inst(op, fields.imm_b()))
}

fn load(fields: &Fields) -> Option<Inst> {
    const OPS: [Op; 7] = [Op::Lb, Op::Lh, Op::Lw, Op::Ld, Op::Lbu, Op::Lhu, Op::Lwu];
    let op = *OPS.get(fields.funct3() as usize)?;
    Some(fields.inst(op, fields.imm_i()))
}

fn store(fields: &Fields) -> Option<Inst> {
    const OPS: [Op; 4] = [Op::Sb, Op::Sh, Op::Sw, Op::Sd];
    let op = *OPS.get(fields.funct3() as usize)?;
    Some(fields.inst(op, fields.imm_s()))
}

fn immediate(fields: &Fields) -> Option<Inst> {
    let imm = fields.imm_i();
    let shift = imm & 0x3f;
    Some(match (fields.funct3(), imm >> 6) {
        (0, _) => fields.inst(Op::Addi, imm),
        (2, _) if is_mark(fields) => fields.inst(Op::Mark, imm),
        (2, _) => fields.inst(Op::Slti, imm),
        (3, _) => fields.inst(Op::Sltiu, imm),
        (4, _) => fields.inst(Op::Xori, imm),
        (6, _) => fields.inst(Op::Ori, imm),
        (7, _) => fields.inst(Op::Andi, imm),
        (1, 0) => fields.inst(Op::Slli, shift),
        (5, 0) => fields.inst(Op::Srli, shift),
        (5, 0x10) => fields.inst(Op::Srai, shift),
        _ => return None,
    })
}

/// Whether `slti` is one of the hints that mark a region of interest: between `x0` and `x0`, which the specification
/// leaves to custom hints.
fn is_mark(fields: &Fields) -> bool {
    let registers = fields.bits(7, 5) | fields.bits(15, 5);
    registers == 0 && Mark::of(fields.imm_i()).is_some()
}

fn immediate_word(fields: &Fields) -> Option<Inst> {
    let imm = fields.imm_i();
    let shift = imm & 0x1f;
    Some(match (fields.funct3(), imm >> 5) {
        (0, _) => fields.inst(Op::Addiw, imm),
        (1, 0) => fields.inst(Op::Slliw, shift),
        (5, 0) => fields.inst(Op::Srliw, shift),
        (5, 0x20) => fields.inst(Op::Sraiw, shift),
        _ => return None,
    })
}

fn register(fields: &Fields) -> Option<Inst> {
    const BASE: [Op; 8] = [Op::Add, Op::Sll, Op::Slt, Op::Sltu, Op::Xor, Op::Srl, Op::Or, Op::And];
    const MULTIPLY: [Op; 8] =
        [Op::Mul, Op::Mulh, Op::Mulhsu, Op::Mulhu, Op::Div, Op::Divu, Op::Rem, Op::Remu];
    let funct3 = fields.funct3();
    let op = match (fields.funct7(), funct3) {
        (0, _) => BASE[funct3 as usize],
        (1, _) => MULTIPLY[funct3 as usize],
        (0x20, 0) => Op::Sub,
        (0x20, 5) => Op::Sra,
        _ => return None,
    };
    Some(fields.inst(op, 0))
}

fn register_word(fields: &Fields) -> Option<Inst> {
    let op = match (fields.funct7(), fields.funct3()) {
        (0, 0) => Op::Addw,
        (0, 1) => Op::Sllw,
        (0, 5) => Op::Srlw,
        (0x20, 0) => Op::Subw,
        (0x20, 5) => Op::Sraw,
        (1, 0) => Op::Mulw,
        (1, 4) => Op::Divw,
        (1, 5) => Op::Divuw,
        (1, 6) => Op::Remw,
        (1, 7) => Op::Remuw,
        _ => return None,
    };
    Some(fields.inst(op, 0))
}

fn fence(fields: &Fields) -> Option<Inst> {
    /// `fence w, 0` without registers: the hint of a spinning loop (Zihintpause).
    const PAUSE: u32 = 0x0100_000f;
    Some(match fields.funct3() {
        0 if fields.0 == PAUSE => fields.inst(Op::Pause, 0),
        0 => fields.inst(Op::Fence, fields.imm_i() & 0xfff),
        1 => fields.inst(Op::FenceI, 0),
        _ => return None,
    })
}

fn system(fields: &Fields) -> Option<Inst> {
    let op = match fields.funct3() {
        0 if fields.0 == 0x0000_0073 => return Some(fields.inst(Op::Ecall, 0)),
        0 if fields.0 == 0x0010_0073 => return Some(fields.inst(Op::Ebreak, 0)),
        1 => Op::Csrrw,
        2 => Op::Csrrs,
        3 => Op::Csrrc,
        5 => Op::Csrrwi,
        6 => Op::Csrrsi,
        7 => Op::Csrrci,
        _ => return None,
    };
    let number = fields.0 >> 20;
    csr::name(number)?;
    let inst = fields.inst(op, number as i32);
    let writes = matches!(op, Op::Csrrw | Op::Csrrwi) || inst.rs1 != 0;
    (!writes || csr::is_writable(number)).then_some(inst)
}

fn atomic(fields: &Fields) -> Option<Inst> {
    let [word, double] = match fields.bits(27, 5) {
        0x00 => [Op::AmoaddW, Op::AmoaddD],
        0x01 => [Op::AmoswapW, Op::AmoswapD],
        0x02 if fields.rs2() == 0 => [Op::LrW, Op::LrD],
        0x03 => [Op::ScW, Op::ScD],
        0x04 => [Op::AmoxorW, Op::AmoxorD],
        0x08 => [Op::AmoorW, Op::AmoorD],
        0x0c => [Op::AmoandW, Op::AmoandD],
        0x10 => [Op::AmominW, Op::AmominD],
        0x14 => [Op::AmomaxW, Op::AmomaxD],
        0x18 => [Op::AmominuW, Op::AmominuD],
        0x1c => [Op::AmomaxuW, Op::AmomaxuD],
        _ => return None,
    };
    let op = match fields.funct3() {
        2 => word,
        3 => double,
        _ => return None,
    };
    Some(Inst { rm: fields.bits(25, 2) as u8, ..fields.inst(op, 0) })
}

fn float_memory(fields: &Fields, [single, double]: [Op; 2], imm: i32) -> Option<Inst> {
    let op = match fields.funct3() {
        2 => single,
        3 => double,
        _ => return None,
    };
    Some(fields.inst(op, imm))
}

/// The instruction with its rounding mode, unless that is a reserved one.
fn rounded(fields: &Fields, op: Op) -> Option<Inst> {
    let rm = fields.funct3() as u8;
    (rm != 5 && rm != 6).then(|| Inst { rm, ..fields.inst(op, 0) })
}

fn fused(fields: &Fields, [single, double]: [Op; 2]) -> Option<Inst> {
    match fields.bits(25, 2) {
        0 => rounded(fields, single),
        1 => rounded(fields, double),
        _ => None,
    }
}

fn float(fields: &Fields) -> Option<Inst> {
    let double = match fields.bits(25, 2) {
        0 => false,
        1 => true,
        _ => return None,
    };
    let op = |[s, d]: [Op; 2]| if double { d } else { s };
    let plain = |ops| Some(fields.inst(op(ops), 0));
    let rm = |ops| rounded(fields, op(ops));
    match (fields.bits(27, 5), fields.funct3(), fields.rs2()) {
        (0x00, _, _) => rm([Op::FaddS, Op::FaddD]),
        (0x01, _, _) => rm([Op::FsubS, Op::FsubD]),
        (0x02, _, _) => rm([Op::FmulS, Op::FmulD]),
        (0x03, _, _) => rm([Op::FdivS, Op::FdivD]),
        (0x0b, _, 0) => rm([Op::FsqrtS, Op::FsqrtD]),
        (0x04, 0, _) => plain([Op::FsgnjS, Op::FsgnjD]),
        (0x04, 1, _) => plain([Op::FsgnjnS, Op::FsgnjnD]),
        (0x04, 2, _) => plain([Op::FsgnjxS, Op::FsgnjxD]),
        (0x05, 0, _) => plain([Op::FminS, Op::FminD]),
        (0x05, 1, _) => plain([Op::FmaxS, Op::FmaxD]),
        (0x08, _, 1) if !double => rounded(fields, Op::FcvtSD),
        (0x08, _, 0) if double => rounded(fields, Op::FcvtDS),
        (0x14, 0, _) => plain([Op::FleS, Op::FleD]),
        (0x14, 1, _) => plain([Op::FltS, Op::FltD]),
        (0x14, 2, _) => plain([Op::FeqS, Op::FeqD]),
        (0x18, _, 0) => rm([Op::FcvtWS, Op::FcvtWD]),
        (0x18, _, 1) => rm([Op::FcvtWuS, Op::FcvtWuD]),
        (0x18, _, 2) => rm([Op::FcvtLS, Op::FcvtLD]),
        (0x18, _, 3) => rm([Op::FcvtLuS, Op::FcvtLuD]),
        (0x1a, _, 0) => rm([Op::FcvtSW, Op::FcvtDW]),
        (0x1a, _, 1) => rm([Op::FcvtSWu, Op::FcvtDWu]),
        (0x1a, _, 2) => rm([Op::FcvtSL, Op::FcvtDL]),
        (0x1a, _, 3) => rm([Op::FcvtSLu, Op::FcvtDLu]),
        (0x1c, 0, 0) => plain([Op::FmvXW, Op::FmvXD]),
        (0x1c, 1, 0) => plain([Op::FclassS, Op::FclassD]),
        (0x1e, 0, 0) => plain([Op::FmvWX, Op::FmvDX]),
        _ => None,
    }
}
