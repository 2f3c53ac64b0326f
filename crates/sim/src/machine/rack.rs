//! A rack of simplified nodes as a machine file describes it: `kind = "torus"`.
//!
//! Nodes have no cores and no caches: a source of traffic, a network interface and a memory of
//! limited bandwidth. In exchange there are hundreds of them, and all routers between them.

use serde::{Deserialize, Serialize};

use crate::noc::{Pipeline, Shape};
use crate::section::section;

section! {
    /// Routers and links between the nodes: one router in each node. A hop takes
    /// `network.hop_latency_ns`, router and link together.
    pub struct RackSpec {
        /// A torus of two or three dimensions, such as `torus:8x8x8`.
        topology: Shape = Shape::Torus { size: [8, 8, 8], dimensions: 3 },
        /// Stages of the routers; the rest of a hop is the link.
        router: Pipeline = Pipeline::Five,
        /// Bytes that a link moves in a cycle, which is the size of a flit.
        link_bytes: u32 = 16,
        /// Virtual channels of the request lane, divided at the dateline of each ring.
        request_vcs: u32 = 2,
        /// Virtual channels of the reply lane, divided likewise.
        reply_vcs: u32 = 6,
        /// Buffer of a virtual channel.
        buffer_flits: u32 = 96,
    }
}

section! {
    /// The network interface and the memory of a node.
    pub struct NodeSpec {
        /// From the network interface to its router.
        injection_cycles: u32 = 2,
        /// From the router to the network interface.
        ejection_cycles: u32 = 2,
        /// Packets of a lane that have arrived and wait for their pipeline; more wait in the network.
        arrival_queue_packets: u32 = 16,
        /// Request packets that wait for the router; then the RGP pauses.
        request_queue_packets: u32 = 4,
        /// RGP: from a posted request to its first packet.
        rgp_cycles: u32 = 7,
        /// RGP: between two lines that it sends.
        unroll_interval_cycles: u32 = 1,
        /// RGP: lines that it has under way at most; 0 = not limited (source-based flow control).
        max_outstanding_lines: u32 = 256,
        /// RGP: requests that it has under way at most.
        itt_entries: u32 = 128,
        /// RRPP: from a request packet to the memory access.
        rrpp_request_cycles: u32 = 4,
        /// RRPP: between two requests that it takes.
        rrpp_interval_cycles: u32 = 1,
        /// RRPP: requests that it has taken and whose replies are not yet in the router.
        rrpp_transactions: u32 = 64,
        /// RRPP: from the line's data to the reply packet.
        rrpp_reply_cycles: u32 = 1,
        /// Latency of an access to a line of the node's memory, caches and all.
        access_cycles: u32 = 208,
        /// Bandwidth of the node's memory; 0 = not limited.
        memory_bytes_per_cycle: f64 = 25.6,
        /// RCP: between two replies that it takes.
        rcp_interval_cycles: u32 = 1,
        /// RCP: from the last reply to the completion.
        rcp_cycles: u32 = 6,
    }
}

/// The destinations of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficPattern {
    /// Every other node with the same probability.
    Uniform,
    /// Every neighbour with the same probability.
    Neighbour,
    /// A share to one node, the rest uniform.
    HotSpot,
    /// Coordinates change places, in turn: (x, y, z) to (y, z, x).
    Transpose,
    /// Coordinates are mirrored: on a power of two, all bits of the number inverted.
    BitComplement,
    /// Almost half way round in each dimension, all in the same direction.
    Tornado,
}

/// The rule by which nodes post requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficLoop {
    /// A node posts a request as one of its others completes.
    Closed,
    /// A node posts requests by chance at a mean rate, whatever becomes of the others.
    Open,
}

/// The direction in which the data of requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficOp {
    /// Replies carry the lines.
    Read,
    /// Requests carry the lines.
    Write,
}

section! {
    /// Requests between nodes, `workload.transfer_bytes` long.
    pub struct TrafficSpec {
        /// Destinations of requests.
        pattern: TrafficPattern = TrafficPattern::Uniform,
        /// Pattern `hot-spot`: share of the requests that go to the hot node.
        hot_share: f64 = 0.2,
        /// Pattern `hot-spot`: its number.
        hot_node: u16 = 0,
        /// Read or write.
        op: TrafficOp = TrafficOp::Read,
        /// Closed or open loop.
        r#loop: TrafficLoop = TrafficLoop::Closed,
        /// Closed loop: requests that each node has posted and not completed.
        outstanding: u32 = 8,
        /// Open loop: payload that each node asks for, in GB/s.
        offered_gbps: f64 = 8.0,
        /// Nodes that post requests, from the first one; 0 = all.
        sources: u16 = 0,
    }
}
