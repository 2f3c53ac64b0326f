//! Lays out the arrays of a network.

use std::cell::OnceCell;
use std::sync::Arc;

use super::super::error::SpecError;
use super::super::routing::Tables;
use super::super::spec::{Sources, Spec};
use super::super::topology::{Axis, MAX_BYTE, MAX_PORTS, Port, Router, Topology};
use super::crossing::Crossing;
use super::ends::Ends;
use super::in_turn::Round;
use super::islip::Board;
use super::packets::Packets;
use super::routers::Routers;
use super::state::{
    Block, Blocks, InPort, InVc, MAX_VCS, NOBODY, NONE, OutPort, OutVc, PORTS, Queue, RouterState,
    Sending, Slab,
};
use super::wheel::{List, Wheel};
use super::{Half, Network, VnetStats};

impl Network {
    /// An empty network at cycle 0. The seed decides which way flows go, nothing else.
    ///
    /// # Errors
    /// The first fault of the description.
    pub fn new(spec: &Spec, seed: u64) -> Result<Network, SpecError> {
        spec.check()?;
        let topology = Topology::new(spec)?;
        let tables = Tables::new(spec, &topology)?;
        let (topology, tables) = (Arc::new(topology), Arc::new(tables));
        let mut routers = Routers::empty(spec, Arc::clone(&topology), Arc::clone(&tables));
        let mut ends = Ends::empty(spec, seed, tables, &routers);
        for i in 0..topology.links.len() {
            routers.connect_link(i);
        }
        for endpoint in 0..topology.endpoints.len() {
            ends.entrances.push(routers.connect_endpoint(endpoint, spec));
        }
        let crossing = Crossing::new(topology.endpoints.len(), routers.router_of.len());
        let half = Half { routers: Box::new(routers), crossing };
        Ok(Network { now: 0, ends, routers: OnceCell::from(half), partner: None })
    }
}

impl Ends {
    /// Those of routers, without their entrances.
    fn empty(spec: &Spec, seed: u64, tables: Arc<Tables>, routers: &Routers) -> Ends {
        let endpoints = routers.topology.endpoints.len();
        let (vcs, vnets) = (spec.vcs(), spec.vnets.len());
        Ends {
            crossing: Crossing::new(endpoints, routers.router_of.len()),
            salt: seed.wrapping_mul(0xA24B_AED4_963E_E407),
            routing: spec.routing,
            tables,
            allocator: spec.allocator,
            vnets,
            classes: classes(spec).into_iter().map(|class| class.vnets).collect(),
            shares_sources: spec.sources == Sources::Shared,
            buffer_flits: spec.buffer_flits as u8,
            stride: routers.stride,
            slab: Slab::new(),
            ports: vec![OutPort::unused(vcs); endpoints],
            vcs: vec![full(spec); endpoints * routers.stride],
            sources: vec![Queue::EMPTY; endpoints * vnets],
            sending: vec![Sending { flits_left: 0, vc: 0, vnet: 0 }; endpoints * vnets],
            pending: vec![0; endpoints],
            next_vnet: vec![0; endpoints],
            active_sources: vec![0; endpoints.div_ceil(64)],
            injection_delay: spec.injection_latency_cycles,
            entrances: Vec::with_capacity(endpoints),
            deliveries: vec![Queue::EMPTY; endpoints * vnets],
            arrived: vec![0; endpoints.div_ceil(64)],
            live: 0,
            counts: vec![VnetStats::default(); vnets],
        }
    }
}

/// An output VC with an empty buffer behind it.
fn full(spec: &Spec) -> OutVc {
    OutVc { owner: NOBODY, credits: spec.buffer_flits as u8 }
}

impl Routers {
    /// Routers that nothing joins.
    fn empty(spec: &Spec, topology: Arc<Topology>, tables: Arc<Tables>) -> Routers {
        let (ports, endpoints) = (topology.ports, topology.endpoints.len());
        let (vcs, vnets) = (spec.vcs(), spec.vnets.len());
        let states: Vec<RouterState> = topology
            .routers
            .iter()
            .enumerate()
            .map(|(number, router)| RouterState::new(router, number, ports))
            .collect();
        let router_of = router_of(&states, ports);
        let inputs = router_of.len();
        let horizon = horizon(spec, &topology);
        let in_port = |i: usize| {
            let router = &topology.routers[usize::from(router_of[i])];
            InPort::unused(router.pipeline.routing_cycles())
        };
        let ports = (0..inputs).map(in_port).collect();
        let blank = Blank {
            routers: &states,
            router_of: &router_of,
            in_ports: ports,
            out_port: OutPort::unused(vcs),
            out_vc: full(spec),
        };
        let few = vcs <= 8;
        let blocks = if few { Blocks::Few(blank.blocks()) } else { Blocks::Many(blank.blocks()) };
        let stride = blocks.stride();
        let capacity = match spec.delivery_capacity_packets {
            0 => NONE / 2,
            packets => packets.min(NONE as usize / 2) as u32,
        };
        Routers {
            now: 0,
            has_work: false,
            topology,
            tables,
            allocator: spec.allocator,
            router_of,
            classes: classes(spec).into_iter().map(|class| class.vcs).collect(),
            buffer_flits: spec.buffer_flits as u8,
            ejection_credits: spec.ejection_credits,
            vnets,
            axes: vec![Axis::Local; inputs],
            packets: Packets::new(inputs * stride, spec.buffer_flits),
            routes: Vec::new(),
            round: Round::new(blocks.len(), vcs),
            blocks,
            stride,
            ended: List::new(inputs),
            vc_pointers: vec![0; inputs * stride],
            accept_pointers: vec![0; inputs * stride],
            requests: Vec::with_capacity(PORTS * vcs),
            board: Board::default(),
            states,
            // A port sends and receives a flit a cycle, with a delay of its own; heads come to the
            // front as they arrive or as a tail leaves.
            flits: Wheel::new(horizon, inputs + endpoints),
            credits: [Wheel::new(horizon, 2 * inputs), Wheel::new(horizon, endpoints)],
            heads: Wheel::new(horizon, 2 * inputs),
            tails: Wheel::new(horizon, inputs),
            exits: vec![NONE; endpoints],
            slots: vec![capacity; (endpoints + 1) * vnets],
            directory_turns_at_edge: 0,
        }
    }

