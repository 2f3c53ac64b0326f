//! The language of experiment files: expressions over the statistics of runs.
//!
//! | module | what is in it |
//! |---|---|
//! | [`token`], [`parse`], [`ast`] | from text to tree |
//! | [`template`] | texts with expressions in braces |
//! | [`value`] | numbers, texts, lists, parts of reports |
//! | [`evaluate`] | the value of a tree, or the runs that it takes |
//! | [`functions`] | `max`, `argmax`, `first` and the like |
//! | [`names`] | whether all names of a tree are known |
//! | `reports` | whether reports have what a tree reads of them |

pub mod ast;
pub mod evaluate;
pub mod functions;
pub mod names;
pub mod parse;
mod reports;
pub mod template;
pub mod token;
pub mod value;

#[cfg(test)]
mod tests;

/// An error in an expression, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Offset in bytes from the start of the text.
    pub at: usize,
    /// The problem in words.
    pub what: String,
}

impl Problem {
    /// A problem at this offset.
    pub fn new(at: usize, what: impl Into<String>) -> Problem {
        Problem { at, what: what.into() }
    }

    /// The same in a text that begins so many bytes before.
    #[must_use]
    pub fn after(self, bytes: usize) -> Problem {
        Problem { at: self.at + bytes, ..self }
    }
}
