//! Experiments of papers as data.
//!
//! An experiment file (`experiments/<paper>.toml`) says which runs there are, which quantities they give, and how
//! each claim of `published/<paper>.toml` is measured by them. Which runs a selection of claims takes is read off
//! their expressions.
//!
//! | module | what is in it |
//! |---|---|
//! | [`document`] | an experiment file, checked |
//! | [`language`] | expressions |
//! | [`claims`] | what a paper says |
//! | [`tolerance`], [`verdict`] | how far a value may be off, and whether it is |
//! | [`run`], [`model`] | runs, and those of them that the model makes |
//! | [`variation`], [`bands`] | other seeds, other values of open parameters, and what they give |
//! | [`session`] | from runs to verdicts |
//! | [`outcome`] | what a reproduction gives |
//! | [`study`] | sweeps over settings, whose runs have files |
//! | [`whole_file`] | files that are there whole or not at all |

pub mod bands;
pub mod claims;
pub mod digits;
pub mod document;
pub mod input;
pub mod language;
pub mod model;
pub mod nearest;
pub mod outcome;
pub mod papers;
pub mod prebuilt;
pub mod run;
pub mod session;
pub mod study;
pub mod tolerance;
pub mod variation;
pub mod verdict;
pub mod whole_file;

/// A quantity that a run may fail to give; else the reason.
pub type Known<T> = Result<T, String>;

/// Amount of work of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Fewer sizes, shorter runs.
    Quick,
    /// The sizes and lengths of the paper.
    Full,
}

impl Effort {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
        }
    }
}
