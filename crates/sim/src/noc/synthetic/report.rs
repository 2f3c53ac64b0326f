//! The results of a run.

use serde::{Deserialize, Serialize};

use super::Experiment;

/// The figures of a run, with all that is needed to run it again. They depend on the experiment alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the simulator.
    pub version: String,
    /// Network, traffic, windows and seed.
    pub experiment: Experiment,
    /// The load that the sources created in the measurement window.
    pub offered: f64,
    /// Flits that reached endpoints in the window, per endpoint and cycle.
    pub accepted: f64,
    /// Half the 95 % confidence interval of [`accepted`](Report::accepted), by batch means of cycles; none if the
    /// window is too short to tell.
    pub accepted_half_width: Option<f64>,
    /// Cycles from creation to the ejection of the tail: mean.
    pub latency_mean_cycles: f64,
    /// Half the 95 % confidence interval of that mean, by batch means of packets in the order of their arrival; none if
    /// there are too few to tell.
    pub latency_half_width_cycles: Option<f64>,
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
    /// The network does not carry this load: packets did not arrive in time, or the mean latency
    /// passed its limit, or less than 95 % of the offered load was accepted.
    pub saturated: bool,
}
