//! The rest of integer multiplication, and division.

use crate::Op;

/// The result of an operation on two integer registers.
///
/// Division never traps: by zero it gives all ones and leaves the dividend as remainder, and the
/// overflow of the smallest number by -1 gives that number and 0.
pub(super) fn execute(op: Op, a: u64, b: u64) -> u64 {
    let (a32, b32) = (a as i32, b as i32);
    let (u32a, u32b) = (a as u32, b as u32);
    match op {
        Op::Mulh => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        Op::Mulhsu => ((i128::from(a as i64) * i128::from(b)) >> 64) as u64,
        Op::Mulhu => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        Op::Div => match b {
            0 => u64::MAX,
            _ => (a as i64).wrapping_div(b as i64) as u64,
        },
        Op::Divu => a.checked_div(b).unwrap_or(u64::MAX),
        Op::Rem => match b {
            0 => a,
            _ => (a as i64).wrapping_rem(b as i64) as u64,
        },
        Op::Remu => a.checked_rem(b).unwrap_or(a),
        Op::Divw => match b32 {
            0 => u64::MAX,
            _ => a32.wrapping_div(b32) as u64,
        },
        Op::Divuw => u32a.checked_div(u32b).map_or(u64::MAX, |quotient| quotient as i32 as u64),
        Op::Remw => match b32 {
            0 => a32 as u64,
            _ => a32.wrapping_rem(b32) as u64,
        },
        Op::Remuw => u32a.checked_rem(u32b).unwrap_or(u32a) as i32 as u64,
        _ => unreachable!("{op:?} is executed elsewhere"),
    }
}
