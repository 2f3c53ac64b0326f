//! The same PageRank on the soNUMA machine, beside this host.
//!
//! The same program with the same arguments runs on both. On the model it is what `rackmem sim exec`
//! would do: once on a rack of nodes with one core each, once for `shm` on a chip that has all the
//! cores.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rackmem_experiments::prebuilt::pagerank;
use rackmem_sim::exec::{self, Job, Options};
use rackmem_sim::machine::{self, Machine, Override};
use rackmem_sim::run::Progress;
use serde::Serialize;

use super::{Native, Output, VARIANTS, agrees, difference, verdict};
use crate::console::{Align, Table, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::size;

/// The machine of the soNUMA paper.
const MACHINE: &str = "sonuma";

/// Cores of the largest chip: its crossbar has a port for each, and for two LLC banks a core.
const MOST_CORES: u16 = 16;

/// Time between two looks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Times and ranks on the model, beside those of this host for the same graph.
#[derive(Debug, Serialize)]
pub struct Model {
    machine: String,
    graph: String,
    /// Whether it is not the graph that was asked for, which would take too long.
    is_smaller: bool,
    vertices: u64,
    edges: u64,
    supersteps: u64,
    /// Wall-clock time of the simulation.
    seconds: f64,
    /// One result for each variant, in the order of [`VARIANTS`].
    pub variants: Vec<Predicted>,
}

/// One variant on both.
#[derive(Debug, Serialize)]
pub struct Predicted {
    /// Its name.
    pub variant: &'static str,
    host_seconds: f64,
    simulated_seconds: f64,
    host_speedup: f64,
    simulated_speedup: f64,
    /// Largest relative difference of a rank from the serial one of this host, at most.
    pub difference: f64,
}

/// One variant on the model.
struct Simulated {
    variant: &'static str,
    seconds: f64,
    difference: f64,
}

/// Inputs of a prediction.
pub struct Plan<'a> {
    /// Nodes of the rack.
    pub nodes: u16,
    /// Name of the graph in the output.
    pub graph_name: &'a str,
    /// Arguments by which `pagerank` gets the graph.
    pub graph: &'a [String],
    /// Whether it is not the one that was asked for.
    pub is_smaller: bool,
    /// The folder with the graph, and for ranks.
    pub dir: &'a Path,
    /// Bar that shows the progress of the simulation.
    pub progress: &'a ProgressBar,
    /// Ends it early.
    pub interrupt: &'a Interrupt,
}

/// Runs it. The results of this host are in `native`, in the order of [`VARIANTS`].
///
/// # Errors
/// None that a release should have; or it was interrupted.
pub fn predict(plan: &Plan<'_>, native: &[Native]) -> Result<Model> {
    let began = Instant::now();
    let mut simulated = on_rack(plan, native)?;
    if plan.nodes <= MOST_CORES {
        simulated.push(on_chip(plan, native)?);
    }
    let serial = simulated[0].seconds;
    let host_serial = native[0].output.seconds()?;
    let mut variants = Vec::new();
    for (variant, native) in VARIANTS.into_iter().zip(native) {
        let Some(found) = simulated.iter().find(|found| found.variant == variant) else { continue };
        let host_seconds = native.output.seconds()?;
        variants.push(Predicted {
            variant,
            host_seconds,
            simulated_seconds: found.seconds,
            host_speedup: host_serial / host_seconds,
            simulated_speedup: serial / found.seconds,
            difference: found.difference,
        });
    }
    let Output { vertices, edges, supersteps, .. } = native[0].output;
    Ok(Model {
        machine: MACHINE.to_owned(),
        graph: plan.graph_name.to_owned(),
        is_smaller: plan.is_smaller,
        vertices,
        edges,
        supersteps,
        seconds: began.elapsed().as_secs_f64(),
        variants,
    })
}

/// All but `shm`: `serial` is computed by node 0, while the others wait.
fn on_rack(plan: &Plan<'_>, native: &[Native]) -> Result<Vec<Simulated>> {
    let names = ["serial", "bulk", "fine"];
    simulate(plan, load(&[])?, plan.nodes, &names, &native[0])
}

/// `shm` on a chip with a core for each thread, and as much LLC as the nodes have together.
fn on_chip(plan: &Plan<'_>, native: &[Native]) -> Result<Simulated> {
    let cores = u64::from(plan.nodes.next_power_of_two());
    let alone = load(&[])?;
    let settings = [
        Override::new("tiles.columns", cores),
        Override::new("llc.banks", cores * u64::from(alone.llc.banks)),
        Override::new("llc.size_bytes", cores * alone.llc.size_bytes),
    ];
    let mut found = simulate(plan, load(&settings)?, 1, &["shm"], &native[0])?;
    Ok(found.remove(0))
}

