//! The results of a run of nodes with an extended interconnect, besides what all reports have.

use rackmem_rmc::amt::State;
use serde::Serialize;

use super::packet::LAYERS;
use super::platform::Platform;
use crate::report::Stats;

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

impl ExtensionReport {
    /// Adds how busy the cores of a node were.
    pub fn utilisation(&mut self, platform: &Platform, node: u16) {
        let time = platform.now().max(1) as f64;
        let cores = &platform.nodes[usize::from(node)].cores;
        self.core_utilisation = cores.iter().map(|core| core.busy as f64 / time).collect();
    }
}

/// Counters by path of the part.
pub fn stats(platform: &Platform) -> Stats {
    let mut stats = Stats::new();
    for (number, node) in platform.nodes.iter().enumerate() {
        let mut put = |name: String, value: u64| {
            stats.insert(format!("node[{number}].{name}"), value as f64);
        };
        let used = node.amt.slots().iter().filter(|slot| slot.state != State::Free).count();
        put("amt.slots".to_owned(), used as u64);
        if let Some(card) = &node.card {
            put("nic.interrupts".to_owned(), card.nic.interrupts);
        }
        node.module.figures(put);
    }
    stats
}
