//! The nodes of a rack and the fabric between them: a crossbar of flat latency.
//!
//! A message from a node reaches another one a fabric latency later, so for that long, an epoch, the nodes
//! do not see each other. Threads simulate nodes side by side for an epoch; then the messages travel, in
//! the order of the nodes' numbers. The result does not depend on the threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rackmem_riscv::kernel::Stream;

use super::node::{Node, Sent};
use super::outcome::{NodeOutcome, Outcome};
use super::session::Until;
use super::{ExecError, Job, Options};
use crate::chip::link::Departure;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::spec::{Completion, Placement, Remote};
use crate::machine::{Kind, Machine};
use crate::recipe;
use crate::window;

/// Epochs between two reports of progress.
const EPOCHS_PER_REPORT: u64 = 1 << 10;

/// After so many turns of a loop, some ten microseconds, a thread lets others have the core: the one
/// that it waits for may be among them.
const SPINS: u32 = 500;

/// Nodes that are simulated by the same thread.
type Share = Mutex<Vec<Node>>;

/// A rack with a process on every node.
pub struct Rack {
    shares: Vec<Share>,
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
        let threads = match machine.run.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        };
        let threads = threads.clamp(1, usize::from(job.nodes));
        let nodes = (0..job.nodes).map(|nid| Node::new(nid, machine, job, options));
        let mut nodes = nodes.collect::<Result<Vec<Node>, ExecError>>()?.into_iter();
        let per_share = usize::from(job.nodes).div_ceil(threads);
        let mut shares = Vec::new();
        while nodes.len() > 0 {
            shares.push(Mutex::new(nodes.by_ref().take(per_share).collect()));
        }
        let hops = Cycle::from(machine.network.hops);
        let latency_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        let has_port = !matches!(
            machine.ni.placement,
            Placement::Sonuma | Placement::CacheIntegrated | Placement::Window
        );
        let mirrored = has_port && machine.network.remote == Remote::Generator;
        Ok(Rack { shares, latency_cycles: latency_cycles.max(1), mirrored })
    }

    /// Runs until all processes have ended, or to the place that is given; `None` if they go on after it.
    pub fn run(&self, until: Until<'_>, options: &mut Options<'_>) -> Option<Over> {
        let gate = Gate::default();
        let workers = self.shares.len() - 1;
        std::thread::scope(|scope| {
            for share in &self.shares[1..] {
                let gate = &gate;
                scope.spawn(move || gate.work(share));
            }
            // Whatever happens here, the workers have to come to an end.
            let _closing = Closing(&gate);
            self.epochs(&gate, workers, until, options)
        })
    }

    fn epochs(
        &self,
        gate: &Gate,
        workers: usize,
        until: Until<'_>,
        options: &mut Options<'_>,
    ) -> Option<Over> {
        let most = [options.max_cycles, until.cycle.map(|cycle| cycle.saturating_sub(1))];
        let most = most.into_iter().flatten().min();
        let mut seen = lock(&self.shares[0])[0].printed().len();
        for epoch in 1.. {
            let mut shares = self.lock();
            let next = each(&mut shares).filter_map(|node| node.next_cycle()).min();
            if let Some(over) = over(&mut shares, next, options.max_cycles) {
                return Some(over);
            }
            let Some(next) = next else { return Some(Over::Ended) };
            if until.cycle.is_some_and(|cycle| next >= cycle) {
                return None;
            }
            let last = next + self.latency_cycles - 1;
            let last = most.map_or(last, |most| last.min(most));
            drop(shares);
            gate.open(last);
            simulate(&mut lock(&self.shares[0]), last);
            gate.wait(workers);
            let mut shares = self.lock();
            exchange(&mut shares, self.latency_cycles, self.mirrored);
            pass_output(&mut shares, options);
            if until.output.is_some_and(|text| prints(&shares[0][0], &mut seen, text)) {
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
        each(&mut self.lock()).map(|node| node.chip.wires.now).max().unwrap_or(0)
    }

    /// Reads all counters.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (nid, node) in each(&mut self.lock()).enumerate() {
            figures.add_under(&format!("node[{nid}]."), node.figures());
        }
        figures
    }

    /// What a node has printed, if no sink took it.
    pub fn printed(&self, nid: usize) -> Vec<u8> {
        each(&mut self.lock()).nth(nid).map_or_else(Vec::new, |node| node.printed().to_vec())
    }

    fn lock(&self) -> Vec<MutexGuard<'_, Vec<Node>>> {
        self.shares.iter().map(lock).collect()
    }

    /// Stops what has not ended.
    pub fn finish(
        &self,
        cut_short: Option<String>,
        began: Instant,
        options: &mut Options<'_>,
    ) -> Outcome {
        let mut shares = self.lock();
        each(&mut shares).for_each(Node::stop);
        pass_output(&mut shares, options);
        drop(shares);
        let stats = self.figures().since(&Figures::default());
        let mut shares = self.lock();
        let cycles = each(&mut shares).map(|node| node.chip.wires.now).max().unwrap_or(0);
        let nodes: Vec<NodeOutcome> = each(&mut shares).map(Node::outcome).collect();
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
    let wrong = |what: &str| Err(ExecError::Machine(what.to_owned()));
    let mirrored = machine.network.remote == Remote::Generator;
    match machine.ni.placement {
        _ if job.nodes == 0 => wrong("a program needs a node at least"),
        _ if machine.kind != Kind::Chip => {
            let kind = machine.kind.name();
            Err(ExecError::Machine(format!(
                "kind: is \"{kind}\", and programs need chips: \"chip\""
            )))
        }
        Placement::Sonuma => Ok(()),
        Placement::CacheIntegrated if job.nodes > 1 => wrong(
            "ni.placement: is \"cache-integrated\", which joins the cores of one chip; use -n 1",
        ),
        Placement::CacheIntegrated => Ok(()),
        Placement::Window if job.nodes < 2 => {
            wrong("ni.placement: is \"window\", where nodes borrow of each other; use -n 2 or more")
        }
        Placement::Window => Ok(()),
        Placement::Numa => wrong("ni.placement: programs need queue pairs, which \"numa\" lacks"),
        _ if mirrored && job.nodes > 1 => {
            wrong("network.remote: is \"generator\", which is one node; set it to \"nodes\"")
        }
        _ if !mirrored && machine.ni.completion == Completion::Posted => wrong(
            "ni.completion: is \"posted\", with which programs may see completions before \
                 data; set it to \"acknowledged\"",
        ),
        _ => Ok(()),
    }
}

