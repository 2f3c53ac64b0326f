//! The results of a run.

use serde::{Deserialize, Serialize};

/// The figures of a run. All but `cycles_per_second` depend on the experiment alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name and size, such as `mesh:8x8`.
    pub topology: String,
    /// Name as machine files and the command line have it, such as `xy`.
    pub routing: String,
    /// Stages of the routers.
    pub router: String,
    /// Virtual channels of a port.
    pub vcs: usize,
    /// Buffer of a virtual channel, in flits.
    pub buffer_flits: usize,
    /// Lengths of packets, in flits.
    pub packet_flits: String,
    /// Name of the traffic pattern, such as `uniform`.
    pub pattern: String,
    /// The load that was asked for, in flits per endpoint and cycle.
    pub rate: f64,
    /// The load that the sources created in the measurement window.
    pub offered: f64,
    /// Flits that reached endpoints in the window, per endpoint and cycle.
    pub accepted: f64,
    /// Cycles from creation to the ejection of the tail: mean.
    pub latency_mean_cycles: f64,
    /// Half of the packets took no longer.
    pub latency_p50_cycles: u64,
    /// 99 of 100 packets took no longer.
    pub latency_p99_cycles: u64,
    /// Latency of the slowest packet.
    pub latency_max_cycles: u64,
    /// Mean of cycles from the injection of the head to the ejection of the tail.
    pub network_latency_mean_cycles: f64,
    /// Mean number of links between routers.
    pub hops_mean: f64,
    /// Packets of the measurement that arrived.
    pub packets: u64,
    /// Packets of the measurement that had not arrived when the run ended.
    pub packets_missing: u64,
    /// Cycles that were simulated, from warm-up to drain.
    pub cycles: u64,
    /// Simulated cycles per second on this host; in no output that is to be compared.
    #[serde(skip)]
    pub cycles_per_second: f64,
    /// The network does not carry this load: packets did not arrive in time, or the mean latency
    /// passed its limit, or less than 95 % of the offered load was accepted.
    pub saturated: bool,
}
