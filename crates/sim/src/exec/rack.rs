//! The nodes of a rack and the fabric between them: a crossbar of flat latency.
//!
//! A message from a node reaches another one a fabric latency later, so for that long, an epoch, the nodes
//! do not see each other. Threads simulate nodes side by side for an epoch; then the messages travel, in
//! the order of the nodes' numbers. The result does not depend on the threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use rackmem_riscv::kernel::Stream;

use super::node::{Node, Sent};
use super::outcome::{NodeOutcome, Outcome};
use super::session::Until;
use super::{ExecError, Job, Options, is_mirrored};
use crate::chip::host_memory;
use crate::chip::wires::Departure;
use crate::engine::{Crew, Cycle};
use crate::figures::Figures;
use crate::machine::{Kind, Machine};
use crate::recipe;

/// Epochs between two reports of progress.
const EPOCHS_PER_REPORT: u64 = 1 << 10;

/// A rack with a process on every node.
pub struct Rack {
    nodes: Crew<Node>,
    latency_cycles: Cycle,
    /// Whether the other ends are the only node's mirror image (Manycore NI §5).
    mirrored: bool,
}

/// Reasons why a run is over.
pub enum Over {
    /// All processes have ended, or one has failed.
    Ended,
    /// They will not, and this is why.
    Cut(String),
}

impl Rack {
    /// The rack of a machine, with the program loaded on every node.
    ///
    /// # Errors
    /// The machine cannot execute programs, or this is none.
    pub fn new(machine: &Machine, job: &Job<'_>, options: &Options<'_>) -> Result<Rack, ExecError> {
        check(machine, job)?;
        host_memory::check(machine, job.nodes).map_err(ExecError::Machine)?;
        let threads = match machine.run.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        };
        let nodes = (0..job.nodes).map(|nid| Node::new(nid, machine, job, options));
        let nodes = nodes.collect::<Result<Vec<Node>, ExecError>>()?;
        let nodes = Crew::new(nodes, threads, Node::simulate);
        let hops = Cycle::from(machine.network.hops);
        let latency_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        let mirrored = is_mirrored(machine);
        Ok(Rack { nodes, latency_cycles: latency_cycles.max(1), mirrored })
    }

    /// Runs until all processes have ended, or to the place that is given; `None` if they go on after it.
    pub fn run(&mut self, until: Until<'_>, options: &mut Options<'_>) -> Option<Over> {
        let most = [options.max_cycles, until.cycle.map(|cycle| cycle.saturating_sub(1))];
        let most = most.into_iter().flatten().min();
        let mut seen = self.nodes[0].printed().len();
        for epoch in 1.. {
            let next = self.nodes.iter().filter_map(Node::next_cycle).min();
            if let Some(over) = over(&self.nodes, next, options.max_cycles) {
                return Some(over);
            }
            let Some(next) = next else { return Some(Over::Ended) };
            if until.cycle.is_some_and(|cycle| next >= cycle) {
                return None;
            }
            let last = next + self.latency_cycles - 1;
            let last = most.map_or(last, |most| last.min(most));
            self.nodes.advance(last);
            exchange(&mut self.nodes, self.latency_cycles, self.mirrored);
            pass_output(&mut self.nodes, options);
            if until.output.is_some_and(|text| prints(&self.nodes[0], &mut seen, text)) {
                return None;
            }
            if epoch % EPOCHS_PER_REPORT == 0
                && options.progress.is_some_and(|progress| !progress(last))
            {
                return Some(Over::Cut("interrupted".to_owned()));
            }
        }
        Some(Over::Ended)
    }

    /// The cycle that the slowest node has come to.
    pub fn cycle(&self) -> Cycle {
        self.nodes.iter().map(|node| node.chip.wires.now).max().unwrap_or(0)
    }

    /// Reads all counters.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (nid, node) in self.nodes.iter().enumerate() {
            figures.add_under(&format!("node[{nid}]."), node.figures());
        }
        figures
    }

    /// What a node has printed, if no sink took it.
    pub fn printed(&self, nid: usize) -> Vec<u8> {
        self.nodes[nid].printed().to_vec()
    }

    /// Stops what has not ended.
    pub fn finish(
        mut self,
        cut_short: Option<String>,
        began: Instant,
        options: &mut Options<'_>,
    ) -> Outcome {
        self.nodes.iter_mut().for_each(Node::stop);
        pass_output(&mut self.nodes, options);
        let stats = self.figures().since(&Figures::default());
        let cycles = self.cycle();
        let nodes: Vec<NodeOutcome> = self.nodes.iter_mut().map(Node::outcome).collect();
        Outcome {
            cut_short,
            cycles,
            instructions: nodes.iter().map(|node| node.instructions).sum(),
            seconds: began.elapsed().as_secs_f64(),
            inputs: inputs(&nodes, options.folder.as_deref()),
            nodes,
            stats,
        }
    }
}

