//! Text that peers have chosen and that people read: it must not reach a terminal with control characters in it.

use serde::{Deserialize, Deserializer};

/// Longest name of a party, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Longest sentence of a peer that is shown, in characters.
const MAX_SENTENCE_CHARS: usize = 1000;

/// Characters that move, hide or turn others: the format characters that terminals act on.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character shows as itself.
pub fn is_printable(c: char) -> bool {
    !c.is_control() && !is_format(c)
}

/// Checks a name that a peer or the user has chosen.
///
/// # Errors
/// It is longer than [`MAX_NAME_BYTES`], or has characters that do not show; the text says which.
pub fn check(name: &str) -> Result<(), String> {
    if name.len() > MAX_NAME_BYTES {
        let bytes = name.len();
        return Err(format!("a name of {bytes} bytes: there may be {MAX_NAME_BYTES}"));
    }
    match name.chars().find(|&c| !is_printable(c)) {
        Some(c) => {
            Err(format!("a name with the character U+{:04X}, which does not show", u32::from(c)))
        }
        None => Ok(()),
    }
}

/// Replaces characters that do not show, and cuts the sentence at `MAX_SENTENCE_CHARS`.
pub fn printable(text: &str) -> String {
    let show = |c| if is_printable(c) { c } else { '\u{fffd}' };
    let mut shown: String = text.chars().take(MAX_SENTENCE_CHARS).map(show).collect();
    if text.chars().nth(MAX_SENTENCE_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// A name of this host's own choice (its host name, a program's) as others take it.
pub fn own(text: &str) -> String {
    let mut name = printable(text);
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

/// Takes a name from a message, if it is one.
///
/// # Errors
/// As [`check`].
pub fn take_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    check(&name).map_err(serde::de::Error::custom)?;
    Ok(name)
}

/// Takes a sentence from a message, [`printable`].
///
/// # Errors
/// It is no text.
pub fn take_sentence<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(printable(&String::deserialize(from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_as_they_are() {
        for name in ["north", "node-3:71", "blk d'\u{e9}t\u{e9}", ""] {
            assert_eq!(check(name), Ok(()));
            assert_eq!(own(name), name);
        }
        for name in ["\u{1b}[2J", "a\nb", "a\u{9b}1m", "a\u{202e}b", "\u{7f}", &"n".repeat(129)] {
            assert!(check(name).is_err(), "{name:?}");
            assert_eq!(check(&own(name)), Ok(()), "{name:?}");
            assert!(printable(name).chars().all(is_printable));
        }
        assert_eq!(printable(&"s".repeat(2000)).len(), 1003);
        assert_eq!(own(&"\u{e9}".repeat(100)).len(), 128);
    }
}
