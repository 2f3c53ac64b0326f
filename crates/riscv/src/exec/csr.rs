//! Reads and writes of control registers.

use crate::csr::Counter;
use crate::{Hart, Inst, Op, Port};

/// Executes a Zicsr instruction. The decoder has made sure that the register exists and may be
/// written if it is.
pub(super) fn execute<P: Port>(hart: &mut Hart, inst: &Inst, port: &mut P) -> Result<(), P::Stop> {
    let number = inst.imm as u32;
    let old = match Counter::from_csr(number) {
        Some(counter) => port.counter(counter)?,
        None => hart.float_csr(number),
    };
    let operand = match inst.op {
        Op::Csrrw | Op::Csrrs | Op::Csrrc => hart.x(inst.rs1),
        _ => inst.rs1.into(),
    };
    let new = match inst.op {
        Op::Csrrw | Op::Csrrwi => Some(operand),
        _ if inst.rs1 == 0 => None,
        Op::Csrrs | Op::Csrrsi => Some(old | operand),
        _ => Some(old & !operand),
    };
    if let Some(new) = new {
        hart.set_float_csr(number, new);
    }
    hart.set_x(inst.rd, old);
    Ok(())
}
