//! `rackmem noc`: the network of the model, alone, under synthetic traffic.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use clap::{Args, value_parser};
use rackmem_experiments::input;
use rackmem_sim::noc::synthetic::{
    Experiment, ExperimentError, Matrix, PacketSize, Pattern, Report, run as simulate,
};
use rackmem_sim::noc::{
    Allocator, Dateline, EdgeList, Pipeline, Routing, Shape, Spec, SpecError, VnetSpec, deadlock,
};
use serde::Deserialize;

use crate::console;
use crate::failure::{Failure, Result};

mod render;

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
  edges:FILE      what a file says: a line ROUTER ROUTER [CYCLES] for each link, which goes both ways, or lines such
                  as `router 0 node 0 router 1 15` of BookSim2's anynet; without nodes, an endpoint at each router
  --concentration gives a router of mesh, torus, flatfly or edges without nodes several endpoints

Traffic:
  uniform         every endpoint alike
  transpose       the place mirrored at the diagonal
  bit-complement  the number with all bits inverted
  tornado         almost half way round in each dimension
  neighbour       the next place in each dimension
  hot-spot        a share of all packets to some endpoints: hot-spot:0.2:9,54; else uniform
  --traffic-matrix FILE: a row of weights for each source, or lines of source,destination,weight;
  the rate is then the mean of all endpoints

Routers:
  5-stage         RC, VA, SA, ST, link; 4-stage looks ahead; 3-stage also speculates; 1-stage: all in one
  --allocator islip: separable, one iteration; an input may ask for several outputs, a head for
  several VCs. one-request, as the chips of the model have it: an input asks for one VC, and every
  head that finds a free VC gets one
  --dateline entry: a packet of a torus has its class of VCs where it enters a dimension; crossing:
  it changes on the last link of the ring

Routings:
  xy, yx          meshes (xy also torus and flatfly): one dimension, then the other
  o1turn          one of the two, by packet
  cdr             requests of directories to memory (here: a quarter of all packets) yx; all others xy
  cdr-directory   packets of directories (here: half of all packets) yx; all others xy
  minimal         what the topology's table says; all topologies. On edges: the fewest cycles without load, of ways
                  alike that to the neighbour with the lowest number; refused if a ring of channels can close
  up-down         edges: up to a router from which the destination is down, then down; no ring of channels closes

Examples:
  rackmem noc                                     8x8 mesh, uniform traffic at 0.1
  rackmem noc --sweep 0.02..0.5:0.02              a latency-throughput curve, on all cores
  rackmem noc --topology torus:8x8x8 --vcs 4 --packet-flits 5 --rate 0.2
  rackmem noc --topology chip-mesh --routing cdr-directory --router 3-stage --sweep 0.1,0.2,0.3
  rackmem noc --packet-flits 1:0.5,5:0.5 --traffic tornado --json
  rackmem noc --topology flatfly:4x4 --concentration 4 --traffic hot-spot:0.1:0,63
  rackmem noc --rate 0.2 --json > run.json && rackmem noc --again run.json";

/// Arguments of `rackmem noc`.
#[derive(Debug, Args)]
pub struct NocArgs {
    /// Routers and links, such as mesh:8x8
    #[arg(long, value_name = "NAME:SIZE", default_value = "mesh:8x8", value_parser = topology)]
    pub topology: Shape,
    /// Endpoints at each router of a mesh, torus, flatfly or edges without nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub concentration: usize,
    /// Routing of packets [default: xy on meshes, up-down on edges, else minimal]
    #[arg(long, value_name = "NAME", value_parser = parse::<Routing, SpecError>)]
    pub routing: Option<Routing>,
    /// Stages of the routers: 5-stage, 4-stage, 3-stage or 1-stage
    #[arg(long, value_name = "STAGES", default_value = "5-stage", value_parser = parse::<Pipeline, SpecError>)]
    pub router: Pipeline,
    /// How routers give virtual channels and the switch: islip or one-request
    #[arg(long, value_name = "NAME", default_value = "islip", value_parser = parse::<Allocator, SpecError>)]
    pub allocator: Allocator,
    /// How a torus divides its virtual channels: entry or crossing
    #[arg(long, value_name = "NAME", default_value = "entry", value_parser = parse::<Dateline, SpecError>)]
    pub dateline: Dateline,
    /// Endpoints take a flit in every cycle, without buffers and credits
    #[arg(long)]
    pub free_ejection: bool,
    /// Virtual channels of each virtual network
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub vcs: usize,
    /// Virtual networks, at most 32; packets are spread over them by chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u8).range(1..=32))]
    pub vnets: u8,
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
    /// Pattern of traffic: uniform, transpose, bit-complement, `hot-spot[:SHARE[:ENDPOINTS]]`, tornado or neighbour
    #[arg(long, value_name = "PATTERN", default_value = "uniform", value_parser = parse::<Pattern, ExperimentError>)]
    pub traffic: Pattern,
    /// Weights of traffic between endpoints
    #[arg(long, value_name = "FILE", conflicts_with = "traffic")]
    pub traffic_matrix: Option<PathBuf>,
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
    #[arg(long, value_name = "CYCLES", default_value_t = 2_000, value_parser = value_parser!(u64).range(..1 << 48))]
    pub warm_up: u64,
    /// Cycles of the measurement: packets created in them count
    #[arg(long, value_name = "CYCLES", default_value_t = 10_000, value_parser = value_parser!(u64).range(1..1 << 48))]
    pub measure: u64,
    /// Cycles after the measurement in which its packets have to arrive
    #[arg(long, value_name = "CYCLES", default_value_t = 50_000, value_parser = value_parser!(u64).range(..1 << 48))]
    pub drain: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run what this file of --json says
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "topology", "concentration", "routing", "router", "allocator", "dateline", "free_ejection", "vcs", "vnets",
        "ordered", "buffers", "link_latency", "packet_flits", "traffic", "traffic_matrix", "no_self", "rate", "sweep",
        "warm_up", "measure", "drain", "seed",
    ])]
    pub again: Option<PathBuf>,
    /// Print JSON with all that is needed to run it again: an object, or a list for a sweep
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