/// All nodes, in the order of their numbers.
fn each<'a, 'b>(
    shares: &'a mut [MutexGuard<'b, Vec<Node>>],
) -> impl Iterator<Item = &'a mut Node> + use<'a, 'b> {
    shares.iter_mut().flat_map(|share| share.iter_mut())
}

fn lock(share: &Share) -> MutexGuard<'_, Vec<Node>> {
    share.lock().expect("a thread that simulates has panicked")
}

fn simulate(nodes: &mut [Node], last: Cycle) {
    nodes.iter_mut().for_each(|node| node.simulate(last));
}

/// Whether the run is over before the cycle `next`, in which the next thing happens.
fn over(
    shares: &mut [MutexGuard<'_, Vec<Node>>],
    next: Option<Cycle>,
    max_cycles: Option<Cycle>,
) -> Option<Over> {
    let (mut running, mut failed) = (0, false);
    for node in each(shares) {
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
        each(shares).flat_map(|node| node.system.describe(&node.chip)).collect();
    Some(Over::Cut(format!("{why}\n{}", places.join("\n"))))
}

/// Delivers everything that has left its node: node by node, so that the order is always the same.
fn exchange(shares: &mut [MutexGuard<'_, Vec<Node>>], latency: Cycle, mirrored: bool) {
    let mut nodes: Vec<&mut Node> = each(shares).collect();
    for from in 0..nodes.len() {
        if nodes[from].has_sent() {
            let sent = nodes[from].take_sent();
            deliver(&mut nodes, from as u16, &sent, latency, mirrored);
            nodes[from].give_back(sent);
        }
    }
}

fn deliver(nodes: &mut [&mut Node], from: u16, sent: &Sent, latency: Cycle, mirrored: bool) {
    for Departure { cycle, to, freight } in &sent.freight {
        let chip = &mut nodes[usize::from(*to)].chip;
        chip.receive_freight(cycle + latency - chip.wires.now, from, *freight);
    }
    for window::packet::Departure { cycle, to, packet } in &sent.tlps {
        let chip = &mut nodes[usize::from(*to)].chip;
        chip.receive_tlp(cycle + latency - chip.wires.now, *packet);
    }
    for departure in &sent.packets {
        let packet = departure.packet;
        let packet = if mirrored { packet.reflected() } else { packet };
        let chip = &mut nodes[usize::from(packet.destination())].chip;
        chip.receive(departure.cycle + latency - chip.wires.now, packet);
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
fn pass_output(shares: &mut [MutexGuard<'_, Vec<Node>>], options: &mut Options<'_>) {
    for (nid, node) in (0..).zip(each(shares)) {
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

/// The barrier around an epoch: workers wait for its begin, the thread that leads them for its end. An
/// epoch takes some microseconds, so they spin for a while before they yield.
#[derive(Default)]
struct Gate {
    /// Counts epochs; [`Gate::CLOSED`] ends the work.
    epoch: AtomicU64,
    last: AtomicU64,
    done: AtomicUsize,
}

impl Gate {
    const CLOSED: u64 = u64::MAX;

    /// Lets the workers simulate up to cycle `last`.
    fn open(&self, last: Cycle) {
        self.done.store(0, Ordering::Relaxed);
        self.last.store(last, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Release);
    }

    fn close(&self) {
        self.epoch.store(Gate::CLOSED, Ordering::Release);
    }

    /// Waits until all workers have come to the end of the epoch.
    fn wait(&self, workers: usize) {
        let mut spins = 0;
        while self.done.load(Ordering::Acquire) < workers {
            pause(&mut spins);
        }
    }

    /// The loop of a worker: it simulates its share of the nodes, epoch by epoch, until the gate closes.
    fn work(&self, share: &Share) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            let mut epoch = self.epoch.load(Ordering::Acquire);
            while epoch == seen {
                pause(&mut spins);
                epoch = self.epoch.load(Ordering::Acquire);
            }
            if epoch == Gate::CLOSED {
                return;
            }
            seen = epoch;
            let _done = Done(&self.done);
            simulate(&mut lock(share), self.last.load(Ordering::Relaxed));
        }
    }
}

/// Says that an epoch is over, also if it ends in a panic: the waiting thread must not wait for ever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Closes the gate at the end.
struct Closing<'a>(&'a Gate);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}
