//! What follows from the shape of a chip.

use super::spec::{Machine, NiCacheKind, NocTopology, Placement};

/// Bytes of a cache block.
pub const BLOCK_BYTES: u64 = rackmem_abi::LINE_BYTES as u64;

impl Machine {
    /// Tiles of a chip, each with a core.
    pub fn cores(&self) -> u32 {
        u32::from(self.tiles.columns) * u32::from(self.tiles.rows)
    }

    /// Banks of the last-level cache: one per tile, on NOC-Out one per column.
    pub fn llc_banks(&self) -> u32 {
        match self.noc.topology {
            NocTopology::NocOut => u32::from(self.tiles.columns),
            NocTopology::Mesh | NocTopology::Crossbar => self.cores(),
        }
    }

    /// Places of RRPPs and of what else of the network interfaces is at the edge: one per row, on
    /// NOC-Out one per LLC tile.
    pub fn edge_places(&self) -> u32 {
        match self.noc.topology {
            NocTopology::NocOut => u32::from(self.tiles.columns),
            NocTopology::Mesh | NocTopology::Crossbar => u32::from(self.tiles.rows),
        }
    }

    /// Private caches that directories tell apart.
    pub fn private_caches(&self) -> u32 {
        let of_interfaces = match (self.ni.placement, self.ni.cache) {
            (Placement::Edge, _) => self.edge_places(),
            (Placement::PerTile | Placement::Split, NiCacheKind::Separate) => self.cores(),
            _ => 0,
        };
        self.cores() + of_interfaces
    }
}
