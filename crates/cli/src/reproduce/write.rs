//! The files of a reproduction.

use std::path::{Path, PathBuf};

use rackmem_experiments::outcome::Outcome;
use rackmem_experiments::session::Session;
use rackmem_sim::machine;
use rackmem_sim::report::LinkLoad;
use serde::Deserialize;

use super::page::{self, Heat};
use crate::commands::sim::output;
use crate::failure::{Failure, Result};

/// The directories of machines and reports.
fn of_runs(dir: &Path) -> [PathBuf; 2] {
    ["machines", "reports"].map(|name| dir.join(name))
}

/// Makes a directory for all files of a reproduction. Before the first run it shows whether they can be written.
///
/// # Errors
/// It cannot be made or written.
pub fn prepare(dir: &Path) -> Result<()> {
    output::make(dir)?;
    of_runs(dir).iter().try_for_each(|dir| output::make(dir))
}

/// Writes results and the page about them, and the machine and the report of each run.
///
/// # Errors
/// The directory cannot be written.
pub fn all(dir: &Path, outcome: &Outcome, session: &Session<'_>) -> Result<()> {
    prepare(dir)?;
    output::json(dir, "results.json", outcome)?;
    let heats = session.heats().into_iter().map(|(title, report)| {
        let links = Vec::<LinkLoad>::deserialize(&report["links"]);
        let links = links.map_err(|error| Failure::new(format!("loads of links: {error}")))?;
        Ok((title.to_owned(), links))
    });
    let heats = heats.collect::<Result<Vec<Heat>>>()?;
    output::text(dir, "report.html", &page::html(&session.document.title, outcome, &heats))?;
    runs(dir, session)
}

/// Writes the page from which those of several papers are reached.
///
/// # Errors
/// The directory cannot be written.
pub fn overview(dir: &Path, outcomes: &[Outcome]) -> Result<()> {
    output::text(dir, "report.html", &page::overview(outcomes))
}

fn runs(dir: &Path, session: &Session<'_>) -> Result<()> {
    let [machines, reports] = of_runs(dir);
    for (run, report) in session.runs() {
        let name = run.name.replace('/', "-");
        if let Some(machine) = run.machine() {
            let machine = machine.map_err(Failure::new)?;
            output::text(&machines, &format!("{name}.toml"), &machine::resolved(&machine))?;
        }
        if let Ok(report) = report {
            output::json(&reports, &format!("{name}.json"), report.as_ref())?;
        }
    }
    Ok(())
}
