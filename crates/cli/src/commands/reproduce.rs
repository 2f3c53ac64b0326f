//! `rackmem reproduce`.

use std::path::PathBuf;

use clap::{Args, value_parser};

use crate::failure::{Failure, Result};

/// What `rackmem reproduce --help` says.
pub const ABOUT: &str = "\
Runs the experiments of a paper on the model and compares what they give with what the paper says,
claim by claim: published value, measured value, ratio, verdict. A claim that is missed, or that
cannot be tested on a model of one chip, is listed with the reason.

WHAT is a paper (manycore-ni) or one of its parts, such as manycore-ni/fig7.";

/// What stands below it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem reproduce --quick                     all of it, with fewer sizes and shorter windows
  rackmem reproduce manycore-ni/table3          one table
  rackmem reproduce --out results/              with plots, machine files and results.json

Parts: manycore-ni/table1, /table2, /table3, /fig5, /fig6, /fig7, /routing, /fig9, /fig10,
/ablations.

Exit status: 0 if all experiments ran, whatever the verdicts are; 1 if one failed.";

/// Arguments of `rackmem reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Paper, or part of one
    #[arg(default_value = "manycore-ni")]
    pub what: String,
    /// Fewer sizes, shorter windows: about a minute
    #[arg(long)]
    pub quick: bool,
    /// Print JSON: verdicts and curves
    #[arg(long)]
    pub json: bool,
    /// Write results.json, plots and the machine file of each run into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Does it.
///
/// # Errors
/// There is no such paper or part, or a run fails.
pub fn run(args: &ReproduceArgs) -> Result<()> {
    let _ = args;
    Err(Failure::new("not yet"))
}
