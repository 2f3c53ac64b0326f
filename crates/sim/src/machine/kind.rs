//! Kinds of machines. The kind decides the sections of a machine file.

use serde::{Deserialize, Serialize};

/// The parts that a machine consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Chips of tiles with cores, caches, a network on chip and network interfaces.
    #[default]
    Chip,
    /// Small nodes whose on-chip interconnect is extended to their neighbours (DEOI, Thunder).
    Soc,
    /// Hundreds of simplified nodes, and all routers of the torus between them.
    Torus,
    /// A memory alone: a file of `devices/`.
    Memory,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Chip, Kind::Soc, Kind::Torus, Kind::Memory];

    /// As a machine file has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Chip => "chip",
            Kind::Soc => "soc",
            Kind::Torus => "torus",
            Kind::Memory => "memory",
        }
    }

    /// Sections of its machine files.
    pub fn sections(self) -> &'static [&'static str] {
        match self {
            Kind::Chip => &[
                "tiles",
                "core",
                "cpu",
                "system",
                "l1",
                "l2",
                "scratchpad",
                "window",
                "extension",
                "nic",
                "qpair",
                "prefetch",
                "llc",
                "directory",
                "memory",
                "dram",
                "noc",
                "ni",
                "rmc",
                "network",
                "lan",
                "workload",
                "run",
            ],
            Kind::Soc => &["extension", "soc", "dram", "nic", "qpair", "experiment"],
            Kind::Torus => &["network", "rack", "node", "traffic", "workload", "run"],
            Kind::Memory => &["memory", "dram"],
        }
    }

    /// Whether machines of this kind have such a setting.
    pub(super) fn reads(self, path: &str) -> bool {
        let section = path.split('.').next().unwrap_or_default();
        match (self, path) {
            (_, "name" | "description" | "kind") => true,
            (
                Kind::Memory,
                "seed"
                | "clock_ghz"
                | "memory.latency_ns"
                | "memory.port_ns"
                | "memory.bytes_per_cycle"
                | "memory.contents",
            ) => false,
            (_, "seed" | "clock_ghz") => true,
            (Kind::Torus, _) if ["network", "workload", "run"].contains(&section) => {
                TORUS_SHARES.contains(&path)
            }
            _ => self.sections().contains(&section),
        }
    }
}

/// Settings that a torus shares with chips.
const TORUS_SHARES: [&str; 8] = [
    "network.hop_latency_ns",
    "workload.transfer_bytes",
    "run.window_cycles",
    "run.steady",
    "run.precision_percent",
    "run.min_windows",
    "run.max_windows",
    "run.watchdog_cycles",
];
