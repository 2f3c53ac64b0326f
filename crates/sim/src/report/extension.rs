//! The results of a run of nodes with an extended interconnect, besides what all reports have.

use serde::Serialize;

/// Number of layers that an access passes: it adds up a time for each.
pub const LAYERS: usize = 7;

/// Results of an experiment; quantities that it does not measure are `None`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExtensionReport {
    /// Mean latency: of a read, or of a message one way (half a round trip).
    pub latency_ns: Option<f64>,
    /// Reads: the shortest latency.
    pub least_latency_ns: Option<f64>,
    /// Reads: the longest latency.
    pub most_latency_ns: Option<f64>,
    /// Reads: where the time went, in the order of the layers of the report; their sum is the
    /// latency.
    pub layers_ns: Option<[f64; LAYERS]>,
    /// Queue pairs: the library's part of the latency.
    pub software_ns: Option<f64>,
    /// Queue pairs: time of the cores of both ends for a message.
    pub core_ns: Option<f64>,
    /// Bandwidth of the data of messages.
    pub mbps: Option<f64>,
    /// Share of its time in which each core of the first node was busy.
    pub core_utilisation: Vec<f64>,
    /// Reads that ended with a bus error.
    pub failed: u64,
}
