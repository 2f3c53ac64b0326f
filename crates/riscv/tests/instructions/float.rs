//! Floating point in software against the processor at hand, and cases worth naming.

use std::hint::black_box;

use proptest::prelude::*;
use rackmem_riscv::float::convert::{self, Integer};
use rackmem_riscv::float::flags::{DIVISION_BY_ZERO, INEXACT, INVALID, OVERFLOW, UNDERFLOW};
use rackmem_riscv::float::{Double, Env, Format, Rounding, Single, compare, host, soft};

const MODES: [Rounding; 5] = [
    Rounding::NearestEven,
    Rounding::TowardZero,
    Rounding::Down,
    Rounding::Up,
    Rounding::NearestAway,
];

fn nearest() -> Env {
    Env::new(Rounding::NearestEven)
}

fn d(value: f64) -> u64 {
    value.to_bits()
}

/// Numbers of all kinds: special ones, and ones whose exponents are near each other.
fn doubles() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        any::<f64>().prop_map(f64::to_bits),
        (any::<u64>(), 1000u64..1060).prop_map(|(bits, e)| bits & !Double::INFINITY | e << 52),
        (any::<u64>(), 0u64..3).prop_map(|(bits, e)| bits & !Double::INFINITY | e << 52),
        (-1000i32..1000).prop_map(|value| d(f64::from(value))),
    ]
}

fn singles() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u32>().prop_map(u64::from),
        (any::<u32>(), 100u32..160).prop_map(|(bits, e)| u64::from(bits & !0x7f80_0000 | e << 23)),
        (any::<u32>(), 0u32..3).prop_map(|(bits, e)| u64::from(bits & !0x7f80_0000 | e << 23)),
        (-1000i16..1000).prop_map(|value| f32::from(value).to_bits().into()),
    ]
}

/// The host's result, NaNs as RISC-V has them. The box keeps an optimising compiler from
/// looking for NaNs in the operands instead of the result: it forgets roots of negative numbers.
fn canonical(value: f64) -> u64 {
    let value = black_box(value);
    if value.is_nan() { Double::NAN } else { value.to_bits() }
}

fn canonical_single(value: f32) -> u64 {
    let value = black_box(value);
    if value.is_nan() { Single::NAN } else { value.to_bits().into() }
}

fn of(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn single_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn doubles_as_the_host_has_them(a in doubles(), b in doubles(), c in doubles()) {
        let env = &mut nearest();
        prop_assert_eq!(soft::add::<Double>(a, b, env), canonical(of(a) + of(b)));
        prop_assert_eq!(soft::sub::<Double>(a, b, env), canonical(of(a) - of(b)));
        prop_assert_eq!(soft::mul::<Double>(a, b, env), canonical(of(a) * of(b)));
        prop_assert_eq!(soft::div::<Double>(a, b, env), canonical(of(a) / of(b)));
        prop_assert_eq!(soft::sqrt::<Double>(a, env), canonical(of(a).sqrt()));
        prop_assert_eq!(soft::fma::<Double>(a, b, c, env), canonical(of(a).mul_add(of(b), of(c))));
        let narrow = canonical_single(of(a) as f32);
        prop_assert_eq!(convert::between::<Double, Single>(a, env), narrow);
    }

    #[test]
    fn singles_as_the_host_has_them(a in singles(), b in singles(), c in singles()) {
        let env = &mut nearest();
        let (x, y, z) = (single_of(a), single_of(b), single_of(c));
        prop_assert_eq!(soft::add::<Single>(a, b, env), canonical_single(x + y));
        prop_assert_eq!(soft::mul::<Single>(a, b, env), canonical_single(x * y));
        prop_assert_eq!(soft::div::<Single>(a, b, env), canonical_single(x / y));
        prop_assert_eq!(soft::sqrt::<Single>(a, env), canonical_single(x.sqrt()));
        prop_assert_eq!(soft::fma::<Single>(a, b, c, env), canonical_single(x.mul_add(y, z)));
        prop_assert_eq!(convert::between::<Single, Double>(a, env), canonical(x.into()));
    }

    /// Results and flags of the host's arithmetic, where it is used, are those of the software.
    #[test]
    fn the_fast_way_is_the_slow_way(
        a in doubles(), b in doubles(), c in doubles(), before in 0u8..32
    ) {
        check(before, host::double::add(a, b, before), |env| soft::add::<Double>(a, b, env))?;
        check(before, host::double::sub(a, b, before), |env| soft::sub::<Double>(a, b, env))?;
        check(before, host::double::mul(a, b, before), |env| soft::mul::<Double>(a, b, env))?;
        check(before, host::double::div(a, b, before), |env| soft::div::<Double>(a, b, env))?;
        check(before, host::double::sqrt(a, before), |env| soft::sqrt::<Double>(a, env))?;
        let fma = host::double::fma(a, b, c, before);
        check(before, fma, |env| soft::fma::<Double>(a, b, c, env))?;
    }

    #[test]
    fn the_fast_way_is_the_slow_way_for_singles(a in singles(), b in singles(), before in 0u8..32) {
        check(before, host::single::add(a, b, before), |env| soft::add::<Single>(a, b, env))?;
        check(before, host::single::mul(a, b, before), |env| soft::mul::<Single>(a, b, env))?;
        check(before, host::single::div(a, b, before), |env| soft::div::<Single>(a, b, env))?;
    }

    /// Down and up enclose the exact value; the other modes give one of the two.
    #[test]
    fn modes_enclose_the_value(a in doubles(), b in doubles()) {
        prop_assume!(of(a).is_finite() && of(b).is_finite());
        let [nearest, zero, down, up, away] = MODES.map(|mode| {
            let mut env = Env::new(mode);
            (of(soft::mul::<Double>(a, b, &mut env)), env.flags & INEXACT != 0)
        });
        prop_assert!(down.0 <= up.0);
        prop_assert_eq!(down.0 != up.0, down.1, "they differ if the product is inexact");
        for (value, inexact) in [nearest, zero, away] {
            prop_assert!(value == down.0 || value == up.0);
            prop_assert_eq!(inexact, down.1);
        }
        prop_assert!(zero.0.abs() <= down.0.abs().min(up.0.abs()));
    }

    #[test]
    fn integers_as_the_host_has_them(a in doubles(), integer: u64) {
        let value = of(a);
        let truncated = |to| {
            convert::to_integer::<Double>(a, to, &mut Env::new(Rounding::TowardZero))
        };
        if !value.is_nan() {
            prop_assert_eq!(truncated(Integer::W), value as i32 as u64);
            prop_assert_eq!(truncated(Integer::WU), value as u32 as i32 as u64);
            prop_assert_eq!(truncated(Integer::L), value as i64 as u64);
            prop_assert_eq!(truncated(Integer::LU), value as u64);
        }
        let env = &mut nearest();
        let wide = convert::from_integer::<Double>(integer, Integer::LU, env);
        prop_assert_eq!(wide, d(integer as f64));
        let signed = integer as i64;
        let wide = convert::from_integer::<Double>(integer, Integer::L, env);
        prop_assert_eq!(wide, d(signed as f64));
        let narrow = convert::from_integer::<Single>(integer, Integer::L, env);
        prop_assert_eq!(narrow, u64::from((signed as f32).to_bits()));
    }

    #[test]
    fn order_as_the_host_has_it(a in doubles(), b in doubles()) {
        let env = &mut nearest();
        prop_assert_eq!(compare::eq::<Double>(a, b, env), of(a) == of(b));
        prop_assert_eq!(compare::lt::<Double>(a, b, env), of(a) < of(b));
        prop_assert_eq!(compare::le::<Double>(a, b, env), of(a) <= of(b));
    }
}

