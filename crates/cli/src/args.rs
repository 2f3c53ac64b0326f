//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rackmem::protocol::Progress;

use crate::commands::noc;

/// Time for which a daemon polls without finding work before it sleeps, in microseconds.
pub const DEFAULT_SPIN_US: u64 = rackmem::daemon::DEFAULT_SPIN.as_micros() as u64;

/// Remote memory at rack scale: every node's segment is readable, writable and atomically
/// updatable by all others, one-sided, through queue pairs.
#[derive(Debug, Parser)]
#[command(
    name = "rackmem",
    version,
    arg_required_else_help = true,
    after_help = "First steps:\n  \
        rackmem demo                         PageRank on a rack of 4 nodes, checked and timed\n  \
        rackmem run -n 2 -- ./program        one process per node, on a rack of its own\n  \
        rackmem up --nodes 4                 a rack that stays\n\n\
        `rackmem help COMMAND` explains a command; programs include <rackmem.h>.",
    after_long_help = EPILOGUE
)]
pub struct Cli {
    /// The same as `--rack` after the command.
    #[arg(long, hide = true, value_name = "NAME")]
    pub rack: Option<String>,
    /// The same as `--rack-file` after the command.
    #[arg(long, hide = true, value_name = "FILE")]
    pub rack_file: Option<PathBuf>,
    /// Command with its arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// `--rack` and `--rack-file`, for commands that work on racks of one host and of several.
#[derive(Debug, Args)]
pub struct RackOrFileArg {
    /// Rack to work on [default: $RACKMEM_RACK, else "default"]
    #[arg(long, global = true, value_name = "NAME", display_order = 100)]
    pub rack: Option<String>,
    /// File that describes a rack over several hosts, instead of --rack [default: $RACKMEM_RACK_FILE]
    #[arg(long, global = true, value_name = "FILE", display_order = 101)]
    pub rack_file: Option<PathBuf>,
}

/// `--rack-file`, for commands that need no rack, and prove themselves as one of its nodes.
#[derive(Debug, Args)]
pub struct RackFileArg {
    /// File that describes a rack over several hosts, whose nodes prove themselves [default: $RACKMEM_RACK_FILE]
    #[arg(long, global = true, value_name = "FILE", display_order = 101)]
    pub rack_file: Option<PathBuf>,
}

const EPILOGUE: &str = "\
First steps:
  rackmem demo                         PageRank on a rack of 4 nodes, checked and timed
  rackmem run -n 2 -- ./program        one process per node, on a rack of its own
  rackmem up --nodes 4                 a rack that stays
  rackmem top                          what happens on it
  rackmem down
  rackmem lend 2G                      lends memory; `rackmem borrow 1G -- ./program` uses it

A rack is a directory with a socket and a lock for each node's daemon and a file for each
context. Read-write access to a context's file grants full membership; read access grants remote
reads only.

Environment:
  RACKMEM_DIR   directory of all racks [default: /run/rackmem for root; for others
                $XDG_RUNTIME_DIR/rackmem, else /tmp/rackmem-UID]
  RACKMEM_RACK  rack that is meant when --rack is not given [default: \"default\"]
  RACKMEM_RACK_FILE
                file of a rack over several hosts, when neither --rack nor --rack-file is given
  RACKMEM_KEY_FILE
                file of this host's private key in a rack over several hosts
  RACKMEM_MONITOR, RACKMEM_SECRET
                address of the monitor for those who borrow (`rackmem lend` takes --monitor only),
                and the file with the secret of the network
  NO_COLOR      any value: no colours

Exit status:
  0 done, 1 failed, 2 wrong usage; `rackmem run` has that of its program.

`rackmem help COMMAND` explains a command; programs include <rackmem.h>.";

/// A command with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a rack on this machine: one daemon per node
    #[command(
        long_about = "Starts a rack on this machine: one daemon per node, in the background. It \
            returns when every daemon answers and is linked to all others. If one does not come \
            up, the end of its log is shown and nothing stays behind. With a rack file it starts those nodes \
            whose addresses belong to this host, says for which others they wait, and does not wait itself. With \
            --hosts it starts the nodes of all hosts, and waits up to five seconds for their links.",
        after_long_help = "Examples:\n  \
            rackmem up --nodes 4\n  \
            rackmem up --nodes 2 --pin --spin 1000     for low latency of daemon progress\n  \
            rackmem up --rack test --nodes 2           a second rack beside the first\n  \
            rackmem up --rack-file rack.toml           this host's nodes of a rack over several hosts\n  \
            rackmem up --rack-file rack.toml --hosts   all of its nodes, by ssh"
    )]
    Up(crate::commands::up::UpArgs),
    /// Stop a rack and remove its files
    #[command(long_about = "Stops the daemons of a rack and removes its directory. Programs that \
        still run on it get \"node lost\" from their operations.")]
    Down(crate::commands::down::DownArgs),
    /// Show the nodes of a rack
    #[command(long_about = "Shows what every node's daemon says of itself: process, uptime, \
        peers that it is linked to, contexts that it has joined, queue pairs, operations. In a rack over \
        several hosts the daemons of this host ask the others; for a node that they do not reach it says since \
        when, how often it was called, and why. The exit status is 1 if a node does not answer.")]
    Status(crate::commands::status::StatusArgs),
    /// Show how the nodes of a rack reach each other
    #[command(
        long_about = "Shows the links of this host's nodes to all others, one line each: by shared \
        memory or over TCP, the other node's address, whether the link is up and since when, whether it is \
        encrypted, the last round trip, and the last error. The exit status is 1 if a node does not answer."
    )]
    Info(crate::commands::info::InfoArgs),
    /// Create, list and remove contexts
    #[command(
        disable_help_subcommand = true,
        long_about = "A context is the right to use memory. Read and write access to its file \
            grants full membership; read access grants remote reads only. `rackmem run` makes \
            one for each run; programs that attach by themselves need one that stays.",
        after_long_help = "Examples:\n  \
            rackmem context create 7                owner only\n  \
            rackmem context create 8 --mode 0664    group may join, others may read\n  \
            rackmem context create                  any free number, which is printed\n  \
            rackmem context remove 7"
    )]
    Context(crate::commands::context::ContextArgs),
    /// Make and show the keys by which nodes of different hosts know each other
    #[command(
        disable_help_subcommand = true, arg_required_else_help = true,
        long_about = crate::commands::key::ABOUT,
        after_long_help = crate::commands::key::EXAMPLES
    )]
    Key(crate::commands::key::KeyArgs),
    /// Run a program, one process per node
    #[command(
        long_about = RUN_ABOUT,
        after_long_help = "Examples:\n  \
            rackmem run -n 4 -- ./program argument\n  \
            rackmem run -n 2 --context-size 1G --progress daemon -- ./program\n  \
            rackmem run -n 4 -- :pagerank --kronecker 16\n  \
            rackmem run -n 1 ./server : -n 2 ./client   node 0 runs one program, the others another one\n  \
            rackmem run --rack test -- ./program     on a rack that is up, all nodes\n  \
            rackmem run -n 64 --together -- ./program   64 nodes, one process for their daemons\n  \
            rackmem run --rack-file rack.toml -- ./program   on the hosts of a rack file, by ssh\n\n\
            Exit status: 0 if every process ended with 0, else that of the first that failed \
            (128 + the number of the signal if one killed it); 127 if there is no such program."
    )]
    Run(crate::commands::run::RunArgs),
    /// Run a program whose heap grows into memory that other nodes lend
    #[command(
        long_about = crate::commands::borrow::ABOUT,
        after_long_help = crate::commands::borrow::EXAMPLES
    )]
    Borrow(crate::commands::borrow::BorrowArgs),
    /// Watch operations, bytes and errors of every node and queue pair
    #[command(after_long_help = "Examples:\n  \
        rackmem top                  until q or Ctrl-C\n  \
        rackmem top --once --json    one measurement, for scripts")]
    Top(crate::commands::top::TopArgs),
    /// Measure latency and throughput on this machine
    #[command(
        long_about = "Measures two pinned processes on a rack of their own, for each way to make \
            operations progress: inline (the calling thread does the copy), daemon (the node's \
            daemon polls the queues), packet (request and reply packets through both nodes' \
            daemons). Figures are medians. Machines with fewer than four cores have no room for \
            two processes and two daemons that all poll, so there daemon and packet are measured \
            one-sided only.\n\n\
            With a rack file it measures the rack that is up: a process of this host's node uses the \
            memory of a node of another host, where the launcher starts a process that only waits.",
        after_long_help = "Examples:\n  \
            rackmem bench\n  \
            rackmem bench --quick --progress inline\n  \
            rackmem bench --json > figures.json\n  \
            rackmem bench --rack-file rack.toml --node 3   from this host to node 3\n  \
            rackmem bench sim"
    )]
    Bench(crate::commands::bench::BenchArgs),
    /// PageRank on a rack of its own and on the model, checked and timed
    #[command(
        long_about = "Computes PageRank on a rack of its own in three variants - threads on \
            shared memory (shm), one bulk transfer per peer and superstep (bulk), one remote \
            read per edge (fine) - and serially, checks that all ranks agree, and prints times, \
            remote operations per second, speed-ups, and the ten highest ranks. Then the same \
            program computes one superstep on the model of the soNUMA machine, with a smaller \
            graph where the whole would take too long, and its times stand beside those of this host. \
            Last comes a table of the Manycore NI paper: published, measured on the model, ratio.\n\n\
            With a rack file it computes on the rack that is up, one process per node, each started on the \
            node's host. Run it on the host of node 0. A graph has the same path on all hosts.",
        after_long_help = "Examples:\n  \
            rackmem demo\n  \
            rackmem demo --rack-file rack.toml --no-model\n  \
            rackmem demo --graph soc-Epinions1.txt.gz --undirected\n  \
            rackmem demo --nodes 2 --json\n  \
            rackmem demo --no-model          without the model, which takes some ten seconds\n\n\
            Exit status: 1 if ranks disagree."
    )]
    Demo(crate::commands::demo::args::DemoArgs),
    /// Lend memory of this host
    #[command(
        long_about = crate::commands::lend::ABOUT,
        after_long_help = crate::commands::lend::EXAMPLES
    )]
    Lend(crate::commands::lend::LendArgs),
    /// Show who lends what to whom
    #[command(after_long_help = "Examples:\n  \
        rackmem leases\n  \
        rackmem leases --monitor node0:7000 --secret ~/.rackmem-secret --json")]
    Leases(crate::commands::leases::LeasesArgs),
    /// Keep the ledger of lenders and borrowers of several hosts
    #[command(
        long_about = crate::commands::monitor::ABOUT,
        after_long_help = crate::commands::monitor::EXAMPLES
    )]
    Monitor(crate::commands::monitor::MonitorArgs),
    /// Serve borrowed memory as a block device (NBD)
    #[command(
        long_about = crate::commands::blk::ABOUT,
        after_long_help = crate::commands::blk::EXAMPLES
    )]
    Blk(crate::commands::blk::BlkArgs),
    /// Simulate a network on chip under synthetic traffic
    #[command(long_about = noc::ABOUT, after_long_help = noc::EXAMPLES)]
    Noc(noc::NocArgs),
    /// Simulate a memory under a trace or synthetic traffic
    #[command(
        long_about = crate::commands::dram::ABOUT,
        after_long_help = crate::commands::dram::EXAMPLES
    )]
    Dram(crate::commands::dram::DramArgs),
    /// Simulate a chip: run a machine file, vary it, execute programs on it
    #[command(
        disable_help_subcommand = true, arg_required_else_help = true,
        long_about = crate::commands::sim::args::ABOUT,
        after_long_help = crate::commands::sim::args::EXAMPLES
    )]
    Sim(crate::commands::sim::args::SimArgs),
    /// Run a machine of the model for each combination of some settings
    #[command(
        arg_required_else_help = true,
        long_about = crate::commands::sweep::args::ABOUT,
        after_long_help = crate::commands::sweep::args::EXAMPLES
    )]
    Sweep(crate::commands::sweep::args::SweepArgs),
    /// Compile C and C++ programs for the model or for this host
    #[command(
        long_about = crate::commands::cc::ABOUT,
        after_long_help = crate::commands::cc::EXAMPLES
    )]
    Cc(crate::commands::cc::CcArgs),
    /// Run a paper's experiments and compare every claim with what the model gives
    #[command(
        long_about = crate::commands::reproduce::ABOUT,
        after_long_help = crate::commands::reproduce::examples()
    )]
    Reproduce(crate::commands::reproduce::ReproduceArgs),
    /// Run a paper's experiments with other values of what the paper leaves open, and print each claim's band
    #[command(
        long_about = crate::commands::sensitivity::ABOUT,
        after_long_help = crate::commands::sensitivity::EXAMPLES
    )]
    Sensitivity(crate::commands::sensitivity::SensitivityArgs),
    /// Write a page on what the model's numbers are worth: claims, bands, and other simulators beside
    #[command(
        long_about = crate::commands::accuracy::ABOUT,
        after_long_help = crate::commands::accuracy::EXAMPLES
    )]
    Accuracy(crate::commands::accuracy::AccuracyArgs),
    /// Write a page about runs of the model, side by side
    #[command(
        long_about = crate::commands::report::ABOUT,
        after_long_help = crate::commands::report::EXAMPLES
    )]
    Report(crate::commands::report::ReportArgs),
    /// Lend a network interface to another host, or borrow one
    #[command(
        disable_help_subcommand = true, arg_required_else_help = true,
        long_about = crate::commands::nic::ABOUT,
        after_long_help = crate::commands::nic::EXAMPLES
    )]
    Nic(crate::commands::nic::NicArgs),
    /// Carry the sockets of programs over queue pairs
    #[command(
        disable_help_subcommand = true, arg_required_else_help = true,
        long_about = crate::commands::sockets::ABOUT,
        after_long_help = crate::commands::sockets::EXAMPLES
    )]
    Sockets(crate::commands::sockets::SocketsArgs),
    /// Print completions for a shell
    #[command(after_long_help = "Examples:\n  \
        rackmem completion bash > ~/.local/share/bash-completion/completions/rackmem\n  \
        rackmem completion zsh > \"${fpath[1]}/_rackmem\"\n  \
        rackmem completion fish > ~/.config/fish/completions/rackmem.fish")]
    Completion(crate::commands::manual::CompletionArgs),
    /// Print a manual page
    #[command(after_long_help = "Examples:\n  \
        rackmem man | man -l -             the command and its groups\n  \
        rackmem man borrow | man -l -      one of its commands\n  \
        rackmem man --write share/man/man1")]
    Man(crate::commands::manual::ManArgs),
    /// One process of a built-in program; `rackmem run -- :NAME` starts these.
    #[command(hide = true, disable_help_flag = true)]
    Program(crate::commands::program::ProgramArgs),
    /// The daemon of one node; `rackmem up` starts these.
    #[command(hide = true)]
    Daemon(crate::commands::daemon::DaemonArgs),
}

