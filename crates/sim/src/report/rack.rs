//! The results of a run of a rack, besides what all reports have.

use serde::Serialize;

use super::Latency;

/// The steady state of a run, over all nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RackReport {
    /// All nodes of the torus, with requests of their own or not.
    pub nodes: usize,
    /// Nodes that post requests.
    pub sources: usize,
    /// Open loop: payload that each source asks for.
    pub offered_gbps: Option<f64>,
    /// Payload that sources got, or wrote.
    pub accepted_gbps: NodeBandwidth,
    /// Whether an open loop asked for more than the rack could do.
    pub saturated: bool,
    /// Latency of requests, from posting to completion, by the hops between their nodes.
    pub by_hops: Vec<HopLatency>,
    /// Mean over all links between routers, flits per cycle.
    pub link_mean: f64,
    /// Load of the busiest link, flits per cycle.
    pub link_max: f64,
    /// Requests, then replies.
    pub lanes: Vec<LaneReport>,
    /// Mean time for which a line waits for the memory of its node.
    pub memory_wait_mean_cycles: f64,
    /// Share of their time in which RGPs waited for an entry of the ITT.
    pub stalled_by_table: f64,
    /// The same, for lines under way to come back.
    pub stalled_by_flow_control: f64,
    /// The same, for the queue to the router.
    pub stalled_by_port: f64,
}

/// Bandwidth of the sources.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct NodeBandwidth {
    /// Mean over the sources, in GB/s.
    pub mean: f64,
    /// That of the source that got least.
    pub min: f64,
    /// That of the source that got most.
    pub max: f64,
}

/// Latency of requests between nodes of a distance.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HopLatency {
    /// Links between the routers of the two nodes.
    pub hops: usize,
    /// Latency if nothing else is under way.
    pub zero_load_cycles: u64,
    /// Latency that was measured.
    #[serde(flatten)]
    pub latency: Latency,
}

/// The times of a lane's packets by place. All are means over its packets.
#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    /// `request` or `reply`.
    pub name: &'static str,
    /// Packets that their pipelines took.
    pub packets: u64,
    /// Links between routers that they crossed.
    pub hops_mean: f64,
    /// In the queue to the router.
    pub source_wait_mean_cycles: f64,
    /// Time of routers and links without load.
    pub way_mean_cycles: f64,
    /// Time beyond that: waiting for VCs, credits and other packets.
    pub network_wait_mean_cycles: f64,
    /// In the queue in front of the pipeline.
    pub arrival_wait_mean_cycles: f64,
}
