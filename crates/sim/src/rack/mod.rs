//! A rack of hundreds of simplified nodes on a torus: the network interfaces and all routers in
//! detail, and traffic in place of cores, caches and page tables.
//!
//! soNUMA (§3) and Manycore NI (§5) speak of racks of 512 nodes, and simulate one chip of them with
//! the others as a delay. Here are all of them, and so is what a delay does not show: congestion.
//!
//! | file | content |
//! |---|---|
//! | `build`, `cycle` | a rack put together, and a cycle of it |
//! | `source`, `pattern` | the sources of requests, and their destinations |
//! | `rgp`, `itt` | request generation: unrolling, flow control, requests under way |
//! | `rrpp` | remote request processing, and the memory behind it |
//! | `packet` | packets of the two lanes, in flits |
//! | `counts`, `meter` | measurements |
//! | `zero_load` | the latency of a request that is alone |
//! | `run` | a rack, until its bandwidth is known |
//!
//! Routers and links are a [`Network`] with a virtual network per lane. Requests wait for replies
//! (an RRPP takes no request if it could not send the reply), replies for nothing: RCPs always take
//! them. Inside a lane the routers' datelines keep rings free of cycles. So nothing can deadlock,
//! whatever the load and however small the buffers.
//!
//! Left out: lost packets; more than one port between a node and its router; the bandwidth that a
//! node's own lines take from its memory at the source.
//!
//! # Decisions
//!
//! - *What of a node matters to 512 of them.* The places where its packets queue: an RGP with unrolling and flow
//!   control, an RRPP with transactions and memory bandwidth, an RCP, one port to the router. There are no cores,
//!   caches or page tables: requests come from a traffic source, and an access takes what it takes on the detailed
//!   chip.
//! - *Machine files.* `kind = "torus"`, with the sections `rack`, `node` and `traffic`; shared with chips are clock,
//!   hop time, transfer size, run and seed.
//! - *Deadlock.* Two virtual networks. Requests wait for replies, because an RRPP counts replies that wait for the port
//!   among its transactions; replies wait for nothing. In each network, dimension order and datelines.
//! - *Width of a link*, which the papers do not limit: 16 bytes a cycle, 32 GB/s each way. On rings of eight, uniform
//!   traffic may then use all of a node's port, and the bisection bound is 21 GB/s of payload a node.
//! - *Buffers* are per channel, with credits over the whole link: the channels on each side of a dateline cover the 136
//!   cycles of a credit loop twice.
//! - *An open loop beyond saturation.* Requests are drawn as they are taken, with the time at which they were posted: a
//!   backlog of any length takes no memory and counts in full.

mod build;
mod counts;
mod cycle;
mod itt;
mod meter;
mod packet;
mod pattern;
mod rgp;
mod rrpp;
mod run;
mod source;
mod zero_load;

pub use run::run;
pub use zero_load::zero_load_cycles;

use crate::engine::{Cycle, Wheel};
use crate::machine::spec::NodeSpec;
use crate::measure::Histogram;
use crate::noc::Network;
use counts::Counts;
use itt::Itt;
use packet::{Format, Line, REPLY};
use rgp::Rgp;
use rrpp::Rrpp;
use source::Source;

/// An event to come at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Its RGP has to be looked at.
    Wake { node: u16 },
    /// Its RRPP has the reply to a line.
    Reply { node: u16, to: u16, line: Line },
    /// Its RCP has completed a request.
    Complete { node: u16, slot: u16 },
}

#[derive(Clone, Debug)]
struct Node {
    /// Nothing, if the node posts no requests.
    source: Option<Source>,
    rgp: Rgp,
    itt: Itt,
    rrpp: Rrpp,
    /// Cycle in which the RGP will be looked at, if that is not in the past.
    wakes_at: Cycle,
    /// The earliest cycle in which the RCP takes the next reply.
    rcp_free_at: Cycle,
    /// Payload of the lines that its RCP has taken the replies to.
    payload_bytes: u64,
}

/// All simplified nodes and the network between them, cycle by cycle.
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
    /// The cycle that is simulated next.
    pub fn now(&self) -> Cycle {
        self.network.now()
    }

    /// Has all sources post nothing any more, so that the rack runs empty. Requests posted and not taken by
    /// an RGP are dropped.
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
}