/// Whether a node has printed a text since `seen` bytes of its output were looked at.
fn prints(node: &Node, seen: &mut usize, text: &str) -> bool {
    let printed = node.printed();
    // A text may begin in what was looked at.
    let from = seen.saturating_sub(text.len().saturating_sub(1)).min(printed.len());
    let is_fresh = printed.len() > *seen;
    *seen = printed.len();
    is_fresh && printed[from..].windows(text.len().max(1)).any(|found| found == text.as_bytes())
}

/// Fingerprints of files that processes have read; empty of those that one of them looked for before they were there.
fn inputs(nodes: &[NodeOutcome], folder: Option<&Path>) -> BTreeMap<String, String> {
    let mut was_there = BTreeMap::new();
    for (name, was) in nodes.iter().flat_map(|node| &node.inputs) {
        *was_there.entry(name).or_insert(true) &= was;
    }
    let fingerprint = |(name, was_there): (&String, bool)| {
        let found = was_there.then(|| recipe::fingerprint_file(folder, name));
        (name.clone(), found.unwrap_or_default())
    };
    was_there.into_iter().map(fingerprint).collect()
}

/// Whether programs can be executed on such nodes, and on so many of them.
fn check(machine: &Machine, job: &Job<'_>) -> Result<(), ExecError> {
    if job.nodes == 0 {
        return Err(ExecError::Machine("a program needs a node at least".to_owned()));
    }
    if machine.kind != Kind::Chip {
        let kind = machine.kind.name();
        let why = format!("kind: is \"{kind}\", and programs need chips: \"chip\"");
        return Err(ExecError::Machine(why));
    }
    machine.ni.placement.check_programs(machine, job.nodes).map_err(ExecError::Machine)
}

/// Whether the run is over before the cycle `next`, in which the next thing happens.
fn over(nodes: &Crew<Node>, next: Option<Cycle>, max_cycles: Option<Cycle>) -> Option<Over> {
    let (mut running, mut failed) = (0, false);
    for node in nodes.iter() {
        match node.system.end() {
            None => running += 1,
            Some((end, _)) => failed |= !end.is_success(),
        }
    }
    if running == 0 || failed {
        return Some(Over::Ended);
    }
    let why = match (next, max_cycles) {
        (None, _) => "all processes wait for each other".to_owned(),
        (Some(next), Some(most)) if next > most => {
            format!("not at its end after {most} cycles (--max-cycles)")
        }
        _ => return None,
    };
    let places: Vec<String> =
        nodes.iter().flat_map(|node| node.system.describe(&node.chip)).collect();
    Some(Over::Cut(format!("{why}\n{}", places.join("\n"))))
}

/// Delivers everything that has left its node: node by node, so that the order is always the same.
fn exchange(nodes: &mut Crew<Node>, latency: Cycle, mirrored: bool) {
    for from in nodes.numbers() {
        if nodes[from].has_sent() {
            let sent = nodes[from].take_sent();
            deliver(nodes, from as u16, &sent, latency, mirrored);
            nodes[from].give_back(sent);
        }
    }
}

fn deliver(nodes: &mut Crew<Node>, from: u16, sent: &Sent, latency: Cycle, mirrored: bool) {
    for &Departure { cycle, to, payload } in &sent.departures {
        // The mirror image of what is sent comes back.
        let (to, payload) = if mirrored { (from, payload.reflected()) } else { (to, payload) };
        let chip = &mut nodes[usize::from(to)].chip;
        chip.receive(cycle + latency - chip.wires.now, payload);
    }
    for &(at, notice) in &sent.notices {
        // The mirror image is the other one of two.
        let from = if mirrored { from ^ 1 } else { from };
        for (to, node) in (0..).zip(nodes.iter_mut()) {
            if from != to {
                node.system.device.receive(at + latency, from, notice);
            }
        }
    }
}

/// Passes on what processes have written.
fn pass_output(nodes: &mut Crew<Node>, options: &mut Options<'_>) {
    for (nid, node) in (0..).zip(nodes.iter_mut()) {
        let Some(sink) = &mut options.sink else {
            node.keep_output();
            continue;
        };
        let (out, err) = node.system.take_output();
        for (stream, bytes) in [(Stream::Out, out), (Stream::Err, err)] {
            if !bytes.is_empty() {
                sink(nid, stream, &bytes);
            }
        }
    }
}
