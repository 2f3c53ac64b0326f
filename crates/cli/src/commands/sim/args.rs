//! The command line of `rackmem sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use rackmem_sim::machine::Override;

use super::exec::checkpoint::CheckpointArgs;
use super::exec::part::PartArgs;
use super::litmus::{self, LitmusArgs};
use crate::size;

/// First text of `rackmem sim --help`.
pub const ABOUT: &str = "\
Simulates the chips of a machine file, cycle by cycle: cores, caches, coherence, network on chip,
network interfaces; or a rack of hundreds of simplified nodes with all of its routers. `run` drives
them with microbenchmarks, `exec` executes RISC-V programs on them; `litmus` checks the memory
ordering of their cores. MACHINE is the name of a
built-in machine (`rackmem sim machines`) or the path of a TOML file, which may be based on another
one (`base = \"manycore-ni\"`). `--set` overrides one of its keys; `rackmem sim show` prints them
all.

The same machine and seed give the same result, byte for byte.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni --set workload.kind=sync-read --set workload.transfer_bytes=64
  rackmem sim run manycore-ni --set ni.placement=edge --out edge/
  rackmem sweep manycore-ni --vary ni.placement=edge,split --vary workload.transfer_bytes=64,4096
  rackmem sim run rack-torus --set traffic.pattern=hot-spot
  rackmem sim exec sonuma -n 2 -- prog.rv64
  rackmem sim show manycore-ni > mine.toml && rackmem sim run mine.toml
  rackmem sim litmus mp.litmus

Exit status: 2 if the machine cannot be built as described, 1 if its run fails.";

const RUN_EXAMPLES: &str = "\
Examples:
  rackmem sim run manycore-ni
  rackmem sim run manycore-ni --set workload.kind=sync-read --set workload.transfer_bytes=64
  rackmem sim run manycore-ni --set ni.placement=edge --out edge/
  rackmem sim run manycore-ni --trace trace.json --trace-window 10us..12us
  rackmem sweep manycore-ni --vary workload.rate=0.2,0.5,1,2 --csv      latency against load

With workload.kind=sync-read the report has the latency by stage; with async-read the bandwidth and
its 95 % confidence interval, and the latency under that load by stage. workload.rate has each core make so
many reads in a microsecond instead of as many as its queue holds. A rack of simplified nodes has
bandwidth, and latency by the number of hops. The warm-up of such runs is found and left out, and they
go on until half the interval is run.precision_percent of the bandwidth and latency has settled, which
run.steady=bandwidth does not ask for; a run that run.max_windows
ends before says NOT CONVERGED. `rackmem report DIR` draws what --out has written, the load of every link of the
network on chip too; a trace opens in https://ui.perfetto.dev.";

const EXEC_ABOUT: &str = "\
Executes an RV64GC program for Linux, as `rackmem cc` makes them, on the cores of a machine: one
process per node, as `rackmem run` does it on hosts. Everything takes the time that it takes on
that machine; clocks of the program show simulated time. With several nodes, output comes line by
line with the node's number in front, and standard input is node 0's. Files are read and written
below the current folder, and read where the program's arguments or --allow name them.

Nodes may execute different programs, with a `:` between them: `-n 1 server : -n 2 client 10.0.0.1`
has node 0 execute one, and nodes 1 and 2 the other. -n, --env and --begin are said of each program,
all other options before the first. Nodes have sockets: node N is 10.0.0.N+1.

With --functional there is no machine and no time: one process, as fast as it goes, its output,
input and exit status passed through.

The same machine, program and seed give the same result, byte for byte, whatever the number of
threads. Nodes may share files of the current folder: of calls within the time that a packet takes
from node to node, those of lower nodes come first.";

const EXEC_EXAMPLES: &str = "\
Examples:
  rackmem cc -o hello.rv64 hello.c && rackmem sim exec --functional hello.rv64
  rackmem sim exec sonuma -n 2 -- hello.rv64
  rackmem sim exec sonuma --libraries /usr/riscv64-linux-gnu -- a.out     with shared libraries
  rackmem sim exec sonuma -n 1 server.rv64 : -n 2 --begin 15ms client.rv64 10.0.0.1
  rackmem sim exec sonuma -n 8 --stats -- pagerank.rv64 --variant fine graph.txt
  rackmem sim exec sonuma --trace trace.json --trace-window 10us..50us -- hello.rv64
  rackmem sim exec sonuma --pipeline view/ --pipeline-window 10us..12us -- hello.rv64
  rackmem sim exec mine.toml -n 4 --set l1.size_bytes=64K --max-cycles 100000000 -- prog.rv64
  rackmem sim exec sonuma --fast-forward 100M --measure 5M --report part.json -- prog.rv64
  rackmem sim exec sonuma --fast-forward region -- prog.rv64     its rackmem_region_begin() to _end()
  rackmem sim exec sonuma --fast-forward 2G --checkpoint here.ckpt -- prog.rv64   once, and then, again and again:
  rackmem sim exec sonuma --set l1.ways=4 --restore here.ckpt --measure 5M
  rackmem sim exec sonuma --sample 1M -- prog.rv64     the whole program's cycles, estimated
  rackmem sim exec manycore-ni -n 2 --set network.remote=nodes --set ni.completion=acknowledged \\
      -- hello.rv64

