//! Execution of instructions.
//!
//! [`execute`] is the one definition of their effects, generic over memory and counters ([`Port`]).
//! [`split`] uses it with a port that completes nothing, for drivers that decide themselves when
//! and with which value an access completes.

mod arith;
mod csr;
mod float;
pub mod split;

use crate::port::{AmoOp, Port};
use crate::{Class, Hart, Inst, Mark, Op};

/// Events that user mode cannot handle itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trap {
    /// A system call. The `pc` stays at the `ecall`, which is 4 bytes long.
    Ecall,
    /// A breakpoint.
    Ebreak,
    /// No instruction, or one with a reserved rounding mode.
    Illegal,
    /// A region of interest begins or ends. The `pc` stays at the hint, of which nothing but its length is left to do.
    Mark(Mark),
}

/// Reasons why an instruction did not complete. The hart is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit<S> {
    /// The instruction is for the operating system, or not allowed; see [`Trap`].
    Trap(Trap),
    /// Its access did not complete.
    Stop(S),
}

/// The address that a load, a store or `jalr` names.
#[inline(always)]
fn address(hart: &Hart, inst: &Inst) -> u64 {
    hart.x(inst.rs1).wrapping_add_signed(inst.imm.into())
}

#[inline(always)]
fn sext32(value: u64) -> u64 {
    value as i32 as u64
}

/// The upper half of a NaN-boxed single-precision value.
const BOX: u64 = 0xffff_ffff_0000_0000;

/// Executes one instruction and moves the `pc` on.
///
/// `inst` has to be the instruction at `hart.pc`.
#[inline(always)]
pub fn execute<P: Port>(hart: &mut Hart, inst: &Inst, port: &mut P) -> Result<(), Exit<P::Stop>> {
    hart.pc = execute_at(hart.pc, hart, inst, port)?;
    Ok(())
}

