//! A rack of hundreds of simplified nodes on a torus: the network interfaces and all routers in
//! detail, and traffic in place of cores, caches and page tables.
//!
//! soNUMA (§3) and Manycore NI (§5) speak of racks of 512 nodes, and simulate one chip of them with
//! the others as a delay. Here are all of them, and so is what a delay does not show: congestion.
//!
//! | file | what |
//! |---|---|
//! | `source`, `pattern` | what posts requests, and whom they are for |
//! | `rgp`, `itt` | request generation: unrolling, flow control, requests under way |
//! | `rrpp` | remote request processing, and the memory behind it |
//! | `packet` | packets of the two lanes, in flits |
//! | `counts`, `histogram`, `meter` | what is measured |
//! | `zero_load` | what a request takes when it is alone |
//! | `run` | windows until the bandwidth is stable |
//!
//! Routers and links are a [`Network`] with a virtual network per lane. Requests wait for replies
//! (an RRPP takes no request if it could not send the reply), replies for nothing: RCPs always take
//! them. Inside a lane the routers' datelines keep rings free of cycles. So nothing can deadlock,
//! whatever the load and however small the buffers.
//!
//! Left out: lost packets; more than one port between a node and its router; the bandwidth that a
//! node's own lines take from its memory at the source.

mod counts;
mod histogram;
mod itt;
mod meter;
mod packet;
mod pattern;
mod report;
mod rgp;
mod rrpp;
mod run;
mod source;
mod zero_load;

pub use report::{HopLatency, LaneReport, NodeBandwidth, RackReport};
pub use run::run;
pub use zero_load::zero_load_cycles;

use crate::engine::{Cycle, Wheel};
use crate::machine::Machine;
use crate::machine::spec::NodeSpec;
use crate::noc::{Network, Routing, Shape, Spec, SpecError, VnetSpec};
use counts::Counts;
use histogram::Histogram;
use itt::Itt;
use packet::{Format, Line, REPLY, REQUEST};
use pattern::Destinations;
use rgp::{Next, Rgp, Surroundings};
use rrpp::Rrpp;
use source::Source;

/// What will happen at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Its RGP has to be looked at.
    Wake { node: u16 },
    /// Its RRPP has the reply to a line.
    Reply { node: u16, to: u16, line: Line },
    /// Its RCP has completed a request.
    Complete { node: u16, slot: u16 },
}

/// A node: source and pipelines.
#[derive(Clone, Debug)]
struct Node {
    /// Nothing, if the node posts no requests.
    source: Option<Source>,
    rgp: Rgp,
    itt: Itt,
    rrpp: Rrpp,
    /// When the RGP will be looked at, if that is not in the past.
    wakes_at: Cycle,
    /// The earliest cycle in which the RCP takes the next reply.
    rcp_free_at: Cycle,
    /// Payload of the lines that its RCP has taken the replies to.
    payload_bytes: u64,
}

/// Nodes and network.
#[derive(Clone, Debug)]
pub struct Rack {
    spec: NodeSpec,
    format: Format,
    network: Network,
    nodes: Vec<Node>,
    /// One bit per node whose RGP may have something to do in the next cycle.
    awake: Vec<u64>,
    wheel: Wheel<Event>,
    /// Those of a cycle, while it is simulated.
    events: Vec<Event>,
    counts: Counts,
    /// Latencies of requests by hops.
    latencies: Vec<Histogram>,
}

impl Rack {
    /// The rack of a machine with `network.remote = "torus"`, at cycle 0.
    ///
    /// # Errors
    /// The network cannot be built.
    pub fn new(machine: &Machine) -> Result<Rack, SpecError> {
        let network = Network::new(&network_spec(machine), machine.seed)?;
        let count = network.endpoints();
        let size = size(machine);
        let diameter: usize = size.iter().map(|length| length / 2).sum();
        let nodes: Vec<Node> =
            (0..count as u16).map(|node| Node::new(machine, node, size)).collect();
        let mut awake = vec![0; count.div_ceil(64)];
        for (number, _) in nodes.iter().enumerate().filter(|(_, node)| node.source.is_some()) {
            awake[number / 64] |= 1 << (number % 64);
        }
        Ok(Rack {
            spec: machine.node.clone(),
            format: Format::new(machine),
            network,
            nodes,
            awake,
            wheel: Wheel::default(),
            events: Vec::new(),
            counts: Counts::default(),
            latencies: vec![Histogram::new(); diameter + 1],
        })
    }

