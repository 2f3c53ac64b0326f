//! The counters of nodes with an extended interconnect, and how busy their cores were.

use rackmem_rmc::amt::State;

use super::platform::Platform;
use crate::report::{ExtensionReport, Stats};

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