/// Executes the instruction at `pc`, which need not be that of the hart; returns the `pc` after it. A
/// driver that keeps the `pc` to itself has it in a register.
#[inline(always)]
pub(crate) fn execute_at<P: Port>(
    pc: u64,
    hart: &mut Hart,
    inst: &Inst,
    port: &mut P,
) -> Result<u64, Exit<P::Stop>> {
    macro_rules! reg {
        (|$a:ident, $b:ident| $value:expr) => {{
            let ($a, $b) = (hart.x(inst.rs1), hart.x(inst.rs2));
            hart.set_x(inst.rd, $value);
        }};
    }
    macro_rules! imm {
        (|$a:ident, $imm:ident| $value:expr) => {{
            let ($a, $imm) = (hart.x(inst.rs1), inst.imm as i64 as u64);
            hart.set_x(inst.rd, $value);
        }};
    }
    macro_rules! branch {
        (|$a:ident, $b:ident| $taken:expr) => {{
            let ($a, $b) = (hart.x(inst.rs1), hart.x(inst.rs2));
            if $taken {
                return Ok(pc.wrapping_add_signed(inst.imm.into()));
            }
        }};
    }
    macro_rules! load {
        ($size:literal, |$raw:ident| $value:expr) => {{
            let $raw = port.load(address(hart, inst), $size).map_err(Exit::Stop)?;
            hart.set_x(inst.rd, $value);
        }};
    }
    macro_rules! store {
        ($size:literal, $data:expr) => {
            port.store(address(hart, inst), $size, $data).map_err(Exit::Stop)?
        };
    }
    match inst.op {
        Op::Addi => imm!(|a, b| a.wrapping_add(b)),
        Op::Ld => load!(8, |raw| raw),
        Op::Add => reg!(|a, b| a.wrapping_add(b)),
        Op::Lw => load!(4, |raw| sext32(raw)),
        Op::Sd => store!(8, hart.x(inst.rs2)),
        Op::Sw => store!(4, hart.x(inst.rs2) & 0xffff_ffff),
        Op::Beq => branch!(|a, b| a == b),
        Op::Bne => branch!(|a, b| a != b),
        Op::Blt => branch!(|a, b| (a as i64) < b as i64),
        Op::Bge => branch!(|a, b| a as i64 >= b as i64),
        Op::Bltu => branch!(|a, b| a < b),
        Op::Bgeu => branch!(|a, b| a >= b),
        Op::Lui => hart.set_x(inst.rd, inst.imm as u64),
        Op::Auipc => hart.set_x(inst.rd, pc.wrapping_add_signed(inst.imm.into())),
        Op::Jal => {
            hart.set_x(inst.rd, pc.wrapping_add(inst.len.into()));
            return Ok(pc.wrapping_add_signed(inst.imm.into()));
        }
        Op::Jalr => {
            let target = address(hart, inst) & !1;
            hart.set_x(inst.rd, pc.wrapping_add(inst.len.into()));
            return Ok(target);
        }
        Op::Lb => load!(1, |raw| raw as i8 as u64),
        Op::Lh => load!(2, |raw| raw as i16 as u64),
        Op::Lbu => load!(1, |raw| raw),
        Op::Lhu => load!(2, |raw| raw),
        Op::Lwu => load!(4, |raw| raw),
        Op::Sb => store!(1, hart.x(inst.rs2) & 0xff),
        Op::Sh => store!(2, hart.x(inst.rs2) & 0xffff),
        Op::Slti => imm!(|a, b| u64::from((a as i64) < b as i64)),
        Op::Sltiu => imm!(|a, b| u64::from(a < b)),
        Op::Xori => imm!(|a, b| a ^ b),
        Op::Ori => imm!(|a, b| a | b),
        Op::Andi => imm!(|a, b| a & b),
        Op::Slli => imm!(|a, b| a << (b & 63)),
        Op::Srli => imm!(|a, b| a >> (b & 63)),
        Op::Srai => imm!(|a, b| (a as i64 >> (b & 63)) as u64),
        Op::Sub => reg!(|a, b| a.wrapping_sub(b)),
        Op::Sll => reg!(|a, b| a << (b & 63)),
        Op::Slt => reg!(|a, b| u64::from((a as i64) < b as i64)),
        Op::Sltu => reg!(|a, b| u64::from(a < b)),
        Op::Xor => reg!(|a, b| a ^ b),
        Op::Srl => reg!(|a, b| a >> (b & 63)),
        Op::Sra => reg!(|a, b| (a as i64 >> (b & 63)) as u64),
        Op::Or => reg!(|a, b| a | b),
        Op::And => reg!(|a, b| a & b),
        Op::Addiw => imm!(|a, b| sext32(a.wrapping_add(b))),
        Op::Slliw => imm!(|a, b| sext32(a << (b & 31))),
        Op::Srliw => imm!(|a, b| sext32(u64::from(a as u32 >> (b & 31)))),
        Op::Sraiw => imm!(|a, b| (a as i32 >> (b & 31)) as u64),
        Op::Addw => reg!(|a, b| sext32(a.wrapping_add(b))),
        Op::Subw => reg!(|a, b| sext32(a.wrapping_sub(b))),
        Op::Sllw => reg!(|a, b| sext32(a << (b & 31))),
        Op::Srlw => reg!(|a, b| sext32(u64::from(a as u32 >> (b & 31)))),
        Op::Sraw => reg!(|a, b| (a as i32 >> (b & 31)) as u64),
        Op::Mul => reg!(|a, b| a.wrapping_mul(b)),
        Op::Mulw => reg!(|a, b| sext32(a.wrapping_mul(b))),
        Op::Flw => {
            let raw = port.load(address(hart, inst), 4).map_err(Exit::Stop)?;
            hart.set_f(inst.rd, raw | BOX);
        }
        Op::Fld => {
            let raw = port.load(address(hart, inst), 8).map_err(Exit::Stop)?;
            hart.set_f(inst.rd, raw);
        }
        Op::Fsw => store!(4, hart.f(inst.rs2) & 0xffff_ffff),
        Op::Fsd => store!(8, hart.f(inst.rs2)),
        _ => rare(hart, inst, port)?,
    }
    Ok(pc.wrapping_add(inst.len.into()))
}

