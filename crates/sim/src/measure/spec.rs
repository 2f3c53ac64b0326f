//! The section of a machine file about the length of a run.

use serde::{Deserialize, Serialize};

use crate::section::section;

/// The series of which the warm-up is to be over before a run may end, and is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steadiness {
    /// Bandwidth and mean latency: that of full queues settles after a lap of them.
    BandwidthAndLatency,
    /// Bandwidth alone. Latency may still grow, and the report says so.
    Bandwidth,
}

section! {
    /// Length of a run: windows, precision, reads, and limits.
    pub struct RunSpec {
        /// Cycles between two looks at what the run has shown so far: a window.
        window_cycles: u64 = 500_000,
        /// What is to be steady before the run ends.
        steady: Steadiness = Steadiness::BandwidthAndLatency,
        /// The run ends when half the 95 % confidence interval of the bandwidth, in per cent of it, is not more.
        precision_percent: f64 = 2.0,
        /// Windows before the run may end.
        min_windows: u32 = 2,
        /// Windows at most; then the run ends without having converged, and says so.
        max_windows: u32 = 40,
        /// Synchronous reads that are measured per core.
        reads: u32 = 128,
        /// Cycles without any progress after which the run is given up.
        watchdog_cycles: u64 = 200_000,
        /// Threads for the chips of a rack, or for a chip that is alone, which uses two at most; 0 = one per core of
        /// the host. The result is the same.
        threads: u32 = 0,
    }
}
