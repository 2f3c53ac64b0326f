//! All runs, side by side. This is the one place that knows how the model runs programs.

use std::path::Path;

use rackmem_sim::exec::{self, Options};
use rackmem_sim::machine::{self, Machine, Override};
use serde_json::{Value, json};

use super::experiment::{Experiment, Work};
use super::results::{Report, Results};
use super::setting::{PROTOTYPE, SIMULATED};
use crate::commands::sim::output;
use crate::failure::{Failure, Result};
use crate::reproduce::pool::{self, Job};
use crate::reproduce::results::Known;

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
        let mut machine = machine.clone()?;
        // The other threads are taken by other runs.
        machine.run.threads = 1;
        execute(run, &machine, arguments)
    })
}

fn execute(run: &Experiment, machine: &Machine, arguments: &[String]) -> Known<Report> {
    let program = run.program();
    let argv = [program.to_owned()].into_iter().chain(arguments.iter().cloned());
    let args: Vec<String> = argv.collect();
    let job = exec::Job { program: binary(program)?, args: &args, env: &[], nodes: 1 };
    let outcome =
        exec::run(machine, &job, Options::default()).map_err(|error| error.to_string())?;
    if let Some((_, node)) = outcome.failed() {
        let said = String::from_utf8_lossy(&node.stderr);
        return Err(format!("status {}: {}", node.end.status(), said.trim_end()));
    }
    if let Some(why) = outcome.cut_short {
        return Err(why);
    }
    let node = outcome.nodes.first().ok_or("the rack has no nodes")?;
    let output = parsed(run, &String::from_utf8_lossy(&node.stdout))?;
    Ok(Report { output, cycles: outcome.cycles, stats: outcome.stats })
}

/// What a program printed: a line of JSON, or the tests that have been passed.
fn parsed(run: &Experiment, text: &str) -> Known<Value> {
    if run.work == Work::Test {
        let passed: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("PASS ")).collect();
        return Ok(json!({ "program": run.program(), "passed": passed }));
    }
    let program = run.program();
    serde_json::from_str(text)
        .map_err(|error| format!("the program {program} printed '{}': {error}", text.trim_end()))
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

/// The program for RISC-V.
fn binary(program: &str) -> Known<&'static [u8]> {
    let known: [(&str, &[u8]); 5] = [
        ("bitonic", include_bytes!("../../../../../programs/prebuilt/bitonic.rv64")),
        ("fft", include_bytes!("../../../../../programs/prebuilt/fft.rv64")),
        ("scr_test", include_bytes!("../../../../../programs/prebuilt/scr_test.rv64")),
        ("stream", include_bytes!("../../../../../programs/prebuilt/stream.rv64")),
        ("sync_bench", include_bytes!("../../../../../programs/prebuilt/sync_bench.rv64")),
    ];
    let found = known.into_iter().find(|&(name, _)| name == program);
    found.map(|(_, bytes)| bytes).ok_or_else(|| format!("there is no {program} for RISC-V here"))
}

/// What each run printed, its counters, and its machine.
pub fn write(dir: &Path, results: &Results) -> Result<()> {
    let (files, reports) = (dir.join("machines"), dir.join("reports"));
    output::make(&files)?;
    output::make(&reports)?;
    for (run, report) in results.runs() {
        let Ok(report) = report else { continue };
        let name = run.name().replace('/', "-");
        output::json(&reports, &format!("{name}.json"), report)?;
        let machine = machine(run).map_err(Failure::new)?;
        output::text(&files, &format!("{name}.toml"), &machine::resolved(&machine))?;
    }
    Ok(())
}
