//! `rackmem demo`: PageRank serially and in three variants, compared; and the same on the model.
//!
//! The program `pagerank` computes. Its claims are checked here against the files of ranks that it writes.

pub mod args;
mod graph;
mod model;
mod published;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use rackmem::protocol::Progress;
use rackmem::rack::Rack;
use rackmem_experiments::input;
use serde::{Deserialize, Serialize};

use self::args::DemoArgs;
use super::run::too_many_for;
use super::spread::Hosts;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job, Program};
use crate::rackctl::{Plan, PrivateRack};
use crate::{host, size};
use model::Model;

/// Ranks that differ by more, relatively, are wrong: rounding alone stays far below.
const TOLERANCE: f64 = 1e-9;

/// Nodes of a rack of the command's own, unless it is said.
const NODES: u16 = 4;

/// Most nodes that the model computes with.
const MOST_NODES: u16 = 64;

/// Supersteps on the model, and on this host beside it.
const MODEL_SUPERSTEPS: &str = "1";

/// Runs on this host beside the model, of which the median counts: they are short.
const RUNS: usize = 5;

/// Variants to run; the others are compared with the first.
const VARIANTS: [&str; 4] = ["serial", "shm", "bulk", "fine"];

/// Output of `pagerank --json`.
#[derive(Debug, Deserialize)]
struct Output {
    graph: String,
    vertices: u64,
    edges: u64,
    supersteps: u64,
    variants: Vec<Ran>,
    top: Vec<Vertex>,
}

#[derive(Debug, Deserialize)]
struct Ran {
    seconds: f64,
    remote_operations: u64,
    /// From the first variant of the same run.
    difference: f64,
}

impl Output {
    fn parse(text: &str) -> Result<Output> {
        serde_json::from_str(text).map_err(|error| {
            Failure::new(format!("the program pagerank printed '{text}': {error}"))
        })
    }

    /// Time of the only variant.
    fn seconds(&self) -> Result<f64> {
        self.only().map(|ran| ran.seconds)
    }

    fn only(&self) -> Result<&Ran> {
        match &self.variants[..] {
            [ran] => Ok(ran),
            _ => Err(Failure::new("the program pagerank did not run one variant alone")),
        }
    }
}

/// A variant on this host.
struct Native {
    output: Output,
    ranks: Vec<Vertex>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Vertex {
    id: u64,
    rank: f64,
}

/// The whole result.
#[derive(Debug, Serialize)]
struct Report {
    graph: String,
    vertices: u64,
    edges: u64,
    nodes: u16,
    /// Of the nodes, in a rack over several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<String>>,
    supersteps: u64,
    host: String,
    variants: Vec<Variant>,
    /// Whether all ranks are equal up to rounding.
    agree: bool,
    top: Vec<Vertex>,
    /// The same on the model.
    model: Option<Model>,
    /// A table of a paper, reproduced on the model.
    published: Vec<published::Row>,
}

#[derive(Debug, Serialize)]
struct Variant {
    variant: &'static str,
    seconds: f64,
    remote_operations: u64,
    remote_operations_per_second: f64,
    speedup: f64,
    /// Largest relative difference of a rank from the serial one.
    difference: f64,
}

/// Runs the demonstration.
///
/// # Errors
/// The graph cannot be read, the rack does not come up, or ranks disagree.
pub fn run(choice: &Choice, args: &DemoArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let hosts = Hosts::chosen(choice, args.launcher.as_ref())?;
    let nodes = nodes(args, hosts.as_ref())?;
    let report = compute(args, nodes, hosts, &interrupt)?;
    if args.json {
        console::print_json(&report)?;
    } else {
        console::print(&render(&report))?;
    }
    let wrong = report.variants.iter().find(|variant| !agrees(variant.difference));
    if let Some(Variant { variant, difference, .. }) = wrong {
        return Err(disagree(variant, *difference));
    }
    match report.model.as_ref().and_then(model::wrong) {
        Some(found) => Err(disagree(&format!("{} on the model", found.variant), found.difference)),
        None => Ok(()),
    }
}

fn disagree(variant: &str, difference: f64) -> Failure {
    Failure::new(format!("the ranks of {variant} differ from the serial ones by {difference:.1e}"))
}

fn agrees(difference: f64) -> bool {
    // Not the opposite of `>`: a rank that is no number is wrong.
    difference <= TOLERANCE
}

/// Nodes that compute.
fn nodes(args: &DemoArgs, hosts: Option<&Hosts>) -> Result<u16> {
    let Some(Hosts { file, here, .. }) = hosts else { return Ok(args.nodes.unwrap_or(NODES)) };
    let nodes = args.nodes.unwrap_or(file.node_count());
    if nodes > file.node_count() {
        return Err(too_many_for(file, nodes));
    }
    if nodes > MOST_NODES {
        return Err(Failure::usage(format!(
            "rack '{}' has {nodes} nodes: say how many compute by --nodes, up to {MOST_NODES}",
            file.name
        )));
    }
    if !here.contains(&0) {
        return Err(Failure::new(format!(
            "node 0 of rack '{}' is not up on this host: run this command on its host, which is {}, and start it there \
             by `rackmem up --rack-file {}`",
            file.name,
            file.nodes[0].address.ip(),
            file.path.display()
        )));
    }
    Ok(nodes)
}

/// Where the program runs.
enum Ground {
    /// On a rack that goes away with the command.
    Own(PrivateRack),
    /// On one that is up.
    Hosts(Hosts),
}

impl Ground {
    fn rack(&self) -> &Rack {
        match self {
            Ground::Own(rack) => rack.rack(),
            Ground::Hosts(hosts) => &hosts.rack,
        }
    }