impl Command {
    /// `--rack` of a command that works on a rack.
    pub fn rack(&self) -> Option<&Option<String>> {
        self.rack_or_file().map(|args| &args.rack)
    }

    /// `--rack-file` of a command that knows racks over several hosts.
    pub fn rack_file(&self) -> Option<&Option<PathBuf>> {
        match self {
            Command::Nic(args) => Some(&args.file.rack_file),
            Command::Sockets(args) => Some(&args.file.rack_file),
            _ => self.rack_or_file().map(|args| &args.rack_file),
        }
    }

    fn rack_or_file(&self) -> Option<&RackOrFileArg> {
        match self {
            Command::Borrow(args) => Some(&args.rack),
            Command::Lend(args) => Some(&args.rack),
            Command::Leases(args) => Some(&args.rack),
            Command::Monitor(args) => Some(&args.rack),
            Command::Blk(args) => Some(&args.rack),
            Command::Up(args) => Some(&args.rack),
            Command::Down(args) => Some(&args.rack),
            Command::Status(args) => Some(&args.rack),
            Command::Info(args) => Some(&args.rack),
            Command::Context(args) => Some(&args.rack),
            Command::Run(args) => Some(&args.rack),
            Command::Top(args) => Some(&args.rack),
            Command::Bench(args) => Some(&args.rack),
            Command::Demo(args) => Some(&args.rack),
            Command::Daemon(args) => Some(&args.rack),
            _ => None,
        }
    }
}

