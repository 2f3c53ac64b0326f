//! The results of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::interconnect::{ExtensionReport, KeyValueReport};
pub use crate::rack::RackReport;

/// Statistics by path of the part, such as `chip.home[12].llc.misses`: a tree, flattened.
pub type Stats = BTreeMap<String, f64>;

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Name of the machine.
    pub machine: String,
    /// Simulated cycles of the chips' clock, the warm-up among them.
    pub cycles: u64,
    /// Wall-clock time of the simulation.
    pub seconds: f64,
    /// Whether the metric was stable at the end.
    pub stable: bool,
    /// Synchronous reads: latency of a read.
    pub latency: Option<Latency>,
    /// Synchronous reads: mean time of each stage, in the order of events.
    pub breakdown: Vec<Stage>,
    /// Asynchronous reads, each window.
    pub windows: Vec<Window>,
    /// Last window: data written to local buffers by RCPs. All `_gbps` here are in GB/s.
    pub rcp_gbps: f64,
    /// Last window: data sent by RRPPs.
    pub rrpp_gbps: f64,
    /// Last window: application bandwidth, the sum of the two.
    pub app_gbps: f64,
    /// Last window: traffic that entered the network on chip.
    pub noc_gbps: f64,
    /// Last window: remote reads completed per microsecond.
    pub reads_per_us: f64,
    /// Load of each link of the network on chip in the last window (asynchronous reads) or the
    /// whole run.
    pub links: Vec<LinkLoad>,
    /// Counters of the whole run.
    pub stats: Stats,
    /// Events of chosen transactions, if asked for.
    pub trace: Vec<TraceEvent>,
    /// Simplified nodes on a torus: further results. Bandwidths above are then those of a node, as a mean
    /// over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackReport>,
    /// Nodes with an extended on-chip interconnect: the measurements on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionReport>,
}

/// Distribution of a latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Reads or requests that were measured.
    pub count: u64,
    /// Mean.
    pub mean_cycles: f64,
    /// Smallest.
    pub min_cycles: u64,
    /// Half are not larger.
    pub p50_cycles: u64,
    /// 99 % are not larger.
    pub p99_cycles: u64,
    /// Largest.
    pub max_cycles: u64,
}

/// A part of a read's latency.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Name of the stage, such as `wq_write`.
    pub name: &'static str,
    /// Mean over all measured reads.
    pub mean_cycles: f64,
}

/// A measurement window, `run.window_cycles` long.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Window {
    /// Cycle in which it ends.
    pub end_cycle: u64,
    /// Application bandwidth in it, in GB/s.
    pub app_gbps: f64,
}

/// The load of one direction of a link of the network on chip.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkLoad {
    /// Router it leaves: column and row of the drawing.
    pub from: (u16, u16),
    /// Router it reaches.
    pub to: (u16, u16),
    /// Flits per cycle, 0 to 1.
    pub utilisation: f64,
}

/// Something that happened to a traced transaction.
#[derive(Clone, Debug, Serialize)]
pub struct TraceEvent {
    /// Cycle in which it began.
    pub cycle: u64,
    /// Duration in cycles; 0 = a moment.
    pub duration_cycles: u64,
    /// The transaction: core and number of its read.
    pub transaction: (u16, u64),
    /// Part of the chip, such as `home[12]`.
    pub part: String,
    /// The event, such as `GetX core[3] -> home[12]`.
    pub what: String,
}

impl Report {
    /// A counter, if the run has it.
    pub fn stat(&self, path: &str) -> Option<f64> {
        self.stats.get(path).copied()
    }
}

impl Stage {
    /// The name in words, as Table 3 of Manycore NI has it where it has the stage.
    pub fn title(&self) -> &'static str {
        match self.name {
            "load" => "Remote read issuing (single load)",
            "wq_write" => "WQ write software overhead",
            "wq_read_rgp" => "WQ read and RGP processing",
            "wq_transfer" => "WQ entry transfer",
            "rgp" => "RGP processing",
            "rgp_frontend" => "RGP frontend processing",
            "to_edge" => "Transfer request to chip edge",
            "to_backend" => "Transfer request to RGP backend",
            "rgp_backend" => "RGP backend processing",
            "network_out" => "Intra-rack network, request",
            "rrpp" => "RRPP servicing",
            "network_back" => "Intra-rack network, reply",
            "to_rcp" => "Transfer reply to RCP",
            "to_core" => "Transfer reply to requesting core",
            "rcp" => "RCP processing",
            "rcp_backend" => "RCP backend processing",
            "to_rcp_frontend" => "Transfer reply to RCP frontend",
            "rcp_frontend" => "RCP frontend processing",
            "rcp_cq_write" => "RCP processing and CQ entry write",
            "cq_transfer" => "CQ entry transfer",
            "software" => "Program, caches and ports",
            "transaction_master" => "Transaction layer, master",
            "transaction_slave" => "Transaction layer, slave",
            "routing" => "Routing layer",
            "link" => "Link layer",
            "physical" => "Physical layer",
            "memory" => "On-chip interconnect and memory",
            "cq_read" => "CQ read software overhead",
            other => other,
        }
    }
}
