//! Instructions as text, in GNU syntax with the usual pseudo-instructions: for errors and traces.

use core::fmt;

use crate::exec::fence_sets;
use crate::op::Format;
use crate::{Inst, Op, csr};

const X: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4",
    "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4",
    "t5", "t6",
];

const F: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2",
    "fa3", "fa4", "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
    "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// The name that the calling convention gives integer register `number`.
pub fn x_name(number: u8) -> &'static str {
    X[(number & 31) as usize]
}

/// The name that the calling convention gives floating-point register `number`.
pub fn f_name(number: u8) -> &'static str {
    F[(number & 31) as usize]
}

/// The instruction at `pc` as text. Targets of jumps and branches are addresses.
pub fn disassemble(inst: &Inst, pc: u64) -> impl fmt::Display {
    Text { inst: *inst, pc }
}

struct Text {
    inst: Inst,
    pc: u64,
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pseudo(f)? {
            return Ok(());
        }
        self.plain(f)
    }
}

impl Text {
    fn target(&self) -> u64 {
        self.inst.target(self.pc).unwrap_or(self.pc)
    }

    /// Writes the pseudo-instruction if it is one.
    fn pseudo(&self, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        let inst = &self.inst;
        let (rd, rs1, rs2) = (x_name(inst.rd), x_name(inst.rs1), x_name(inst.rs2));
        let (imm, target) = (inst.imm, self.target());
        match (inst.op, inst.rd, inst.rs1, inst.rs2) {
            (Op::Addi, 0, 0, _) if imm == 0 => write!(f, "nop")?,
            (Op::Addi, _, 0, _) => write!(f, "li {rd},{imm}")?,
            (Op::Addi, ..) if imm == 0 => write!(f, "mv {rd},{rs1}")?,
            (Op::Add, _, 0, _) if inst.len == 2 => write!(f, "mv {rd},{rs2}")?,
            (Op::Xori, ..) if imm == -1 => write!(f, "not {rd},{rs1}")?,
            (Op::Sub, _, 0, _) => write!(f, "neg {rd},{rs2}")?,
            (Op::Subw, _, 0, _) => write!(f, "negw {rd},{rs2}")?,
            (Op::Addiw, ..) if imm == 0 => write!(f, "sext.w {rd},{rs1}")?,
            (Op::Sltiu, ..) if imm == 1 => write!(f, "seqz {rd},{rs1}")?,
            (Op::Sltu, _, 0, _) => write!(f, "snez {rd},{rs2}")?,
            (Op::Andi, ..) if imm == 255 => write!(f, "zext.b {rd},{rs1}")?,
            (Op::Beq, _, _, 0) => write!(f, "beqz {rs1},{target:#x}")?,
            (Op::Bne, _, _, 0) => write!(f, "bnez {rs1},{target:#x}")?,
            (Op::Bge, _, _, 0) => write!(f, "bgez {rs1},{target:#x}")?,
            (Op::Blt, _, _, 0) => write!(f, "bltz {rs1},{target:#x}")?,
            (Op::Bge, _, 0, _) => write!(f, "blez {rs2},{target:#x}")?,
            (Op::Blt, _, 0, _) => write!(f, "bgtz {rs2},{target:#x}")?,
            (Op::Jal, 0, ..) => write!(f, "j {target:#x}")?,
            (Op::Jal, 1, ..) => write!(f, "jal {target:#x}")?,
            (Op::Jalr, 0, 1, _) if imm == 0 => write!(f, "ret")?,
            (Op::Jalr, 0, ..) if imm == 0 => write!(f, "jr {rs1}")?,
            (Op::Jalr, 0, ..) => write!(f, "jr {imm}({rs1})")?,
            (Op::Jalr, 1, ..) if imm == 0 => write!(f, "jalr {rs1}")?,
            (Op::Jalr, 1, ..) => write!(f, "jalr {imm}({rs1})")?,
            (Op::Jalr, ..) if imm == 0 => write!(f, "jalr {rd},{rs1}")?,
            _ => return self.pseudo_float(f),
        }
        Ok(true)
    }

    /// Sign injections of one register, and accesses to control registers.
    fn pseudo_float(&self, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        let inst = &self.inst;
        let name = match inst.op {
            Op::FsgnjS => "fmv.s",
            Op::FsgnjD => "fmv.d",
            Op::FsgnjnS => "fneg.s",
            Op::FsgnjnD => "fneg.d",
            Op::FsgnjxS => "fabs.s",
            Op::FsgnjxD => "fabs.d",
            Op::Csrrs if inst.rs1 == 0 => return self.read_csr(f),
            Op::Csrrw if inst.rd == 0 => return self.write_csr(f),
            _ => return Ok(false),
        };
        if inst.rs1 != inst.rs2 {
            return Ok(false);
        }
        write!(f, "{name} {},{}", f_name(inst.rd), f_name(inst.rs1))?;
        Ok(true)
    }

    fn read_csr(&self, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        let name = match self.inst.imm as u32 {
            csr::FFLAGS => "frflags",
            csr::FRM => "frrm",
            csr::FCSR => "frcsr",
            csr::CYCLE => "rdcycle",
            csr::TIME => "rdtime",
            _ => "rdinstret",
        };
        write!(f, "{name} {}", x_name(self.inst.rd))?;
        Ok(true)
    }

