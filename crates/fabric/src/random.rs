//! Numbers that nobody can guess.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// A number that nobody can guess.
pub type Nonce = [u8; 16];

/// A new number.
///
/// # Errors
/// The kernel has none.
pub fn nonce() -> io::Result<Nonce> {
    let mut bytes = Nonce::default();
    let mut done = 0;
    while done < bytes.len() {
        done += getrandom(&mut bytes[done..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// A token that nobody can guess.
///
/// # Errors
/// As [`nonce`].
pub fn token() -> io::Result<String> {
    Ok(nonce()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two tokens are equal; takes as long for any two of the same length.
pub fn is_same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_compared_whole() {
        assert_ne!(token().unwrap(), token().unwrap());
        assert!(is_same("ab", "ab") && !is_same("ab", "ac") && !is_same("ab", "abc"));
    }
}
