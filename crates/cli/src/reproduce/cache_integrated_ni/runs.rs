//! All runs, side by side.

use std::path::Path;

use rackmem_sim::machine::{self, Machine, Override};
use serde_json::{Value, json};

use super::experiment::{Experiment, Work};
use super::results::{Report, Results};
use super::setting::{PROTOTYPE, SIMULATED};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Known;
use crate::reproduce::{prebuilt, write};

/// Cores in a row of the simulated chip's mesh.
const MOST_COLUMNS: u16 = 16;

/// Makes runs; each takes a thread.
pub fn make(runs: &[Experiment], results: &Results, threads: usize) -> Vec<Known<Report>> {
    let job = |run: &Experiment| Job {
        name: run.name(),
        work: (*run, machine(run), run.arguments(results.effort)),
        cost: run.cost(),
    };
    let jobs: Vec<_> = runs.iter().map(job).collect();
    pool::each(&jobs, threads, &|(run, machine, arguments)| {
        let outcome = prebuilt::execute(machine.clone()?, run.program(), arguments, 1)?;
        let output = parsed(run, &prebuilt::printed(&outcome)?)?;
        Ok(Report { output, cycles: outcome.cycles, stats: outcome.stats })
    })
}

/// Output of a program: a line of JSON, or the tests that have been passed.
fn parsed(run: &Experiment, text: &str) -> Known<Value> {
    if run.work == Work::Test {
        let passed: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("PASS ")).collect();
        return Ok(json!({ "program": run.program(), "passed": passed }));
    }
    prebuilt::parsed(run.program(), text)
}

/// The machine that an experiment runs on.
fn machine(run: &Experiment) -> Known<Machine> {
    let mut settings = vec![Override::new("name", format!("\"{}\"", run.name()))];
    if run.is_simulated {
        // As square as such a number of cores can be.
        let columns = (1..=MOST_COLUMNS)
            .filter(|columns| run.cores % columns == 0 && columns * columns >= run.cores)
            .min()
            .ok_or_else(|| format!("{} cores make no mesh", run.cores))?;
        settings.push(Override::new("tiles.columns", columns));
        settings.push(Override::new("tiles.rows", run.cores / columns));
    }
    let name = if run.is_simulated { SIMULATED } else { PROTOTYPE };
    machine::load(name, &settings).map_err(|error| error.to_string())
}

/// Writes the output, the counters and the machine of each run.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    write::runs(dir, results, |run| Some(machine(run)), output::json)
}
