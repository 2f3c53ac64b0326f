//! `rackmem reproduce`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, value_parser};
use rackmem_sim::machine::Machine;

use crate::console;
use crate::failure::{Failure, Result};
use crate::reproduce::experiment::{Effort, Experiment};
use crate::reproduce::figure::Figure;
use crate::reproduce::outcome::{self, FailedRun};
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Results;
use crate::reproduce::{claims, render, write};
use crate::size;

/// The one paper whose claims are here.
const PAPER: &str = "manycore-ni";

/// What `rackmem reproduce --help` says.
pub const ABOUT: &str = "\
Runs the experiments of a paper on the model and compares what they give with what the paper says,
claim by claim: published value, measured value, ratio, verdict. A claim that is missed, or that
cannot be tested on a model of one chip, is listed with the reason. How near is near enough is one
table for all claims, which is printed, too.

Without --quick all sizes are run, in windows of 500,000 cycles until two of them differ by less
than 1 %, as in the paper; that takes a while.

WHAT is a paper (manycore-ni) or one of its parts, such as manycore-ni/fig7.";

/// What stands below it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem reproduce --quick                     all of it, with fewer sizes and shorter windows
  rackmem reproduce manycore-ni/table3          one table
  rackmem reproduce --out results/              with plots, machine files and results.json

Parts: manycore-ni/table1, /table2, /table3, /fig5, /fig6, /fig7, /routing, /fig9, /fig10,
/ablations.

Exit status: 0 if all experiments ran, whatever the verdicts are; 1 if one failed.";

/// Arguments of `rackmem reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Paper, or part of one
    #[arg(default_value = "manycore-ni")]
    pub what: String,
    /// Fewer sizes, shorter windows: about a minute
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: verdicts and curves
    #[arg(long)]
    pub json: bool,
    /// Write results.json, plots and the machine file of each run into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Does it.
///
/// # Errors
/// There is no such paper or part, or a run fails.
pub fn run(args: &ReproduceArgs) -> Result<()> {
    let selection = selection(&args.what)?;
    let claims = claims::manycore_ni()?;
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let machines = machines(effort, selection)?;
    let begin = Instant::now();
    let (results, failed) = simulate(effort, &machines, pool::threads(args.jobs));
    let seconds = begin.elapsed().as_secs_f64();
    if !machines.is_empty() {
        let runs = console::count(machines.len(), "run");
        let cycles = size::rounded(results.cycles() as f64);
        console::remark(&format!("{runs}, {cycles} cycles of a chip, {seconds:.1} s"));
    }
    let outcome = outcome::evaluate(&claims, &results, selection, failed);
    if let Some(dir) = &args.out {
        write::all(dir, &outcome, &results, &machines)?;
    }
    if args.json {
        console::print_json(&outcome)?;
    } else {
        console::print(&render::outcome(&outcome, console::colour(&io::stdout())))?;
    }
    match outcome.failed_runs.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format!(
            "{} failed; the first is {}: {}",
            console::count(outcome.failed_runs.len(), "run"),
            first.experiment,
            first.problem
        ))),
    }
}

/// Which part of the paper is meant; `None` for all of it.
fn selection(what: &str) -> Result<Option<Figure>> {
    let (paper, part) = match what.split_once('/') {
        None => (what, None),
        Some((paper, part)) => (paper, Some(part)),
    };
    if paper != PAPER {
        return Err(Failure::usage(format!("there is no paper '{paper}' here; there is {PAPER}")));
    }
    let Some(part) = part else { return Ok(None) };
    match Figure::find(part) {
        Some(figure) => Ok(Some(figure)),
        None => {
            let names: Vec<&str> = Figure::ALL.iter().map(|figure| figure.name()).collect();
            let names = names.join(", ");
            Err(Failure::usage(format!("{PAPER} has no part '{part}'; there are {names}")))
        }
    }
}

fn machines(effort: Effort, selection: Option<Figure>) -> Result<Vec<(Experiment, Machine)>> {
    let planned = outcome::plan(effort, selection).into_iter();
    planned.map(|experiment| Ok((experiment, experiment.machine(effort)?))).collect()
}

/// Makes all runs.
fn simulate(
    effort: Effort,
    machines: &[(Experiment, Machine)],
    threads: usize,
) -> (Results, Vec<FailedRun>) {
    let job = |(experiment, machine): &(Experiment, Machine)| Job {
        name: experiment.name(),
        machine: machine.clone(),
        cost: experiment.cost(),
    };
    let jobs: Vec<Job> = machines.iter().map(job).collect();
    let mut reports = BTreeMap::new();
    let mut failed = Vec::new();
    for ((experiment, _), result) in machines.iter().zip(pool::run(&jobs, threads)) {
        let result = result.map_err(|error| error.to_string());
        if let Err(problem) = &result {
            failed.push(FailedRun { experiment: experiment.name(), problem: problem.clone() });
        }
        reports.insert(*experiment, result);
    }
    (Results::new(effort, reports), failed)
}
