//! `rackmem reproduce`: what a paper says, experiments on the model, verdicts.
//!
//! [`claims`] reads what the paper says. [`checks`] says of each claim how it is measured, and
//! [`not_checkable`] of each of the others why it is not: together they name every claim. A check
//! asks [`results`] for the reports of the experiments it needs, so the runs that a selection
//! needs are found by asking once for nothing. [`tolerance`] is the one place where is written how
//! near is near enough.

pub mod beyond;
pub mod checks;
pub mod claims;
pub mod curves;
pub mod experiment;
pub mod explanations;
pub mod figure;
pub mod not_checkable;
pub mod outcome;
pub mod pool;
pub mod render;
pub mod results;
pub mod tolerance;
pub mod verdict;
pub mod write;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
mod tests;
