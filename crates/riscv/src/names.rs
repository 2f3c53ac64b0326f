//! Names of files as text. Linux has names of any bytes; those that are no UTF-8 stand in strings as characters of a
//! private range, one for each byte.
//!
//! Bytes that are themselves the UTF-8 of such a character stand so, too: each name has one text, and each text of a
//! name is that of one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The byte `b` stands as this character and `b` more; only bytes from 0x80 on do.
const FIRST: u32 = 0x10_ff00;

fn stands_for(letter: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(letter).checked_sub(FIRST)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

/// The text of a name.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let letter_of = |byte: u8| char::from_u32(FIRST + u32::from(byte));
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match stands_for(letter) {
                None => text.push(letter),
                Some(_) => {
                    text.extend(letter.encode_utf8(&mut [0; 4]).bytes().filter_map(letter_of))
                }
            }
        }
        text.extend(chunk.invalid().iter().copied().filter_map(letter_of));
    }
    text
}

/// The name that a text is of.
pub(crate) fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        match stands_for(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    bytes
}

/// The text of a path of the host.
pub(crate) fn text_of_path(path: &Path) -> String {
    text_of(path.as_os_str().as_bytes())
}

/// The text of a part of one.
pub(crate) fn text_of_part(part: &OsStr) -> String {
    text_of(part.as_bytes())
}

/// The path that a text of a name is of: that of an input of a run, for example.
pub fn path_of(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes_of(text)))
}

/// Paths that are saved as texts.
pub(crate) mod paths {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(paths: &BTreeSet<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| super::text_of_path(path)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        Ok(texts.iter().map(|text| super::path_of(text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_letters_are_their_own_text() {
        for name in ["", "name", "Straße/💾", "\u{10fefe}"] {
            assert_eq!(text_of(name.as_bytes()), name);
        }
        assert_eq!(text_of(b"a\xffb"), "a\u{10ffff}b");
    }

    #[test]
    fn paths_of_any_bytes_are_saved() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Saved(#[serde(with = "paths")] std::collections::BTreeSet<PathBuf>);
        let saved = Saved(["in", "x\u{10ffff}"].map(path_of).into());
        let text = serde_json::to_string(&saved).unwrap();
        assert_eq!(serde_json::from_str::<Saved>(&text).unwrap().0, saved.0);
    }

    proptest! {
        #[test]
        fn every_name_has_a_text_of_its_own(bytes: Vec<u8>, private in 0x10_ff00..=0x10_ffff_u32) {
            let private = char::from_u32(private).expect("a character").to_string();
            let name = [&bytes, private.as_bytes(), &bytes].concat();
            prop_assert_eq!(bytes_of(&text_of(&name)), name);
        }
    }
}