fn load(settings: &[Override]) -> Result<Machine> {
    machine::load(MACHINE, settings).map_err(|error| Failure::new(error.to_string()))
}

/// Runs some variants; the ranks of the first are compared with those of this host, the program
/// itself compares the others with the first.
fn simulate(
    plan: &Plan<'_>,
    machine: Machine,
    nodes: u16,
    names: &[&'static str],
    serial: &Native,
) -> Result<Vec<Simulated>> {
    let ranks = format!("simulated-{}", names[0]);
    let (threads, variants) = (plan.nodes.to_string(), names.join(","));
    let options = ["pagerank", "--json", "--supersteps", super::MODEL_SUPERSTEPS, "--variant"];
    let more = [&variants, "--threads", &threads, "--ranks", &ranks];
    let args = options.into_iter().chain(more).map(str::to_owned);
    let args: Vec<String> = args.chain(plan.graph.iter().cloned()).collect();
    let (folder, progress) = (plan.dir.to_owned(), plan.progress.clone());
    let what = format!("the model: {} on {}", names.join(", "), count(nodes.into(), "node"));
    let text = unless_interrupted(plan.interrupt, move || {
        execute(&machine, &args, nodes, folder, &|cycles| {
            progress.set_message(format!("{what}, {} cycles", size::rounded(cycles as f64)));
            true
        })
    })??;
    let output = Output::parse(&text)?;
    let first = difference(&serial.ranks, &super::read_ranks(&plan.dir.join(&ranks))?);
    let found = names.iter().zip(&output.variants).map(|(variant, ran)| Simulated {
        variant,
        seconds: ran.seconds,
        difference: first + ran.difference,
    });
    Ok(found.collect())
}

/// Standard output of node 0.
fn execute(
    machine: &Machine,
    args: &[String],
    nodes: u16,
    folder: PathBuf,
    tell: &Progress<'_>,
) -> Result<String> {
    let job = Job { program: pagerank(), args, env: &[], nodes };
    let options = Options { folder: Some(folder), progress: Some(tell), ..Options::default() };
    let outcome = exec::run(machine, &[job], options);
    let outcome = outcome.map_err(|error| Failure::new(format!("{MACHINE}: {error}")))?;
    if let Some(why) = outcome.cut_short {
        return Err(Failure::new(format!("{MACHINE}: {why}")));
    }
    if let Some((nid, node)) = outcome.failed() {
        let said = String::from_utf8_lossy(&node.stderr);
        let why = format!("{MACHINE}: node {nid} failed: {:?}\n{said}", node.end);
        return Err(Failure::new(why));
    }
    Ok(String::from_utf8_lossy(&outcome.nodes[0].stdout).into_owned())
}

/// Works in a thread of its own, which goes on until the process ends if a signal comes first.
pub fn unless_interrupted<T: Send + 'static>(
    interrupt: &Interrupt,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(work()));
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => interrupt.check()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the thread that simulates has panicked"));
            }
        }
    }
}

/// The first variant whose ranks are wrong.
pub fn wrong(model: &Model) -> Option<&Predicted> {
    model.variants.iter().find(|variant| !agrees(variant.difference))
}

/// A table with its heading.
pub fn render(model: &Model, nodes: u16, asked_for: &str) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("variant", Left),
        ("this host", Right),
        ("speed-up", Right),
        ("soNUMA", Right),
        ("speed-up", Right),
        ("ranks", Left),
    ]);
    let us = |seconds: f64| format!("{} us", size::three_digits(seconds * 1e6));
    for found in &model.variants {
        table.row([
            found.variant.to_owned(),
            us(found.host_seconds),
            format!("{:.2}x", found.host_speedup),
            us(found.simulated_seconds),
            format!("{:.2}x", found.simulated_speedup),
            verdict(found.difference),
        ]);
    }
    let Model { machine, graph, vertices, edges, supersteps, seconds, .. } = model;
    let smaller = match model.is_smaller {
        true => format!("\na smaller graph: {asked_for} would take too long to simulate"),
        false => String::new(),
    };
    let shm = if nodes <= MOST_CORES { "; shm: one node of as many cores" } else { "" };
    format!(
        "the same program on the model of the machine {machine}, {} of one core{shm}\n\
         PageRank of {graph}: {vertices} vertices, {edges} edges, {}{smaller}\n\n\
         {}\nsimulated in {seconds:.1} s; `rackmem sim exec {machine}` runs other programs\n",
        count(nodes.into(), "node"),
        count(*supersteps as usize, "superstep"),
        table.render()
    )
}
