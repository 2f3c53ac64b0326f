//! The files of a reproduction.

use std::path::Path;

use rackmem_sim::machine::{self, Machine};

use super::experiment::{Design, Experiment, LARGE, Routing};
use super::outcome::Outcome;
use super::results::Results;
use crate::commands::sim::output;
use crate::failure::Result;
use crate::plot::heat;

/// Writes results, plots, heat maps and the machine of each run.
///
/// # Errors
/// The directory cannot be written.
pub fn all(
    dir: &Path,
    outcome: &Outcome,
    results: &Results,
    machines: &[(Experiment, Machine)],
) -> Result<()> {
    output::make(dir)?;
    output::json(dir, "results.json", outcome)?;
    for (name, plot) in &outcome.curves {
        output::text(dir, &format!("{name}.svg"), &plot.svg())?;
    }
    for routing in [Routing::Xy, Routing::CdrDirectory] {
        let run = Experiment::bandwidth(Design::Split, LARGE).routed(routing);
        if let Ok(report) = results.report(run) {
            let name = format!("links-{}.svg", routing.name());
            let title = format!("Loads of links, {}, split design, 8 KB", routing.name());
            output::text(dir, &name, &heat::links(&title, &report.links))?;
        }
    }
    runs(dir, results, machines)
}

/// The machine and the report of each run.
fn runs(dir: &Path, results: &Results, machines: &[(Experiment, Machine)]) -> Result<()> {
    let (files, reports) = (dir.join("machines"), dir.join("reports"));
    output::make(&files)?;
    output::make(&reports)?;
    for (experiment, machine) in machines {
        let name = experiment.name().replace('/', "-");
        output::text(&files, &format!("{name}.toml"), &machine::resolved(machine))?;
        if let Ok(report) = results.report(*experiment) {
            output::json(&reports, &format!("{name}.json"), report)?;
        }
    }
    Ok(())
}
