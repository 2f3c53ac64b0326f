//! The frame on the stack of a signal's handler (`arch/riscv/kernel/signal.c`).

use super::queue::{INFO_BYTES, Info};
use super::{Action, AltStack};
use crate::hart::{Hart, abi};
use crate::kernel::UserMemory;
use crate::space::Fault;

/// Places in `struct ucontext`, which follows `struct siginfo`: stack, mask, registers, floating-point registers.
const STACK: usize = 16;
const MASK: usize = 40;
const REGISTERS: usize = 176;
const FLOATS: usize = REGISTERS + 32 * 8;

/// Bytes of the frame; the floating-point registers have room for those of the Q extension.
const BYTES: usize = INFO_BYTES + FLOATS + 528;

/// Puts the frame on the stack and has the hart continue with the handler.
///
/// # Errors
/// There is no stack there.
pub(super) fn push(
    state: &mut Hart,
    memory: &mut dyn UserMemory,
    info: &Info,
    (action, alternate): (&Action, &AltStack),
    (mask, trampoline): (u64, u64),
) -> Result<(), Fault> {
    let mut bytes = vec![0; BYTES];
    bytes[..INFO_BYTES].copy_from_slice(&info.bytes());
    let mut put = |at: usize, value: u64, size: usize| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    let sp = state.x[abi::SP];
    put(INFO_BYTES + STACK, alternate.start, 8);
    put(INFO_BYTES + STACK + 8, alternate.flags(sp), 4);
    put(INFO_BYTES + STACK + 16, alternate.size, 8);
    put(INFO_BYTES + MASK, mask, 8);
    put(INFO_BYTES + REGISTERS, state.pc, 8);
    for number in 1..32 {
        put(INFO_BYTES + REGISTERS + 8 * number, state.x[number], 8);
    }
    for number in 0..32 {
        put(INFO_BYTES + FLOATS + 8 * number, state.f[number], 8);
    }
    put(INFO_BYTES + FLOATS + 32 * 8, state.fcsr().into(), 4);

    let top = if action.is_on_stack() && !alternate.holds(sp) && alternate.size > 0 {
        alternate.start.wrapping_add(alternate.size)
    } else {
        sp
    };
    let frame = top.wrapping_sub(BYTES as u64) & !15;
    memory.write(frame, &bytes)?;
    state.x[abi::SP] = frame;
    state.x[abi::RA] = trampoline;
    state.x[abi::A0] = info.signal;
    state.x[abi::A0 + 1] = frame;
    state.x[abi::A0 + 2] = frame + INFO_BYTES as u64;
    // As by `sret`: no instruction begins at an odd address.
    state.pc = action.handler & !1;
    Ok(())
}

/// Restores the registers from the frame at the stack pointer; returns the mask of signals.
///
/// # Errors
/// There is no frame.
pub(super) fn pop(state: &mut Hart, memory: &mut dyn UserMemory) -> Result<u64, Fault> {
    let mut bytes = vec![0; BYTES];
    memory.read(state.x[abi::SP], &mut bytes)?;
    let word = |at: usize| {
        let bytes: [u8; 8] = core::array::from_fn(|index| bytes[at + index]);
        u64::from_le_bytes(bytes)
    };
    state.pc = word(INFO_BYTES + REGISTERS) & !1;
    for number in 1..32 {
        state.x[number] = word(INFO_BYTES + REGISTERS + 8 * number);
    }
    for number in 0..32 {
        state.f[number] = word(INFO_BYTES + FLOATS + 8 * number);
    }
    let fcsr = word(INFO_BYTES + FLOATS + 32 * 8) as u32;
    state.fflags = fcsr as u8 & 0x1f;
    state.frm = (fcsr >> 5) as u8 & 7;
    Ok(word(INFO_BYTES + MASK))
}