Exit status: that of the program, or of the first process that failed; 128 and the number of the
signal if it ended itself by one; 125 if it cannot be run to its end, and then standard error says
why and where: node, core, function and instruction, cycle; 126 if it is no program for this
command, 127 if there is none; 2 if the machine cannot be built, or executes no programs.";

const EXEC_USAGE: &str = "\
rackmem sim exec MACHINE [OPTIONS] [--] PROGRAM [ARGUMENT]...
           [: [-n N] [--env NAME=VALUE] [--begin TIME] PROGRAM [ARGUMENT]...]...
       rackmem sim exec --functional [OPTIONS] [--] PROGRAM [ARGUMENT]...";

/// Arguments of `rackmem sim`.
#[derive(Debug, Args)]
pub struct SimArgs {
    /// The command of `rackmem sim`.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// The commands of `rackmem sim`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a machine and report latency, bandwidth and traffic
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// List the built-in machines
    Machines,
    /// Print a machine with all its keys, as a file that can be changed and run
    Show(MachineArgs),
    /// Print all statistics that reports can have, and outputs of programs: path, unit, meaning
    #[command(after_long_help = STATS_EXAMPLES)]
    Stats(StatsArgs),
    /// Execute a RISC-V program on a machine
    #[command(
        after_long_help = EXEC_EXAMPLES, long_about = EXEC_ABOUT, override_usage = EXEC_USAGE
    )]
    Exec(Box<ExecArgs>),
    /// Hold the cores' memory ordering against RVWMO
    #[command(after_long_help = litmus::EXAMPLES, long_about = litmus::ABOUT)]
    Litmus(LitmusArgs),
}

/// Last text of `rackmem sim stats --help`.
const STATS_EXAMPLES: &str = "\
Examples:
  rackmem sim stats                             all of them
  rackmem sim stats sonuma                      those of a machine
  rackmem sim stats manycore-ni noc.            of these, those with one of the words
  rackmem sim stats rmc. memory                 those with one of these words in path or meaning
  rackmem sim stats netpipe                     what this program prints with --json

A report has those of the parts that its machine has. `[]` stands for an index.";

/// Arguments of `rackmem sim stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Machine, built-in or a file, whose statistics are printed, or program, whose output is explained; then words of
    /// which one is in the path or the meaning [default: all]
    #[arg(value_name = "MACHINE|PROGRAM|WORD")]
    pub words: Vec<String>,
    /// Override a key of the machine, such as ni.placement=edge; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<Override>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A machine and the keys of it that are changed.
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
    /// Machine to run, with changed keys.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write machine.toml, report.json and stats.json into this directory, for `rackmem report`
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Messages to be recorded.
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// What is recorded of a run.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Write every message and read that begins in --trace-window into this file, for ui.perfetto.dev; and of a program
    /// each thread's functions, system calls and waits, turns on shared cores, and each core's counters
    #[arg(long, value_name = "FILE", value_parser = trace_file)]
    pub trace: Option<PathBuf>,
    /// Simulated time of the trace, FROM..TO in ns, us or ms [default: the first 5us]
    #[arg(long, value_name = "FROM..TO", requires = "trace", value_parser = trace_window)]
    pub trace_window: Option<TraceWindow>,
}

/// The record of cores' pipelines.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Write the life of every instruction into this directory: a file for each core, in the format of gem5's
    /// O3PipeView, for Konata
    #[arg(long, value_name = "DIR")]
    pub pipeline: Option<PathBuf>,
    /// Simulated time in which these instructions retire or are thrown away, FROM..TO in ns, us or ms, if not all of it
    #[arg(long, value_name = "FROM..TO", requires = "pipeline", value_parser = trace_window)]
    pub pipeline_window: Option<TraceWindow>,
    /// Instructions that a core's file has at most
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "pipeline",
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub pipeline_instructions: u32,
}

/// A stretch of simulated time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceWindow {
    /// First recorded time, in simulated ns.
    pub from_ns: f64,
    /// Time from which on nothing is recorded.
    pub to_ns: f64,
}

/// Nodes of a rack that executes programs, and harts of a program without a machine.
pub const MAX_NODES: i64 = 1024;

/// Options of one program of several.
#[derive(Clone, Debug, Args)]
pub struct ProgramArgs {
    /// Nodes that execute the program, each with a process of its own
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = value_parser!(u16).range(1..=MAX_NODES))]
    pub nodes: u16,
    /// Add a variable to the program's environment, which is empty otherwise; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<String>,
    /// Begin the program at this simulated time, such as 15ms: that of a client, when its server is ready
    #[arg(long, value_name = "TIME", value_parser = simulated_ns)]
    pub begin: Option<f64>,
}

