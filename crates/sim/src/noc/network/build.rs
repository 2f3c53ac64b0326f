//! Lays out the arrays of a network.

use super::super::error::SpecError;
use super::super::routing::Tables;
use super::super::spec::Spec;
use super::super::topology::{Axis, MAX_PORTS, Port, Router, Topology};
use super::islip::Board;
use super::state::{
    InPort, InVc, NOBODY, NONE, OutPort, OutVc, PORTS, Parked, Queue, RouterState, Sending, Slab,
};
use super::wheel::Wheel;
use super::{Class, Network, Stats};

/// Most VCs of a port: a word has a bit for each.
const MAX_VCS: usize = 32;
/// Deepest buffer, and longest delay.
const MAX_BYTE: usize = 200;

impl Network {
    /// An empty network at cycle 0. The seed decides which way flows go, nothing else.
    ///
    /// # Errors
    /// The first fault of the description.
    pub fn new(spec: &Spec, seed: u64) -> Result<Network, SpecError> {
        check(spec)?;
        let topology = Topology::new(spec)?;
        let tables = Tables::new(spec, &topology)?;
        let mut network = Network::empty(spec, seed, topology, tables);
        network.connect(spec);
        Ok(network)
    }

    fn empty(spec: &Spec, seed: u64, topology: Topology, tables: Tables) -> Network {
        let (routers, endpoints) = (topology.routers.len(), topology.endpoints.len());
        let (ports, vcs, vnets) = (topology.ports, spec.vcs(), spec.vnets.len());
        let shift = |count: usize| count.next_power_of_two().trailing_zeros();
        let (port_shift, vc_shift) = (shift(ports), shift(vcs));
        let buffer_shift = shift(spec.buffer_flits);
        let inputs = (routers << port_shift).next_multiple_of(PORTS);
        let outputs = inputs + endpoints;
        let horizon = horizon(spec, &topology);
        let out_vc = OutVc { owner: NOBODY, credits: spec.buffer_flits as u8 };
        let in_port = |i: usize| {
            let router = topology.routers.get(i >> port_shift);
            InPort::unused(router.map_or(1, |router| router.pipeline.routing_cycles()))
        };
        let capacity = spec.delivery_capacity_packets.min(NONE as usize / 2) as u32;
        Network {
            now: 0,
            salt: seed.wrapping_mul(0xA24B_AED4_963E_E407),
            routing: spec.routing,
            allocator: spec.allocator,
            tables,
            port_shift,
            vc_shift,
            vnets,
            classes: classes(spec),
            buffer_flits: spec.buffer_flits as u8,
            buffer_shift,
            axes: vec![Axis::Local; inputs],
            slab: Slab::new(),
            in_vcs: vec![InVc::default(); inputs << vc_shift],
            buffers: vec![0; inputs << vc_shift << buffer_shift],
            routers: topology.routers.iter().map(RouterState::new).collect(),
            in_ports: (0..inputs).map(in_port).collect(),
            out_ports: vec![OutPort::unused(vcs); outputs],
            parked: Parked { vcs: vec![0; inputs], inputs: vec![0; inputs] },
            out_vcs: vec![out_vc; outputs << vc_shift],
            vc_pointers: vec![0; inputs << vc_shift],
            requests: Vec::with_capacity(PORTS << vc_shift),
            board: Board::default(),
            speculative: speculative(&topology, port_shift, inputs),
            ready: vec![0; inputs / PORTS],
            waiting: vec![0; inputs / PORTS],
            // A port sends and receives a flit a cycle, with a delay of its own; heads come to the
            // front as they arrive or as a tail leaves.
            flits: Wheel::new(horizon, outputs),
            credits: Wheel::new(horizon, 2 * inputs),
            heads: Wheel::new(horizon, 2 * inputs),
            tails: Wheel::new(horizon, inputs),
            sources: vec![Queue::EMPTY; endpoints * vnets],
            sending: vec![Sending { packet: NONE, flits_left: 0, vc: 0 }; endpoints * vnets],
            pending: vec![0; endpoints],
            next_vnet: vec![0; endpoints],
            active_sources: vec![0; endpoints.div_ceil(64)],
            entrances: vec![NONE; endpoints],
            exits: vec![NONE; endpoints],
            injection_delay: spec.injection_latency_cycles,
            deliveries: vec![Queue::EMPTY; endpoints * vnets],
            slots: vec![capacity; endpoints * vnets],
            arrived: vec![0; endpoints.div_ceil(64)],
            live: 0,
            stats: Stats::new(vnets),
            topology,
        }
    }