/// A topology by its name and size, or the file of one that has none.
fn topology(text: &str) -> std::result::Result<Shape, String> {
    let Some(file) = text.strip_prefix("edges:") else { return parse(text) };
    let bytes = input::read(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let edges = EdgeList::parse(&bytes, file).map_err(|error| error.to_string())?;
    Ok(Shape::Edges(Arc::new(edges)))
}

/// Loads of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep(pub Vec<f64>);

/// This version of the command.
const VERSION: &str = env!("CARGO_PKG_VERSION");

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
/// The network or the traffic is not possible, or a file cannot be read.
pub fn run(args: &NocArgs) -> Result<()> {
    let (experiments, is_list) = match &args.again {
        Some(file) => again(file)?,
        None => (from_args(args)?, args.sweep.is_some()),
    };
    let mut checked: Option<&Spec> = None;
    for Experiment { spec, .. } in &experiments {
        if checked != Some(spec) {
            deadlock::check(spec).map_err(|error| Failure::usage(error.to_string()))?;
            checked = Some(spec);
        }
    }
    let reports = simulate_all(&experiments)?;
    match (args.json, is_list, reports.first()) {
        (true, false, Some(report)) => console::print_json(report),
        (true, _, _) => console::print_json(&reports),
        (false, _, _) => console::print(&render::table(&reports)),
    }
}

fn from_args(args: &NocArgs) -> Result<Vec<Experiment>> {
    let rates = match &args.sweep {
        Some(Sweep(rates)) => rates.clone(),
        None => vec![args.rate],
    };
    let mut first = experiment(args);
    if let Some(file) = &args.traffic_matrix {
        let (name, endpoints) = (file.display().to_string(), first.spec.endpoints());
        let matrix = Matrix::parse(&read(file)?, &name, endpoints);
        first.pattern = Pattern::Matrix(matrix.map_err(|error| Failure::usage(error.to_string()))?);
    }
    Ok(rates.into_iter().map(|rate| Experiment { rate, ..first.clone() }).collect())
}

fn experiment(args: &NocArgs) -> Experiment {
    let routing = args.routing.unwrap_or(Routing::usual(&args.topology));
    let spec = Spec {
        vnets: vec![VnetSpec { vcs: args.vcs, ordered: args.ordered }; args.vnets.into()],
        buffer_flits: args.buffers,
        link_latency_cycles: args.link_latency,
        concentration: args.concentration,
        allocator: args.allocator,
        dateline: args.dateline,
        ejection_credits: !args.free_ejection,
        ..Spec::standalone(args.topology.clone(), routing, args.router)
    };
    Experiment {
        pattern: args.traffic.clone(),
        packet_flits: args.packet_flits.clone(),
        no_self: args.no_self,
        warm_up_cycles: args.warm_up,
        measure_cycles: args.measure,
        drain_limit_cycles: args.drain,
        seed: args.seed,
        ..Experiment::new(spec, args.rate)
    }
}

/// The experiments of a file that `--json` wrote, and whether it is a list.
fn again(file: &Path) -> Result<(Vec<Experiment>, bool)> {
    #[derive(Deserialize)]
    struct Run {
        version: String,
        experiment: Experiment,
    }
    let text = read(file)?;
    let wrong = |error: serde_json::Error| {
        let expected = "expected what `rackmem noc --json` prints";
        Failure::usage(format!("{}: {error}; {expected}", file.display()))
    };
    if !text.trim_start().starts_with('[') {
        let run: Run = serde_json::from_str(&text).map_err(wrong)?;
        warn_of_version(file, &run.version);
        return Ok((vec![run.experiment], false));
    }
    let runs: Vec<Run> = serde_json::from_str(&text).map_err(wrong)?;
    if runs.is_empty() {
        return Err(Failure::usage(format!("{}: the list has no runs", file.display())));
    }
    let is_other = |run: &&Run| run.version != VERSION;
    warn_of_version(file, runs.iter().find(is_other).map_or(VERSION, |run| &run.version));
    Ok((runs.into_iter().map(|run| run.experiment).collect(), true))
}

/// Warns if a file is of another version, whose figures may be others.
fn warn_of_version(file: &Path, version: &str) {
    if version != VERSION {
        console::remark(&format!(
            "warning: {} is of version {version}, this is {VERSION}: figures may differ",
            file.display()
        ));
    }
}

fn read(file: &Path) -> Result<String> {
    input::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
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
