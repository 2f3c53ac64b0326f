//! The command line of `rackmem sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use rackmem_sim::machine::Override;

/// What `rackmem sim --help` says.
pub const ABOUT: &str = "\
Simulates the chips of a machine file, cycle by cycle: cores, caches, coherence, network on chip,
network interfaces; or a rack of hundreds of simplified nodes with all of its routers. MACHINE is the name of a built-in machine (`rackmem sim machines`) or the path
of a TOML file, which may be based on another one (`base = \"manycore-ni\"`). `--set` overrides one
of its keys; `rackmem sim show` prints them all.

The same machine and seed give the same result, byte for byte.";

/// What stands below it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni --set workload.kind=sync-read --set workload.transfer_bytes=64
  rackmem sim run manycore-ni --set ni.placement=edge --out edge/
  rackmem sim sweep manycore-ni --vary ni.placement=edge,split --vary workload.transfer_bytes=64,4096
  rackmem sim run rack-torus --set traffic.pattern=hot-spot
  rackmem sim show manycore-ni > mine.toml && rackmem sim run mine.toml

Exit status: 2 if the machine cannot be built as described, 1 if its run fails.";

const RUN_EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni
  rackmem sim run manycore-ni --set workload.kind=sync-read --set workload.transfer_bytes=64
  rackmem sim run manycore-ni --set ni.placement=edge --trace 3 --out edge/

With workload.kind=sync-read the report has the latency and its parts, with async-read the bandwidth
by window. A rack of simplified nodes has both, latency by the number of hops. links.svg shows the load of every link of the network on chip; trace.json opens in
https://ui.perfetto.dev.";

const SWEEP_EXAMPLES: &str = "\
Examples:
  rackmem sim sweep manycore-ni --vary noc.routing=xy,yx,o1turn,cdr,cdr-directory
  rackmem sim sweep manycore-ni --set workload.kind=sync-read \\
      --vary ni.placement=edge,per-tile,split --vary workload.transfer_bytes=64,1024,16384 --csv
  rackmem sim sweep rack-torus --set traffic.loop=open --vary traffic.offered_gbps=2,4,6,8,10,12,14

The last --vary changes fastest; the order of the output does not depend on the number of runs at
the same time.";

const EXEC_ABOUT: &str = "\
Executes a static RV64GC program for Linux, as `rackmem cc` makes them: its output, input and exit
status are passed through, files are read and written below the current folder, and threads run in
turn, so that the same program does the same every time. Time, as the program sees it, is a
nanosecond per instruction.";

const EXEC_EXAMPLES: &str = "\
Examples:
  rackmem cc -o hello.rv64 hello.c && rackmem sim exec --functional hello.rv64
  rackmem sim exec --functional --stats --max-instructions 2000000000 prog.rv64 input.txt

Exit status: that of the program; 128 and the number of the signal if it ended itself by one;
125 if it cannot be run to its end, for which one line on standard error gives the reason, with
hart, function and instruction; 126 if it is no program for this command, 127 if there is none.";

/// Arguments of `rackmem sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// The commands of `rackmem sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a machine and report latency, bandwidth and traffic
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a machine for each combination of some settings
    #[command(after_long_help = SWEEP_EXAMPLES)]
    Sweep(SweepArgs),
    /// List the built-in machines
    Machines,
    /// Print a machine with all its keys, as a file that can be changed and run
    Show(MachineArgs),
    /// Execute a RISC-V program
    #[command(after_long_help = EXEC_EXAMPLES, long_about = EXEC_ABOUT)]
    Exec(ExecArgs),
}

/// Which machine.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// Built-in machine, or path of a machine file
    pub machine: String,
    /// Override a key of the machine, such as noc.link_bytes=32; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<Override>,
}

/// Arguments of `rackmem sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write machine.toml, report.json, stats.json, links.svg and trace.json into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Record every event of so many reads
    #[arg(long, value_name = "READS", default_value_t = 0, hide_default_value = true)]
    pub trace: u32,
}

/// Arguments of `rackmem sim sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Which machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Run with each of these values; several of these options make all combinations
    #[arg(long, value_name = "PATH=V1,V2,...", required = true)]
    pub vary: Vec<Override>,
    /// Print JSON: a list of settings and reports
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub csv: bool,
    /// Write sweep.json, sweep.csv and the machine of each run into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at the same time [default: one per core of this host]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Arguments of `rackmem sim exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Without timing: as fast as it goes
    #[arg(long, required = true)]
    pub functional: bool,
    /// Harts, and so threads of the program at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    pub harts: u16,
    /// Give up after so many instructions
    #[arg(long, value_name = "N")]
    pub max_instructions: Option<u64>,
    /// Add a variable to the program's environment, which is empty otherwise; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<String>,
    /// Start of the random numbers that the program gets
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Say at the end how many instructions it was, and how fast
    #[arg(long)]
    pub stats: bool,
    /// Write that as JSON into this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub command: Vec<String>,
}

/// A variable of an environment.
fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("a variable has the form NAME=VALUE".to_owned()),
    }
}
