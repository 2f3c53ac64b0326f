//! `rackmem noc`: the network of the model, alone, under synthetic traffic.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Args, value_parser};
use rackmem_sim::noc::synthetic::{
    Experiment, ExperimentError, PacketSize, Pattern, Report, run as simulate,
};
use rackmem_sim::noc::{Pipeline, Routing, Shape, Spec, SpecError, VnetSpec};
use serde::Serialize;

use crate::console::{self, Align, Table};
use crate::failure::{Failure, Result};

/// First text of `rackmem help noc`.
pub const ABOUT: &str = "\
Simulates a network of wormhole routers cycle by cycle: input-queued, a private buffer per virtual
channel (VC), credit flow control, one flit per cycle and link. Endpoints create packets by chance
at the given rate. Latency is counted from a packet's creation to the arrival of its last flit.

After a warm-up, packets are measured, and the run goes on until all of them have arrived. A load
that the network does not carry is shown as saturated: its latency means nothing then, but what it
accepted does.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Topologies:
  mesh:8x8        columns x rows; a router and an endpoint at each place
  torus:8x8       also torus:8x8x8; VCs are divided at the dateline of each ring
  flatfly:8x8     each router linked to all of its row and column; flatfly:8 is one row
  crossbar:16     one router
  chip-mesh       a chip of 8x8 tiles, network interfaces on the left, memory on the right
  noc-out         cores in trees around a row of LLC tiles that form a butterfly

Routings:
  xy, yx          meshes (xy also torus and flatfly): one dimension, then the other
  o1turn          one of the two, by packet
  cdr             virtual network 0, the requests, yx; all others xy
  cdr-directory   packets of directories (here: half of all packets) yx; all others xy
  minimal         what the topology's table says; all topologies

Examples:
  rackmem noc                                     8x8 mesh, uniform traffic at 0.1
  rackmem noc --sweep 0.02..0.5:0.02              a latency-throughput curve, on all cores
  rackmem noc --topology torus:8x8x8 --vcs 4 --packet-flits 5 --rate 0.2
  rackmem noc --topology chip-mesh --routing cdr-directory --router 3-stage --sweep 0.1,0.2,0.3
  rackmem noc --packet-flits 1:0.5,5:0.5 --traffic tornado --json";

/// Arguments of `rackmem noc`.
#[derive(Debug, Args)]
pub struct NocArgs {
    /// Routers and links, such as mesh:8x8
    #[arg(long, value_name = "NAME:SIZE", default_value = "mesh:8x8", value_parser = parse::<Shape, SpecError>)]
    pub topology: Shape,
    /// Routing of packets [default: xy on meshes, else minimal]
    #[arg(long, value_name = "NAME", value_parser = parse::<Routing, SpecError>)]
    pub routing: Option<Routing>,
    /// Stages of the routers: 5-stage, 3-stage (look-ahead, speculative) or 1-stage
    #[arg(long, value_name = "STAGES", default_value = "5-stage", value_parser = parse::<Pipeline, SpecError>)]
    pub router: Pipeline,
    /// Virtual channels of each virtual network
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub vcs: usize,
    /// Virtual networks; packets are spread over them by chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub vnets: usize,
    /// Packets of equal source, destination and flow stay in order
    #[arg(long)]
    pub ordered: bool,
    /// Buffer of each virtual channel, in flits
    #[arg(long, value_name = "FLITS", default_value_t = 8)]
    pub buffers: usize,
    /// Latency of links between neighbours
    #[arg(long, value_name = "CYCLES", default_value_t = 1)]
    pub link_latency: u64,
    /// Length of packets, or several with their shares, such as 1:0.5,5:0.5
    #[arg(long, value_name = "FLITS", default_value = "1", value_parser = parse::<PacketSize, ExperimentError>)]
    pub packet_flits: PacketSize,
    /// Pattern of traffic: uniform, transpose, bit-complement, hot-spot, tornado or neighbour
    #[arg(long, value_name = "PATTERN", default_value = "uniform", value_parser = parse::<Pattern, ExperimentError>)]
    pub traffic: Pattern,
    /// Endpoints do not send to themselves (uniform and hot-spot traffic)
    #[arg(long)]
    pub no_self: bool,
    /// Load that each endpoint offers, in flits per cycle
    #[arg(long, value_name = "LOAD", default_value_t = 0.1)]
    pub rate: f64,
    /// Several loads: FROM..TO:STEP, or a list with commas
    #[arg(long, value_name = "LOADS", conflicts_with = "rate", value_parser = parse_sweep)]
    pub sweep: Option<Sweep>,
    /// Cycles before the measurement
    #[arg(long, value_name = "CYCLES", default_value_t = 2_000)]
    pub warm_up: u64,
    /// Cycles in which packets that are created are measured
    #[arg(long, value_name = "CYCLES", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..))]
    pub measure: u64,
    /// Cycles that these packets have to arrive in after the measurement
    #[arg(long, value_name = "CYCLES", default_value_t = 50_000)]
    pub drain: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON: an object, or a list of objects for a sweep
    #[arg(long)]
    pub json: bool,
}

