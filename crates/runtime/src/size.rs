//! Sizes as people write them.

/// Parses a number of bytes with an optional unit K, M, G or T (powers of 1024; `KiB` is fine, too).
///
/// # Errors
/// The fault of the text.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        unit => return Err(format!("unit '{unit}' is none of K, M, G, T")),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a size such as 64M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}
