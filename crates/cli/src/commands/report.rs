//! `rackmem report`.

use std::path::PathBuf;

use clap::Args;
use rackmem_experiments::study::folder::write_whole;

use crate::console;
use crate::failure::{Failure, Result};
use crate::report::{page, runs};

/// First text of `rackmem report --help`.
pub const ABOUT: &str = "\
Writes one page about runs of the model, side by side: latency by stage and its histogram, the load of links, banks and
network interfaces, what limited each run in words, and how their machines differ. It opens offline.

RUN is the folder of `rackmem sim run --out`, the file of `rackmem sim exec --report`, or the folder of a sweep in
Python, of which all runs are taken.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni --set ni.placement=edge --out edge
  rackmem sim run manycore-ni --out split
  rackmem report edge split -o report.html";

/// Runs beside each other, at most: more would not be legible.
const MOST: usize = 12;

/// Arguments of `rackmem report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folders or files of runs
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File for the page
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
}

/// Writes the page.
///
/// # Errors
/// There is no report of a name, there are too many, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<()> {
    let runs = runs::read(&args.runs)?;
    if runs.len() > MOST {
        let count = runs.len();
        return Err(Failure::usage(format!(
            "these are {count} runs, and a page has {MOST} at most"
        )));
    }
    let shown = args.out.display();
    write_whole(&args.out, page::html(&runs).as_bytes())
        .map_err(|error| Failure::io(&shown, error))?;
    console::print(&format!("{shown}: {}\n", console::count(runs.len(), "run")))
}