/// Everything that is not worth a place in the hot loop. The caller moves the `pc` on.
#[inline(never)]
fn rare<P: Port>(hart: &mut Hart, inst: &Inst, port: &mut P) -> Result<(), Exit<P::Stop>> {
    match inst.class() {
        Class::Mul | Class::Div => {
            let value = arith::execute(inst.op, hart.x(inst.rs1), hart.x(inst.rs2));
            hart.set_x(inst.rd, value);
            Ok(())
        }
        Class::Amo => atomic(hart, inst, port).map_err(Exit::Stop),
        Class::LoadReserved | Class::StoreConditional => {
            reserved(hart, inst, port).map_err(Exit::Stop)
        }
        Class::Csr => csr::execute(hart, inst, port).map_err(Exit::Stop),
        Class::Fence if inst.op == Op::FenceI => port.fence_i().map_err(Exit::Stop),
        Class::Fence => {
            let [predecessors, successors] = fence_sets(inst);
            port.fence(predecessors, successors).map_err(Exit::Stop)
        }
        Class::System => Err(Exit::Trap(match inst.op {
            Op::Ecall => Trap::Ecall,
            Op::Ebreak => Trap::Ebreak,
            Op::Mark => Mark::of(inst.imm).map_or(Trap::Illegal, Trap::Mark),
            _ => Trap::Illegal,
        })),
        // `pause`: all others are done by now.
        Class::Alu => Ok(()),
        _ => float::execute(hart, inst).map_err(Exit::Trap),
    }
}

/// Predecessor and successor sets of a fence.
pub(crate) fn fence_sets(inst: &Inst) -> [u8; 2] {
    [(inst.imm >> 4 & 15) as u8, (inst.imm & 15) as u8]
}

/// Load reserved and store conditional.
fn reserved<P: Port>(hart: &mut Hart, inst: &Inst, port: &mut P) -> Result<(), P::Stop> {
    let (address, size) = (hart.x(inst.rs1), inst.access_size());
    let value = if matches!(inst.op, Op::LrW | Op::LrD) {
        loaded(inst, port.load_reserved(address, size)?)
    } else {
        let data = truncated(size, hart.x(inst.rs2));
        u64::from(!port.store_conditional(address, size, data)?)
    };
    hart.set_x(inst.rd, value);
    Ok(())
}

fn atomic<P: Port>(hart: &mut Hart, inst: &Inst, port: &mut P) -> Result<(), P::Stop> {
    let size = inst.access_size();
    let operand = truncated(size, hart.x(inst.rs2));
    let old = port.amo(amo_op(inst.op), hart.x(inst.rs1), size, operand)?;
    hart.set_x(inst.rd, loaded(inst, old));
    Ok(())
}

fn truncated(size: u8, value: u64) -> u64 {
    if size == 4 { value & 0xffff_ffff } else { value }
}

/// The register value of a load, given the bytes that it read.
pub(crate) fn loaded(inst: &Inst, raw: u64) -> u64 {
    match inst.op {
        Op::Lb => raw as i8 as u64,
        Op::Lh => raw as i16 as u64,
        Op::Lbu | Op::Lhu | Op::Lwu => raw,
        Op::Flw => raw | BOX,
        _ if inst.access_size() == 4 => sext32(raw),
        _ => raw,
    }
}

fn amo_op(op: Op) -> AmoOp {
    match op {
        Op::AmoswapW | Op::AmoswapD => AmoOp::Swap,
        Op::AmoaddW | Op::AmoaddD => AmoOp::Add,
        Op::AmoxorW | Op::AmoxorD => AmoOp::Xor,
        Op::AmoandW | Op::AmoandD => AmoOp::And,
        Op::AmoorW | Op::AmoorD => AmoOp::Or,
        Op::AmominW | Op::AmominD => AmoOp::Min,
        Op::AmomaxW | Op::AmomaxD => AmoOp::Max,
        Op::AmominuW | Op::AmominuD => AmoOp::MinUnsigned,
        Op::AmomaxuW | Op::AmomaxuD => AmoOp::MaxUnsigned,
        _ => unreachable!("{op:?} is no atomic"),
    }
}
