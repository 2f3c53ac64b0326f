//! The operations of RV64GC, each with its name, operands and class.

/// The functional unit that an instruction needs; timing models give each a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integer arithmetic and logic, one cycle everywhere.
    Alu,
    /// Integer multiplication.
    Mul,
    /// Integer division and remainder.
    Div,
    /// Floating-point addition, subtraction, comparison, minimum and maximum.
    FpAdd,
    /// Floating-point multiplication.
    FpMul,
    /// Fused multiply-add.
    FpFma,
    /// Floating-point division.
    FpDiv,
    /// Square root.
    FpSqrt,
    /// Conversions between formats.
    FpConvert,
    /// Moves between the register files, sign injection, classification.
    FpMove,
    /// Loads, integer and floating point.
    Load,
    /// Stores, integer and floating point.
    Store,
    /// Atomic read-modify-write.
    Amo,
    /// `lr.w` and `lr.d`.
    LoadReserved,
    /// `sc.w` and `sc.d`.
    StoreConditional,
    /// Fences, of data and of instructions.
    Fence,
    /// Conditional branches.
    Branch,
    /// Unconditional jumps; [`Inst::jump_hint`](crate::Inst::jump_hint) tells calls from returns.
    Jump,
    /// Reads and writes of control registers and counters.
    Csr,
    /// `ecall`, `ebreak`, and words that are no instruction.
    System,
}

/// Operand formats of operations, in the order of assembler text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// No operands, such as `ecall`.
    None,
    /// `rd, imm << 12`
    Upper,
    /// `rd, target`
    Jal,
    /// `rd, imm(rs1)`, a jump
    Jalr,
    /// `rs1, rs2, target`
    Branch,
    /// `rd, imm(rs1)`
    Load,
    /// `rs2, imm(rs1)`
    Store,
    /// `rd, rs1, imm`
    Imm,
    /// `rd, rs1, rs2`
    Reg,
    /// `pred, succ`
    Fence,
    /// `rd, csr, rs1`
    Csr,
    /// `rd, csr, imm`
    CsrImm,
    /// `rd, (rs1)`
    LoadReserved,
    /// `rd, rs2, (rs1)`
    Amo,
    /// `fd, imm(rs1)`
    FpLoad,
    /// `fs2, imm(rs1)`
    FpStore,
    /// `fd, fs1`, rounded
    Fp1,
    /// `fd, fs1, fs2`
    Fp2,
    /// `fd, fs1, fs2`, rounded
    Fp2Rounded,
    /// `fd, fs1, fs2, fs3`, rounded
    Fp3,
    /// `rd, fs1, fs2`
    FpCompare,
    /// `rd, fs1`
    FpToInt,
    /// `rd, fs1`, rounded
    FpToIntRounded,
    /// `fd, rs1`
    FpFromInt,
    /// `fd, rs1`, rounded
    FpFromIntRounded,
}

/// Content of an operand field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    None,
    /// The number of an integer register.
    Int,
    /// The number of a floating-point register.
    Float,
    /// A number that is no register's.
    Number,
}

/// Contents of the four operand fields.
pub(crate) struct Operands {
    pub(crate) rd: Kind,
    pub(crate) rs1: Kind,
    pub(crate) rs2: Kind,
    pub(crate) rs3: Kind,
}

impl Format {
    pub(crate) fn operands(self) -> Operands {
        use Kind::{Float as F, Int as X, None as N};
        let (rd, rs1, rs2, rs3) = match self {
            Format::None | Format::Fence => (N, N, N, N),
            Format::Upper | Format::Jal => (X, N, N, N),
            Format::CsrImm => (X, Kind::Number, N, N),
            Format::Jalr | Format::Imm | Format::Load | Format::LoadReserved | Format::Csr => {
                (X, X, N, N)
            }
            Format::Branch | Format::Store => (N, X, X, N),
            Format::Reg | Format::Amo => (X, X, X, N),
            Format::FpLoad | Format::FpFromInt | Format::FpFromIntRounded => (F, X, N, N),
            Format::FpStore => (N, X, F, N),
            Format::Fp1 => (F, F, N, N),
            Format::Fp2 | Format::Fp2Rounded => (F, F, F, N),
            Format::Fp3 => (F, F, F, F),
            Format::FpCompare => (X, F, F, N),
            Format::FpToInt | Format::FpToIntRounded => (X, F, N, N),
        };
        Operands { rd, rs1, rs2, rs3 }
    }
}