    fn write_csr(&self, f: &mut fmt::Formatter<'_>) -> Result<bool, fmt::Error> {
        let name = match self.inst.imm as u32 {
            csr::FFLAGS => "fsflags",
            csr::FRM => "fsrm",
            _ => "fscsr",
        };
        write!(f, "{name} {}", x_name(self.inst.rs1))?;
        Ok(true)
    }

    fn plain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inst = &self.inst;
        let name = inst.op.name();
        let (rd, rs1, rs2) = (x_name(inst.rd), x_name(inst.rs1), x_name(inst.rs2));
        let (fd, fs1) = (f_name(inst.rd), f_name(inst.rs1));
        let (fs2, fs3) = (f_name(inst.rs2), f_name(inst.rs3));
        let (imm, target) = (inst.imm, self.target());
        match inst.op.format() {
            Format::None if inst.op == Op::Illegal => self.illegal(f),
            Format::None => f.write_str(name),
            Format::Upper => write!(f, "{name} {rd},{:#x}", imm as u32 >> 12),
            Format::Jal => write!(f, "{name} {rd},{target:#x}"),
            Format::Jalr | Format::Load => write!(f, "{name} {rd},{imm}({rs1})"),
            Format::Branch => write!(f, "{name} {rs1},{rs2},{target:#x}"),
            Format::Store => write!(f, "{name} {rs2},{imm}({rs1})"),
            Format::Imm if self.is_shift() => write!(f, "{name} {rd},{rs1},{imm:#x}"),
            Format::Imm => write!(f, "{name} {rd},{rs1},{imm}"),
            Format::Reg => write!(f, "{name} {rd},{rs1},{rs2}"),
            Format::Fence => self.fence(f),
            Format::Csr => write!(f, "{name} {rd},{},{rs1}", self.csr()),
            Format::CsrImm => write!(f, "{name} {rd},{},{}", self.csr(), inst.rs1),
            Format::LoadReserved => write!(f, "{name}{} {rd},({rs1})", self.ordering()),
            Format::Amo => write!(f, "{name}{} {rd},{rs2},({rs1})", self.ordering()),
            Format::FpLoad => write!(f, "{name} {fd},{imm}({rs1})"),
            Format::FpStore => write!(f, "{name} {fs2},{imm}({rs1})"),
            Format::Fp1 => write!(f, "{name} {fd},{fs1}{}", self.mode()),
            Format::Fp2 => write!(f, "{name} {fd},{fs1},{fs2}"),
            Format::Fp2Rounded => write!(f, "{name} {fd},{fs1},{fs2}{}", self.mode()),
            Format::Fp3 => write!(f, "{name} {fd},{fs1},{fs2},{fs3}{}", self.mode()),
            Format::FpCompare => write!(f, "{name} {rd},{fs1},{fs2}"),
            Format::FpToInt => write!(f, "{name} {rd},{fs1}"),
            Format::FpToIntRounded => write!(f, "{name} {rd},{fs1}{}", self.mode()),
            Format::FpFromInt => write!(f, "{name} {fd},{rs1}"),
            Format::FpFromIntRounded => write!(f, "{name} {fd},{rs1}{}", self.mode()),
        }
    }

    fn illegal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inst.len {
            2 => write!(f, ".2byte {:#06x}", self.inst.raw),
            _ => write!(f, ".4byte {:#010x}", self.inst.raw),
        }
    }

    fn is_shift(&self) -> bool {
        use Op::{Slli, Slliw, Srai, Sraiw, Srli, Srliw};
        matches!(self.inst.op, Slli | Srli | Srai | Slliw | Srliw | Sraiw)
    }

    fn csr(&self) -> &'static str {
        csr::name(self.inst.imm as u32).unwrap_or("?")
    }

    fn ordering(&self) -> &'static str {
        ["", ".rl", ".aq", ".aqrl"][(self.inst.rm & 3) as usize]
    }

    /// The rounding mode, unless it is the one that assemblers assume: the dynamic one, or none
    /// where the result is always exact.
    fn mode(&self) -> &'static str {
        let is_exact = matches!(self.inst.op, Op::FcvtDS | Op::FcvtDW | Op::FcvtDWu);
        match self.inst.rm {
            0 if is_exact => "",
            0 => ",rne",
            1 => ",rtz",
            2 => ",rdn",
            3 => ",rup",
            4 => ",rmm",
            _ => "",
        }
    }

    fn fence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FENCE_TSO: i32 = 0x833;
        if self.inst.imm == FENCE_TSO {
            return f.write_str("fence.tso");
        }
        let sets = fence_sets(&self.inst);
        if sets == [15, 15] {
            return f.write_str("fence");
        }
        let letters = |set: u8| {
            let letter = |bit: u8, name| if set >> bit & 1 == 1 { name } else { "" };
            [letter(3, "i"), letter(2, "o"), letter(1, "r"), letter(0, "w")].concat()
        };
        let [predecessors, successors] = sets.map(letters);
        write!(f, "fence {predecessors},{successors}")
    }
}
