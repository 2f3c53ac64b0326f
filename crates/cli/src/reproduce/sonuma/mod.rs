//! "Scale-Out NUMA" (ASPLOS 2014): C programs on the model of the paper's machine, and on the runtime
//! in place of the paper's development platform.

pub mod beyond;
pub mod checks;
pub mod curves;
pub mod experiment;
pub mod explanations;
pub mod not_checkable;
mod on_host;
mod on_model;
pub mod parts;
pub mod results;
mod runs;
mod setting;

#[cfg(test)]
mod fabricated;
#[cfg(test)]
mod tests;

use super::paper::Paper;
use crate::{console, host};
use experiment::{Experiment, Platform, host_nodes};
use results::Results;

pub use setting::{Setting, setting};

/// The paper as data: claims, checks and runs.
pub static PAPER: Paper<Experiment> = Paper {
    name: "sonuma",
    published: include_str!("../../../../../published/sonuma.toml"),
    parts: &parts::ALL,
    checks: checks::ALL,
    runtime: &[],
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

/// Notes on the runtime in place of the paper's development platform, if it has been run.
fn notes(results: &Results) -> Vec<String> {
    if !results.runs().any(|(run, _)| run.platform == Platform::Host) {
        return vec![];
    }
    let cores = results.setting.cores;
    let nodes: Vec<String> = host_nodes(cores).map(|nodes| nodes.to_string()).collect();
    let packets = match on_host::both_sides(cores) {
        true => "by packets between daemons",
        false => "by packets between daemons where one node is at work, else inline",
    };
    vec![format!(
        "The runtime on this host ({}) stands for the paper's development platform of 16 nodes. Here \
         a node needs a core of its own: with {}, the numbers of nodes that PageRank runs on are {}. \
         Operations go {packets}.",
        host::description(),
        console::count(cores, "core"),
        nodes.join(", "),
    )]
}
