//! All runs: those of the model side by side, then those of the runtime one after the other; and the files that
//! they leave.

use std::path::Path;

use rackmem_sim::run::{self, Options};

use super::experiment::Experiment;
use super::results::{Known, Report, Results};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::write;

/// Makes runs; each takes a thread.
pub fn make(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    let job = |run: &Experiment| Job { name: run.name(), work: *run, cost: run.cost() };
    // In order, as the runs are: those on the host come last.
    let (host, model): (Vec<Experiment>, Vec<Experiment>) =
        runs.iter().partition(|run| matches!(run, Experiment::Runtime(_)));
    let jobs: Vec<Job<Experiment>> = model.iter().map(job).collect();
    let effort = results.effort;
    let mut reports = pool::each(&jobs, threads, &|run| {
        let machine = run.machine(effort)?;
        let report = run::run(&machine, &Options::default()).map_err(|error| error.to_string())?;
        Ok(Report::of_model(report))
    });
    reports.extend(pool::alone(&host, &|run, _| match run {
        Experiment::Runtime(trial) => Ok(Report::of_host(trial.measure(effort)?)),
        _ => Err("this is not for the runtime".to_owned()),
    }));
    reports
}

/// The machine and the report of each run.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let is_model = |run: &Experiment| !matches!(run, Experiment::Runtime(_));
    let machine_of = |run: &Experiment| is_model(run).then(|| run.machine(results.effort));
    write::runs(dir, results, machine_of, |dir, name, report| match report.figures.is_empty() {
        true => output::json(dir, name, &report.model),
        false => output::json(dir, name, &report.figures),
    })
}
