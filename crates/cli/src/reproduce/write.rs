//! The files of a reproduction.

use std::path::Path;

use rackmem_experiments::outcome::{Curves, Outcome};
use rackmem_experiments::session::Session;
use rackmem_sim::machine;
use rackmem_sim::report::LinkLoad;
use serde::Deserialize;

use crate::commands::sim::output;
use crate::failure::{Failure, Result};
use crate::plot::heat;
use crate::plot::lines::{Plot, Series};

/// Writes results and plots, and the machine and the report of each run.
///
/// # Errors
/// The directory cannot be written.
pub fn all(dir: &Path, outcome: &Outcome, session: &Session<'_>) -> Result<()> {
    output::make(dir)?;
    output::json(dir, "results.json", outcome)?;
    for (name, curves) in &outcome.curves {
        output::text(dir, &format!("{name}.svg"), &plot(curves).svg())?;
    }
    for (name, title, report) in session.heats() {
        let links = Vec::<LinkLoad>::deserialize(&report["links"]);
        let links = links.map_err(|error| Failure::new(format!("loads of links: {error}")))?;
        output::text(dir, &format!("{name}.svg"), &heat::links(title, &links))?;
    }
    runs(dir, session)
}

/// The figure of a paper, redrawn.
pub fn plot(curves: &Curves) -> Plot {
    let series = curves.series.iter().map(|curve| Series {
        name: curve.name.clone(),
        dashed: curve.dashed,
        points: curve.points.clone(),
    });
    Plot {
        title: curves.title.clone(),
        x: curves.x.clone(),
        y: curves.y.clone(),
        log_x: curves.log_x,
        series: series.collect(),
    }
}

fn runs(dir: &Path, session: &Session<'_>) -> Result<()> {
    let (machines, reports) = (dir.join("machines"), dir.join("reports"));
    output::make(&machines)?;
    output::make(&reports)?;
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