    /// Connects the ports at both ends of a link.
    fn connect_link(&mut self, number: usize) {
        let link = self.topology.links[number];
        let (from, to) = (self.port_index(link.from), self.port_index(link.to));
        let pipeline = |port: Port| self.topology.routers[port.router].pipeline;
        let delay = pipeline(link.from).cycles_after_switch() + link.latency_cycles;
        let credit_delay = pipeline(link.to).cycles_to_credit() + link.latency_cycles;
        let downstream = (to * self.stride) as u32;
        let out_port = self.blocks.out_port_mut(from);
        out_port.downstream = downstream;
        out_port.delay = delay as u8;
        self.set_upstream(to, from, credit_delay);
        self.axes[from] = link.axis;
        self.axes[to] = link.axis;
    }

    /// Connects the ports behind which an endpoint is. Returns VC 0 of the one that it sends into.
    fn connect_endpoint(&mut self, endpoint: usize, spec: &Spec) -> u32 {
        let at = self.topology.endpoints[endpoint];
        let (inject, eject) = (self.port_index(at.inject), self.port_index(at.eject));
        let pipeline = |port: Port| self.topology.routers[port.router].pipeline;
        let delay = pipeline(at.eject).cycles_after_switch() + spec.ejection_latency_cycles;
        // The credit has the latency of a link, whatever the way in takes besides.
        let credit_delay = pipeline(at.inject).cycles_to_credit() + 1;
        let first_slot = (self.vnets * (endpoint + 1)) as u32;
        let out_port = self.blocks.out_port_mut(eject);
        out_port.endpoint = endpoint as u32;
        out_port.first_slot = first_slot;
        out_port.delay = delay as u8;
        out_port.counts_credits = spec.ejection_credits.into();
        if spec.ejection_credits {
            // The endpoint needs a cycle, and the credit the latency of the link.
            out_port.credit_return = (delay + 1 + spec.ejection_latency_cycles) as u8;
        }
        self.set_upstream(inject, endpoint, credit_delay);
        self.blocks.in_port(inject).from_source = true;
        self.exits[endpoint] = eject as u32;
        (inject * self.stride) as u32
    }

    fn set_upstream(&mut self, input: usize, output: usize, credit_delay: u64) {
        let upstream = (output * self.stride) as u32;
        let in_port = self.blocks.in_port(input);
        in_port.upstream = upstream;
        in_port.credit_delay = credit_delay as u8;
    }
}

/// The parts of routers in which nothing has happened.
struct Blank<'a> {
    routers: &'a [RouterState],
    router_of: &'a [u16],
    in_ports: Vec<InPort>,
    out_port: OutPort,
    out_vc: OutVc,
}

impl Blank<'_> {
    /// Until a packet is routed, its output is the first of the router.
    fn in_vc(&self, port: usize) -> InVc {
        let first = self.routers[usize::from(self.router_of[port])].first as usize;
        InVc { out: (first % PORTS) as u8, ..InVc::default() }
    }

    fn blocks<const V: usize>(&self) -> Vec<Block<V>> {
        let in_ports = self.in_ports.as_chunks().0.iter().enumerate();
        let block = |(number, &in_ports): (usize, &[InPort; PORTS])| Block {
            ready: 0,
            waiting: 0,
            speculative: speculative(self.routers, number),
            in_ports,
            out_ports: [self.out_port; PORTS],
            in_vcs: std::array::from_fn(|input| [self.in_vc(number * PORTS + input); V]),
            out_vcs: [[self.out_vc; V]; PORTS],
            parked_vcs: [0; PORTS],
            parked_inputs: [0; PORTS],
            asking: [0; PORTS],
        };
        in_ports.map(block).collect()
    }
}

