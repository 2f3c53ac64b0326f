//! Arguments of `rackmem sweep`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use rackmem_experiments::study::Shard;
use rackmem_sim::machine::Override;

/// First text of `rackmem help sweep`.
pub const ABOUT: &str = "\
Runs a machine of the model for each combination of some settings, as many at a time as this host has cores.

A study is a TOML file: the machine, what is set, what is varied, programs that take the place of the machine's
workload. Each of its runs has a file in its folder, named by what decides its result: the machine with all keys, the
program, the version of the model. What is there is not run again, so a study that was killed goes on where it was, and
one that has grown makes the new runs only. A run that fails is a row that says why.

In the place of a study may stand a machine with --vary; its runs have files if --out names a folder.";

/// Last text of it.
pub const EXAMPLES: &str = "\
A study:
  machine = \"manycore-ni\"              # or a file
  folder = \"placements\"                # default: the name of this file without .toml
  [set]
  workload.kind = \"sync-read\"
  [vary]                               # the last key changes fastest
  ni.placement = [\"edge\", \"per-tile\", \"split\"]
  workload.transfer_bytes = [64, 1024]

One with programs has `nodes = 2` and `programs = [\"hello\", [\"netpipe\", \"--json\"]]`, too.

Examples:
  rackmem sweep study.toml                      all runs that are not there, and a table of all
  rackmem sweep study.toml --csv > study.csv    all numbers of all reports
  rackmem sweep study.toml --shard 2/8          the second eighth, on one of eight hosts
  sbatch --array=0-7 --wrap 'rackmem sweep study.toml'
  rackmem sweep study.toml --list | parallel    one command for each run that is not there
  rackmem report study                          a page about its runs
  rackmem sweep manycore-ni --set workload.kind=sync-read --vary ni.placement=edge,per-tile,split";

/// Arguments of `rackmem sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// File of a study; or machine, built in or a file, with --vary
    #[arg(value_name = "STUDY|MACHINE")]
    pub study: String,
    /// Override a key of the machine in all runs, such as noc.link_bytes=32; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<Override>,
    /// Run with each of these values, too; several of these options make all combinations
    #[arg(long, value_name = "PATH=V1,V2,...")]
    pub vary: Vec<Override>,
    /// Folder of the runs' files [default: what the study says]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with what is there, as is done without this option
    #[arg(long, conflicts_with = "again")]
    pub resume: bool,
    /// Make all runs again
    #[arg(long)]
    pub again: bool,
    /// The K-th of N shares of the runs [default: of a task of a Slurm array its share, else all]
    #[arg(long, value_name = "K/N", conflicts_with = "only")]
    pub shard: Option<Shard>,
    /// Print a command for each run that is not there, and make none
    #[arg(long, conflicts_with_all = ["csv", "again"])]
    pub list: bool,
    /// The run of this name, as --list prints it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Print JSON: a list of settings and reports; with --list, of settings and files
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values: settings, and all numbers of the reports
    #[arg(long)]
    pub csv: bool,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}