    /// Runs a job, and returns what it printed.
    fn captured(&self, job: &Job<'_>, interrupt: &Interrupt) -> Result<String> {
        match self {
            Ground::Own(_) => {
                let mut captured = Captured::default();
                let result = job.run(Some(&mut captured), interrupt);
                captured.finish(result)
            }
            Ground::Hosts(hosts) => hosts.captured(job, (0..job.nodes()).collect(), interrupt),
        }
    }
}

fn compute(
    args: &DemoArgs,
    nodes: u16,
    hosts: Option<Hosts>,
    interrupt: &Interrupt,
) -> Result<Report> {
    let graph = graph_arguments(args)?;
    let dir = tempfile::Builder::new()
        .prefix("rackmem-demo-")
        .tempdir()
        .map_err(|error| Failure::io("cannot make a temporary directory", error))?;
    let steps = VARIANTS.len() as u64 + if args.no_model { 1 } else { 2 };
    let progress = console::steps(steps);
    progress.set_message(format!("starting a rack of {}", count(nodes.into(), "node")));
    let addresses = hosts.as_ref().map(|hosts| hosts.file.nodes.iter().take(nodes.into()));
    let addresses = addresses.map(|nodes| nodes.map(|node| node.address.to_string()).collect());
    let ground = match hosts {
        Some(hosts) => Ground::Hosts(hosts),
        None => Ground::Own(PrivateRack::start(&Plan::new(nodes), interrupt)?),
    };
    let mut native = Vec::new();
    for variant in VARIANTS {
        progress.inc(1);
        progress.set_message(format!("PageRank: {variant}"));
        let job = PageRank { variant, supersteps: None, graph: &graph };
        native.push(job.run(&ground, nodes, dir.path(), interrupt)?);
    }
    progress.inc(1);
    let model = match args.no_model {
        true => None,
        false => {
            let native = &native[0].output;
            Some(on_model((args, nodes), ground, native, dir.path(), &progress, interrupt)?)
        }
    };
    let published = match args.no_model {
        true => Vec::new(),
        false => {
            progress.set_message("a table of a paper, on the model of its chip");
            model::unless_interrupted(interrupt, published::rows)??
        }
    };
    interrupt.check()?;
    progress.finish_and_clear();
    report(nodes, addresses, native, model, published)
}

/// The same on the model, and again on this host with the graph that the model can do.
fn on_model(
    (args, nodes): (&DemoArgs, u16),
    ground: Ground,
    native: &Output,
    dir: &Path,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Model> {
    let graph = graph::choose(args, nodes, native, dir)?;
    let arguments: Vec<OsString> = graph.arguments.iter().map(|arg| in_dir(arg, dir)).collect();
    progress.set_message("PageRank with the graph of the model");
    let mut beside = Vec::new();
    for variant in VARIANTS {
        let job = PageRank { variant, supersteps: Some(MODEL_SUPERSTEPS), graph: &arguments };
        beside.push(median(&job, &ground, nodes, dir, interrupt)?);
    }
    // The daemons would take time from the model.
    drop(ground);
    let plan = model::Plan {
        nodes,
        graph_name: if graph.is_smaller { &beside[0].output.graph } else { &native.graph },
        graph: &graph.arguments,
        is_smaller: graph.is_smaller,
        dir,
        progress,
        interrupt,
    };
    model::predict(&plan, &beside)
}

/// An argument for a process that does not work in `dir`.
fn in_dir(argument: &str, dir: &Path) -> OsString {
    let file = dir.join(argument);
    if file.exists() { file.into() } else { argument.into() }
}

/// The run of median time.
fn median(
    job: &PageRank<'_>,
    ground: &Ground,
    nodes: u16,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Native> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = job.run(ground, nodes, dir, interrupt)?;
        runs.push((run.output.seconds()?, run));
    }
    runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(runs.swap_remove(RUNS / 2).1)
}

/// The arguments of `pagerank` that name the graph.
fn graph_arguments(args: &DemoArgs) -> Result<Vec<OsString>> {
    let Some(graph) = &args.graph else {
        return Ok(vec!["--kronecker".into(), args.scale.to_string().into()]);
    };
    // A graph that cannot be read is better reported before a rack is started.
    input::open(graph)
        .map_err(|error| Failure::io(format_args!("cannot read {}", graph.display()), error))?;
    let absolute: PathBuf = std::path::absolute(graph)
        .map_err(|error| Failure::io("cannot tell the working directory", error))?;
    let undirected = args.undirected.then(|| OsString::from("--undirected"));
    Ok(undirected.into_iter().chain([absolute.into()]).collect())
}

/// One variant on this host.
struct PageRank<'a> {
    variant: &'static str,
    /// As the program has it by itself, if none.
    supersteps: Option<&'static str>,
    graph: &'a [OsString],
}