impl Spec {
    /// That its numbers fit into the tables of routers.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), SpecError> {
        let zero = |field| Err(SpecError::Zero { field });
        let too_large = |what, given, limit| Err(SpecError::TooLarge { what, given, limit });
        if self.vnets.is_empty() {
            return Err(SpecError::NoVirtualNetwork);
        }
        for (field, value) in [
            ("buffer_flits", self.buffer_flits),
            ("link_latency_cycles", self.link_latency_cycles as usize),
            ("injection_latency_cycles", self.injection_latency_cycles as usize),
            ("ejection_latency_cycles", self.ejection_latency_cycles as usize),
        ] {
            if value == 0 {
                return zero(field);
            }
        }
        for (what, given) in [
            ("flits in a buffer", self.buffer_flits),
            ("cycles of link latency", self.link_latency_cycles as usize),
            ("cycles of injection latency", self.injection_latency_cycles as usize),
            ("cycles of ejection latency", self.ejection_latency_cycles as usize),
        ] {
            if given > MAX_BYTE {
                return too_large(what, given, MAX_BYTE);
            }
        }
        match self.vcs() {
            vcs if vcs > MAX_VCS => too_large("virtual channels", vcs, MAX_VCS),
            _ => Ok(()),
        }
    }
}

/// By port, the router that it belongs to; those that belong to none say router 0.
fn router_of(routers: &[RouterState], ports: usize) -> Vec<u16> {
    let end = routers.last().map_or(0, |last| last.first as usize + ports);
    let mut numbers = vec![0; end.next_multiple_of(PORTS)];
    for (number, router) in routers.iter().enumerate() {
        numbers[router.first as usize..][..ports].fill(number as u16);
    }
    numbers
}

/// Input ports of a block whose router speculates.
fn speculative(routers: &[RouterState], block: usize) -> u64 {
    let here = |router: &&RouterState| router.speculates && router.first as usize / PORTS == block;
    routers.iter().filter(here).fold(0, |word, router| word | router.ports)
}

/// The longest time between cause and effect.
fn horizon(spec: &Spec, topology: &Topology) -> u64 {
    let longest_link = topology.links.iter().map(|link| link.latency_cycles).max().unwrap_or(1);
    let way_out_and_back = 2 * spec.ejection_latency_cycles + 1;
    longest_link.max(spec.injection_latency_cycles).max(way_out_and_back) + 3
}

impl RouterState {
    /// As many routers as fit share a block.
    fn new(router: &Router, number: usize, ports: usize) -> RouterState {
        let in_block = PORTS / ports;
        let first = number / in_block * PORTS + number % in_block * ports;
        RouterState {
            first: first as u32,
            ports: u64::MAX >> (PORTS - ports) << (first % PORTS),
            next_waiting: 0,
            speculates: router.pipeline.speculates(),
            edge: router.edge,
        }
    }
}

/// Virtual networks that are alike in urgency.
#[derive(Clone, Copy, Debug)]
struct Urgency {
    /// Their VCs, as a mask.
    vcs: u32,
    /// Themselves, as a mask.
    vnets: u32,
}

/// Classes of urgency, the most urgent first.
fn classes(spec: &Spec) -> Vec<Urgency> {
    let vcs_of = |vnet: usize| {
        let first: usize = spec.vnets[..vnet].iter().map(|vnet| vnet.vcs).sum();
        (0..spec.vnets[vnet].vcs).fold(0, |mask, vc| mask | 1u32 << ((first + vc) % 32))
    };
    let known = |&vnet: &u8| usize::from(vnet) < spec.vnets.len();
    let one = |vnet: u8| Urgency { vcs: vcs_of(vnet.into()), vnets: 1 << vnet };
    let mut classes: Vec<Urgency> = spec.urgent.iter().copied().filter(known).map(one).collect();
    let named = classes.iter().fold(0, |mask, class| mask | class.vnets);
    let rest = (0..spec.vnets.len() as u8).filter(|&vnet| named >> vnet & 1 == 0).map(one);
    let join = |a: Urgency, b: Urgency| Urgency { vcs: a.vcs | b.vcs, vnets: a.vnets | b.vnets };
    classes.extend(rest.reduce(join));
    classes
}

impl InPort {
    fn unused(routing_cycles: u64) -> InPort {
        InPort {
            filled: 0,
            able: 0,
            waiting: 0,
            upstream: NONE,
            next_vc: 0,
            asks: 0,
            credit_delay: 0,
            next_out: 0,
            from_source: false,
            routing_delay: routing_cycles as u8,
        }
    }
}

impl OutPort {
    fn unused(vcs: usize) -> OutPort {
        let all = ((1u64 << vcs) - 1) as u32;
        OutPort {
            flits: 0,
            free: all,
            credit: all,
            empty: all,
            downstream: NONE,
            endpoint: NONE,
            delay: 0,
            next_input: 0,
            next_vc: 0,
            counts_credits: 1,
            first_slot: 0,
            credit_return: 0,
        }
    }
}

const _: () = assert!(MAX_PORTS <= PORTS && MAX_VCS <= 32 && MAX_BYTE < 250);
