//! The files of a reproduction.

use std::path::Path;

use super::outcome::Outcome;
use super::paper::Paper;
use super::results::{Experiment, Results};
use crate::commands::sim::output;
use crate::failure::Result;

/// Writes results and plots, and what else the paper's runs leave.
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