fn check(
    before: u8,
    fast: Option<u64>,
    slow: impl FnOnce(&mut Env) -> u64,
) -> Result<(), TestCaseError> {
    if let Some(fast) = fast {
        let mut env = nearest();
        prop_assert_eq!(fast, slow(&mut env));
        prop_assert_eq!(before | env.flags, before, "no flag is added");
    }
    Ok(())
}

#[test]
fn the_fast_way_is_taken() {
    assert!(host::double::add(d(1.0), d(2.0), 0).is_some(), "an exact sum");
    assert!(host::double::add(d(0.1), d(0.2), 0).is_none(), "the first inexact sum");
    assert!(host::double::add(d(0.1), d(0.2), INEXACT).is_some(), "any other inexact sum");
    assert!(host::double::mul(d(3.0), d(5.0), 0).is_some(), "an exact product");
    assert!(host::double::div(d(1.0), d(3.0), INEXACT).is_some());
    assert!(host::double::div(d(1.0), d(0.0), INEXACT).is_none(), "another flag is due");
}

/// Halfway between 2 and the next number below and above, per mode.
#[test]
fn ties_go_where_the_mode_says() {
    let (half_ulp, odd) = (d(2f64.powi(-53)), d(1.0 + f64::EPSILON));
    let sums = |a, b| MODES.map(|mode| of(soft::add::<Double>(a, b, &mut Env::new(mode))));
    let up = 1.0 + f64::EPSILON;
    assert_eq!(sums(d(1.0), half_ulp), [1.0, 1.0, 1.0, up, up]);
    let next = 1.0 + 2.0 * f64::EPSILON;
    assert_eq!(sums(odd, half_ulp), [next, up, up, next, next]);
}

#[test]
fn overflow_and_underflow_per_mode() {
    let largest = Double::MAX;
    let results = MODES.map(|mode| {
        let mut env = Env::new(mode);
        (soft::add::<Double>(largest, largest, &mut env), env.flags)
    });
    let (infinity, raised) = (Double::INFINITY, OVERFLOW | INEXACT);
    assert_eq!(results.map(|(bits, _)| bits), [infinity, largest, largest, infinity, infinity]);
    assert_eq!(results.map(|(_, flags)| flags), [raised; 5]);
    let mut env = nearest();
    assert_eq!(soft::mul::<Double>(1, d(0.25), &mut env), 0);
    assert_eq!(env.flags, UNDERFLOW | INEXACT);
}

