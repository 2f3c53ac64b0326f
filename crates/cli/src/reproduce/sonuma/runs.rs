//! All runs: those of the model side by side, then those of the runtime one after the other, so that
//! nothing disturbs what they measure.

use std::path::Path;

use rackmem_sim::machine;

use super::experiment::{Experiment, Platform};
use super::results::{Report, Results};
use super::{on_host, on_model};
use crate::commands::sim::output;
use crate::console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Known;

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
        let mut machine = machine.clone()?;
        // The other threads are taken by other runs.
        machine.run.threads = 1;
        on_model::run(run, &machine, arguments)
    })
}

fn on_this_host(runs: &[Experiment], results: &Results) -> Vec<Known<Report>> {
    if runs.is_empty() {
        return vec![];
    }
    let interrupt = match Interrupt::catch() {
        Ok(interrupt) => interrupt,
        Err(failure) => {
            let problem = failure.message.unwrap_or_default();
            return runs.iter().map(|_| Err(problem.clone())).collect();
        }
    };
    let bar = console::steps(runs.len() as u64);
    let run = |run: &Experiment| {
        bar.set_message(run.name());
        let report = on_host::run(run, &arguments(run, results), &interrupt);
        bar.inc(1);
        report
    };
    let reports = runs.iter().map(run).collect();
    bar.finish_and_clear();
    reports
}

fn arguments(run: &Experiment, results: &Results) -> Vec<String> {
    let graph = results.setting.graph.as_deref().map(Path::to_string_lossy);
    run.arguments(results.effort, graph.as_deref())
}

/// What each run printed, its counters, and the machine of those on the model.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let (files, reports) = (dir.join("machines"), dir.join("reports"));
    output::make(&files)?;
    output::make(&reports)?;
    for (run, report) in results.runs() {
        let Ok(report) = report else { continue };
        let name = run.name().replace('/', "-");
        output::json(&reports, &format!("{name}.json"), report)?;
        if run.platform == Platform::Model {
            let machine = on_model::machine(run, results).map_err(Failure::new)?;
            output::text(&files, &format!("{name}.toml"), &machine::resolved(&machine))?;
        }
    }
    Ok(())
}
