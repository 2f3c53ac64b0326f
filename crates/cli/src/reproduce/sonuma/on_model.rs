//! Programs on the model.

use rackmem_sim::machine::{self, Machine, Override};

use super::experiment::Experiment;
use super::results::{Report, Results};
use super::setting::MACHINE;
use crate::reproduce::prebuilt;
use crate::reproduce::results::Known;

/// Runs a program.
///
/// # Errors
/// The machine cannot run it, or a node does not come to a good end.
pub fn run(run: &Experiment, machine: Machine, arguments: &[String]) -> Known<Report> {
    let outcome = prebuilt::execute(machine, run.program(), arguments, run.nodes())?;
    let output = prebuilt::parsed(run.program(), &prebuilt::printed(&outcome)?)?;
    Ok(Report { output, cycles: outcome.cycles, stats: outcome.stats })
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
