//! The description of a network, and the packets that it carries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{SpecError, find};
use super::routing::Routing;
use super::topology::Shape;
use crate::section::text_form;

/// Stages of a router, which say how many cycles a head flit needs for a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pipeline {
    /// Everything and the link in one cycle, as in the trees of NOC-Out.
    One,
    /// Look-ahead routing and speculative switch allocation: VA with SA, ST, link.
    Three,
    /// Look-ahead routing: VA, SA, ST, link.
    Four,
    /// RC, VA, SA, ST, link.
    Five,
}

const PIPELINES: [&str; 4] = ["1-stage", "3-stage", "4-stage", "5-stage"];

impl Pipeline {
    /// Cycles from the arrival of a head flit to VC allocation: those of RC, unless that was done upstream.
    pub fn routing_cycles(self) -> u64 {
        u64::from(self == Pipeline::Five)
    }

    /// Whether a head competes for the switch in the cycle in which it gets a VC.
    pub fn speculates(self) -> bool {
        matches!(self, Pipeline::One | Pipeline::Three)
    }

    /// Cycles from the arrival of a head flit to its first switch allocation.
    pub fn cycles_before_switch(self) -> u64 {
        self.routing_cycles() + u64::from(!self.speculates())
    }

    /// Cycles from switch allocation to the moment in which a flit enters the link.
    pub fn cycles_after_switch(self) -> u64 {
        if self == Pipeline::One { 0 } else { 2 }
    }

    /// Cycles from switch allocation to the moment in which the credit enters the link back.
    pub fn cycles_to_credit(self) -> u64 {
        u64::from(self != Pipeline::One)
    }

    /// Cycles of a hop of a head flit over a link of this latency in an empty network.
    pub fn hop_cycles(self, link_latency_cycles: u64) -> u64 {
        self.cycles_before_switch() + self.cycles_after_switch() + link_latency_cycles
    }

    /// The name in machine files and on the command line.
    pub fn name(self) -> &'static str {
        PIPELINES[self as usize]
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pipeline {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Pipeline, SpecError> {
        let all = [Pipeline::One, Pipeline::Three, Pipeline::Four, Pipeline::Five];
        find("router pipeline", text, &PIPELINES, &all)
    }
}

text_form!(Pipeline, SpecError);

/// The rule by which routers give VCs to heads and the switch to flits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// An input asks the switch for one of its VCs. Every head that finds a free VC gets one, those that
    /// have waited longest first; an empty VC is best, then one with a credit.
    #[default]
    OneRequest,
    /// Separable iSLIP with one iteration, for VCs and the switch; an input may ask for several outputs,
    /// a head for several VCs.
    Islip,
}

impl FromStr for Allocator {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Allocator, SpecError> {
        let all = [Allocator::OneRequest, Allocator::Islip];
        find("allocator", text, &["one-request", "islip"], &all)
    }
}

/// The rule that divides a torus's VCs into two classes, so that no ring of them closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dateline {
    /// A packet changes its class on the link between the last place and the first. Where both ways
    /// round are equally long, even places go up and odd places down.
    #[default]
    Crossing,
    /// A packet keeps the class that it gets where it enters the dimension: going up, the upper one if
    /// it will wrap; going down, the upper one if it will not. Between ways of equal length the seed
    /// and the packet's flow draw.
    Entry,
}

impl FromStr for Dateline {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Dateline, SpecError> {
        find("dateline", text, &["crossing", "entry"], &[Dateline::Crossing, Dateline::Entry])
    }
}

/// The queues in which packets wait at an endpoint for its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// One for each virtual network; they take turns.
    #[default]
    PerNetwork,
    /// One for all, first in, first out: a packet that finds no credit holds up those behind it. Free of
    /// deadlock only if endpoints take whatever arrives.
    Shared,
}

/// A virtual network: a class of packets that never waits for another class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VnetSpec {
    /// Its virtual channels, per port; no other virtual network uses them.
    pub vcs: usize,
    /// Packets of equal source, destination and flow arrive in the order in which they were sent.
    #[serde(default)]
    pub ordered: bool,
}

