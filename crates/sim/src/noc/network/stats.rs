//! Counters of a network.

use serde::Serialize;

/// Counts of one virtual network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VnetStats {
    /// Packets given to [`send`](super::Network::send).
    pub packets_sent: u64,
    /// Packets whose tail has reached the endpoint.
    pub packets_delivered: u64,
    /// Flits that have left source queues.
    pub flits_injected: u64,
    /// Flits of packets that have been delivered.
    pub flits_ejected: u64,
    /// Links between routers that delivered packets have crossed.
    pub hops: u64,
}

/// Counts since the network was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// By virtual network.
    pub vnets: Vec<VnetStats>,
    /// Turns between row and column that packets of directories made in an edge column of the chip;
    /// with the routing `cdr-directory` there are none.
    pub directory_turns_at_edge: u64,
}

impl Stats {
    /// Flits that have left source queues, over all virtual networks.
    pub fn flits_injected(&self) -> u64 {
        self.vnets.iter().map(|vnet| vnet.flits_injected).sum()
    }

    /// Flits of delivered packets, over all virtual networks.
    pub fn flits_ejected(&self) -> u64 {
        self.vnets.iter().map(|vnet| vnet.flits_ejected).sum()
    }
}

/// Load of a link between two routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkLoad {
    /// Column and row where flits enter.
    pub from: (i16, i16),
    /// Column and row where they leave.
    pub to: (i16, i16),
    /// Flits that have crossed it.
    pub flits: u64,
}
