//! The files of a reproduction.

use std::path::Path;

use rackmem_sim::machine::{self, Machine};

use super::outcome::Outcome;
use super::paper::Paper;
use super::results::{Experiment, Known, Results};
use crate::commands::sim::output;
use crate::failure::{Failure, Result};

/// Writes results and plots, and the other files of the paper's runs.
///
/// # Errors
/// The directory cannot be written.
pub fn all<E: Experiment>(
    dir: &Path,
    paper: &Paper<E>,
    outcome: &Outcome,
    results: &Results<E>,
) -> Result<()> {
    output::make(dir)?;
    output::json(dir, "results.json", outcome)?;
    for (name, curves) in &outcome.curves {
        output::text(dir, &format!("{name}.svg"), &curves.plot.svg())?;
    }
    (paper.files)(dir, results)
}

/// Writes the report of each run, and the machine of those on the model.
///
/// # Errors
/// The directory cannot be written.
pub fn runs<E: Experiment>(
    dir: &Path,
    results: &Results<E>,
    machine_of: impl Fn(&E) -> Option<Known<Machine>>,
    report_to: impl Fn(&Path, &str, &E::Report) -> Result<()>,
) -> Result<()> {
    let (machines, reports) = (dir.join("machines"), dir.join("reports"));
    output::make(&machines)?;
    output::make(&reports)?;
    for (run, report) in results.runs() {
        let name = run.name().replace('/', "-");
        if let Some(machine) = machine_of(run) {
            let machine = machine.map_err(Failure::new)?;
            output::text(&machines, &format!("{name}.toml"), &machine::resolved(&machine))?;
        }
        if let Ok(report) = report {
            report_to(&reports, &format!("{name}.json"), report)?;
        }
    }
    Ok(())
}
