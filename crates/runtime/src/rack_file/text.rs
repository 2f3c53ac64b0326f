//! The tables of the file, and errors that name its lines.

use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};

/// Longest file in bytes: [`MAX_NODES`](rackmem_abi::MAX_NODES) nodes, with room for comments.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Likeness from 0 to 1 above which a known word is named beside an unknown one.
const LIKE: f64 = 0.5;

/// The file's text, for errors that name its lines.
pub(super) struct Text<'a> {
    pub(super) text: String,
    pub(super) path: &'a Path,
}

impl Text<'_> {
    /// The line in which a span begins.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    pub(super) fn refuse(&self, span: Range<usize>, message: impl fmt::Display) -> Error {
        Error::invalid(format!("{}:{}: {message}", self.path.display(), self.line(&span)))
    }

    pub(super) fn refuse_whole(&self, message: impl fmt::Display) -> Error {
        Error::invalid(format!("{}: {message}", self.path.display()))
    }
}

pub(super) fn read_text(path: &Path) -> Result<String> {
    use std::io::Read;
    let what = || format!("cannot read the rack file {}", path.display());
    let file = fs::File::open(path).map_err(|error| Error::io(what(), error))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::io(what(), error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::invalid(format!("{}: it has more than {MAX_FILE_BYTES} bytes", what())));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid(format!("{}: it is not UTF-8", what())))
}

/// The message of a parser, which may have several lines.
pub(super) fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A table of the file.
pub(super) struct Keys<'a> {
    pub(super) text: &'a Text<'a>,
    pub(super) table: &'a DeTable<'a>,
}

impl Keys<'_> {
    /// Refuses keys that are not known.
    pub(super) fn check(&self, known: &[&str], place: &str) -> Result<()> {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let message =
                    format!("'{name}' is no key {place}{}", hint(name, known, "which has"));
                return Err(self.text.refuse(key.span(), message));
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &str) -> Option<&Spanned<DeValue<'_>>> {
        let entry = self.table.iter().find(|(name, _)| name.get_ref() == key);
        entry.map(|(_, value)| value)
    }

    /// A text, if it is there.
    pub(super) fn text(&self, key: &str, example: &str) -> Result<Option<Spanned<String>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(found) => {
                Ok(Some(Spanned::new(value.span(), found.clone().into_owned())))
            }
            _ => {
                let message = format!("{key} is a text: write `{example}`");
                Err(self.text.refuse(value.span(), message))
            }
        }
    }

    /// A truth value that is false unless it is there.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|value| (value.get_ref(), value.span())) {
            None => Ok(false),
            Some((DeValue::Boolean(found), _)) => Ok(*found),
            Some((_, span)) => Err(self.text.refuse(span, format!("{key} is true or false"))),
        }
    }
}

/// The known word that is most like the unknown one, or all of them.
pub(super) fn hint(name: &str, known: &[&str], all: &str) -> String {
    let rated = known.iter().map(|known| (strsim::jaro_winkler(name, known), known));
    match rated.filter(|rated| rated.0 > LIKE).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, nearest)) => format!("; did you mean '{nearest}'?"),
        None => format!(", {all} {}", known.join(", ")),
    }
}
