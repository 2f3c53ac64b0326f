//! Programs on the model. This is the one place that knows how the model runs them.

use rackmem_sim::exec::{self, Job, Options, Outcome};
use rackmem_sim::machine::{self, Machine, Override};

use super::experiment::Experiment;
use super::results::{Report, Results, parsed};
use super::setting::MACHINE;
use crate::reproduce::results::Known;

/// Runs a program.
///
/// # Errors
/// The machine cannot run it, or a node does not come to a good end.
pub fn run(run: &Experiment, machine: &Machine, arguments: &[String]) -> Known<Report> {
    let program = run.program();
    let argv = [program.to_owned()].into_iter().chain(arguments.iter().cloned());
    let args: Vec<String> = argv.collect();
    let job = Job { program: binary(program)?, args: &args, env: &[], nodes: run.nodes() };
    let outcome =
        exec::run(machine, &job, Options::default()).map_err(|error| error.to_string())?;
    good_end(&outcome)?;
    let first = outcome.nodes.first().ok_or("the rack has no nodes")?;
    let output = parsed(program, &String::from_utf8_lossy(&first.stdout))?;
    Ok(Report { output, cycles: outcome.cycles, stats: outcome.stats })
}

/// Whether all processes have ended well; else what the one that has failed first said.
fn good_end(outcome: &Outcome) -> Known<()> {
    if let Some((nid, node)) = outcome.failed() {
        let said = String::from_utf8_lossy(&node.stderr);
        let status = node.end.status();
        return Err(format!("node {nid} ended with status {status}: {}", said.trim_end()));
    }
    outcome.cut_short.clone().map_or(Ok(()), Err)
}

/// The machine that an experiment runs on.
///
/// # Errors
/// The machine file and the experiment have parted.
pub fn machine(run: &Experiment, results: &Results) -> Known<Machine> {
    let mut settings = vec![
        Override::new("name", format!("\"{}\"", run.name())),
        Override::new("network.nodes", run.nodes()),
    ];
    let cores = run.cores();
    if cores > 1 {
        // "an eight-core multiprocessor with 4MB of LLC per core" (section 7.5), so as many banks.
        settings.push(Override::new("tiles.columns", cores));
        for path in ["llc.size_bytes", "llc.banks"] {
            settings.push(Override::new(path, results.parameter(path)? * f64::from(cores)));
        }
    }
    machine::load(MACHINE, &settings).map_err(|error| error.to_string())
}

/// The program for RISC-V.
fn binary(program: &str) -> Known<&'static [u8]> {
    let known: [(&str, &[u8]); 3] = [
        ("netpipe", include_bytes!("../../../../../programs/prebuilt/netpipe.rv64")),
        ("pagerank", include_bytes!("../../../../../programs/prebuilt/pagerank.rv64")),
        ("remote_read", include_bytes!("../../../../../programs/prebuilt/remote_read.rv64")),
    ];
    let found = known.into_iter().find(|&(name, _)| name == program);
    found.map(|(_, bytes)| bytes).ok_or_else(|| format!("there is no {program} for RISC-V here"))
}
