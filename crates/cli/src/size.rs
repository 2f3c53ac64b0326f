//! Sizes and rates as people write and read them.

pub use rackmem_experiments::digits::three_digits;

pub use rackmem::size::parse;

/// A count of instructions or cycles, with a decimal unit if there is one: 1500000, 1500k, 2M, 1G.
///
/// # Errors
/// It is none, is 0, or is too large.
pub fn count(text: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = units.into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    let (digits, scale) = unit.unwrap_or((text, 1));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    let wrong = || format!("'{text}': expected a number of 1 or more, such as 100M");
    number.filter(|&number| number > 0).ok_or_else(wrong)
}

/// A number of bytes with the largest unit that keeps it exact: `64 KiB`.
pub fn exact(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes % (1 << shift) == 0 {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

/// A count or rate with three digits and a decimal unit: `12.3 M`.
pub fn rounded(value: f64) -> String {
    for (scale, unit) in [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")] {
        // A value that would round to 1000 of a unit is 1.00 of the next.
        if value >= scale * 0.9995 {
            return format!("{}{unit}", three_digits(value / scale));
        }
    }
    if value.fract() == 0.0 { format!("{value}") } else { three_digits(value) }
}

/// A number of bytes with three digits and a binary unit: `23.5 GiB`.
pub fn rounded_bytes(bytes: f64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let scale = (1_u64 << shift) as f64;
        if bytes >= scale {
            return format!("{} {unit}", three_digits(bytes / scale));
        }
    }
    format!("{bytes:.0} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64M"), Ok(64 << 20));
        assert_eq!(parse("2g"), Ok(2 << 30));
        assert_eq!(parse("3KiB"), Ok(3 << 10));
        assert_eq!(parse("5T"), Ok(5 << 40));
        for wrong in ["", "M", "1.5G", "-1", "1 M", "5P", "17179869184G"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_decimal_units() {
        assert_eq!(count("1500"), Ok(1500));
        assert_eq!(
            (count("20k"), count("2M"), count("1G")),
            (Ok(20_000), Ok(2_000_000), Ok(1_000_000_000))
        );
        for wrong in ["", "0", "M", "-1", "1.5M", "99999999999G"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_shown_exactly() {
        assert_eq!(exact(0), "0 B");
        assert_eq!(exact(1 << 20), "1 MiB");
        assert_eq!(exact(1536), "1536 B");
        assert_eq!(exact(3 << 30), "3 GiB");
        assert_eq!(exact(2 << 40), "2 TiB");
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(rounded(0.0), "0");
        assert_eq!(rounded(999.0), "999");
        assert_eq!(rounded(12_345_678.0), "12.3 M");
        assert_eq!(rounded(999_900.0), "1.00 M");
        assert_eq!(rounded(1.234e9), "1.23 G");
        assert_eq!(three_digits(0.0321), "0.0321");
        assert_eq!(three_digits(0.2), "0.200");
        assert_eq!(rounded_bytes(0.0), "0 B");
        assert_eq!(rounded_bytes(23.5 * 1024.0), "23.5 KiB");
        assert_eq!(three_digits(99.96), "100");
    }
}
