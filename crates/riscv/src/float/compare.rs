//! Comparisons, minimum and maximum, classification.

use core::cmp::Ordering;

use super::{Env, Format, Number, flags};

/// `a == b`; NaNs are unequal, and only signalling ones are invalid
pub fn eq<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    check_signalling::<F>(a, b, env);
    order::<F>(a, b) == Some(Ordering::Equal)
}

/// `a < b`; any NaN is invalid
pub fn lt<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    let order = order::<F>(a, b);
    if order.is_none() {
        env.raise(flags::INVALID);
    }
    order == Some(Ordering::Less)
}

/// `a <= b`; any NaN is invalid
pub fn le<F: Format>(a: u64, b: u64, env: &mut Env) -> bool {
    let order = order::<F>(a, b);
    if order.is_none() {
        env.raise(flags::INVALID);
    }
    order.is_some_and(Ordering::is_le)
}

/// The smaller one, -0 below +0; a number if there is one (minimumNumber)
pub fn min<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    select::<F>(a, b, Ordering::Less, env)
}

/// The larger one, +0 above -0; a number if there is one (maximumNumber)
pub fn max<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    select::<F>(a, b, Ordering::Greater, env)
}

/// The class of a number as `fclass` reports it: one bit of ten.
pub fn classify<F: Format>(bits: u64) -> u64 {
    let is_subnormal = bits & F::INFINITY == 0;
    let class = match Number::of::<F>(bits) {
        Number::Infinite { negative: true } => 0,
        Number::Finite(x) if x.negative && !is_subnormal => 1,
        Number::Finite(x) if x.negative => 2,
        Number::Zero { negative: true } => 3,
        Number::Zero { negative: false } => 4,
        Number::Finite(_) if is_subnormal => 5,
        Number::Finite(_) => 6,
        Number::Infinite { negative: false } => 7,
        Number::Nan { signalling: true } => 8,
        Number::Nan { signalling: false } => 9,
    };
    1 << class
}

fn check_signalling<F: Format>(a: u64, b: u64, env: &mut Env) {
    if [a, b].iter().any(|&bits| Number::of::<F>(bits).is_signalling()) {
        env.raise(flags::INVALID);
    }
}

/// A key that orders as the numbers do, NaNs aside, with -0 below +0.
fn key<F: Format>(bits: u64) -> i64 {
    let magnitude = (bits & !F::SIGN) as i64;
    if bits & F::SIGN != 0 { -magnitude - 1 } else { magnitude }
}

fn order<F: Format>(a: u64, b: u64) -> Option<Ordering> {
    if Number::of::<F>(a).is_nan() || Number::of::<F>(b).is_nan() {
        return None;
    }
    if (a | b) & !F::SIGN == 0 {
        return Some(Ordering::Equal);
    }
    Some(key::<F>(a).cmp(&key::<F>(b)))
}

fn select<F: Format>(a: u64, b: u64, wanted: Ordering, env: &mut Env) -> u64 {
    check_signalling::<F>(a, b, env);
    match (Number::of::<F>(a).is_nan(), Number::of::<F>(b).is_nan()) {
        (true, true) => F::NAN,
        (true, false) => b,
        (false, true) => a,
        _ if key::<F>(a).cmp(&key::<F>(b)) == wanted => a,
        _ => b,
    }
}
