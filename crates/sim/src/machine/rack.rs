//! A rack of simplified nodes as a machine file describes it: `kind = "torus"`.
//!
//! Nodes have no cores and no caches: a source of traffic, a network interface and a memory of
//! limited bandwidth. In exchange there are hundreds of them, and all routers between them.

use serde::{Deserialize, Serialize};

use crate::noc::{Pipeline, Shape};

/// Routers and links between the nodes: one router in each node. A hop takes
/// `network.hop_latency_ns`, router and link together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RackSpec {
    /// A torus of two or three dimensions, such as `torus:8x8x8`.
    pub topology: Shape,
    /// Stages of the routers; the rest of a hop is the link.
    pub router: Pipeline,
    /// Bytes that a link moves in a cycle, which is the size of a flit.
    pub link_bytes: u32,
    /// Virtual channels of the request lane, divided at the dateline of each ring.
    pub request_vcs: u32,
    /// Virtual channels of the reply lane, divided likewise.
    pub reply_vcs: u32,
    /// Buffer of a virtual channel.
    pub buffer_flits: u32,
}

/// The network interface and the memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    /// From the network interface to its router.
    pub injection_cycles: u32,
    /// From the router to the network interface.
    pub ejection_cycles: u32,
    /// Packets of a lane that have arrived and wait for their pipeline; more wait in the network.
    pub arrival_queue_packets: u32,
    /// Request packets that wait for the router; then the RGP pauses.
    pub request_queue_packets: u32,
    /// RGP: from a posted request to its first packet.
    pub rgp_cycles: u32,
    /// RGP: between two lines that it sends.
    pub unroll_interval_cycles: u32,
    /// RGP: lines that it has under way at most; 0 = not limited (source-based flow control).
    pub max_outstanding_lines: u32,
    /// RGP: requests that it has under way at most.
    pub itt_entries: u32,
    /// RRPP: from a request packet to the memory access.
    pub rrpp_request_cycles: u32,
    /// RRPP: between two requests that it takes.
    pub rrpp_interval_cycles: u32,
    /// RRPP: requests that it has taken and whose replies are not yet in the router.
    pub rrpp_transactions: u32,
    /// RRPP: from the line's data to the reply packet.
    pub rrpp_reply_cycles: u32,
    /// Latency of an access to a line of the node's memory, caches and all.
    pub access_cycles: u32,
    /// Bandwidth of the node's memory; 0 = not limited.
    pub memory_bytes_per_cycle: f64,
    /// RCP: between two replies that it takes.
    pub rcp_interval_cycles: u32,
    /// RCP: from the last reply to the completion.
    pub rcp_cycles: u32,
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

/// Requests between nodes, `workload.transfer_bytes` long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficSpec {
    /// Destinations of requests.
    pub pattern: TrafficPattern,
    /// Pattern `hot-spot`: share of the requests that go to the hot node.
    pub hot_share: f64,
    /// Pattern `hot-spot`: its number.
    pub hot_node: u16,
    /// Read or write.
    pub op: TrafficOp,
    /// Closed or open loop.
    pub r#loop: TrafficLoop,
    /// Closed loop: requests that each node has posted and not completed.
    pub outstanding: u32,
    /// Open loop: payload that each node asks for, in GB/s.
    pub offered_gbps: f64,
    /// Nodes that post requests, from the first one; 0 = all.
    pub sources: u16,
}

impl Default for RackSpec {
    fn default() -> Self {
        Self {
            topology: Shape::Torus { size: [8, 8, 8], dimensions: 3 },
            router: Pipeline::Five,
            link_bytes: 16,
            request_vcs: 2,
            reply_vcs: 6,
            buffer_flits: 96,
        }
    }
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            injection_cycles: 2,
            ejection_cycles: 2,
            arrival_queue_packets: 16,
            request_queue_packets: 4,
            rgp_cycles: 7,
            unroll_interval_cycles: 1,
            max_outstanding_lines: 256,
            itt_entries: 128,
            rrpp_request_cycles: 4,
            rrpp_interval_cycles: 1,
            rrpp_transactions: 64,
            rrpp_reply_cycles: 1,
            access_cycles: 208,
            memory_bytes_per_cycle: 25.6,
            rcp_interval_cycles: 1,
            rcp_cycles: 6,
        }
    }
}

impl Default for TrafficSpec {
    fn default() -> Self {
        Self {
            pattern: TrafficPattern::Uniform,
            hot_share: 0.2,
            hot_node: 0,
            op: TrafficOp::Read,
            r#loop: TrafficLoop::Closed,
            outstanding: 8,
            offered_gbps: 8.0,
            sources: 0,
        }
    }
}
