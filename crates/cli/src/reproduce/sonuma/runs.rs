//! All runs: those of the model side by side, then those of the runtime one after the other, so that
//! nothing disturbs what they measure.

use std::path::Path;

use super::experiment::{Experiment, Platform};
use super::results::{Report, Results};
use super::{on_host, on_model};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Known;
use crate::reproduce::write;

/// Makes runs; each of the model takes a thread.
pub fn make(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    // In order of their platforms, as the runs are: those of the model come first.
    let (model, host): (Vec<Experiment>, Vec<Experiment>) =
        runs.iter().partition(|run| run.platform == Platform::Model);
    let mut reports = on_the_model(&model, results, threads);
    reports.extend(on_this_host(&host, results));
    reports
}

fn on_the_model(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    let job = |run: &Experiment| Job {
        name: run.name(),
        work: (*run, on_model::machine(run, results), arguments(run, results)),
        cost: run.cost(),
    };
    let jobs: Vec<_> = runs.iter().map(job).collect();
    pool::each(&jobs, threads, &|(run, machine, arguments)| {
        on_model::run(run, machine.clone()?, arguments)
    })
}

fn on_this_host(runs: &[Experiment], results: &Results) -> Vec<Known<Report>> {
    pool::alone(runs, &|run, interrupt| on_host::run(run, &arguments(run, results), interrupt))
}

fn arguments(run: &Experiment, results: &Results) -> Vec<String> {
    let graph = results.setting.graph.as_deref().map(Path::to_string_lossy);
    run.arguments(results.effort, graph.as_deref())
}

/// Writes the output and counters of each run, and the machine of those on the model.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let machine_of = |run: &Experiment| {
        (run.platform == Platform::Model).then(|| on_model::machine(run, results))
    };
    write::runs(dir, results, machine_of, output::json)
}