impl PageRank<'_> {
    fn run(
        &self,
        ground: &Ground,
        nodes: u16,
        dir: &Path,
        interrupt: &Interrupt,
    ) -> Result<Native> {
        let ranks = dir.join(self.variant);
        let threads = nodes.to_string();
        let options =
            [":pagerank", "--json", "--variant", self.variant, "--threads", &threads, "--ranks"];
        let mut command: Vec<OsString> = options.into_iter().map(OsString::from).collect();
        command.push(ranks.clone().into());
        let supersteps = self.supersteps.map(|number| ["--supersteps", number]);
        command.extend(supersteps.into_iter().flatten().map(OsString::from));
        command.extend(self.graph.iter().cloned());
        let alone = ["serial", "shm"].contains(&self.variant);
        let job = Job {
            rack: ground.rack(),
            programs: vec![Program { command, nodes: if alone { 1 } else { nodes } }],
            context_bytes: 0,
            progress: Progress::Inline,
            cores: Vec::new(),
            daemon_cores: Vec::new(),
        };
        let output = Output::parse(&ground.captured(&job, interrupt)?)?;
        Ok(Native { output, ranks: read_ranks(&ranks)? })
    }
}

/// Reads lines of vertex and rank.
fn read_ranks(path: &Path) -> Result<Vec<Vertex>> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("cannot read {name}"), error))?;
    let parse = |line: &str| {
        let (id, rank) = line.split_once(' ')?;
        Some(Vertex { id: id.parse().ok()?, rank: rank.parse().ok()? })
    };
    let lines = text.lines().map(|line| {
        let wrong = || Failure::new(format!("{name}: expected 'vertex rank', found '{line}'"));
        parse(line).ok_or_else(wrong)
    });
    lines.collect()
}

/// Largest relative difference; infinite if the vertices are not the same.
fn difference(expected: &[Vertex], found: &[Vertex]) -> f64 {
    let same_vertices = expected.len() == found.len()
        && expected.iter().zip(found).all(|(expected, found)| expected.id == found.id);
    if !same_vertices {
        return f64::INFINITY;
    }
    let differences = expected.iter().zip(found).map(|(expected, found)| {
        let relative = (found.rank - expected.rank).abs() / expected.rank;
        if relative.is_nan() { f64::INFINITY } else { relative }
    });
    differences.fold(0.0, f64::max)
}

