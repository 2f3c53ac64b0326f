use serde::Serialize;

use super::Tick;
use crate::measure::Summary;

/// Latencies of requests of a kind, in clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests.
    pub count: u64,
    /// Mean in clocks of the channel.
    pub mean: f64,
    /// Half of the requests take no longer.
    pub median: Tick,
    /// 95 of 100 requests take no longer.
    pub p95: Tick,
    /// 99 of 100 requests take no longer.
    pub p99: Tick,
    /// The largest.
    pub max: Tick,
}

impl From<Summary> for Latency {
    fn from(of: Summary) -> Latency {
        let Summary { count, mean, p50, p95, p99, max, .. } = of;
        Latency { count, mean, median: p50, p95, p99, max }
    }
}