macro_rules! operations {
    ($($op:ident $name:literal $format:ident $class:ident $size:literal)*) => {
        /// An operation of RV64GC. Compressed instructions have none of their own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // The names are those of the specification.
        pub enum Op { $($op),* }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// The name that assemblers use.
            pub const fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($name),*];
                NAMES[self as usize]
            }

            /// Its operand format.
            #[inline]
            pub const fn format(self) -> Format {
                const FORMATS: &[Format] = &[$(Format::$format),*];
                FORMATS[self as usize]
            }

            /// The functional unit that it needs.
            #[inline]
            pub const fn class(self) -> Class {
                const CLASSES: &[Class] = &[$(Class::$class),*];
                CLASSES[self as usize]
            }

            /// Bytes that it moves to or from memory, 0 if none.
            #[inline]
            pub const fn access_size(self) -> u8 {
                const SIZES: &[u8] = &[$($size),*];
                SIZES[self as usize]
            }
        }
    };
}

operations! {
    Illegal "unimp" None System 0
    Lui "lui" Upper Alu 0
    Auipc "auipc" Upper Alu 0
    Jal "jal" Jal Jump 0
    Jalr "jalr" Jalr Jump 0
    Beq "beq" Branch Branch 0
    Bne "bne" Branch Branch 0
    Blt "blt" Branch Branch 0
    Bge "bge" Branch Branch 0
    Bltu "bltu" Branch Branch 0
    Bgeu "bgeu" Branch Branch 0
    Lb "lb" Load Load 1
    Lh "lh" Load Load 2
    Lw "lw" Load Load 4
    Ld "ld" Load Load 8
    Lbu "lbu" Load Load 1
    Lhu "lhu" Load Load 2
    Lwu "lwu" Load Load 4
    Sb "sb" Store Store 1
    Sh "sh" Store Store 2
    Sw "sw" Store Store 4
    Sd "sd" Store Store 8
    Addi "addi" Imm Alu 0
    Slti "slti" Imm Alu 0
    Mark "slti" Imm System 0
    Sltiu "sltiu" Imm Alu 0
    Xori "xori" Imm Alu 0
    Ori "ori" Imm Alu 0
    Andi "andi" Imm Alu 0
    Slli "slli" Imm Alu 0
    Srli "srli" Imm Alu 0
    Srai "srai" Imm Alu 0
    Add "add" Reg Alu 0
    Sub "sub" Reg Alu 0
    Sll "sll" Reg Alu 0
    Slt "slt" Reg Alu 0
    Sltu "sltu" Reg Alu 0
    Xor "xor" Reg Alu 0
    Srl "srl" Reg Alu 0
    Sra "sra" Reg Alu 0
    Or "or" Reg Alu 0
    And "and" Reg Alu 0
    Addiw "addiw" Imm Alu 0
    Slliw "slliw" Imm Alu 0
    Srliw "srliw" Imm Alu 0
    Sraiw "sraiw" Imm Alu 0
    Addw "addw" Reg Alu 0
    Subw "subw" Reg Alu 0
    Sllw "sllw" Reg Alu 0
    Srlw "srlw" Reg Alu 0
    Sraw "sraw" Reg Alu 0
    Fence "fence" Fence Fence 0
    FenceI "fence.i" None Fence 0
    Pause "pause" None Alu 0
    Ecall "ecall" None System 0
    Ebreak "ebreak" None System 0
    Csrrw "csrrw" Csr Csr 0
    Csrrs "csrrs" Csr Csr 0
    Csrrc "csrrc" Csr Csr 0
    Csrrwi "csrrwi" CsrImm Csr 0
    Csrrsi "csrrsi" CsrImm Csr 0
    Csrrci "csrrci" CsrImm Csr 0
    Mul "mul" Reg Mul 0
    Mulh "mulh" Reg Mul 0
    Mulhsu "mulhsu" Reg Mul 0
    Mulhu "mulhu" Reg Mul 0
    Div "div" Reg Div 0
    Divu "divu" Reg Div 0
    Rem "rem" Reg Div 0
    Remu "remu" Reg Div 0
    Mulw "mulw" Reg Mul 0
    Divw "divw" Reg Div 0
    Divuw "divuw" Reg Div 0
    Remw "remw" Reg Div 0
    Remuw "remuw" Reg Div 0
    LrW "lr.w" LoadReserved LoadReserved 4
    LrD "lr.d" LoadReserved LoadReserved 8
    ScW "sc.w" Amo StoreConditional 4
    ScD "sc.d" Amo StoreConditional 8
    AmoswapW "amoswap.w" Amo Amo 4
    AmoaddW "amoadd.w" Amo Amo 4
    AmoxorW "amoxor.w" Amo Amo 4
    AmoandW "amoand.w" Amo Amo 4
    AmoorW "amoor.w" Amo Amo 4
    AmominW "amomin.w" Amo Amo 4
    AmomaxW "amomax.w" Amo Amo 4
    AmominuW "amominu.w" Amo Amo 4
    AmomaxuW "amomaxu.w" Amo Amo 4
    AmoswapD "amoswap.d" Amo Amo 8
    AmoaddD "amoadd.d" Amo Amo 8
    AmoxorD "amoxor.d" Amo Amo 8
    AmoandD "amoand.d" Amo Amo 8
    AmoorD "amoor.d" Amo Amo 8
    AmominD "amomin.d" Amo Amo 8
    AmomaxD "amomax.d" Amo Amo 8
    AmominuD "amominu.d" Amo Amo 8
    AmomaxuD "amomaxu.d" Amo Amo 8
    Flw "flw" FpLoad Load 4
    Fsw "fsw" FpStore Store 4
    FmaddS "fmadd.s" Fp3 FpFma 0
    FmsubS "fmsub.s" Fp3 FpFma 0
    FnmsubS "fnmsub.s" Fp3 FpFma 0
    FnmaddS "fnmadd.s" Fp3 FpFma 0
    FaddS "fadd.s" Fp2Rounded FpAdd 0
    FsubS "fsub.s" Fp2Rounded FpAdd 0
    FmulS "fmul.s" Fp2Rounded FpMul 0
    FdivS "fdiv.s" Fp2Rounded FpDiv 0
    FsqrtS "fsqrt.s" Fp1 FpSqrt 0
    FsgnjS "fsgnj.s" Fp2 FpMove 0
    FsgnjnS "fsgnjn.s" Fp2 FpMove 0
    FsgnjxS "fsgnjx.s" Fp2 FpMove 0
    FminS "fmin.s" Fp2 FpAdd 0
    FmaxS "fmax.s" Fp2 FpAdd 0
    FeqS "feq.s" FpCompare FpAdd 0
    FltS "flt.s" FpCompare FpAdd 0
    FleS "fle.s" FpCompare FpAdd 0
    FclassS "fclass.s" FpToInt FpMove 0
    FmvXW "fmv.x.w" FpToInt FpMove 0
    FmvWX "fmv.w.x" FpFromInt FpMove 0
    FcvtWS "fcvt.w.s" FpToIntRounded FpConvert 0
    FcvtWuS "fcvt.wu.s" FpToIntRounded FpConvert 0
    FcvtLS "fcvt.l.s" FpToIntRounded FpConvert 0
    FcvtLuS "fcvt.lu.s" FpToIntRounded FpConvert 0
    FcvtSW "fcvt.s.w" FpFromIntRounded FpConvert 0
    FcvtSWu "fcvt.s.wu" FpFromIntRounded FpConvert 0
    FcvtSL "fcvt.s.l" FpFromIntRounded FpConvert 0
    FcvtSLu "fcvt.s.lu" FpFromIntRounded FpConvert 0
    Fld "fld" FpLoad Load 8
    Fsd "fsd" FpStore Store 8
    FmaddD "fmadd.d" Fp3 FpFma 0
    FmsubD "fmsub.d" Fp3 FpFma 0
    FnmsubD "fnmsub.d" Fp3 FpFma 0
    FnmaddD "fnmadd.d" Fp3 FpFma 0
    FaddD "fadd.d" Fp2Rounded FpAdd 0
    FsubD "fsub.d" Fp2Rounded FpAdd 0
    FmulD "fmul.d" Fp2Rounded FpMul 0
    FdivD "fdiv.d" Fp2Rounded FpDiv 0
    FsqrtD "fsqrt.d" Fp1 FpSqrt 0
    FsgnjD "fsgnj.d" Fp2 FpMove 0
    FsgnjnD "fsgnjn.d" Fp2 FpMove 0
    FsgnjxD "fsgnjx.d" Fp2 FpMove 0
    FminD "fmin.d" Fp2 FpAdd 0
    FmaxD "fmax.d" Fp2 FpAdd 0
    FeqD "feq.d" FpCompare FpAdd 0
    FltD "flt.d" FpCompare FpAdd 0
    FleD "fle.d" FpCompare FpAdd 0
    FclassD "fclass.d" FpToInt FpMove 0
    FmvXD "fmv.x.d" FpToInt FpMove 0
    FmvDX "fmv.d.x" FpFromInt FpMove 0
    FcvtWD "fcvt.w.d" FpToIntRounded FpConvert 0
    FcvtWuD "fcvt.wu.d" FpToIntRounded FpConvert 0
    FcvtLD "fcvt.l.d" FpToIntRounded FpConvert 0
    FcvtLuD "fcvt.lu.d" FpToIntRounded FpConvert 0
    FcvtDW "fcvt.d.w" FpFromIntRounded FpConvert 0
    FcvtDWu "fcvt.d.wu" FpFromIntRounded FpConvert 0
    FcvtDL "fcvt.d.l" FpFromIntRounded FpConvert 0
    FcvtDLu "fcvt.d.lu" FpFromIntRounded FpConvert 0
    FcvtSD "fcvt.s.d" Fp1 FpConvert 0
    FcvtDS "fcvt.d.s" Fp1 FpConvert 0
}
