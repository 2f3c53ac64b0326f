//! Chips in full detail, and the fabric between them: every two are equally far apart.
//!
//! A packet from a chip reaches another one a fabric latency later, so for that long, an epoch, the chips do
//! not see each other (for less where the head of a packet leaves before its tail is known): threads simulate
//! them side by side, and the packets travel in between, in the order of the chips' numbers. A chip that is alone
//! has a second thread for its routers (`noc/network/partner.rs`). The result does not depend on the threads.
//!
//! The remote ends of a chip that is alone are its mirror image: for each request that leaves, the same
//! request arrives from outside, and the answer to the one takes as long as this chip's RRPPs take for the
//! other. This is the traffic generator of Manycore NI §5: incoming requests at the rate of the outgoing ones,
//! and RRPP latency plus network latency for each round trip, without a mean in between.

use super::{RunError, Watchdog};
use crate::chip::wires::Departure;
use crate::chip::wires::latency_cycles;
use crate::chip::{Chip, host_memory};
use crate::engine::{Crew, Cycle, Turn};
use crate::machine::Machine;
use crate::machine::spec::WorkloadKind;

/// Nodes that a mirrored chip believes to be in: itself and its mirror image.
pub const MIRROR_NODES: u16 = 2;

/// A node of a rack: a chip, and what there is besides.
pub trait Node: Send + 'static {
    /// The node's hardware.
    fn chip(&mut self) -> &mut Chip;

    /// The cycle in which the next thing happens, if anything will.
    fn next_cycle(&self) -> Option<Cycle>;

    /// Simulates one cycle; all cycles before it must have been, or have nothing in them.
    fn cycle(&mut self, now: Cycle);

    /// Takes its place among the nodes, for what they share outside of the rack.
    fn take_turn(&mut self, _turn: Turn) {}
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
    /// Cycles for which nodes do not see each other.
    epoch_cycles: Cycle,
    /// Whether the other ends are the only node's mirror image (Manycore NI §5).
    pub(crate) is_mirrored: bool,
}

impl Rack {
    /// The rack of a machine, started.
    ///
    /// # Errors
    /// [`RunError::Impossible`] for a network that cannot be built.
    pub fn new(machine: &Machine) -> Result<Rack, RunError> {
        // A single read keeps one chip busy at a time.
        let is_single = machine.workload.kind == WorkloadKind::SyncRead;
        let threads = if is_single { 1 } else { threads(machine) };
        let nodes = machine.network.nodes;
        Ok(Rack::of(chips(machine, nodes, nodes)?, latency_cycles(machine), threads, false))
    }

    /// A machine's chip as node 0, started; the other node is its mirror image.
    ///
    /// # Errors
    /// As [`Rack::new`].
    pub fn mirrored(machine: &Machine) -> Result<Rack, RunError> {
        let chips = chips(machine, 1, MIRROR_NODES)?;
        Ok(Rack::of(chips, latency_cycles(machine), threads(machine), true))
    }

    /// All chips, by their numbers.
    pub fn chips(&self) -> impl Iterator<Item = &Chip> + Clone {
        self.nodes.iter()
    }

    /// All chips, by their numbers.
    pub fn chips_mut(&mut self) -> impl Iterator<Item = &mut Chip> {
        self.nodes.iter_mut()
    }

    /// The one that is measured.
    pub fn first(&mut self) -> &mut Chip {
        &mut self.nodes[0]
    }

    /// Simulates an epoch from cycle `next` on, in which something happens: at most up to and including cycle
    /// `end`. A mirrored chip goes cycle by cycle, so that packets come back in between. Returns the last cycle.
    pub fn advance(&mut self, next: Cycle, end: Cycle) -> Cycle {
        if !self.is_mirrored {
            return self.epoch(next, end);
        }
        let chip = &mut self.nodes[0];
        chip.cycle(next);
        if !chip.wires.departures.is_empty() {
            self.exchange();
        }
        next
    }

    fn next_cycle(&self, watchdog: &Watchdog) -> Result<Cycle, RunError> {
        let next = self.chips().filter_map(Chip::next_cycle).min();
        next.ok_or_else(|| watchdog.deadlock(self.chips()))
    }

