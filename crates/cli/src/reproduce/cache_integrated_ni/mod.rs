//! "Cache-Integrated Network Interfaces" (IJPP 2011): C programs on the model of the paper's prototype,
//! and on that of the larger chip that it simulates.

pub mod beyond;
pub mod checks;
pub mod curves;
pub mod experiment;
pub mod explanations;
pub mod not_checkable;
pub mod parts;
pub mod results;
mod runs;
mod setting;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
mod tests;

use super::paper::Paper;
use experiment::Experiment;

pub use setting::{Setting, setting};

/// The paper as data: claims, checks and runs.
pub static PAPER: Paper<Experiment> = Paper {
    name: "cache-integrated-ni",
    published: include_str!("../../../../../published/cache-integrated-ni.toml"),
    parts: &parts::ALL,
    checks: checks::ALL,
    runtime: &[],
    part_of: parts::of_id,
    not_checkable: not_checkable::NOT_CHECKABLE,
    explanations: explanations::EXPLANATIONS,
    sheets: curves::SHEETS,
    beyond: beyond::ALL,
    notes: |_| vec![],
    run: runs::make,
    cycles: |report| report.cycles,
    files: runs::write,
};
