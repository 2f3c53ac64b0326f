//! `rackmem report`.

use std::path::PathBuf;

use clap::Args;
use rackmem_sim::machine::Override;

use crate::commands::sim::output;
use crate::console;
use crate::failure::Result;
use crate::report::{page, read};

/// First text of `rackmem report --help`.
pub const ABOUT: &str = "\
Writes one page about runs of the model, side by side: latency by stage and its histogram, the load of links, banks and
network interfaces, what limited each run in words, and how their machines differ. It opens offline.

RUN is the folder of `rackmem sim run --out`, the file of `rackmem sim exec --report`, or the folder of a sweep, of
which all runs are taken. Of more than 12 runs the page has charts by setting, extremes, a table of all runs, and the
other sections for the runs with extremes only; --only makes a page about some of them.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni --set ni.placement=edge --out edge
  rackmem sim run manycore-ni --out split
  rackmem report edge split -o report.html
  rackmem report sweep --only ni.placement=edge --only noc.vcs=2,4";

/// Arguments of `rackmem report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folders or files of runs
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File for the page
    #[arg(short = 'o', long, value_name = "FILE", default_value = "report.html")]
    pub out: PathBuf,
    /// Only runs with one of these values of a setting; may be repeated
    #[arg(long, value_name = "PATH=V1,V2,...")]
    pub only: Vec<Override>,
}

/// Writes the page.
///
/// # Errors
/// There is no report of a name, no run is left, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<()> {
    let runs = read::only(read::read(&args.runs)?, &args.only)?;
    output::whole(&args.out, &page::html(&runs)?)?;
    let failed = match runs.iter().filter(|run| run.error.is_some()).count() {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let runs = console::count(runs.len(), "run");
    console::print(&format!("{}: {runs}{failed}\n", args.out.display()))
}