fn report(
    nodes: u16,
    addresses: Option<Vec<String>>,
    native: Vec<Native>,
    model: Option<Model>,
    published: Vec<published::Row>,
) -> Result<Report> {
    let serial_seconds = native[0].output.seconds()?;
    let mut variants = Vec::new();
    for (variant, Native { output, ranks }) in VARIANTS.into_iter().zip(&native) {
        let &Ran { seconds, remote_operations, .. } = output.only()?;
        variants.push(Variant {
            variant,
            seconds,
            remote_operations,
            remote_operations_per_second: remote_operations as f64 / seconds,
            speedup: serial_seconds / seconds,
            difference: difference(&native[0].ranks, ranks),
        });
    }
    let model_agrees = model.as_ref().is_none_or(|model| model::wrong(model).is_none());
    let agree = model_agrees && variants.iter().all(|variant| agrees(variant.difference));
    let Some(Native { output: serial, .. }) = native.into_iter().next() else {
        return Err(Failure::new("nothing was computed"));
    };
    Ok(Report {
        graph: serial.graph,
        vertices: serial.vertices,
        edges: serial.edges,
        nodes,
        addresses,
        supersteps: serial.supersteps,
        host: host::description(),
        variants,
        agree,
        top: serial.top,
        model,
        published,
    })
}

fn render(report: &Report) -> String {
    use Align::{Left, Right};
    let Report { graph, vertices, edges, supersteps, nodes, .. } = report;
    let mut variants = Table::new(&[
        ("variant", Left),
        ("time", Right),
        ("remote ops", Right),
        ("remote ops/s", Right),
        ("speed-up", Right),
        ("ranks", Left),
    ]);
    for variant in &report.variants {
        let is_serial = variant.variant == VARIANTS[0];
        let remote = |value: f64| match variant.remote_operations {
            0 => "-".to_owned(),
            _ => size::rounded(value),
        };
        variants.row([
            variant.variant.to_owned(),
            format!("{} ms", size::three_digits(variant.seconds * 1e3)),
            remote(variant.remote_operations as f64),
            remote(variant.remote_operations_per_second),
            format!("{:.2}x", variant.speedup),
            if is_serial { "reference".to_owned() } else { verdict(variant.difference) },
        ]);
    }
    let mut top = Table::new(&[("", Right), ("vertex", Left), ("rank", Left)]);
    for (place, vertex) in (1..).zip(&report.top) {
        top.row([place.to_string(), vertex.id.to_string(), format!("{:.6e}", vertex.rank)]);
    }
    let host = &report.host;
    let model = report.model.as_ref();
    let model = model.map(|model| {
        let published = published::render(&report.published);
        format!("\n{}\n{published}", model::render(model, *nodes, graph))
    });
    let nodes = match &report.addresses {
        None => count(usize::from(*nodes), "node"),
        Some(addresses) => format!("{} ({})", count(addresses.len(), "node"), addresses.join(", ")),
    };
    format!(
        "PageRank of {graph}: {vertices} vertices, {edges} edges, {supersteps} supersteps\n\
         rack of {nodes} on {host}\n\n{}\n{}{}",
        variants.render(),
        top.render(),
        model.unwrap_or_default()
    )
}

/// The difference of ranks, in words.
fn verdict(difference: f64) -> String {
    match (agrees(difference), difference) {
        (true, 0.0) => "the same".to_owned(),
        (true, difference) => format!("the same within {difference:.0e}"),
        (false, difference) => format!("WRONG by {difference:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(values: &[(u64, f64)]) -> Vec<Vertex> {
        values.iter().map(|&(id, rank)| Vertex { id, rank }).collect()
    }

    #[test]
    fn differences_are_relative_and_never_overlooked() {
        let expected = ranks(&[(7, 0.5), (8, 0.25)]);
        assert_eq!(difference(&expected, &expected), 0.0);
        assert_eq!(difference(&expected, &ranks(&[(7, 0.5), (8, 0.5)])), 1.0);
        assert_eq!(difference(&expected, &ranks(&[(7, 0.5)])), f64::INFINITY);
        assert_eq!(difference(&expected, &ranks(&[(7, 0.5), (9, 0.25)])), f64::INFINITY);
        assert!(!agrees(difference(&expected, &ranks(&[(7, f64::NAN), (8, 0.25)]))));
    }
}