    /// The cycle that is simulated next.
    pub fn now(&self) -> Cycle {
        self.network.now()
    }

    /// Has all sources post nothing any more, so that the rack runs empty. What was posted and not
    /// taken by an RGP is forgotten.
    pub fn stop(&mut self) {
        self.nodes.iter_mut().filter_map(|node| node.source.as_mut()).for_each(Source::stop);
    }

    /// Requests that RGPs have taken since the start.
    pub fn requests_taken(&self) -> u64 {
        self.nodes.iter().map(|node| node.rgp.requests).sum()
    }

    /// Requests that have completed since the start.
    pub fn requests_completed(&self) -> u64 {
        self.counts.requests_completed
    }

    /// Lines whose replies have come since the start.
    pub fn lines_completed(&self) -> u64 {
        self.counts.lanes[usize::from(REPLY)].packets
    }

    /// Nodes that post requests.
    pub fn sources(&self) -> usize {
        self.nodes.iter().filter(|node| node.source.is_some()).count()
    }

    /// Requests under way: in the ITTs of all nodes.
    pub fn requests_under_way(&self) -> u64 {
        self.nodes.iter().map(|node| node.itt.in_use() as u64).sum()
    }

    /// The next cycle in which something happens; `None` if nothing ever does.
    pub fn next_cycle(&self) -> Option<Cycle> {
        let busy = |words: &[u64]| words.iter().any(|&word| word != 0);
        if busy(&self.awake) || busy(self.network.arrived_words()) {
            return Some(self.now());
        }
        let nexts = [self.network.next_event(), self.wheel.next()];
        nexts.into_iter().flatten().min()
    }

    /// Simulates the next cycle in which something happens before `end`, or lets time pass until
    /// `end` if there is none; whether there was one.
    pub fn step(&mut self, end: Cycle) -> bool {
        let next = self.next_cycle().unwrap_or(Cycle::MAX);
        if next > self.now() {
            self.network.skip_to(next.min(end));
        }
        if next < end {
            self.cycle();
        }
        next < end
    }

    /// Simulates a cycle.
    fn cycle(&mut self) {
        let now = self.now();
        if now > 0 {
            self.wheel.advance(now, &mut self.events);
        }
        for at in 0..self.events.len() {
            self.happen(now, self.events[at]);
        }
        self.events.clear();
        self.generate(now);
        self.network.tick();
        self.receive(now);
    }

    fn happen(&mut self, now: Cycle, event: Event) {
        match event {
            Event::Wake { node } => self.wake(node),
            Event::Reply { node, to, line } => {
                self.nodes[usize::from(node)].rrpp.in_service -= 1;
                self.network.send(self.format.packet(REPLY, node, to, line));
            }
            Event::Complete { node, slot } => self.complete(now, node, slot),
        }
    }

    fn wake(&mut self, node: u16) {
        self.awake[usize::from(node) / 64] |= 1 << (node % 64);
    }

    fn complete(&mut self, now: Cycle, number: u16, slot: u16) {
        let node = &mut self.nodes[usize::from(number)];
        let transfer = node.itt.close(slot);
        self.latencies[usize::from(transfer.hops)].add(now - transfer.posted);
        self.counts.requests_completed += 1;
        if let Some(source) = &mut node.source {
            source.completed(now);
        }
        self.wake(number);
    }