/// A result that rounds to the smallest normal number: tiny before rounding, but not after it,
/// unless even full precision keeps it below.
#[test]
fn tininess_is_detected_after_rounding() {
    let smallest = f64::MIN_POSITIVE;
    let just_below_one = d(1.0 - f64::EPSILON / 2.0);
    let mut env = nearest();
    assert_eq!(soft::mul::<Double>(d(smallest), just_below_one, &mut env), d(smallest));
    assert_eq!(env.flags, UNDERFLOW | INEXACT, "53 bits hold the product");
    let mut env = nearest();
    let (a, b) = (d(smallest * (1.0 + f64::EPSILON)), d(1.0 - f64::EPSILON));
    assert_eq!(soft::mul::<Double>(a, b, &mut env), d(smallest));
    assert_eq!(env.flags, INEXACT, "rounded to 53 bits it is normal");
}

#[test]
fn invalid_operations() {
    let (inf, nan, signalling) = (Double::INFINITY, Double::NAN, Double::INFINITY | 1);
    let flags = |operation: &dyn Fn(&mut Env) -> u64| {
        let mut env = nearest();
        (operation(&mut env), env.flags)
    };
    let minus_inf = inf | Double::SIGN;
    assert_eq!(flags(&|e| soft::add::<Double>(inf, minus_inf, e)), (nan, INVALID));
    assert_eq!(flags(&|e| soft::mul::<Double>(inf, 0, e)), (nan, INVALID));
    assert_eq!(flags(&|e| soft::fma::<Double>(inf, 0, nan, e)), (nan, INVALID));
    assert_eq!(flags(&|e| soft::div::<Double>(0, 0, e)), (nan, INVALID));
    assert_eq!(flags(&|e| soft::div::<Double>(d(1.0), 0, e)), (inf, DIVISION_BY_ZERO));
    assert_eq!(flags(&|e| soft::sqrt::<Double>(d(-1.0), e)), (nan, INVALID));
    assert_eq!(flags(&|e| soft::sqrt::<Double>(d(-0.0), e)), (d(-0.0), 0));
    assert_eq!(flags(&|e| soft::add::<Double>(nan, d(1.0), e)), (nan, 0));
    assert_eq!(flags(&|e| soft::add::<Double>(signalling, d(1.0), e)), (nan, INVALID));
    assert_eq!(flags(&|e| compare::min::<Double>(signalling, d(1.0), e)), (d(1.0), INVALID));
    assert_eq!(flags(&|e| compare::max::<Double>(nan, nan, e)), (nan, 0));
    assert_eq!(flags(&|e| compare::min::<Double>(d(0.0), d(-0.0), e)), (d(-0.0), 0));
    assert_eq!(flags(&|e| compare::eq::<Double>(nan, nan, e).into()), (0, 0));
    assert_eq!(flags(&|e| compare::le::<Double>(nan, nan, e).into()), (0, INVALID));
}

/// The table "Domains of float-to-integer conversions" of the unprivileged specification.
#[test]
fn conversions_saturate() {
    let convert = |value: f64, to| {
        let mut env = Env::new(Rounding::TowardZero);
        (convert::to_integer::<Double>(d(value), to, &mut env), env.flags)
    };
    let sign_extended = |value: i32| value as u64;
    for (value, w, wu, l, lu) in [
        (f64::NAN, sign_extended(i32::MAX), u64::MAX, i64::MAX as u64, u64::MAX),
        (f64::INFINITY, sign_extended(i32::MAX), u64::MAX, i64::MAX as u64, u64::MAX),
        (f64::NEG_INFINITY, sign_extended(i32::MIN), 0, i64::MIN as u64, 0),
        (1e300, sign_extended(i32::MAX), u64::MAX, i64::MAX as u64, u64::MAX),
        (-1e300, sign_extended(i32::MIN), 0, i64::MIN as u64, 0),
    ] {
        assert_eq!(convert(value, Integer::W), (w, INVALID), "{value}");
        assert_eq!(convert(value, Integer::WU), (wu, INVALID), "{value}");
        assert_eq!(convert(value, Integer::L), (l, INVALID), "{value}");
        assert_eq!(convert(value, Integer::LU), (lu, INVALID), "{value}");
    }
    assert_eq!(convert(-0.9, Integer::WU), (0, INEXACT));
    assert_eq!(convert(-1.0, Integer::WU), (0, INVALID));
    assert_eq!(convert(3e9, Integer::WU), (3_000_000_000u32 as i32 as u64, 0));
    assert_eq!(convert(2_147_483_647.5, Integer::W), (i32::MAX as u64, INEXACT));
}

#[test]
fn classes() {
    let cases = [
        (Double::INFINITY | Double::SIGN, 0),
        (d(-1.0), 1),
        (Double::SIGN | 1, 2),
        (d(-0.0), 3),
        (0, 4),
        (1, 5),
        (d(1.0), 6),
        (Double::INFINITY, 7),
        (Double::INFINITY | 1, 8),
        (Double::NAN, 9),
    ];
    for (bits, class) in cases {
        assert_eq!(compare::classify::<Double>(bits), 1 << class, "{bits:#x}");
    }
}