    /// Simulates the next epoch in which something happens.
    ///
    /// # Errors
    /// [`RunError::Stuck`] if nothing ever happens again, or nothing has got on for too long.
    pub fn step(&mut self, watchdog: &mut Watchdog) -> Result<(), RunError> {
        let last = self.advance(self.next_cycle(watchdog)?, Cycle::MAX);
        watchdog.check(last, self.chips())
    }

    /// Simulates up to and including cycle `end`.
    ///
    /// # Errors
    /// As [`Rack::step`].
    pub fn run_until(&mut self, end: Cycle, watchdog: &mut Watchdog) -> Result<(), RunError> {
        loop {
            let next = self.next_cycle(watchdog)?;
            if next > end {
                break;
            }
            let last = self.advance(next, end);
            watchdog.check(last, self.chips())?;
        }
        // The time passes even if nothing happens in the last cycles.
        self.chips_mut().for_each(|chip| chip.wires.now = chip.wires.now.max(end));
        Ok(())
    }
}

/// The first chips of a machine with so many nodes, started.
fn chips(machine: &Machine, count: u16, nodes: u16) -> Result<Vec<Chip>, RunError> {
    host_memory::check(machine, count).map_err(RunError::Impossible)?;
    let chip = |nid| {
        let chip = Chip::new(machine, nid, nodes);
        let mut chip = chip.map_err(|error| RunError::Impossible(format!("noc: {error}")))?;
        chip.warm(machine);
        chip.start();
        Ok(chip)
    };
    (0..count).map(chip).collect()
}

/// Threads that simulate the nodes of a rack.
pub(crate) fn threads(machine: &Machine) -> usize {
    match machine.run.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

impl<N: Node> Rack<N> {
    pub(crate) fn of(
        mut nodes: Vec<N>,
        latency_cycles: Cycle,
        threads: usize,
        is_mirrored: bool,
    ) -> Rack<N> {
        let ahead = nodes.first_mut().map_or(0, |node| node.chip().wires.most_ahead);
        let epoch_cycles = latency_cycles - ahead;
        if let [only] = &mut nodes[..]
            && threads > 1
        {
            only.chip().wires.net.work_in_two();
        }
        let mut nodes = Crew::new(nodes, threads, simulate);
        for number in nodes.numbers() {
            let turn = nodes.turn(number);
            nodes[number].take_turn(turn);
        }
        Rack { nodes, latency_cycles, epoch_cycles, is_mirrored }
    }

    /// Simulates all nodes from cycle `next` on for an epoch, or up to and including cycle `end` if that is
    /// less; then lets their packets travel. Returns the last cycle.
    pub(crate) fn epoch(&mut self, next: Cycle, end: Cycle) -> Cycle {
        let last = end.min(next.saturating_add(self.epoch_cycles - 1));
        self.nodes.advance(last);
        self.exchange();
        last
    }

    /// Has packets travel that have left their nodes.
    pub(crate) fn exchange(&mut self) {
        for from in self.nodes.numbers() {
            let mut departures = std::mem::take(&mut self.nodes[from].chip().wires.departures);
            for Departure { cycle, to, payload } in departures.drain(..) {
                // The mirror image of what is sent comes back.
                let (to, payload) = match self.is_mirrored {
                    true => (from, payload.reflected(to)),
                    false => (usize::from(to), payload),
                };
                let to = self.nodes[to].chip();
                to.receive(cycle + self.latency_cycles - to.wires.now, payload);
            }
            self.nodes[from].chip().wires.departures = departures;
            let mut frames = std::mem::take(&mut self.nodes[from].chip().wires.frames);
            for sent in frames.drain(..) {
                self.nodes[usize::from(sent.node)].chip().frame(&sent);
            }
            self.nodes[from].chip().wires.frames = frames;
        }
    }
}

/// Simulates a node up to and including cycle `last`.
fn simulate(node: &mut impl Node, last: Cycle) {
    while let Some(next) = node.next_cycle().filter(|&next| next <= last) {
        node.cycle(next);
    }
}
