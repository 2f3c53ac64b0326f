//! Conversions between the formats and integers.

use super::round::{round, round_shift};
use super::{Env, Exact, Format, Number, flags, signed};

/// An integer type as conversions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Whether it has a sign.
    pub signed: bool,
    /// Width in bits: 32 or 64.
    pub bits: u32,
}

impl Integer {
    /// `fcvt.w`
    pub const W: Integer = Integer { signed: true, bits: 32 };
    /// `fcvt.wu`
    pub const WU: Integer = Integer { signed: false, bits: 32 };
    /// `fcvt.l`
    pub const L: Integer = Integer { signed: true, bits: 64 };
    /// `fcvt.lu`
    pub const LU: Integer = Integer { signed: false, bits: 64 };

    /// The largest magnitude on either side of zero.
    const fn limit(self, negative: bool) -> u128 {
        match (self.signed, negative) {
            (true, true) => 1 << (self.bits - 1),
            (true, false) => (1 << (self.bits - 1)) - 1,
            (false, true) => 0,
            (false, false) => (1 << self.bits) - 1,
        }
    }

    /// The register that holds it: 32-bit results are sign-extended, even unsigned ones.
    const fn register(self, negative: bool, magnitude: u128) -> u64 {
        let value = if negative { (magnitude as u64).wrapping_neg() } else { magnitude as u64 };
        if self.bits == 32 { value as i32 as u64 } else { value }
    }
}

/// A number to an integer register. What does not fit saturates and is invalid; NaNs count as
/// large.
pub fn to_integer<F: Format>(bits: u64, integer: Integer, env: &mut Env) -> u64 {
    let number = match Number::of::<F>(bits) {
        Number::Zero { .. } => return 0,
        Number::Nan { .. } => return saturate(integer, false, env),
        Number::Infinite { negative } => return saturate(integer, negative, env),
        Number::Finite(number) => number,
    };
    let negative = number.negative;
    if number.exponent > 64 {
        return saturate(integer, negative, env);
    }
    let (magnitude, inexact) = if number.exponent >= 0 {
        (number.significand << number.exponent, false)
    } else {
        round_shift(number.significand, number.exponent.unsigned_abs(), negative, env.rounding)
    };
    if magnitude > integer.limit(negative) {
        return saturate(integer, negative, env);
    }
    if inexact {
        env.raise(flags::INEXACT);
    }
    integer.register(negative, magnitude)
}

fn saturate(integer: Integer, negative: bool, env: &mut Env) -> u64 {
    env.raise(flags::INVALID);
    integer.register(negative, integer.limit(negative))
}

/// An integer register to a number.
pub fn from_integer<F: Format>(register: u64, integer: Integer, env: &mut Env) -> u64 {
    let value = match (integer.signed, integer.bits) {
        (true, 32) => i128::from(register as i32),
        (false, 32) => i128::from(register as u32),
        (true, _) => i128::from(register as i64),
        (false, _) => i128::from(register),
    };
    if value == 0 {
        return 0;
    }
    let significand = value.unsigned_abs();
    round::<F>(Exact { negative: value < 0, exponent: 0, significand }, env)
}

/// A number to the other format.
pub fn between<From: Format, To: Format>(bits: u64, env: &mut Env) -> u64 {
    match Number::of::<From>(bits) {
        Number::Nan { signalling } => {
            if signalling {
                env.raise(flags::INVALID);
            }
            To::NAN
        }
        Number::Infinite { negative } => signed::<To>(negative, To::INFINITY),
        Number::Zero { negative } => signed::<To>(negative, 0),
        Number::Finite(number) => round::<To>(number, env),
    }
}
