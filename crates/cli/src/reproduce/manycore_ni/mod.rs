//! "Manycore Network Interfaces for In-Memory Rack-Scale Computing" (ISCA 2015): synthetic workloads
//! on the model of a 64-core chip.

pub mod beyond;
pub mod checks;
pub mod curves;
mod executed;
pub mod experiment;
pub mod explanations;
pub mod not_checkable;
pub mod parts;
pub mod results;
mod runs;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
mod tests;

use super::paper::Paper;
use experiment::Experiment;

/// The paper as data: claims, checks and runs.
pub static PAPER: Paper<Experiment> = Paper {
    name: "manycore-ni",
    published: include_str!("../../../../../published/manycore-ni.toml"),
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
