//! The six instruction formats, from fields to words: for the expansion of compressed instructions,
//! and for generated programs.

/// The major opcodes of RV64G (bits 6 to 0).
pub mod opcode {
    #![allow(missing_docs)] // The names are those of the specification's opcode map.
    pub const LOAD: u32 = 0x03;
    pub const LOAD_FP: u32 = 0x07;
    pub const MISC_MEM: u32 = 0x0f;
    pub const OP_IMM: u32 = 0x13;
    pub const AUIPC: u32 = 0x17;
    pub const OP_IMM_32: u32 = 0x1b;
    pub const STORE: u32 = 0x23;
    pub const STORE_FP: u32 = 0x27;
    pub const AMO: u32 = 0x2f;
    pub const OP: u32 = 0x33;
    pub const LUI: u32 = 0x37;
    pub const OP_32: u32 = 0x3b;
    pub const MADD: u32 = 0x43;
    pub const MSUB: u32 = 0x47;
    pub const NMSUB: u32 = 0x4b;
    pub const NMADD: u32 = 0x4f;
    pub const OP_FP: u32 = 0x53;
    pub const BRANCH: u32 = 0x63;
    pub const JALR: u32 = 0x67;
    pub const JAL: u32 = 0x6f;
    pub const SYSTEM: u32 = 0x73;
}

/// R-type: two source registers, one destination.
pub const fn r(opcode: u32, funct3: u32, funct7: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | funct7 << 25
}

/// R4-type: fused multiply-add. `format` is 0 for single, 1 for double precision.
pub const fn r4(opcode: u32, rm: u32, format: u32, rd: u32, rs1: u32, rs2: u32, rs3: u32) -> u32 {
    r(opcode, rm, rs3 << 2 | format, rd, rs1, rs2)
}

/// I-type: 12-bit immediate.
pub const fn i(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    opcode | rd << 7 | funct3 << 12 | rs1 << 15 | (imm as u32) << 20
}

/// S-type: stores.
pub const fn s(opcode: u32, funct3: u32, rs1: u32, rs2: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    r(opcode, funct3, (imm >> 5) & 0x7f, imm & 0x1f, rs1, rs2)
}

/// B-type: branches; `imm` is the distance in bytes.
pub const fn b(funct3: u32, rs1: u32, rs2: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    let low = (imm & 0x1e) | (imm >> 11 & 1);
    let high = (imm >> 12 & 1) << 6 | (imm >> 5 & 0x3f);
    r(opcode::BRANCH, funct3, high, low, rs1, rs2)
}

/// U-type: `imm` holds the upper 20 bits in their place.
pub const fn u(opcode: u32, rd: u32, imm: i32) -> u32 {
    opcode | rd << 7 | (imm as u32 & 0xffff_f000)
}

/// J-type: `jal`; `imm` is the distance in bytes.
pub const fn j(rd: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    opcode::JAL
        | rd << 7
        | (imm & 0xf_f000)
        | (imm >> 11 & 1) << 20
        | (imm >> 1 & 0x3ff) << 21
        | (imm >> 20 & 1) << 31
}
