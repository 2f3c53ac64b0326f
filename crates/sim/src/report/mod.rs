//! The results of a run.

mod extension;
mod rack;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::measure::Window;
pub use crate::recipe::Recipe;
pub use extension::{ExtensionReport, LAYERS};
pub use rack::{HopLatency, LaneReport, NodeBandwidth, RackReport};

use crate::measure::{Histogram, Summary};

/// Statistics by path of the part, such as `chip.home[12].llc.misses`: a tree, flattened.
pub type Stats = BTreeMap<String, f64>;

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Name of the machine.
    pub machine: String,
    /// What is needed to make the run again.
    pub recipe: Recipe,
    /// Simulated cycles of the chips' clock, the warm-up among them.
    pub cycles: u64,
    /// Wall-clock time of the simulation: differs from run to run, so it is in no output that is to be compared.
    #[serde(skip)]
    pub seconds: f64,
    /// Whether the bandwidth is known as precisely as was asked for, and the warm-up of all that `run.steady` names was
    /// over; true of runs that ask for nothing.
    pub converged: bool,
    /// Asynchronous reads: the part of the run that all figures but `cycles` and `windows` refer to, and how far
    /// they can be trusted.
    pub measured: Option<Measured>,
    /// Asynchronous reads at a rate of their own.
    pub offered: Option<Offered>,
    /// Latency of a read, from its posting to its completion.
    pub latency: Option<Latency>,
    /// The same reads by latency, in up to 50 intervals of one width.
    pub latencies: Vec<Bin>,
    /// Mean time of a measured read in each stage, in the order of events.
    pub breakdown: Vec<Stage>,
    /// Asynchronous reads, each window.
    pub windows: Vec<Window>,
    /// Data written to local buffers by RCPs. All `_gbps` here are in GB/s.
    pub rcp_gbps: f64,
    /// Data sent by RRPPs.
    pub rrpp_gbps: f64,
    /// Application bandwidth, the sum of the two.
    pub app_gbps: f64,
    /// Traffic that entered the network on chip.
    pub noc_gbps: f64,
    /// Remote reads completed per microsecond.
    pub reads_per_us: f64,
    /// Load of each link of the network on chip.
    pub links: Vec<LinkLoad>,
    /// Counters.
    pub stats: Stats,
    /// Events of a stretch of time, if asked for.
    #[serde(skip)]
    pub trace: Recording,
    /// Simplified nodes on a torus: further results. Bandwidths above are then those of a node, as a mean
    /// over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackReport>,
    /// Nodes with an extended on-chip interconnect: the measurements on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionReport>,
}

/// The steady state of a run, its warm-up left out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Last cycle of the warm-up.
    pub from_cycle: u64,
    /// Last cycle that counts.
    pub to_cycle: u64,
    /// Whether the warm-up of the bandwidth was over, and it is known as precisely as was asked for; nothing if nothing
    /// was asked for.
    pub bandwidth_settled: Option<bool>,
    /// Whether the warm-up of the mean latency was over, too; nothing if there is none.
    pub latency_settled: Option<bool>,
    /// Half the width of the 95 % confidence interval of `app_gbps`; nothing if the run was too short to tell.
    pub app_gbps_half_width: Option<f64>,
    /// The same of the mean latency.
    pub latency_half_width_cycles: Option<f64>,
    /// What was asked for: half the interval of the bandwidth, in per cent of it.
    pub precision_percent: f64,
}

/// Asynchronous reads that come at a rate of their own.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Offered {
    /// Reads of all cores together.
    pub reads_per_us: f64,
    /// Whether less than 95 % of them were completed, and by more than chance: then latency grows as long as the run
    /// lasts.
    pub saturated: bool,
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
    /// 95 % are not larger.
    pub p95_cycles: u64,
    /// 99 % are not larger.
    pub p99_cycles: u64,
    /// Largest.
    pub max_cycles: u64,
}

impl From<Summary> for Latency {
    fn from(of: Summary) -> Latency {
        Latency {
            count: of.count,
            mean_cycles: of.mean,
            min_cycles: of.min,
            p50_cycles: of.p50,
            p95_cycles: of.p95,
            p99_cycles: of.p99,
            max_cycles: of.max,
        }
    }
}

/// Reads of similar latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bin {
    /// The smallest latency of the interval.
    pub from_cycles: u64,
    /// Reads in it.
    pub count: u64,
}

impl Bin {
    /// All that a histogram has counted.
    pub fn of(histogram: &Histogram) -> Vec<Bin> {
        const MOST: u64 = 50;
        let bin = |(from_cycles, count)| Bin { from_cycles, count };
        histogram.bins(MOST).into_iter().map(bin).collect()
    }
}

/// A part of a read's latency.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// Name of the stage, such as `wq_write`.
    pub name: &'static str,
    /// Mean over all measured reads.
    pub mean_cycles: f64,
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

/// A message, or an operation of software, in a traced stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct TraceEvent {
    /// Cycle in which it began.
    pub cycle: u64,
    /// Duration in cycles.
    pub duration_cycles: u64,
    /// The operation: core and number of its read. Of messages only if one operation was under way at a time.
    pub transaction: Option<(u16, u64)>,
    /// Part of the chip, such as `home[12]`: of a message its sender.
    pub part: String,
    /// Receiver of a message.
    pub to: Option<String>,
    /// The event, such as `GetX core[3] -> home[12]`.
    pub what: String,
}

/// The events of a traced stretch of time, as many as are held.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recording {
    /// Those that have come to their end, in the order of time.
    pub events: Vec<TraceEvent>,
    /// Events for which there was no room.
    pub dropped: u64,
    /// The cycle of the first one of these: before it, nothing is missing.
    pub whole_to: Option<u64>,
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
            "core_wait" => "Wait for the core",
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
