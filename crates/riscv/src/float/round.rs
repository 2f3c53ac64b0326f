//! Rounding: the one place where a result loses bits.

use super::{Env, Exact, Format, Rounding, flags, signed};

/// `value >> count`, with bit 0 set if any bit was lost.
pub(super) fn shift_right_jam(value: u128, count: u32) -> u128 {
    match count {
        0 => value,
        1..128 => (value >> count) | u128::from(value << (128 - count) != 0),
        _ => u128::from(value != 0),
    }
}

/// `value / 2^count` rounded to an integer, and whether that was inexact.
pub(super) fn round_shift(
    value: u128,
    count: u32,
    negative: bool,
    rounding: Rounding,
) -> (u128, bool) {
    if count == 0 {
        return (value, false);
    }
    // Two bits below the integer: the half and the rest.
    let jammed = if count == 1 { value << 1 } else { shift_right_jam(value, count - 2) };
    let (integer, below) = (jammed >> 2, jammed & 3);
    let up = match rounding {
        Rounding::NearestEven => below == 3 || below == 2 && integer & 1 == 1,
        Rounding::NearestAway => below >= 2,
        Rounding::TowardZero => false,
        Rounding::Down => negative && below != 0,
        Rounding::Up => !negative && below != 0,
    };
    (integer + u128::from(up), below != 0)
}

/// Rounds a number to the format.
pub(super) fn round<F: Format>(number: Exact, env: &mut Env) -> u64 {
    let Exact { negative, exponent, significand } = number;
    let top = 127 - significand.leading_zeros() as i32;
    let magnitude = exponent + top;
    if magnitude < F::MIN_EXPONENT {
        return round_subnormal::<F>(number, env);
    }
    let (rounded, inexact) = to_precision::<F>(&number, env.rounding);
    let carried = rounded >> F::PRECISION != 0;
    let magnitude = magnitude + i32::from(carried);
    let rounded = if carried { rounded >> 1 } else { rounded };
    if magnitude > F::MAX_EXPONENT {
        return overflow::<F>(negative, env);
    }
    if inexact {
        env.raise(flags::INEXACT);
    }
    let biased = (magnitude + F::MAX_EXPONENT) as u64;
    // The hidden bit of the significand adds one to the exponent.
    signed::<F>(negative, ((biased - 1) << F::FRACTION) + rounded as u64)
}

/// The significand rounded to the precision of normal numbers, exponent unbounded.
fn to_precision<F: Format>(number: &Exact, rounding: Rounding) -> (u128, bool) {
    let width = 128 - number.significand.leading_zeros();
    if width <= F::PRECISION {
        return (number.significand << (F::PRECISION - width), false);
    }
    round_shift(number.significand, width - F::PRECISION, number.negative, rounding)
}

fn round_subnormal<F: Format>(number: Exact, env: &mut Env) -> u64 {
    let unit = F::MIN_EXPONENT - F::FRACTION as i32;
    let (rounded, inexact) = if number.exponent >= unit {
        (number.significand << (number.exponent - unit), false)
    } else {
        let count = (unit - number.exponent) as u32;
        round_shift(number.significand, count, number.negative, env.rounding)
    };
    if inexact {
        env.raise(flags::INEXACT);
        if is_tiny::<F>(&number, env.rounding) {
            env.raise(flags::UNDERFLOW);
        }
    }
    // A carry into the hidden bit is the smallest normal number, as it should be.
    signed::<F>(number.negative, rounded as u64)
}

/// Whether a number below the normal ones stays there when it is rounded to full precision: that
/// is what "tiny after rounding" means (IEEE 754-2019 §7.5).
fn is_tiny<F: Format>(number: &Exact, rounding: Rounding) -> bool {
    let top = 127 - number.significand.leading_zeros() as i32;
    let carries = to_precision::<F>(number, rounding).0 >> F::PRECISION != 0;
    !(carries && number.exponent + top + 1 == F::MIN_EXPONENT)
}

fn overflow<F: Format>(negative: bool, env: &mut Env) -> u64 {
    env.raise(flags::OVERFLOW | flags::INEXACT);
    let to_infinity = match env.rounding {
        Rounding::NearestEven | Rounding::NearestAway => true,
        Rounding::TowardZero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    signed::<F>(negative, if to_infinity { F::INFINITY } else { F::MAX })
}
