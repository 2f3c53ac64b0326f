//! Quantities that have a value to be held against.

use std::collections::BTreeMap;

use rackmem_experiments::outcome::{Judged, Outcome};
use rackmem_experiments::run::{Run, Work};
use rackmem_experiments::tolerance::Class;
use rackmem_experiments::verdict::Verdict;
use rackmem_sim::reference::instructions::Agreement;
use rackmem_sim::reference::noc::Comparison;
use rackmem_sim::reference::queueing::Identity;
use serde::Serialize;

use super::Memory;

/// Programs that do what applications do; others measure the interface.
const APPLICATIONS: [&str; 4] = ["pagerank", "fft", "bitonic", "tsm_kernels"];

/// From where a quantity is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Counters of the model.
    Simulator,
    /// A program that measures the interface with its own clock.
    Interface,
    /// A program that has another purpose.
    Application,
    /// A formula, or another way to compute the same.
    Identity,
}

/// The part of the core beside the interpreter.
pub const INSTRUCTION_SETS: &str = "instruction sets";

/// The part of formulas of queueing theory.
pub const QUEUEING: &str = "queueing identities";

/// A quantity of the model, with a value to be held against.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// A paper, `noc`, `dram`, [`INSTRUCTION_SETS`] or [`QUEUEING`].
    pub part: String,
    /// Name of the claim; else the configuration, and the quantity that is compared.
    pub what: String,
    /// From where it is seen.
    pub view: View,
    /// The other value: of a paper, of another simulator, of a formula.
    pub reference: f64,
    /// The model's.
    pub ours: f64,
    /// Unit of both.
    pub unit: String,
    /// Ours over the other, less 1.
    pub error: f64,
    /// Least and most over the ranges of open parameters.
    pub band: Option<(f64, f64)>,
    /// Of a paper's claim: the verdict.
    pub verdict: Option<Verdict>,
}

/// The claims of a paper that count and have a value.
pub fn of_paper(outcome: &Outcome, runs: &[Run]) -> Vec<Figure> {
    let by_name: BTreeMap<&str, &Run> = runs.iter().map(|run| (run.name.as_str(), run)).collect();
    let figure = |judged: &Judged| {
        let (reference, ours) = (judged.published?, judged.measured?);
        let used = judged.runs.iter().filter_map(|name| by_name.get(name.as_str()));
        // To be beyond a bound is no error.
        let is_compared =
            judged.against.is_none() && reference != 0.0 && judged.class != Some(Class::Bound);
        (is_compared && (judged.counted || judged.fitted.is_some())).then(|| Figure {
            part: outcome.paper.clone(),
            what: judged.id.split_once('/').map_or(judged.id.clone(), |(_, id)| id.to_owned()),
            view: view(used.copied()),
            reference,
            ours,
            unit: judged.unit.clone(),
            error: ours / reference - 1.0,
            band: judged.band.as_ref().map(|band| (band.least, band.most)),
            verdict: Some(judged.verdict),
        })
    };
    outcome.claims.iter().filter_map(figure).collect()
}

fn view<'r>(runs: impl Iterator<Item = &'r Run>) -> View {
    let mut view = View::Simulator;
    for run in runs {
        match &run.work {
            Work::Program(program) if APPLICATIONS.contains(&program.program.as_str()) => {
                return View::Application;
            }
            Work::Program(_) => view = View::Interface,
            Work::Workload | Work::Trial(_) => {}
        }
    }
    view
}

/// Latencies up to 85 % of saturation, and loads at the knee and at saturation.
pub fn of_network(compared: &Comparison) -> Vec<Figure> {
    let figure = |what: &str, unit, values| {
        compared_by(View::Simulator, "noc", format!("{}: {what}", compared.name), unit, values)
    };
    let points = compared.points.iter().filter(|point| point.is_compared);
    let latencies = points.map(|point| {
        figure(&format!("latency at {}", point.load), "cycles", (point.theirs, point.ours))
    });
    let loads = [("knee", compared.knee), ("saturation", compared.saturation)];
    let loads = loads.into_iter().filter_map(|(what, loads)| Some((what, loads?)));
    latencies.chain(loads.map(|(what, loads)| figure(what, "flits/cycle", loads))).collect()
}

/// The latency of reads, or what a busy channel does.
pub fn of_memory(memory: &Memory) -> Figure {
    let row = &memory.row;
    let (what, unit) = match row.interval {
        Some(interval) => (format!("read latency, a request every {interval}"), "nCK"),
        None => ("requests when busy".to_owned(), "requests"),
    };
    let what = format!("{}, {}: {what}", row.grade, row.pattern);
    compared_by(View::Simulator, "dram", what, unit, memory.compared)
}

/// The instructions of a program on which the core agrees with the interpreter, out of all.
pub fn of_program(name: &str, found: &Agreement) -> Figure {
    let values = (found.compared as f64, found.agreed as f64);
    let what = match &found.difference {
        None => format!("{name}: core and interpreter agree"),
        Some(difference) => format!("{name}: core and interpreter agree up to {difference}"),
    };
    compared_by(View::Identity, INSTRUCTION_SETS, what, "instructions", values)
}

/// The model beside a formula.
pub fn of_identity(identity: &Identity) -> Figure {
    let values = (identity.formula, identity.model);
    compared_by(View::Identity, QUEUEING, identity.what.clone(), identity.unit, values)
}

/// A quantity by other means and by the model.
fn compared_by(
    view: View,
    part: &str,
    what: String,
    unit: &str,
    (reference, ours): (f64, f64),
) -> Figure {
    Figure {
        part: part.to_owned(),
        what,
        view,
        reference,
        ours,
        unit: unit.to_owned(),
        error: ours / reference - 1.0,
        band: None,
        verdict: None,
    }
}
