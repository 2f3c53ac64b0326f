//! Numbers for people.

/// A number with three significant digits.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 || v == 0.0 => 2,
        v => (2.0 - v.log10().floor()).min(6.0) as usize,
    };
    format!("{value:.decimals$}")
}