/// Reads a value whose error says what, where and what to do.
fn parse<T, E>(text: &str) -> std::result::Result<T, String>
where
    T: std::str::FromStr<Err = E>,
    E: std::fmt::Display,
{
    text.parse().map_err(|error: E| error.to_string())
}

/// Loads of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep(pub Vec<f64>);

/// Most loads of a sweep.
const MAX_LOADS: f64 = 10_000.0;

fn parse_sweep(text: &str) -> std::result::Result<Sweep, String> {
    let expected = "expected FROM..TO:STEP such as 0.02..0.5:0.02, or loads such as 0.1,0.2,0.3";
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| expected.to_owned());
    let Some((from, rest)) = text.split_once("..") else {
        return text.split(',').map(number).collect::<std::result::Result<_, _>>().map(Sweep);
    };
    let (to, step) = rest.split_once(':').ok_or(expected)?;
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    // Half a step of tolerance includes the end in spite of rounding.
    let count = ((to - from) / step + 0.5).floor() + 1.0;
    if !(step > 0.0 && from <= to && count <= MAX_LOADS) {
        return Err(format!("{expected}; the step is positive, and there are at most 10000 loads"));
    }
    let load = |i: u32| ((from + f64::from(i) * step) * 1e9).round() / 1e9;
    Ok(Sweep((0..count as u32).map(load).collect()))
}

/// Simulates.
///
/// # Errors
/// The network or the traffic is not possible.
pub fn run(args: &NocArgs) -> Result<()> {
    let rates = match &args.sweep {
        Some(Sweep(rates)) => rates.clone(),
        None => vec![args.rate],
    };
    let experiments: Vec<Experiment> = rates.iter().map(|&rate| experiment(args, rate)).collect();
    let reports = simulate_all(&experiments)?;
    let complete: Vec<Complete<'_>> =
        reports.iter().map(|report| Complete::of(args, report)).collect();
    match (args.json, args.sweep.is_some(), complete.first()) {
        (true, false, Some(report)) => console::print_json(report),
        (true, _, _) => console::print_json(&complete),
        (false, _, _) => console::print(&render(&reports)),
    }
}

/// A report, and what it takes to make it again that is not in it.
#[derive(Serialize)]
struct Complete<'a> {
    version: &'static str,
    seed: u64,
    warm_up_cycles: u64,
    measure_cycles: u64,
    drain_limit_cycles: u64,
    no_self: bool,
    vnets: usize,
    ordered: bool,
    link_latency_cycles: u64,
    #[serde(flatten)]
    report: &'a Report,
}

