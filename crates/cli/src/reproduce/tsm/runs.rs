//! All runs: those of the model side by side, then those of the runtime one after the other.

use std::path::Path;

use rackmem_sim::machine::{self, Override};
use rackmem_sim::run;
use serde_json::json;

use super::experiment::{Experiment, Machine, Share, Work};
use super::results::{Report, Results};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::{Effort, Known};
use crate::reproduce::{prebuilt, write};

/// A node that borrows, and one that lends.
const NODES: u16 = 2;

/// Makes runs; each takes a thread.
pub fn make(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    let job = |run: &Experiment| Job { name: run.name(), work: *run, cost: run.cost() };
    // In order of their machines, as the runs are: the host comes last.
    let (host, model): (Vec<Experiment>, Vec<Experiment>) =
        runs.iter().partition(|run| run.machine == Machine::Host);
    let jobs: Vec<_> = model.iter().map(job).collect();
    let effort = results.effort;
    let mut reports = pool::each(&jobs, threads, &|run| execute(run, effort));
    reports.extend(pool::alone(&host, &|run, _| on_this_host(run, effort)));
    reports
}

fn on_this_host(run: &Experiment, effort: Effort) -> Known<Report> {
    let Work::Runtime(trial) = run.work else {
        return Err("this is not for the runtime".to_owned());
    };
    let figures = trial.measure(effort)?;
    let output = serde_json::to_value(figures).map_err(|error| error.to_string())?;
    Ok(Report { output, ..Report::default() })
}

fn execute(run: &Experiment, effort: Effort) -> Known<Report> {
    let machine = machine(run)?;
    if run.machine == Machine::Thunder {
        return exchange(machine);
    }
    let program = run.program();
    let arguments = run.arguments(effort, machine.llc.size_bytes);
    let outcome = prebuilt::execute(machine, program, &arguments, NODES)?;
    let output = match outcome.failed() {
        // That a machine refuses atomics is a result.
        Some((_, node)) if run.work == Work::Share(Share::Atomics) => {
            json!({ "works": 0, "said": prebuilt::last_words(node) })
        }
        _ => prebuilt::parsed(program, &prebuilt::printed(&outcome)?)?,
    };
    Ok(Report { output, cycles: outcome.cycles, stats: outcome.stats })
}

/// Messages between nodes on which nothing is executed.
fn exchange(mut machine: machine::Machine) -> Known<Report> {
    // The other threads are taken by other runs.
    machine.run.threads = 1;
    let report = run::run(&machine, &run::Options::default()).map_err(|error| error.to_string())?;
    let output = serde_json::to_value(&report.extension).map_err(|error| error.to_string())?;
    Ok(Report { output, cycles: report.cycles, stats: report.stats })
}

/// The machine that an experiment runs on.
fn machine(run: &Experiment) -> Known<machine::Machine> {
    let mut settings = vec![Override::new("name", format!("\"{}\"", run.name()))];
    settings.extend(run.settings().into_iter().map(|(key, value)| Override::new(key, value)));
    machine::load(run.machine.name(), &settings).map_err(|error| error.to_string())
}

/// Writes the output, the counters and the machine of each run.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let machine_of = |run: &Experiment| (run.machine != Machine::Host).then(|| machine(run));
    write::runs(dir, results, machine_of, output::json)
}
