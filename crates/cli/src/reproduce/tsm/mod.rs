//! "Adapting Memory Hierarchies for Emerging Datacenter Interconnects" (JCST 2015): time-shared memory
//! (TSM) on models of the paper's simulator and of its PCIe prototype, and its protocol Thunder.

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
pub mod thunder;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
mod tests;

use super::paper::Paper;
use super::runtime;
use experiment::{Experiment, Machine};
use results::Results;

pub use setting::{Setting, setting};

/// The paper as data: claims, checks and runs.
pub static PAPER: Paper<Experiment> = Paper {
    name: "tsm",
    published: include_str!("../../../../../published/tsm.toml"),
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
    cycles: |report| report.cycles,
    files: runs::write,
};

/// Notes on the runtime of this host, which stands for the paper's machines.
fn notes(results: &Results) -> Vec<String> {
    let is_there = results.runs().any(|(run, _)| run.machine == Machine::Host);
    runtime::note(&results.setting.host, is_there)
}
