//! Numbers that follow from the shape of a chip: cores, banks, caches.

use super::spec::{CpuSpec, L2Spec, Machine, NiCacheKind, NiSpec, NocTopology, Placement, RmcSpec};
use crate::scratchpad::Regions;

impl Machine {
    /// Tiles of a chip, each with a core.
    pub fn cores(&self) -> u32 {
        u32::from(self.tiles.columns) * u32::from(self.tiles.rows)
    }

    /// Banks of the last-level cache: as many as a crossbar's machine says, else one per tile, on NOC-Out one
    /// per column.
    pub fn llc_banks(&self) -> u32 {
        match self.noc.topology {
            _ if self.has_own_banks() => u32::from(self.llc.banks),
            NocTopology::NocOut => u32::from(self.tiles.columns),
            NocTopology::Mesh | NocTopology::Crossbar => self.cores(),
        }
    }

    /// Whether banks of the last-level cache are beside the tiles: ports of a crossbar.
    pub fn has_own_banks(&self) -> bool {
        self.noc.topology == NocTopology::Crossbar && self.llc.banks > 0
    }

    /// Places of RRPPs and of what else of the network interfaces is at the edge: one per row, on
    /// NOC-Out one per LLC tile.
    pub fn edge_places(&self) -> u32 {
        match self.noc.topology {
            NocTopology::NocOut => u32::from(self.tiles.columns),
            NocTopology::Mesh | NocTopology::Crossbar => u32::from(self.tiles.rows),
        }
    }

    /// Entries of the queues with which the memory of every chip begins. Where no queue pairs are in them, they have
    /// the usual length.
    pub fn queue_entries(&self) -> u32 {
        match self.ni.placement.places().frontends {
            Some(_) => self.ni.wq_entries,
            None => NiSpec::default().wq_entries,
        }
    }

    /// Private caches that directories tell apart.
    pub fn private_caches(&self) -> u32 {
        let of_interfaces = match (self.ni.placement, self.ni.cache) {
            (Placement::Edge, _) => self.edge_places(),
            (Placement::Sonuma, _) => 1,
            (Placement::PerTile | Placement::Split, NiCacheKind::Separate) => self.cores(),
            _ => 0,
        };
        self.cores() + of_interfaces
    }

    /// The caches that the directory knows: L1s, or private caches behind write-through L1s.
    pub fn private_cache(&self) -> L2Spec {
        if self.ni.placement == Placement::CacheIntegrated {
            return self.l2.clone();
        }
        L2Spec {
            size_bytes: self.l1.size_bytes,
            ways: self.l1.ways,
            latency_cycles: self.l1.latency_cycles,
            tag_cycles: self.l1.tag_cycles,
            mshrs: self.l1.mshrs,
        }
    }

    /// Address regions outside of ordinary memory, with cache-integrated network interfaces.
    pub fn regions(&self) -> Option<Regions> {
        (self.ni.placement == Placement::CacheIntegrated).then(|| Regions {
            cores: self.cores() as u16,
            scratchpad_bytes: self.l2.size_bytes as u32,
            dram_bytes: self.scratchpad.dram_bytes,
            locks: self.scratchpad.locks,
        })
    }

    /// Cores that execute programs, with the values that the L1's section sets.
    pub fn cpu_spec(&self) -> CpuSpec {
        CpuSpec {
            l1_cycles: self.l1.latency_cycles,
            memory_ports: self.l1.ports,
            ..self.cpu.clone()
        }
    }

    /// The remote memory controller, with the values that the sections of the L1 and of the system set. Systems lay out
    /// the tables of an RMC where there is none, too.
    pub fn rmc_spec(&self) -> RmcSpec {
        let own = match self.ni.placement {
            Placement::Sonuma => self.rmc.clone(),
            _ => RmcSpec::default(),
        };
        RmcSpec {
            page_bytes: self.system.page_bytes,
            l1_mshrs: self.l1.mshrs,
            l1_ports: self.l1.ports,
            l1_latency_cycles: self.l1.latency_cycles,
            ..own
        }
    }
}
