//! Several chips in full detail, and the fabric between them: every two are equally far apart.
//!
//! A packet from a chip reaches another one a fabric latency later, so for that long, an epoch, the chips do
//! not see each other: threads simulate them side by side, and the packets travel in between, in the order of
//! the chips' numbers. The result does not depend on the threads.

use super::{RunError, World};
use crate::chip::wires::Departure;
use crate::chip::{Chip, host_memory};
use crate::engine::{Crew, Cycle};
use crate::machine::Machine;
use crate::machine::spec::WorkloadKind;

/// A node of a rack: a chip, and what there is besides.
pub trait Node: Send + 'static {
    /// The node's hardware.
    fn chip(&mut self) -> &mut Chip;

    /// The cycle in which the next thing happens, if anything will.
    fn next_cycle(&self) -> Option<Cycle>;

    /// Simulates one cycle; all cycles before it must have been, or have nothing in them.
    fn cycle(&mut self, now: Cycle);
}

impl Node for Chip {
    fn chip(&mut self) -> &mut Chip {
        self
    }

    fn next_cycle(&self) -> Option<Cycle> {
        self.next_cycle()
    }

    fn cycle(&mut self, now: Cycle) {
        self.cycle(now);
    }
}

/// All nodes of a rack, with the fabric's latency between them.
pub struct Rack<N = Chip> {
    pub(crate) nodes: Crew<N>,
    pub(crate) latency_cycles: Cycle,
    /// Whether the other ends are the only node's mirror image (Manycore NI §5).
    pub(crate) is_mirrored: bool,
}

impl Rack {
    /// The rack of a machine, started.
    ///
    /// # Errors
    /// [`RunError::Impossible`] for a network that cannot be built.
    pub fn new(machine: &Machine) -> Result<Rack, RunError> {
        let nodes = machine.network.nodes;
        host_memory::check(machine, nodes).map_err(RunError::Impossible)?;
        let chips: Result<Vec<Chip>, RunError> =
            (0..nodes).map(|nid| started(machine, nid, nodes)).collect();
        // A single read keeps one chip busy at a time.
        let is_single = machine.workload.kind == WorkloadKind::SyncRead;
        let threads = if is_single { 1 } else { threads(machine) };
        Ok(Rack::of(chips?, machine, threads, false))
    }
}

/// A chip of a machine, started.
pub(super) fn started(machine: &Machine, nid: u16, nodes: u16) -> Result<Chip, RunError> {
    let chip = Chip::new(machine, nid, nodes);
    let mut chip = chip.map_err(|error| RunError::Impossible(format!("noc: {error}")))?;
    chip.warm(machine);
    chip.start();
    Ok(chip)
}

/// Threads that simulate the nodes of a rack.
pub(crate) fn threads(machine: &Machine) -> usize {
    match machine.run.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

impl<N: Node> Rack<N> {
    /// A rack of these nodes.
    pub(crate) fn of(
        nodes: Vec<N>,
        machine: &Machine,
        threads: usize,
        is_mirrored: bool,
    ) -> Rack<N> {
        let hops = Cycle::from(machine.network.hops);
        let latency_cycles = machine.cycles(machine.network.hop_latency_ns) * hops;
        let nodes = Crew::new(nodes, threads, simulate);
        Rack { nodes, latency_cycles: latency_cycles.max(1), is_mirrored }
    }

    /// Simulates all nodes from cycle `next` on for an epoch, or up to and including cycle `end` if that is
    /// less; then lets their packets travel. Returns the last cycle.
    pub(crate) fn epoch(&mut self, next: Cycle, end: Cycle) -> Cycle {
        let last = end.min(next + self.latency_cycles - 1);
        self.nodes.advance(last);
        self.exchange();
        last
    }

    fn exchange(&mut self) {
        for from in self.nodes.numbers() {
            let mut departures = std::mem::take(&mut self.nodes[from].chip().wires.departures);
            for Departure { cycle, to, payload } in departures.drain(..) {
                // The mirror image of what is sent comes back.
                let (to, payload) = match self.is_mirrored {
                    true => (from, payload.reflected()),
                    false => (usize::from(to), payload),
                };
                let to = self.nodes[to].chip();
                to.receive(cycle + self.latency_cycles - to.wires.now, payload);
            }
            self.nodes[from].chip().wires.departures = departures;
        }
    }
}

/// Simulates a node up to and including cycle `last`.
fn simulate(node: &mut impl Node, last: Cycle) {
    while let Some(next) = node.next_cycle().filter(|&next| next <= last) {
        node.cycle(next);
    }
}

impl World for Rack {
    fn chips(&self) -> impl Iterator<Item = &Chip> + Clone {
        self.nodes.iter()
    }

    fn chips_mut(&mut self) -> impl Iterator<Item = &mut Chip> {
        self.nodes.iter_mut()
    }

    fn first(&mut self) -> &mut Chip {
        &mut self.nodes[0]
    }

    fn advance(&mut self, next: Cycle, end: Cycle) {
        self.epoch(next, end);
    }
}
