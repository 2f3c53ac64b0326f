//! `rackmem bench`: places two processes and their daemons, and makes a table of what the program
//! `bench` prints.

mod far;
mod sim;

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use rackmem::protocol::Progress;
use serde::{Deserialize, Serialize};

use super::spread::Hosts;
use crate::args::{ProgressArg, RackOrFileArg};
use crate::choice::Choice;
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job, Program};
use crate::launcher::Launcher;
use crate::rackctl::{Plan, PrivateRack};
use crate::{host, placement, size};

/// Arguments of `rackmem bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct BenchArgs {
    /// Measurement to make instead
    #[command(subcommand)]
    pub instead: Option<BenchCommand>,
    /// Rack over several hosts that is measured.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Of a rack over several hosts: the node that is measured from this host [default: the first of another host]
    #[arg(long, value_name = "N")]
    pub node: Option<u16>,
    /// Command that runs a command on the host of a node: {host} is its IP, {node} its number [default: ssh {host}]
    #[arg(long, value_name = "COMMAND")]
    pub launcher: Option<Launcher>,
    /// Print JSON: a list of rows
    #[arg(long)]
    pub json: bool,
    /// Take fewer samples
    #[arg(long)]
    pub quick: bool,
    /// Measure only this way; may be repeated
    #[arg(long, value_name = "WHO")]
    pub progress: Vec<ProgressArg>,
}

/// Measurements of `rackmem bench` besides those of a rack.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure how many cycles and instructions the simulator gets through per second
    #[command(
        long_about = "Simulates networks on chip under uniform traffic, on one core, and the \
            64-core chip - unloaded, and saturated with one and with two threads, for each \
            placement of its network interfaces - \
            and prints the simulated cycles per second. Then it executes a program: without timing, \
            on one node of soNUMA, on eight of them with one and with two threads, and on all cores \
            of a 64-core chip, again with one and with two, where only the part counts in which all of \
            them work; and prints the instructions per second, over all cores.",
        after_long_help = "Examples:\n  \
            rackmem bench sim\n  \
            rackmem bench sim --quick --json"
    )]
    Sim(BenchSimArgs),
}

/// Arguments of `rackmem bench sim`.
#[derive(Debug, Args)]
pub struct BenchSimArgs {
    /// Print JSON: an object with lists of rows for networks, for chips and for programs
    #[arg(long)]
    pub json: bool,
    /// Simulate fewer loads and cycles
    #[arg(long)]
    pub quick: bool,
}

/// Daemons that are measured do not fall asleep between two batches.
pub(crate) const SPIN: Duration = Duration::from_millis(10);

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    metric: String,
    size_bytes: u64,
    /// Way of progress.
    path: String,
    value: f64,
    unit: String,
}

/// Cores of processes and daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) processes: Vec<usize>,
    pub(crate) daemons: Vec<usize>,
    /// Whether there is room for two processes and all daemons that poll.
    both_busy: bool,
    /// Whether one daemon has to be both nodes, so that they need not take turns on a core.
    pub(crate) together: bool,
}

/// Processes and daemons that poll get cores of their own as far as there are enough. The second
/// process sleeps in one-sided measurements, so its core is free for daemons.
pub(crate) fn place(cores: &[usize], progress: Progress) -> Placement {
    let core = |i: usize| cores[i % cores.len()];
    match (progress, cores.len()) {
        (_, 0 | 1) => {
            Placement { processes: vec![], daemons: vec![], both_busy: false, together: true }
        }
        (Progress::Inline, _) => Placement {
            processes: vec![core(0), core(1)],
            daemons: vec![],
            both_busy: true,
            together: false,
        },
        (Progress::Daemon | Progress::Packet, 2 | 3) => Placement {
            processes: vec![core(0), core(1)],
            daemons: vec![core(1), *cores.last().unwrap_or(&core(1))],
            both_busy: false,
            together: progress == Progress::Packet && cores.len() == 2,
        },
        (Progress::Daemon | Progress::Packet, _) => Placement {
            processes: vec![core(0), core(1)],
            daemons: vec![core(2), core(3)],
            both_busy: true,
            together: false,
        },
    }
}

/// Measures.
///
/// # Errors
/// The rack does not come up, or the program fails.
pub fn run(choice: &Choice, args: &BenchArgs) -> Result<()> {
    if let Some(BenchCommand::Sim(args)) = &args.instead {
        return sim::run(args);
    }
    let interrupt = Interrupt::catch()?;
    let mut ways: Vec<Progress> = args.progress.iter().map(|&arg| arg.into()).collect();
    if ways.is_empty() {
        ways.extend(Progress::ALL);
    }
    match Hosts::chosen(choice, args.launcher.as_ref())? {
        Some(hosts) => far::run(&hosts, args, &ways, &interrupt),
        None if args.node.is_some() => {
            Err(Failure::usage("--node is for racks over several hosts: name one with --rack-file"))
        }
        None => run_here(args, &ways, &interrupt),
    }
}

