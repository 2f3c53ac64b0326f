//! `rackmem reproduce`: claims of papers, experiments, verdicts.
//!
//! [`paper`] is the frame: [`claims`] reads what a paper says; each of its checks says of a claim
//! how it is measured, and a list says of each of the others why it is not: together they name every
//! claim. A check asks [`results`] for the reports of the experiments it needs, so the runs that a
//! selection needs are found by asking once for nothing. [`tolerance`] is the one place where is
//! written how far a value may be off.
//!
//! [`cache_integrated_ni`], [`deoi`], [`manycore_ni`], [`sonuma`] and [`tsm`] are the papers;
//! `prebuilt` runs programs on the model for those whose experiments are programs, `runtime` measures borrowed memory
//! and queue pairs on this host for two of them.

pub mod cache_integrated_ni;
pub mod claims;
pub mod deoi;
pub mod manycore_ni;
pub mod outcome;
pub mod paper;
pub mod pool;
mod prebuilt;
pub mod render;
pub mod results;
pub mod runtime;
pub mod sonuma;
pub mod tolerance;
pub mod tsm;
pub mod verdict;
pub mod write;

#[cfg(test)]
mod accounted;
