//! IEEE 754 arithmetic on bit patterns as RISC-V wants it: every rounding mode, exact flags,
//! tininess detected after rounding, one canonical NaN.
//!
//! [`soft`] computes everything in integers and is right by construction: it forms the result
//! exactly, or exactly but for a sticky bit far below, and rounds once. Ready-made software floats
//! lack square root or detect tininess otherwise. [`host`] lets the processor at hand do it where
//! the flags are known beforehand, which is nearly always.

pub mod compare;
pub mod convert;
pub mod host;
mod round;
pub mod soft;

/// Rounding modes, with their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rounding {
    /// To nearest, ties to even (RNE).
    NearestEven = 0,
    /// Towards zero (RTZ).
    TowardZero = 1,
    /// Towards negative infinity (RDN).
    Down = 2,
    /// Towards positive infinity (RUP).
    Up = 3,
    /// To nearest, ties away from zero (RMM).
    NearestAway = 4,
}

impl Rounding {
    /// The mode with this encoding.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Rounding> {
        Some(match bits {
            0 => Rounding::NearestEven,
            1 => Rounding::TowardZero,
            2 => Rounding::Down,
            3 => Rounding::Up,
            4 => Rounding::NearestAway,
            _ => return None,
        })
    }
}

/// Exception flags, as bits of `fflags`.
pub mod flags {
    /// Inexact (NX).
    pub const INEXACT: u8 = 1;
    /// Underflow (UF).
    pub const UNDERFLOW: u8 = 2;
    /// OF: the rounded result is too large for the format.
    pub const OVERFLOW: u8 = 4;
    /// Division by zero (DZ).
    pub const DIVISION_BY_ZERO: u8 = 8;
    /// Invalid operation (NV).
    pub const INVALID: u8 = 16;
}

/// Rounding mode of an operation, and the flags that it raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// Rounding mode.
    pub rounding: Rounding,
    /// Flags raised so far.
    pub flags: u8,
}

impl Env {
    /// No flags raised yet.
    #[inline]
    pub const fn new(rounding: Rounding) -> Env {
        Env { rounding, flags: 0 }
    }

    fn raise(&mut self, flags: u8) {
        self.flags |= flags;
    }
}

/// An interchange format. Values of both are held in the low bits of a `u64`.
pub trait Format {
    /// Bits of the fraction, without the hidden one.
    const FRACTION: u32;
    /// Bits of the exponent.
    const EXPONENT: u32;

    /// Significant bits, the hidden one included.
    const PRECISION: u32 = Self::FRACTION + 1;
    /// Largest exponent of a finite number.
    const MAX_EXPONENT: i32 = (1 << (Self::EXPONENT - 1)) - 1;
    /// Smallest exponent of a normal number.
    const MIN_EXPONENT: i32 = 1 - Self::MAX_EXPONENT;
    /// The sign bit.
    const SIGN: u64 = 1 << (Self::FRACTION + Self::EXPONENT);
    /// Positive infinity.
    const INFINITY: u64 = ((1 << Self::EXPONENT) - 1) << Self::FRACTION;
    /// The largest finite number.
    const MAX: u64 = Self::INFINITY - 1;
    /// The NaN that every operation returns.
    const NAN: u64 = Self::INFINITY | Self::QUIET;
    /// The fraction bit that distinguishes quiet NaNs from signalling ones.
    const QUIET: u64 = 1 << (Self::FRACTION - 1);
}

/// binary32.
#[derive(Clone, Copy, Debug)]
pub struct Single;

impl Format for Single {
    const FRACTION: u32 = 23;
    const EXPONENT: u32 = 8;
}

/// binary64.
#[derive(Clone, Copy, Debug)]
pub struct Double;

impl Format for Double {
    const FRACTION: u32 = 52;
    const EXPONENT: u32 = 11;
}

/// A finite number other than zero, `significand * 2^exponent`. Bit 0 of the significand may stand
/// for anything that is not zero below it, if there are enough bits above.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    pub(crate) exponent: i32,
    pub(crate) significand: u128,
}

/// A floating-point value of either format, unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Nan { signalling: bool },
    Infinite { negative: bool },
    Zero { negative: bool },
    Finite(Exact),
}

impl Number {
    pub(crate) fn of<F: Format>(bits: u64) -> Number {
        let negative = bits & F::SIGN != 0;
        let fraction = bits & ((1 << F::FRACTION) - 1);
        let biased = ((bits & F::INFINITY) >> F::FRACTION) as i32;
        let is_special = bits & F::INFINITY == F::INFINITY;
        match (biased, fraction) {
            (_, 0) if is_special => Number::Infinite { negative },
            (_, _) if is_special => Number::Nan { signalling: fraction & F::QUIET == 0 },
            (0, 0) => Number::Zero { negative },
            _ => {
                let hidden = if biased == 0 { 0 } else { 1 << F::FRACTION };
                let exponent = biased.max(1) - 1 + F::MIN_EXPONENT - F::FRACTION as i32;
                let significand = u128::from(fraction | hidden);
                Number::Finite(Exact { negative, exponent, significand })
            }
        }
    }

    fn is_nan(&self) -> bool {
        matches!(self, Number::Nan { .. })
    }

    fn is_signalling(&self) -> bool {
        matches!(self, Number::Nan { signalling: true })
    }
}

/// `bits` with sign `negative` added.
pub(crate) fn signed<F: Format>(negative: bool, bits: u64) -> u64 {
    if negative { bits | F::SIGN } else { bits }
}
