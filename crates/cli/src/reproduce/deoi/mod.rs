//! "Extending On-Chip Interconnects for Rack-Level Remote Resource Access" (HPCC 2016): remote memory, a
//! remote network card and a key-value cache on the model of the paper's prototype.

pub mod beyond;
pub mod checks;
pub mod curves;
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
use super::runtime;
use experiment::Experiment;
use results::Results;

pub use results::{Setting, setting};

/// The paper as data: claims, checks and runs.
pub static PAPER: Paper<Experiment> = Paper {
    name: "deoi",
    published: include_str!("../../../../../published/deoi.toml"),
    parts: &parts::ALL,
    checks: checks::ALL,
    runtime: checks::RUNTIME,
    part_of: parts::of_id,
    not_checkable: not_checkable::NOT_CHECKABLE,
    explanations: explanations::EXPLANATIONS,
    sheets: curves::SHEETS,
    beyond: beyond::ALL,
    notes,
    run: runs::make,
    cycles: |report| report.model.cycles,
    files: runs::write,
};

/// Notes on the runtime of this host, which stands for the paper's prototype.
fn notes(results: &Results) -> Vec<String> {
    let is_there = results.runs().any(|(run, _)| matches!(run, Experiment::Runtime(_)));
    runtime::note(&results.setting.host, is_there)
}