    /// Has all RGPs that are awake do what they can.
    fn generate(&mut self, now: Cycle) {
        for word in 0..self.awake.len() {
            let mut bits = self.awake[word];
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let next = self.step_rgp(now, (word * 64 + bit) as u16);
                if next != Next::Soon {
                    self.awake[word] &= !(1 << bit);
                }
                if let Next::At(at) = next {
                    self.wake_at(now, at, (word * 64 + bit) as u16);
                }
            }
        }
    }

    /// Has an RGP be looked at in that cycle, unless it will be before.
    fn wake_at(&mut self, now: Cycle, at: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if node.wakes_at <= now || at < node.wakes_at {
            node.wakes_at = at;
            self.wheel.at(at, Event::Wake { node: number });
        }
    }

    fn step_rgp(&mut self, now: Cycle, number: u16) -> Next {
        let Node { source, rgp, itt, .. } = &mut self.nodes[usize::from(number)];
        let Some(source) = source else { return Next::Woken };
        rgp.step(
            now,
            &mut Surroundings {
                node: number,
                spec: &self.spec,
                format: &self.format,
                source,
                itt,
                network: &mut self.network,
            },
        )
    }

    /// Has RCPs and RRPPs take what has arrived.
    fn receive(&mut self, now: Cycle) {
        for word in 0..self.network.arrived_words().len() {
            let mut bits = self.network.arrived_words()[word];
            while bits != 0 {
                let number = (word * 64) as u16 + bits.trailing_zeros() as u16;
                bits &= bits - 1;
                self.take_reply(now, number);
                self.take_request(now, number);
            }
        }
    }

    fn take_reply(&mut self, now: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if now < node.rcp_free_at {
            return;
        }
        let Some(delivered) = self.network.take_timed(number, REPLY) else { return };
        let line = Line::of(&delivered.packet);
        node.rcp_free_at = now + u64::from(self.spec.rcp_interval_cycles);
        node.payload_bytes += u64::from(line.length);
        node.rgp.outstanding -= 1;
        self.counts.lanes[usize::from(REPLY)].add(now, &delivered);
        if node.itt.line(line.slot, delivered.hops) {
            let at = now + u64::from(self.spec.rcp_cycles);
            self.wheel.at(at, Event::Complete { node: number, slot: line.slot });
        }
        if node.rgp.is_stalled() {
            self.wake(number);
        }
    }

    fn take_request(&mut self, now: Cycle, number: u16) {
        let node = &mut self.nodes[usize::from(number)];
        if !node.rrpp.is_free(now, number, &self.spec, &self.network) {
            return;
        }
        let Some(delivered) = self.network.take_timed(number, REQUEST) else { return };
        let service = node.rrpp.accept(now, &self.spec);
        self.counts.memory_wait_cycles += service.memory_wait_cycles;
        self.counts.lanes[usize::from(REQUEST)].add(now, &delivered);
        let (to, line) = (delivered.packet.src, Line::of(&delivered.packet));
        self.counts.served_bytes += u64::from(line.length);
        self.wheel.at(service.replies_at, Event::Reply { node: number, to, line });
    }
}

impl Node {
    fn new(machine: &Machine, node: u16, size: [usize; 3]) -> Node {
        let sources = machine.traffic.sources;
        let posts = sources == 0 || node < sources;
        let destinations =
            if posts { Destinations::new(&machine.traffic, size, node) } else { None };
        Node {
            source: destinations.map(|destinations| Source::new(machine, node, destinations)),
            rgp: Rgp::new(),
            itt: Itt::new(machine.node.itt_entries),
            rrpp: Rrpp::new(&machine.node),
            wakes_at: 0,
            rcp_free_at: 0,
            payload_bytes: 0,
        }
    }
}

/// Nodes per dimension.
fn size(machine: &Machine) -> [usize; 3] {
    match machine.rack.topology {
        Shape::Torus { size, .. } => size,
        other => [other.endpoints(), 1, 1],
    }
}

/// The network of a rack: a virtual network per lane.
fn network_spec(machine: &Machine) -> Spec {
    let (rack, node) = (&machine.rack, &machine.node);
    let hop_cycles = machine.cycles(machine.network.hop_latency_ns);
    let lane = |vcs: u32| VnetSpec { vcs: vcs as usize, ordered: false };
    Spec {
        vnets: vec![lane(rack.request_vcs), lane(rack.reply_vcs)],
        buffer_flits: rack.buffer_flits as usize,
        link_latency_cycles: hop_cycles - rack.router.hop_cycles(0),
        injection_latency_cycles: node.injection_cycles.into(),
        ejection_latency_cycles: node.ejection_cycles.into(),
        delivery_capacity_packets: node.arrival_queue_packets as usize,
        ..Spec::standalone(rack.topology, Routing::Minimal, rack.router)
    }
}
