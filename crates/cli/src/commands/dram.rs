//! `rackmem dram`: the memory of the model, alone, under a trace or generated traffic.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use rackmem_sim::dram::{Kind, Timing};
use rackmem_sim::machine::spec::{DramSpec, MemoryModel};
use rackmem_sim::machine::{self, DEVICES, Machine, MachineError, Override};
use rackmem_sim::run::memory::{self, Access, Generator, Latency, Outcome, Pattern, Report, Trace};
use serde::Serialize;

use super::sim::output::{self, Place};
use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::size;

/// First text of `rackmem help dram`.
pub const ABOUT: &str = "\
Simulates a memory command by command, as the chips of the model have it: banks, bank groups and ranks
with the times of their standard, a controller's queues, refreshes. Its requests are those of a trace, or
are generated. Latency is counted from the clock in which the controller takes a request to the end of
its data; one request a clock, and one without room holds up those behind it.

The scheduler of the devices does what DRAMsim3's does. Chips have another one: `--set
dram.scheduler=fr-fcfs`.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Traces, one request a line; `-` is standard input:
  0x1a2b40 READ 17     DRAMsim3: address (hexadecimal), READ or WRITE, clock
  LD 0x1a2b40          Ramulator 2: LD or ST, address (decimal without 0x)
  0x1a2b40 R           Ramulator: address, R or W
Without a clock, a request comes as soon as it can. Blocks have 64 bytes.

Patterns:
  random               reads of any block
  stream               reads of one block after the other
  random-write-third   any block, a third of the requests being writes

Examples:
  rackmem dram                                       DDR4-2400, random reads
  rackmem dram trace.txt --device ddr5-4800 --latencies latencies.csv
  rackmem dram --pattern random-write-third --interval 7 --set dram.scheduler=fr-fcfs
  rackmem dram --device mine.toml --set dram.trcd_nck=15 --json
  rackmem dram --device sonuma --pattern stream      the memory of a machine
  rackmem dram --interval 1 --clocks 160000          what is carried at most
  rackmem sim show ddr4-3200                         all keys of a device

Exit status: 1 if the trace cannot be read, 2 if there is no such device.";

/// Arguments of `rackmem dram`.
#[derive(Debug, Args)]
pub struct DramArgs {
    /// Trace of DRAMsim3 or Ramulator, or - for standard input [default: generated requests]
    #[arg(conflicts_with_all = ["pattern", "interval", "requests", "seed"])]
    pub trace: Option<PathBuf>,
    /// Device, or path of a file like that of a machine; a machine has a memory, too
    #[arg(long, value_name = "NAME", default_value = "ddr4-2400")]
    pub device: String,
    /// Override a key of the device, such as dram.trcd_nck=15; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<Override>,
    /// Requests that are generated: random, stream or random-write-third
    #[arg(long, value_name = "PATTERN", default_value = "random")]
    pub pattern: Pattern,
    /// Clocks between two generated requests
    #[arg(long, value_name = "CLOCKS", default_value_t = 20, value_parser = value_parser!(u64).range(1..1 << 20))]
    pub interval: u64,
    /// Number of generated requests
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(1..1 << 40))]
    pub requests: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// End the run after so many clocks [default: when all requests are done]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..1 << 60))]
    pub clocks: Option<u64>,
    /// Write the latency of each request into this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub latencies: Option<PathBuf>,
    /// Print JSON, with all settings
    #[arg(long)]
    pub json: bool,
    /// Print the devices with rate, parts and peak bandwidth, and do nothing else
    #[arg(long, exclusive = true)]
    pub list_devices: bool,
}

/// The result with all that makes it again.
#[derive(Serialize)]
struct Document<'a> {
    version: &'static str,
    device: &'a str,
    description: &'a str,
    controllers: u16,
    interleave_bytes: u64,
    size_bytes: u64,
    dram: &'a DramSpec,
    timing_nck: Timing,
    traffic: Traffic<'a>,
    clocks_limit: Option<u64>,
    peak_gbps: f64,
    #[serde(flatten)]
    report: &'a Report,
}

/// The requests of a run.
#[derive(Serialize)]
#[serde(untagged)]
enum Traffic<'a> {
    Trace { trace: &'a Path },
    Generated { pattern: &'static str, interval_clocks: u64, requests: u64, seed: u64 },
}

/// Simulates.
///
/// # Errors
/// The device is none, the trace cannot be read, or the latencies cannot be written.
pub fn run(args: &DramArgs) -> Result<()> {
    if args.list_devices {
        return list();
    }
    let refused = |error: MachineError| Failure::usage(error.to_string());
    let machine = machine::load_device(&args.device, &args.set).map_err(refused)?;
    if machine.memory.model == MemoryModel::Fixed {
        return Err(Failure::usage(format!(
            "{}: memory.model is \"fixed\", so it has no DRAM; --set memory.model=ddr3 simulates its dram.* keys",
            args.device
        )));
    }
    let report = match &args.latencies {
        None => simulate(args, &machine, |_| Ok(())),
        Some(path) => with_latencies(args, &machine, path),
    }?;
    if args.json {
        return console::print_json(&document(args, &machine, &report));
    }
    console::print(&render(args, &machine, &report))
}

/// Writes the latencies, too: whole, or not at all if the run fails or is interrupted.
fn with_latencies(args: &DramArgs, machine: &Machine, path: &Path) -> Result<Report> {
    let place = Place::find(path)?;
    let is_trace = |trace: &Path| is_same(trace, path);
    if args.trace.as_deref().is_some_and(is_trace) {
        let why = format!("--latencies: {} is the trace; name another file", path.display());
        return Err(Failure::usage(why));
    }
    // Standard input may not come: then the default ends the wait.
    let is_stdin = args.trace.as_deref().is_some_and(|trace| trace.as_os_str() == "-");
    let interrupt = if is_stdin { None } else { Some(Interrupt::catch()?) };
    let mut done = None;
    let written = place.write_by(|file| {
        writeln!(file, "index,arrival,address,kind,latency")?;
        let report = simulate(args, machine, |outcome| {
            interrupt.as_ref().map_or(Ok(()), Interrupt::check)?;
            let Outcome { index, arrival, address, latency, .. } = *outcome;
            let kind = if outcome.kind == Kind::Read { "READ" } else { "WRITE" };
            writeln!(file, "{index},{arrival},{address:#x},{kind},{latency}")
                .map_err(|error| output::cannot_write(path, error))
        });
        let is_whole = report.is_ok();
        done = Some(report);
        if is_whole { Ok(()) } else { Err(io::Error::other("the run failed")) }
    });
    match done {
        Some(Err(failure)) => Err(failure),
        Some(Ok(report)) => written.map(|()| report),
        None => Err(written.err().unwrap_or_else(|| Failure::new("no run was made"))),
    }
}

/// Whether two names are of one file that is there.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.metadata().ok().filter(Metadata::is_file));
    let id = |found: Metadata| (found.dev(), found.ino());
    one.map(id).zip(other.map(id)).is_some_and(|(one, other)| one == other)
}

fn simulate(
    args: &DramArgs,
    machine: &Machine,
    each: impl FnMut(&Outcome) -> Result<()>,
) -> Result<Report> {
    let size_bytes = machine.memory.size_bytes;
    let Some(path) = &args.trace else {
        let DramArgs { pattern, interval, requests, seed, .. } = *args;
        let requests = Generator::new(pattern, interval, requests, size_bytes, seed);
        return memory::run(machine, requests.map(Ok), args.clocks, each);
    };
    let (input, name): (Box<dyn BufRead>, _) = if path.as_os_str() == "-" {
        (Box::new(io::stdin().lock()), "standard input".to_owned())
    } else {
        let file = File::open(path).map_err(|error| Failure::io(path.display(), error))?;
        (Box::new(BufReader::with_capacity(1 << 16, file)), path.display().to_string())
    };
    let trace = Trace::new(input, &name, size_bytes);
    let read = |access: std::result::Result<Access, memory::TraceError>| {
        access.map_err(|error| Failure::new(error.to_string()))
    };
    memory::run(machine, trace.map(read), args.clocks, each)
}

fn document<'a>(args: &'a DramArgs, machine: &'a Machine, report: &'a Report) -> Document<'a> {
    let traffic = match &args.trace {
        Some(trace) => Traffic::Trace { trace },
        None => Traffic::Generated {
            pattern: args.pattern.name(),
            interval_clocks: args.interval,
            requests: args.requests,
            seed: args.seed,
        },
    };
    Document {
        version: env!("CARGO_PKG_VERSION"),
        device: &args.device,
        description: &machine.description,
        controllers: machine.memory.controllers,
        interleave_bytes: machine.memory.interleave_bytes,
        size_bytes: machine.memory.size_bytes,
        dram: &machine.dram,
        timing_nck: memory::timing(machine),
        traffic,
        clocks_limit: args.clocks,
        peak_gbps: memory::peak_gbps(machine),
        report,
    }
}

fn render(args: &DramArgs, machine: &Machine, report: &Report) -> String {
    let traffic = match &args.trace {
        Some(path) => format!("requests of {}", path.display()),
        None => format!(
            "{}, one every {} clocks, seed {}",
            args.pattern.name(),
            args.interval,
            args.seed
        ),
    };
    let peak = memory::peak_gbps(machine);
    let head = format!("{}, {peak:.1} GB/s at most\n{traffic}\n\n", machine.description);
    let mut table = Table::new(&[
        ("latency", Align::Left),
        ("requests", Align::Right),
        ("mean", Align::Right),
        ("median", Align::Right),
        ("p95", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("mean, ns", Align::Right),
    ]);
    let tck_ns = memory::timing(machine).tck_ps as f64 / 1000.0;
    for (kind, latency) in [("reads", &report.reads), ("writes", &report.writes)] {
        let Latency { count, mean, median, p95, p99, max } = *latency;
        if count > 0 {
            let whole = [count, median, p95, p99, max].map(|value| value.to_string());
            let [count, median, p95, p99, max] = whole;
            let (mean, ns) = (format!("{mean:.2}"), format!("{:.1}", mean * tck_ns));
            table.row([kind.to_owned(), count, mean, median, p95, p99, max, ns]);
        }
    }
    let Report { row_hits, row_misses, row_conflicts, refreshes, clocks, .. } = *report;
    let mut text = head + &table.render();
    text += &format!("\nclocks        {clocks} of {tck_ns} ns\n");
    text += &format!(
        "bandwidth     {:.2} GB/s, {:.1} % of the time in which the wires could carry data\n",
        report.bandwidth_gbps,
        report.bus_use * 100.0
    );
    text +=
        &format!("rows          {row_hits} hits, {row_misses} misses, {row_conflicts} conflicts\n");
    text += &format!("refreshes     {refreshes}\n");
    text += &format!("outstanding   {:.2} requests on average\n", report.outstanding_mean);
    if report.held_up_mean > 0.0 {
        text += &format!(
            "held up       {:.2} clocks on average, as there was no room\n",
            report.held_up_mean
        );
    }
    if report.forwarded + report.merged > 0 {
        let Report { forwarded, merged, .. } = report;
        text += &format!(
            "without data  {forwarded} read from waiting writes, {merged} done with another\n"
        );
    }
    if report.unfinished > 0 {
        text += &format!("unfinished    {} requests at the end of the run\n", report.unfinished);
    }
    text
}

fn list() -> Result<()> {
    let mut table = Table::new(&[
        ("device", Align::Left),
        ("GB/s", Align::Right),
        ("memory", Align::Right),
        ("description", Align::Left),
    ]);
    for device in DEVICES {
        let machine =
            machine::load(device.name, &[]).map_err(|error| Failure::usage(error.to_string()))?;
        table.row([
            device.name.to_owned(),
            format!("{:.1}", memory::peak_gbps(&machine)),
            size::exact(machine.memory.size_bytes),
            machine.description,
        ]);
    }
    console::print(&table.render())
}
