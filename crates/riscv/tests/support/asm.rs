//! Programs from generated instructions, without assembler or linker.

use rackmem_riscv::encode::{b, i, opcode, s, u};

/// Address of code.
pub const CODE: u64 = 0x1_0000;

/// Address of data, readable and writable.
pub const DATA: u64 = 0x40_0000;

pub const A0: u32 = 10;
pub const A1: u32 = 11;
pub const A2: u32 = 12;
pub const A7: u32 = 17;

/// A program being written.
#[derive(Default)]
pub struct Program {
    pub code: Vec<u8>,
    pub data: Vec<u8>,
}

impl Program {
    pub fn word(&mut self, word: u32) {
        self.code.extend(word.to_le_bytes());
    }

    pub fn half(&mut self, half: u16) {
        self.code.extend(half.to_le_bytes());
    }

    /// A 32-bit constant, sign-extended.
    pub fn li(&mut self, rd: u32, value: i32) {
        self.word(u(opcode::LUI, rd, value.wrapping_add(0x800)));
        self.word(i(opcode::OP_IMM_32, 0, rd, rd, value << 20 >> 20));
    }

    pub fn addi(&mut self, rd: u32, rs1: u32, imm: i32) {
        self.word(i(opcode::OP_IMM, 0, rd, rs1, imm));
    }

    pub fn ld(&mut self, rd: u32, rs1: u32, imm: i32) {
        self.word(i(opcode::LOAD, 3, rd, rs1, imm));
    }

    pub fn sd(&mut self, rs2: u32, rs1: u32, imm: i32) {
        self.word(s(opcode::STORE, 3, rs1, rs2, imm));
    }

    pub fn fld(&mut self, fd: u32, rs1: u32, imm: i32) {
        self.word(i(opcode::LOAD_FP, 3, fd, rs1, imm));
    }

    pub fn fsd(&mut self, fs2: u32, rs1: u32, imm: i32) {
        self.word(s(opcode::STORE_FP, 3, rs1, fs2, imm));
    }

    pub fn bne(&mut self, rs1: u32, rs2: u32, imm: i32) {
        self.word(b(1, rs1, rs2, imm));
    }

    pub fn ecall(&mut self, number: i32) {
        self.li(A7, number);
        self.word(0x73);
    }

    /// Writes data to standard output, then exits with 0.
    pub fn write_and_exit(&mut self, address: u64, length: u64) {
        self.li(A0, 1);
        self.li(A1, address as i32);
        self.li(A2, length as i32);
        self.ecall(64);
        self.exit(0);
    }

    pub fn exit(&mut self, code: i32) {
        self.li(A0, code);
        self.ecall(94);
    }

    /// The program as a static ELF file.
    pub fn elf(&self) -> Vec<u8> {
        self.linked(None)
    }

    /// The program as one that asks for a dynamic linker, if that has a name. Its header comes first then.
    pub fn linked(&self, linker: Option<&str>) -> Vec<u8> {
        let segments = [(CODE, &self.code, 5u32), (DATA, &self.data, 6)];
        let count = segments.len() as u16 + u16::from(linker.is_some());
        let mut file = header(count);
        if let Some(name) = linker {
            let (offset, length) = (64 + 56 * u64::from(count), name.len() as u64 + 1);
            file.extend([3u32, 4].iter().flat_map(|word| word.to_le_bytes()));
            let words = [offset, 0, 0, length, length, 1];
            file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let mut offset = 0x1000;
        for (address, bytes, flags) in &segments {
            let length = bytes.len() as u64;
            file.extend([1, *flags].iter().flat_map(|word| word.to_le_bytes()));
            let words = [offset, *address, *address, length, length, 0x1000];
            file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            offset += length.next_multiple_of(0x1000);
        }
        file.extend(linker.unwrap_or_default().bytes());
        for (_, bytes, _) in &segments {
            file.resize(file.len().next_multiple_of(0x1000), 0);
            file.extend(bytes.iter());
        }
        file
    }
}

/// The header of an ELF file for RISC-V with program headers right behind it.
pub fn header(segments: u16) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    file.resize(16, 0);
    let (executable, riscv) = (2u16, 243u16);
    file.extend([executable, riscv].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend([CODE, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
    let float_abi_double_and_c = 5u32;
    file.extend(float_abi_double_and_c.to_le_bytes());
    let halves = [64u16, 56, segments, 64, 0, 0];
    file.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    file
}
