//! Puts a rack together as its machine says.

use super::counts::Counts;
use super::itt::Itt;
use super::packet::Format;
use super::pattern::Destinations;
use super::rgp::Rgp;
use super::rrpp::Rrpp;
use super::source::Source;
use super::{Node, Rack};
use crate::engine::Wheel;
use crate::machine::Machine;
use crate::measure::Histogram;
use crate::noc::{Allocator, Dateline, Network, Routing, Shape, Spec, SpecError, VnetSpec};

impl Rack {
    /// The rack of a machine of kind `torus`, at cycle 0.
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
}

impl Node {
    fn new(machine: &Machine, node: u16, size: [usize; 3]) -> Node {
        let sources = machine.traffic.sources;
        let posts = sources == 0 || node < sources;
        let destinations =
            if posts { Destinations::new(&machine.traffic, size, node) } else { None };
        Node {
            source: destinations.map(|destinations| Source::new(machine, node, destinations)),
            rgp: Rgp::default(),
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
    match &machine.rack.topology {
        Shape::Torus { size, .. } => *size,
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
        allocator: Allocator::OneRequest,
        dateline: Dateline::Crossing,
        ejection_credits: false,
        ..Spec::standalone(rack.topology.clone(), Routing::Minimal, rack.router)
    }
}