fn run_here(args: &BenchArgs, ways: &[Progress], interrupt: &Interrupt) -> Result<()> {
    let cores = placement::cores();
    let spinner = console::spinner();
    let mut rows = Vec::new();
    let (mut one_sided_only, mut together) = (false, false);
    for &progress in ways {
        spinner.set_message(format!("measuring {} progress", progress.name()));
        let placement = place(&cores, progress);
        one_sided_only |= !placement.both_busy;
        together |= placement.together;
        rows.extend(measure(&placement, progress, args.quick, interrupt)?);
    }
    spinner.finish_and_clear();
    if args.json {
        return console::print_json(&rows);
    }
    let mut text = format!("rackmem {}; {}\n\n", env!("CARGO_PKG_VERSION"), host::description());
    text += &table(&rows, ways).render();
    if together {
        text += "\npacket: one daemon is both nodes' controllers, for lack of cores\n";
    }
    if one_sided_only {
        text += "\n-: keeps two processes and two daemons busy, which takes four cores\n";
    }
    console::print(&text)
}

fn measure(
    placement: &Placement,
    progress: Progress,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Vec<Row>> {
    let Placement { daemons, together, .. } = placement.clone();
    let spin = if progress == Progress::Inline { rackmem::daemon::DEFAULT_SPIN } else { SPIN };
    let plan = Plan { cores: daemons.clone(), spin, together, ..Plan::new(2) };
    let rack = PrivateRack::start(&plan, interrupt)?;
    let flags = [(quick, "--quick"), (!placement.both_busy, "--one-sided")];
    let flags = flags.into_iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag);
    let command = [":bench"].into_iter().chain(flags).map(OsString::from).collect();
    let job = Job {
        rack: rack.rack(),
        programs: vec![Program { command, nodes: 2 }],
        context_bytes: 0,
        progress,
        cores: placement.processes.clone(),
        daemon_cores: daemons,
    };
    let mut captured = Captured::default();
    let result = job.run(Some(&mut captured), interrupt);
    rows(&captured.finish(result)?)
}

/// Rows that the program has printed.
fn rows(text: &str) -> Result<Vec<Row>> {
    text.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<Row> {
    serde_json::from_str(line)
        .map_err(|error| Failure::new(format!("the program bench printed '{line}': {error}")))
}

fn table(rows: &[Row], ways: &[Progress]) -> Table {
    let mut columns = vec![("metric", Align::Left), ("size", Align::Right), ("unit", Align::Left)];
    columns.extend(ways.iter().map(|way| (way.name(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut shown: Vec<(&str, u64)> = Vec::new();
    for row in rows {
        let key = (row.metric.as_str(), row.size_bytes);
        if shown.contains(&key) {
            continue;
        }
        shown.push(key);
        let size = if row.size_bytes == 0 { String::new() } else { size::exact(row.size_bytes) };
        let mut cells = vec![row.metric.replace('_', " "), size, row.unit.clone()];
        cells.extend(ways.iter().map(|way| {
            let same = |r: &&Row| (r.metric.as_str(), r.size_bytes) == key && r.path == way.name();
            rows.iter().find(same).map_or("-".to_owned(), |r| size::three_digits(r.value))
        }));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_have_room_for_one_busy_process_and_its_daemon() {
        let inline = place(&[0, 1], Progress::Inline);
        assert_eq!((inline.processes, inline.both_busy), (vec![0, 1], true));
        let daemon = place(&[0, 1], Progress::Daemon);
        assert_eq!((&daemon.processes, &daemon.daemons), (&vec![0, 1], &vec![1, 1]));
        assert!(!daemon.both_busy && !daemon.together);
        assert!(place(&[0, 1], Progress::Packet).together);
    }

    #[test]
    fn more_cores_are_used() {
        let packet = place(&[0, 1, 2], Progress::Packet);
        assert_eq!((packet.daemons, packet.together), (vec![1, 2], false));
        let packet = place(&[4, 5, 6, 7, 8], Progress::Packet);
        assert_eq!((packet.processes, packet.daemons), (vec![4, 5], vec![6, 7]));
        assert!(packet.both_busy);
        assert!(place(&[3], Progress::Daemon).processes.is_empty());
    }

    #[test]
    fn the_table_has_a_column_for_each_way() {
        let row = |path: &str, value| Row {
            metric: "get_latency".to_owned(),
            size_bytes: 64,
            path: path.to_owned(),
            value,
            unit: "us".to_owned(),
        };
        let rows = [row("inline", 0.03), row("packet", 2.5)];
        assert_eq!(
            table(&rows, &Progress::ALL).render(),
            "metric       size  unit  inline  daemon  packet\n\
             get latency  64 B  us    0.0300       -    2.50\n"
        );
    }
}
