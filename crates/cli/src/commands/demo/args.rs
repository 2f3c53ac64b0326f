//! Arguments of `rackmem demo`.

use std::path::PathBuf;

use clap::{Args, value_parser};

use crate::args::RackOrFileArg;
use crate::launcher::Launcher;

/// Arguments of `rackmem demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Edge list in the format of SNAP, plain or gzip [default: a generated Kronecker graph]
    #[arg(long, value_name = "FILE", conflicts_with = "scale")]
    pub graph: Option<PathBuf>,
    /// Every line of FILE is an edge in both directions
    #[arg(long, requires = "graph")]
    pub undirected: bool,
    /// Generate a Kronecker graph of 2^SCALE vertices and sixteen times as many edges
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u8).range(4..=26))]
    pub scale: u8,
    /// How many nodes the rack has, or are used of that of a rack file [default: 4, or all of the file]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// Rack over several hosts that computes.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Command that runs a command on the host of a node: {host} is its IP, {node} its number [default: ssh {host}]
    #[arg(long, value_name = "COMMAND")]
    pub launcher: Option<Launcher>,
    /// Do not run it on the model as well
    #[arg(long)]
    pub no_model: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