impl Complete<'_> {
    fn of<'a>(args: &NocArgs, report: &'a Report) -> Complete<'a> {
        Complete {
            version: env!("CARGO_PKG_VERSION"),
            seed: args.seed,
            warm_up_cycles: args.warm_up,
            measure_cycles: args.measure,
            drain_limit_cycles: args.drain,
            no_self: args.no_self,
            vnets: args.vnets,
            ordered: args.ordered,
            link_latency_cycles: args.link_latency,
            report,
        }
    }
}

fn experiment(args: &NocArgs, rate: f64) -> Experiment {
    let routing = args.routing.unwrap_or(Routing::usual(args.topology));
    let spec = Spec {
        vnets: vec![VnetSpec { vcs: args.vcs, ordered: args.ordered }; args.vnets],
        buffer_flits: args.buffers,
        link_latency_cycles: args.link_latency,
        ..Spec::standalone(args.topology, routing, args.router)
    };
    Experiment {
        pattern: args.traffic,
        packet_flits: args.packet_flits.clone(),
        no_self: args.no_self,
        warm_up_cycles: args.warm_up,
        measure_cycles: args.measure,
        drain_limit_cycles: args.drain,
        seed: args.seed,
        ..Experiment::new(spec, rate)
    }
}

/// Runs all experiments on all cores; a core that is done takes the next.
fn simulate_all(experiments: &[Experiment]) -> Result<Vec<Report>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(experiments.len());
    let bar = console::steps(experiments.len() as u64);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(experiments.len()));
    let work = || {
        while let Some(i) = take(&next, experiments.len()) {
            bar.set_message(format!("rate {}", experiments[i].rate));
            let result = simulate(&experiments[i]);
            if result.is_err() {
                // The others would fail for the same reason.
                next.store(experiments.len(), Ordering::Relaxed);
            }
            if let Ok(mut results) = results.lock() {
                results.push((i, result));
            }
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    bar.finish_and_clear();
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|&(i, _)| i);
    let reports: std::result::Result<_, _> =
        results.into_iter().map(|(_, result)| result).collect();
    reports.map_err(|error| Failure::usage(error.to_string()))
}

fn take(next: &AtomicUsize, count: usize) -> Option<usize> {
    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < count)
}

fn render(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let Report { topology, routing, router, vcs, buffer_flits, packet_flits, pattern, .. } = first;
    let head = format!(
        "{topology}, {routing}, {router}, {vcs} VCs of {buffer_flits} flits, {packet_flits} flits a packet, \
         {pattern} traffic\n\n"
    );
    let mut table = Table::new(&[
        ("offered", Align::Right),
        ("accepted", Align::Right),
        ("latency", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("network", Align::Right),
        ("hops", Align::Right),
        ("packets", Align::Right),
        ("cycles/s", Align::Right),
        ("", Align::Left),
    ]);
    for report in reports {
        table.row([
            format!("{:.4}", report.offered),
            format!("{:.4}", report.accepted),
            format!("{:.1}", report.latency_mean_cycles),
            report.latency_p50_cycles.to_string(),
            report.latency_p99_cycles.to_string(),
            report.latency_max_cycles.to_string(),
            format!("{:.1}", report.network_latency_mean_cycles),
            format!("{:.2}", report.hops_mean),
            report.packets.to_string(),
            format!("{:.0}", report.cycles_per_second),
            if report.saturated { "saturated".to_owned() } else { String::new() },
        ]);
    }
    let units = "\nloads in flits per endpoint and cycle, latencies in cycles; network is from \
                 injection on\n";
    head + &table.render() + units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_ranges_or_lists() {
        assert_eq!(parse_sweep("0.1..0.3:0.1"), Ok(Sweep(vec![0.1, 0.2, 0.3])));
        assert_eq!(parse_sweep("0.5, 0.25"), Ok(Sweep(vec![0.5, 0.25])));
        for bad in ["", "0.1..0.3", "0.3..0.1:0.1", "0.1..0.3:0", "0..1:1e-9", "a", "0..b:1"] {
            assert!(parse_sweep(bad).is_err(), "{bad}");
        }
    }
}
