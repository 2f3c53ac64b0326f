//! `rackmem demo`: PageRank serially and in three variants, compared.
//!
//! The program `pagerank` computes; what it claims is checked here from the files of ranks that it
//! writes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rackmem::protocol::Progress;
use serde::{Deserialize, Serialize};

use crate::args::DemoArgs;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job};
use crate::rackctl::{Plan, PrivateRack};
use crate::{host, size};

/// Ranks that differ by more, relatively, are wrong: rounding alone stays far below.
const TOLERANCE: f64 = 1e-9;

/// What is run, first what the others are compared with.
const VARIANTS: [&str; 4] = ["serial", "shm", "bulk", "fine"];

/// What `pagerank --json` prints of one variant.
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
    supersteps: u64,
    host: String,
    variants: Vec<Variant>,
    /// Whether all ranks are equal up to rounding.
    agree: bool,
    top: Vec<Vertex>,
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
pub fn run(args: &DemoArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let report = compute(args, &interrupt)?;
    if args.json {
        console::print_json(&report)?;
    } else {
        console::print(&render(&report))?;
    }
    let wrong = report.variants.iter().find(|variant| !agrees(variant.difference));
    wrong.map_or(Ok(()), |Variant { variant, difference, .. }| {
        let message =
            format!("the ranks of {variant} differ from the serial ones by {difference:.1e}");
        Err(Failure::new(message))
    })
}

fn agrees(difference: f64) -> bool {
    // Not the opposite of `>`: a rank that is no number is wrong.
    difference <= TOLERANCE
}

fn compute(args: &DemoArgs, interrupt: &Interrupt) -> Result<Report> {
    let graph = graph_arguments(args)?;
    let dir = tempfile::Builder::new()
        .prefix("rackmem-demo-")
        .tempdir()
        .map_err(|error| Failure::io("cannot make a temporary directory", error))?;
    let progress = console::steps(VARIANTS.len() as u64 + 1);
    progress.set_message(format!("starting a rack of {}", count(args.nodes.into(), "node")));
    let rack = PrivateRack::start(&Plan::new(args.nodes), interrupt)?;
    let mut outputs = Vec::new();
    let mut ranks = Vec::new();
    for variant in VARIANTS {
        progress.inc(1);
        progress.set_message(format!("PageRank: {variant}"));
        let path = dir.path().join(variant);
        outputs.push(pagerank(&rack, args, &graph, variant, &path, interrupt)?);
        ranks.push(read_ranks(&path)?);
    }
    progress.finish_and_clear();
    report(args, outputs, &ranks)
}

/// How `pagerank` is told the graph.
fn graph_arguments(args: &DemoArgs) -> Result<Vec<OsString>> {
    let Some(graph) = &args.graph else {
        return Ok(vec!["--kronecker".into(), args.scale.to_string().into()]);
    };
    // What cannot be read is better said before a rack is started.
    fs::File::open(graph)
        .map_err(|error| Failure::io(format_args!("cannot read {}", graph.display()), error))?;
    let absolute: PathBuf = std::path::absolute(graph)
        .map_err(|error| Failure::io("cannot tell the working directory", error))?;
    let undirected = args.undirected.then(|| OsString::from("--undirected"));
    Ok(undirected.into_iter().chain([absolute.into()]).collect())
}

fn pagerank(
    rack: &PrivateRack,
    args: &DemoArgs,
    graph: &[OsString],
    variant: &str,
    ranks: &Path,
    interrupt: &Interrupt,
) -> Result<Output> {
    let threads = args.nodes.to_string();
    let options = [":pagerank", "--json", "--variant", variant, "--threads", &threads, "--ranks"];
    let mut command: Vec<OsString> = options.into_iter().map(OsString::from).collect();
    command.push(ranks.into());
    command.extend(graph.iter().cloned());
    let alone = ["serial", "shm"].contains(&variant);
    let job = Job {
        rack: rack.rack(),
        nodes: if alone { 1 } else { args.nodes },
        command,
        context_bytes: 0,
        progress: Progress::Inline,
        cores: Vec::new(),
    };
    let mut captured = Captured::default();
    let result = job.run(Some(&mut captured), interrupt);
    let text = captured.finish(result)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("the program pagerank printed '{text}': {error}")))
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

fn report(args: &DemoArgs, outputs: Vec<Output>, ranks: &[Vec<Vertex>]) -> Result<Report> {
    let mut variants = Vec::new();
    for ((variant, output), found) in VARIANTS.into_iter().zip(&outputs).zip(ranks) {
        let [Ran { seconds, remote_operations }] = output.variants[..] else {
            return Err(Failure::new(format!("the program pagerank did not run {variant} alone")));
        };
        variants.push(Variant {
            variant,
            seconds,
            remote_operations,
            remote_operations_per_second: remote_operations as f64 / seconds,
            speedup: outputs[0].variants[0].seconds / seconds,
            difference: difference(&ranks[0], found),
        });
    }
    let agree = variants.iter().all(|variant| agrees(variant.difference));
    let Some(serial) = outputs.into_iter().next() else {
        return Err(Failure::new("nothing was computed"));
    };
    Ok(Report {
        graph: serial.graph,
        vertices: serial.vertices,
        edges: serial.edges,
        nodes: args.nodes,
        supersteps: serial.supersteps,
        host: host::description(),
        variants,
        agree,
        top: serial.top,
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
            match (is_serial, agrees(variant.difference), variant.difference) {
                (true, ..) => "reference".to_owned(),
                (_, true, 0.0) => "the same".to_owned(),
                (_, true, difference) => format!("the same within {difference:.0e}"),
                (_, false, difference) => format!("WRONG by {difference:.0e}"),
            },
        ]);
    }
    let mut top = Table::new(&[("", Right), ("vertex", Left), ("rank", Left)]);
    for (place, vertex) in (1..).zip(&report.top) {
        top.row([place.to_string(), vertex.id.to_string(), format!("{:.6e}", vertex.rank)]);
    }
    let nodes = count(usize::from(*nodes), "node");
    let host = &report.host;
    format!(
        "PageRank of {graph}: {vertices} vertices, {edges} edges, {supersteps} supersteps\n\
         rack of {nodes} on {host}\n\n{}\n{}",
        variants.render(),
        top.render()
    )
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