const RUN_ABOUT: &str = "\
Runs a program with one process per node and one context for all of them. Without --rack, and
if no rack named \"default\" is up, the run has a rack of its own, which goes away with it.

Output comes line by line with the node's number in front. Standard input goes to node 0. When a
process fails, the others are ended: SIGTERM, then SIGKILL after two seconds. Nothing outlives
the run, even if `rackmem run` itself is killed.

With a rack file, process I is node I. Nodes that are up on this host start here, the others
through the launcher, which runs the same `rackmem` there, in a directory of the same name.

rackmem_init() finds its place in the environment: RACKMEM_RACK, RACKMEM_NODE, RACKMEM_NODES,
RACKMEM_CONTEXT, RACKMEM_CONTEXT_SIZE, RACKMEM_PROGRESS.

A name that starts with a colon is a built-in program; `:NAME --help` explains all but `:hello`.";

pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected permissions in octal, such as 0660".to_owned()),
    }
}

/// Values of `--progress` of `rackmem run` and `rackmem bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressArg {
    /// The calling thread does the operation
    Inline,
    /// The node's daemon does
    Daemon,
    /// The daemons of both nodes, by packets
    Packet,
}

impl From<ProgressArg> for Progress {
    fn from(arg: ProgressArg) -> Progress {
        match arg {
            ProgressArg::Inline => Progress::Inline,
            ProgressArg::Daemon => Progress::Daemon,
            ProgressArg::Packet => Progress::Packet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        crate::help::command(crate::help::COLUMNS).debug_assert();
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert_eq!(parse_mode("644"), Ok(0o644));
        assert!(parse_mode("0o660").is_err());
        assert!(parse_mode("1000").is_err());
        assert!(parse_mode("9").is_err());
    }
}