/// A network. Everything that its behaviour depends on, besides a seed and the packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Routers, links, and where the endpoints are.
    pub topology: Shape,
    /// Endpoints at each router of a mesh, torus or flattened butterfly.
    #[serde(default = "one")]
    pub concentration: usize,
    /// Rule by which packets choose their way.
    pub routing: Routing,
    /// Stages of the routers; those of NOC-Out's trees always have one.
    pub router: Pipeline,
    /// The virtual networks, by number.
    pub vnets: Vec<VnetSpec>,
    /// Virtual networks whose flits go before those of others where they compete, the most urgent first;
    /// those that are not named come last and are alike.
    #[serde(default)]
    pub urgent: Vec<u8>,
    /// Buffer of each virtual channel, in flits.
    pub buffer_flits: usize,
    /// Latency of a link between neighbours; the topologies say what they make of it.
    pub link_latency_cycles: u64,
    /// NOC-Out: latency of a link of its trees, which is all that a hop takes there.
    pub tree_hop_cycles: u64,
    /// NOC-Out: tiles that a flit passes in a cycle on a link of the butterfly.
    pub tiles_per_cycle: u64,
    /// The queues in which packets wait at an endpoint for its port.
    #[serde(default)]
    pub sources: Sources,
    /// Cycles from the source queue to the router's input buffer.
    pub injection_latency_cycles: u64,
    /// Latency of the link from a router to an endpoint.
    pub ejection_latency_cycles: u64,
    /// Packets that a delivery queue (one per endpoint and virtual network) holds; 0: whatever arrives.
    pub delivery_capacity_packets: usize,
    /// How VCs and the switch are given.
    #[serde(default)]
    pub allocator: Allocator,
    /// How a torus divides its VCs.
    #[serde(default)]
    pub dateline: Dateline,
    /// An endpoint has a buffer like a router's for every VC and returns a credit for each flit; else it
    /// takes a flit in every cycle.
    #[serde(default)]
    pub ejection_credits: bool,
}

impl Spec {
    /// A network with one virtual network, configured as a stand-alone simulator would be.
    pub fn standalone(topology: Shape, routing: Routing, router: Pipeline) -> Spec {
        Spec {
            topology,
            concentration: 1,
            routing,
            router,
            vnets: vec![VnetSpec { vcs: 8, ordered: false }],
            urgent: Vec::new(),
            buffer_flits: 8,
            link_latency_cycles: 1,
            tree_hop_cycles: 1,
            tiles_per_cycle: 2,
            sources: Sources::PerNetwork,
            injection_latency_cycles: 2,
            ejection_latency_cycles: 1,
            delivery_capacity_packets: 0,
            allocator: Allocator::Islip,
            dateline: Dateline::Entry,
            ejection_credits: true,
        }
    }

    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.topology.endpoints().saturating_mul(self.concentration)
    }

    /// All virtual channels of a port.
    pub fn vcs(&self) -> usize {
        self.vnets.iter().fold(0, |sum, vnet| sum.saturating_add(vnet.vcs))
    }
}

fn one() -> usize {
    1
}

/// The class of a packet, by which some routings choose its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// Neither of the others.
    #[default]
    Other,
    /// A directory asks a memory controller to read or write; also a packet of a directory.
    MemoryRequest,
    /// A directory sent it, to a cache or a network interface.
    Directory,
}

impl Class {
    /// Whether a directory sent it.
    pub fn is_of_directory(self) -> bool {
        self != Class::Other
    }
}

/// A packet: the fields that the network needs, and a handle for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Endpoint that sends it.
    pub src: u16,
    /// Endpoint that gets it.
    pub dst: u16,
    /// Number of the virtual network, an index of [`Spec::vnets`].
    pub vnet: u8,
    /// Length, at least 1.
    pub flits: u8,
    /// By which [`Routing::Cdr`] and [`Routing::CdrDirectory`] choose its way.
    pub class: Class,
    /// Packets of one flow keep their order in ordered virtual networks and take one way.
    pub flow: u32,
    /// A number for the user of the network, which does not read it.
    pub tag: u32,
}
