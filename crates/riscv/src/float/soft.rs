//! The five operations in integers.

use super::round::{round, shift_right_jam};
use super::{Env, Exact, Format, Number, Rounding, flags, signed};

/// Position of the highest bit of an aligned significand: room for a carry above, and so many
/// bits below that a sticky bit cannot disturb the rounding.
const TOP: u32 = 120;

/// `a + b`
pub fn add<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (Number::of::<F>(a), Number::of::<F>(b));
    match (x, y) {
        _ if x.is_nan() || y.is_nan() => nan::<F>(&[x, y], env),
        (Number::Infinite { negative: p }, Number::Infinite { negative: q }) if p != q => {
            invalid::<F>(env)
        }
        (Number::Infinite { .. }, _) => a,
        (_, Number::Infinite { .. }) => b,
        (Number::Zero { negative: p }, Number::Zero { negative: q }) => zero_sum::<F>(p, q, env),
        (Number::Zero { .. }, _) => b,
        (_, Number::Zero { .. }) => a,
        (Number::Finite(x), Number::Finite(y)) => sum::<F>(x, y, env),
        _ => unreachable!("NaNs came first"),
    }
}

/// `a - b`
pub fn sub<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    add::<F>(a, b ^ F::SIGN, env)
}

/// `a * b`
pub fn mul<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (Number::of::<F>(a), Number::of::<F>(b));
    let negative = (a ^ b) & F::SIGN != 0;
    match (x, y) {
        _ if x.is_nan() || y.is_nan() => nan::<F>(&[x, y], env),
        (Number::Infinite { .. }, Number::Zero { .. })
        | (Number::Zero { .. }, Number::Infinite { .. }) => invalid::<F>(env),
        (Number::Infinite { .. }, _) | (_, Number::Infinite { .. }) => {
            signed::<F>(negative, F::INFINITY)
        }
        (Number::Finite(x), Number::Finite(y)) => round::<F>(product(x, y), env),
        _ => signed::<F>(negative, 0),
    }
}

/// `a * b + c`, rounded once
pub fn fma<F: Format>(a: u64, b: u64, c: u64, env: &mut Env) -> u64 {
    let (x, y, z) = (Number::of::<F>(a), Number::of::<F>(b), Number::of::<F>(c));
    let negative = (a ^ b) & F::SIGN != 0;
    match (x, y) {
        // Even if the addend is a quiet NaN.
        (Number::Infinite { .. }, Number::Zero { .. })
        | (Number::Zero { .. }, Number::Infinite { .. }) => invalid::<F>(env),
        _ if x.is_nan() || y.is_nan() || z.is_nan() => nan::<F>(&[x, y, z], env),
        (Number::Finite(x), Number::Finite(y)) => match z {
            Number::Finite(z) => sum::<F>(product(x, y), z, env),
            Number::Zero { .. } => round::<F>(product(x, y), env),
            _ => c,
        },
        (Number::Infinite { .. }, _) | (_, Number::Infinite { .. }) => {
            add::<F>(signed::<F>(negative, F::INFINITY), c, env)
        }
        _ => add::<F>(signed::<F>(negative, 0), c, env),
    }
}

/// `a / b`
pub fn div<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (Number::of::<F>(a), Number::of::<F>(b));
    let negative = (a ^ b) & F::SIGN != 0;
    match (x, y) {
        _ if x.is_nan() || y.is_nan() => nan::<F>(&[x, y], env),
        (Number::Infinite { .. }, Number::Infinite { .. })
        | (Number::Zero { .. }, Number::Zero { .. }) => invalid::<F>(env),
        (Number::Infinite { .. }, _) => signed::<F>(negative, F::INFINITY),
        (_, Number::Zero { .. }) => {
            env.raise(flags::DIVISION_BY_ZERO);
            signed::<F>(negative, F::INFINITY)
        }
        (Number::Finite(x), Number::Finite(y)) => round::<F>(quotient(x, y), env),
        _ => signed::<F>(negative, 0),
    }
}

/// The square root of `a`
pub fn sqrt<F: Format>(a: u64, env: &mut Env) -> u64 {
    let x = Number::of::<F>(a);
    match x {
        Number::Nan { .. } => nan::<F>(&[x], env),
        Number::Zero { .. } | Number::Infinite { negative: false } => a,
        Number::Finite(x) if !x.negative => round::<F>(root(x), env),
        _ => invalid::<F>(env),
    }
}

fn invalid<F: Format>(env: &mut Env) -> u64 {
    env.raise(flags::INVALID);
    F::NAN
}

/// The result of an operation on NaNs.
fn nan<F: Format>(operands: &[Number], env: &mut Env) -> u64 {
    if operands.iter().any(Number::is_signalling) {
        env.raise(flags::INVALID);
    }
    F::NAN
}

/// Zeros of the same sign keep it; else it depends on the rounding, as for every exact zero sum.
fn zero_sum<F: Format>(a_negative: bool, b_negative: bool, env: &Env) -> u64 {
    let negative =
        if a_negative == b_negative { a_negative } else { env.rounding == Rounding::Down };
    signed::<F>(negative, 0)
}

/// The same number with its highest bit at [`TOP`].
fn aligned(number: Exact) -> Exact {
    let shift = number.significand.leading_zeros() - (127 - TOP);
    Exact {
        exponent: number.exponent - shift as i32,
        significand: number.significand << shift,
        ..number
    }
}

fn sum<F: Format>(a: Exact, b: Exact, env: &mut Env) -> u64 {
    let (a, b) = (aligned(a), aligned(b));
    let (large, small) =
        if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
    // Bits are lost only if the exponents differ by so much that the result keeps its highest
    // bits: then a sticky bit is as good as they.
    let shifted = shift_right_jam(small.significand, (large.exponent - small.exponent) as u32);
    let significand = if large.negative == small.negative {
        large.significand + shifted
    } else {
        large.significand - shifted
    };
    if significand == 0 {
        return zero_sum::<F>(large.negative, small.negative, env);
    }
    round::<F>(Exact { significand, ..large }, env)
}

fn product(a: Exact, b: Exact) -> Exact {
    Exact {
        negative: a.negative != b.negative,
        exponent: a.exponent + b.exponent,
        significand: a.significand * b.significand,
    }
}

/// The quotient to at least 66 bits, the last of them sticky.
fn quotient(a: Exact, b: Exact) -> Exact {
    let a = aligned(a);
    let shift = b.significand.leading_zeros() - (127 - 54);
    let divisor = b.significand << shift;
    let exponent = a.exponent - (b.exponent - shift as i32);
    let sticky = u128::from(a.significand % divisor != 0);
    Exact {
        negative: a.negative != b.negative,
        exponent,
        significand: (a.significand / divisor) | sticky,
    }
}

/// The square root to 60 bits, the last of them sticky.
fn root(a: Exact) -> Exact {
    let mut a = aligned(a);
    if a.exponent % 2 != 0 {
        a.exponent -= 1;
        a.significand <<= 1;
    }
    let root = a.significand.isqrt();
    let sticky = u128::from(root * root != a.significand);
    Exact { negative: false, exponent: a.exponent / 2, significand: root | sticky }
}
