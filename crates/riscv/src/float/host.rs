//! Arithmetic by the host's processor, where it gives the same bits and the flags are known.
//!
//! The processor rounds to nearest even. Of the flags, overflow, underflow, invalid and
//! division by zero are out of the question if the result is a normal number above the smallest
//! one. That leaves "inexact": if it is set already, nothing can change; if not, the result has to
//! be shown to be exact. Everything else returns `None` and is done in software.

use super::flags::INEXACT;

macro_rules! host_format {
    ($(#[$doc:meta])* $module:ident, $float:ty, $bits:ty, $precision:literal) => {
        $(#[$doc])*
        pub mod $module {
            use super::INEXACT;

            /// Whether a result with these flags raised before is right as it stands.
            #[inline]
            fn settled(result: $float, flags: u8, is_exact: impl FnOnce() -> bool) -> bool {
                let magnitude = result.abs();
                magnitude > <$float>::MIN_POSITIVE
                    && magnitude < <$float>::INFINITY
                    && (flags & INEXACT != 0 || is_exact())
            }

            #[inline]
            fn of(bits: u64) -> $float {
                <$float>::from_bits(bits as $bits)
            }

            /// `a + b` with `flags` raised before
            #[inline]
            pub fn add(a: u64, b: u64, flags: u8) -> Option<u64> {
                let (a, b) = (of(a), of(b));
                let sum = a + b;
                // Knuth's two-sum: what was lost, exactly.
                let is_exact = || {
                    let b_seen = sum - a;
                    (a - (sum - b_seen)) + (b - b_seen) == 0.0
                };
                settled(sum, flags, is_exact).then(|| sum.to_bits().into())
            }

            /// `a - b` with `flags` raised before
            #[inline]
            pub fn sub(a: u64, b: u64, flags: u8) -> Option<u64> {
                add(a, (-of(b)).to_bits().into(), flags)
            }

            /// `a * b` with `flags` raised before
            #[inline]
            pub fn mul(a: u64, b: u64, flags: u8) -> Option<u64> {
                let product = of(a) * of(b);
                let is_exact = || significant(a) + significant(b) <= $precision;
                settled(product, flags, is_exact).then(|| product.to_bits().into())
            }

            /// `a / b` with `flags` raised before
            #[inline]
            pub fn div(a: u64, b: u64, flags: u8) -> Option<u64> {
                let quotient = of(a) / of(b);
                settled(quotient, flags, || false).then(|| quotient.to_bits().into())
            }

            /// The square root of `a` with `flags` raised before
            #[inline]
            pub fn sqrt(a: u64, flags: u8) -> Option<u64> {
                let root = of(a).sqrt();
                settled(root, flags, || false).then(|| root.to_bits().into())
            }

            /// `a * b + c` with `flags` raised before
            #[inline]
            pub fn fma(a: u64, b: u64, c: u64, flags: u8) -> Option<u64> {
                let result = of(a).mul_add(of(b), of(c));
                settled(result, flags, || false).then(|| result.to_bits().into())
            }

            /// Bits from the first to the last one that is set in the significand, at most.
            #[inline]
            fn significant(bits: u64) -> u32 {
                $precision - (bits.trailing_zeros().min($precision - 1))
            }
        }
    };
}

host_format! {
    /// binary32.
    single, f32, u32, 24
}
host_format! {
    /// binary64.
    double, f64, u64, 53
}