/// Arguments of `rackmem sim exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Without a machine and its timing: as fast as it goes
    #[arg(long, conflicts_with_all = ["nodes", "begin"])]
    pub functional: bool,
    /// What is said of the first program.
    #[command(flatten)]
    pub of_program: ProgramArgs,
    /// Override a key of the machine, such as l1.ways=4; may be repeated
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "functional")]
    pub set: Vec<Override>,
    /// Give up after so many cycles, such as 100M
    #[arg(long, value_name = "N", conflicts_with = "functional", value_parser = size::count)]
    pub max_cycles: Option<u64>,
    /// Do not put the node's number in front of each line
    #[arg(long, conflicts_with = "functional")]
    pub no_prefix: bool,
    /// Functional: harts that the program sees
    #[arg(long, value_name = "N", default_value_t = 64, requires = "functional",
          value_parser = value_parser!(u16).range(1..=MAX_NODES))]
    pub harts: u16,
    /// Give up after so many instructions of all cores, such as 1G
    #[arg(long, value_name = "N", value_parser = size::count)]
    pub max_instructions: Option<u64>,
    /// Give up after so much simulated time, such as 10ms
    #[arg(long, value_name = "TIME", value_parser = simulated_ns)]
    pub max_time: Option<f64>,
    /// Let the program read this file, or what is in this folder, besides the current folder and files that its
    /// arguments name; may be repeated
    #[arg(long, value_name = "PATH")]
    pub allow: Vec<PathBuf>,
    /// Folder that stands for / where a dynamically linked program looks for its linker and libraries (/lib, /usr/lib,
    /// /etc/ld.so.cache), such as /usr/riscv64-linux-gnu; without it programs are static
    #[arg(long, value_name = "DIR")]
    pub libraries: Option<PathBuf>,
    /// Functional: start of the random numbers that the program gets; of a machine it is `seed`
    #[arg(long, value_name = "N", default_value_t = 0, requires = "functional")]
    pub seed: u64,
    /// Messages and tracks to be recorded, of a machine's run only.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The part that is measured.
    #[command(flatten)]
    pub part: PartArgs,
    /// A place to go on from.
    #[command(flatten)]
    pub checkpoint: CheckpointArgs,
    /// Instructions to be recorded, of a machine's run only.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print the number of instructions and the speed at the end
    #[arg(long)]
    pub stats: bool,
    /// Write counters, and what is needed to run it again, as JSON into this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Built-in machine, or path of a machine file; with --functional the program stands here
    #[arg(value_name = "MACHINE")]
    pub first: String,
    /// The program and its arguments; what follows it is for the program, up to a `:` before another one
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub rest: Vec<String>,
}

/// A file for a trace.
fn trace_file(text: &str) -> Result<PathBuf, String> {
    match text.parse::<u64>() {
        Ok(_) => {
            Err("a trace is of a time, not of a number of reads: name a file, and the time by \
                      --trace-window"
                .to_owned())
        }
        Err(_) => Ok(PathBuf::from(text)),
    }
}

fn trace_window(text: &str) -> Result<TraceWindow, String> {
    let expected = || format!("'{text}': expected FROM..TO such as 10us..12us");
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let window = TraceWindow {
        from_ns: nanoseconds(from).ok_or_else(expected)?,
        to_ns: nanoseconds(to).ok_or_else(expected)?,
    };
    if window.from_ns < window.to_ns { Ok(window) } else { Err(expected()) }
}

/// A limit of simulated time, in ns.
fn simulated_ns(text: &str) -> Result<f64, String> {
    let time = nanoseconds(text).filter(|&ns| ns >= 1.0);
    time.ok_or_else(|| format!("'{text}': expected a time of 1ns or more, such as 10ms"))
}

/// A time as people write it: `12us`.
fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let read = |(unit, factor): (&str, f64)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number * factor)
    };
    units.into_iter().find_map(read)
}

/// A variable of an environment.
fn variable(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() => Ok(text.to_owned()),
        _ => Err("a variable has the form NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_trace_has_units() {
        let window = |from_ns, to_ns| Ok(TraceWindow { from_ns, to_ns });
        assert_eq!(trace_window("10us..12us"), window(1e4, 1.2e4));
        assert_eq!(trace_window("500ns .. 1.5ms"), window(500.0, 1.5e6));
        assert_eq!((simulated_ns("2ms"), simulated_ns("3s")), (Ok(2e6), Ok(3e9)));
        assert!(simulated_ns("0us").is_err() && simulated_ns("5").is_err());
        for wrong in ["10us", "12us..10us", "1us..1us", "10..12", "-1us..2us", "nanus..2us", ""] {
            assert!(trace_window(wrong).is_err(), "{wrong}");
        }
        assert!(trace_file("3").is_err() && trace_file("3.json").is_ok());
    }
}
