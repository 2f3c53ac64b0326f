//! `rackmem accuracy`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, value_parser};
use rackmem_experiments::Effort;
use rackmem_experiments::document::Document;
use rackmem_experiments::papers::{PAPERS, Paper};

use super::reproduce::wrong;
use super::sim::output;
use crate::accuracy::{self, page};
use crate::console;
use crate::failure::{Failure, Result};
use crate::reproduce::pool;

/// First text of `rackmem accuracy --help`.
pub const ABOUT: &str = "\
Writes one page, DIR/index.html, on what the model's numbers are worth, and the same figures as CSV:
every measured claim of the five papers, with its band if there is one; networks on chip and memories beside the curves
of other simulators; the worst error first; the memory ordering of cores beside RVWMO.
The page opens offline.

The curves of other simulators are not part of rackmem. A folder of --references has noc/CASE.cfg and
noc/CASE.csv (BookSim2) and dram/dramsim3.csv; without one these parts stay empty.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem accuracy --quick --out page
  rackmem accuracy --quick --out page --paper deoi --paper tsm
  rackmem accuracy --quick --out page --references ~/curves";

/// Arguments of `rackmem accuracy`.
#[derive(Debug, Args)]
pub struct AccuracyArgs {
    /// Directory for the page
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Fewer sizes, shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Folder with the curves of other simulators
    #[arg(long, value_name = "DIR")]
    pub references: Option<PathBuf>,
    /// Only the claims of this paper; may be repeated [default: those of all papers]
    #[arg(
        long = "paper",
        value_name = "PAPER",
        value_parser = PossibleValuesParser::new(PAPERS.map(|paper| paper.name))
    )]
    pub papers: Vec<String>,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Makes the page.
///
/// # Errors
/// There is no such folder of references, one of its files cannot be read, or the page cannot be written.
pub fn run(args: &AccuracyArgs) -> Result<()> {
    if let Some(folder) = args.references.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::usage(format!("there is no folder {}", folder.display())));
    }
    let (effort, seeds) = if args.quick { (Effort::Quick, 1) } else { (Effort::Full, 3) };
    let threads = pool::threads(args.jobs);
    let documents = documents(&args.papers)?;
    output::make(&args.out)?;
    let references = args.references.as_deref();
    let accuracy = accuracy::collect(&documents, effort, references, seeds, threads)?;
    page::write(&args.out, &accuracy)?;
    let page = args.out.join("index.html");
    console::print(&format!("{}: {} figures\n", page.display(), accuracy.figures.len()))
}

/// The experiments of these papers; of all if none is named.
fn documents(papers: &[String]) -> Result<Vec<Document>> {
    let is_wanted =
        |paper: &&Paper| papers.is_empty() || papers.iter().any(|name| name == paper.name);
    PAPERS.iter().filter(is_wanted).map(|paper| paper.document().map_err(wrong)).collect()
}