    /// Connects ports to the routers and endpoints behind them.
    fn connect(&mut self, spec: &Spec) {
        for i in 0..self.topology.links.len() {
            let link = self.topology.links[i];
            let (from, to) = (self.port_index(link.from), self.port_index(link.to));
            let pipeline = |port: Port| self.topology.routers[port.router].pipeline;
            let delay = pipeline(link.from).cycles_after_switch() + link.latency_cycles;
            let credit_delay = pipeline(link.to).cycles_to_credit() + link.latency_cycles;
            self.out_ports[from].downstream = (to << self.vc_shift) as u32;
            self.out_ports[from].delay = delay as u8;
            self.set_upstream(to, from, credit_delay);
            self.axes[from] = link.axis;
            self.axes[to] = link.axis;
        }
        for endpoint in 0..self.topology.endpoints.len() {
            let at = self.topology.endpoints[endpoint];
            let (inject, eject) = (self.port_index(at.inject), self.port_index(at.eject));
            let pipeline = |port: Port| self.topology.routers[port.router].pipeline;
            let delay = pipeline(at.eject).cycles_after_switch() + spec.ejection_latency_cycles;
            // The credit has the latency of a link, whatever the way in takes besides.
            let credit_delay = pipeline(at.inject).cycles_to_credit() + 1;
            let source = self.source_port(endpoint);
            self.out_ports[eject].endpoint = endpoint as u32;
            self.out_ports[eject].delay = delay as u8;
            if spec.ejection_credits {
                // The endpoint needs a cycle, and the credit the latency of the link.
                let credit_return = delay + 1 + spec.ejection_latency_cycles;
                self.out_ports[eject].credit_return = credit_return as u8;
            }
            self.set_upstream(inject, source, credit_delay);
            self.exits[endpoint] = eject as u32;
            self.entrances[endpoint] = (inject << self.vc_shift) as u32;
        }
    }

    pub(super) fn port_index(&self, port: Port) -> usize {
        (port.router << self.port_shift) + port.port
    }

    fn set_upstream(&mut self, input: usize, output: usize, credit_delay: u64) {
        let in_port = &mut self.in_ports[input];
        in_port.upstream = (output << self.vc_shift) as u32;
        in_port.credit_delay = credit_delay as u8;
    }
}

fn check(spec: &Spec) -> Result<(), SpecError> {
    let zero = |field| Err(SpecError::Zero { field });
    let too_large = |what, given, limit| Err(SpecError::TooLarge { what, given, limit });
    if spec.vnets.is_empty() {
        return Err(SpecError::NoVirtualNetwork);
    }
    for (field, value) in [
        ("buffer_flits", spec.buffer_flits),
        ("delivery_capacity_packets", spec.delivery_capacity_packets),
        ("link_latency_cycles", spec.link_latency_cycles as usize),
        ("injection_latency_cycles", spec.injection_latency_cycles as usize),
        ("ejection_latency_cycles", spec.ejection_latency_cycles as usize),
    ] {
        if value == 0 {
            return zero(field);
        }
    }
    for (what, given) in [
        ("flits in a buffer", spec.buffer_flits),
        ("cycles of link latency", spec.link_latency_cycles as usize),
        ("cycles of injection latency", spec.injection_latency_cycles as usize),
        ("cycles of ejection latency", spec.ejection_latency_cycles as usize),
    ] {
        if given > MAX_BYTE {
            return too_large(what, given, MAX_BYTE);
        }
    }
    match spec.vcs() {
        vcs if vcs > MAX_VCS => too_large("virtual channels", vcs, MAX_VCS),
        _ => Ok(()),
    }
}

/// One bit per input port whose router speculates.
fn speculative(topology: &Topology, port_shift: u32, inputs: usize) -> Vec<u64> {
    let mut words = vec![0; inputs / PORTS];
    for (number, _) in
        topology.routers.iter().enumerate().filter(|(_, router)| router.pipeline.speculates())
    {
        for port in number << port_shift..(number + 1) << port_shift {
            words[port / PORTS] |= 1 << (port % PORTS);
        }
    }
    words
}

/// The longest time between cause and effect.
fn horizon(spec: &Spec, topology: &Topology) -> u64 {
    let longest_link = topology.links.iter().map(|link| link.latency_cycles).max().unwrap_or(1);
    let way_out_and_back = 2 * spec.ejection_latency_cycles + 1;
    longest_link.max(spec.injection_latency_cycles).max(way_out_and_back) + 3
}

impl RouterState {
    fn new(router: &Router) -> RouterState {
        RouterState { next_waiting: 0, speculates: router.pipeline.speculates(), edge: router.edge }
    }
}

/// Classes of urgency, the most urgent first.
fn classes(spec: &Spec) -> Vec<Class> {
    let vcs_of = |vnet: usize| {
        let first: usize = spec.vnets[..vnet].iter().map(|vnet| vnet.vcs).sum();
        (0..spec.vnets[vnet].vcs).fold(0, |mask, vc| mask | 1u32 << ((first + vc) % 32))
    };
    let known = |&vnet: &u8| usize::from(vnet) < spec.vnets.len();
    let one = |vnet: u8| Class { vcs: vcs_of(vnet.into()), vnets: 1 << vnet };
    let mut classes: Vec<Class> = spec.urgent.iter().copied().filter(known).map(one).collect();
    let named = classes.iter().fold(0, |mask, class| mask | class.vnets);
    let rest = (0..spec.vnets.len() as u8).filter(|&vnet| named >> vnet & 1 == 0).map(one);
    let join = |a: Class, b: Class| Class { vcs: a.vcs | b.vcs, vnets: a.vnets | b.vnets };
    classes.extend(rest.reduce(join));
    classes
}

impl InPort {
    fn unused(routing_cycles: u64) -> InPort {
        InPort {
            ready: 0,
            waiting: 0,
            upstream: NONE,
            next_vc: 0,
            asks: 0,
            credit_delay: 0,
            next_out: 0,
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
            credit_return: 0,
        }
    }
}

const _: () = assert!(MAX_PORTS <= PORTS && MAX_VCS <= 32 && MAX_BYTE < 250);
