//! Runs of the model, and the files that they leave.

use std::path::Path;

use rackmem_sim::report::Report;
use rackmem_sim::run::{self, Options};

use super::executed;
use super::experiment::{Cores, Design, Experiment, LARGE, Routing};
use super::results::{Known, Results};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::plot::heat;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Effort;
use crate::reproduce::write;

/// Makes runs; each takes a thread.
pub fn make(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    let job = |run: &Experiment| Job { name: run.name(), work: *run, cost: run.cost() };
    let jobs: Vec<Job<Experiment>> = runs.iter().map(job).collect();
    let effort = results.effort;
    pool::each(&jobs, threads, &|run| one(*run, effort))
}

fn one(run: Experiment, effort: Effort) -> Known<Report> {
    let mut machine = run.machine(effort)?;
    // The other threads are taken by other runs.
    machine.run.threads = 1;
    if run.cores == Cores::Executed {
        return executed::run(run, &machine, effort);
    }
    run::run(&machine, &Options::default()).map_err(|error| error.to_string())
}

/// Heat maps, and the machine and the report of each run.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    for routing in [Routing::Xy, Routing::CdrDirectory] {
        let run = Experiment::bandwidth(Design::Split, LARGE).routed(routing);
        if let Ok(report) = results.report(run) {
            let name = format!("links-{}.svg", routing.name());
            let title = format!("Loads of links, {}, split design, 8 KB", routing.name());
            output::text(dir, &name, &heat::links(&title, &report.links))?;
        }
    }
    write::runs(dir, results, |run| Some(run.machine(results.effort)), output::json)
}
