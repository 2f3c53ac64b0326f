//! The network on chip that a machine asks for.

use super::message::{VNET_FORWARD, VNET_NETWORK, VNET_RESPONSE, VNETS};
use crate::machine::Machine;
use crate::machine::spec::{NocRouting, NocTopology, Placement};
use crate::noc::{Allocator, Dateline, Routing, Shape, Spec, VnetSpec};

/// The network's description.
pub fn of(machine: &Machine) -> Spec {
    let noc = &machine.noc;
    let (columns, rows) = (usize::from(machine.tiles.columns), usize::from(machine.tiles.rows));
    let topology = match noc.topology {
        NocTopology::Mesh => Shape::ChipMesh { columns, rows },
        NocTopology::NocOut => Shape::NocOut { columns, rows },
        NocTopology::Crossbar => {
            let beside = machine.memory.controllers + machine.llc.banks;
            Shape::Crossbar { ports: columns * rows + rows + usize::from(beside) }
        }
    };
    let link_latency_cycles = match noc.topology {
        NocTopology::Mesh => u64::from(noc.hop_cycles) - noc.router.hop_cycles(0),
        // Links of NOC-Out have times of their own, and a crossbar has none.
        NocTopology::NocOut | NocTopology::Crossbar => 1,
    };
    // Forwards of a home to memory must not overtake each other: a block that is written back is
    // in memory before it is read again. Nor may remote stores of a core to another one.
    let is_integrated = machine.ni.placement == Placement::CacheIntegrated;
    let routing = match noc.topology {
        NocTopology::Mesh => routing(noc.routing),
        NocTopology::NocOut | NocTopology::Crossbar => Routing::Minimal,
    };
    let vnet = |number: usize| VnetSpec {
        vcs: noc.vcs as usize * routing.orders().len(),
        ordered: number == usize::from(VNET_FORWARD)
            || is_integrated && number == usize::from(VNET_NETWORK),
    };
    Spec {
        topology,
        concentration: 1,
        routing,
        router: noc.router,
        vnets: (0..VNETS).map(vnet).collect(),
        urgent: if noc.priorities { vec![VNET_RESPONSE, VNET_FORWARD] } else { Vec::new() },
        buffer_flits: noc.buffer_flits as usize,
        link_latency_cycles,
        tree_hop_cycles: u64::from(noc.tree_hop_cycles),
        tiles_per_cycle: u64::from(noc.tiles_per_cycle),
        sources: noc.sources,
        // A packet that is sent in a cycle can enter its router in the next one.
        injection_latency_cycles: u64::from(noc.injection_cycles - 1),
        ejection_latency_cycles: u64::from(noc.ejection_cycles),
        delivery_capacity_packets: noc.delivery_packets as usize,
        allocator: Allocator::OneRequest,
        dateline: Dateline::Crossing,
        ejection_credits: false,
    }
}

fn routing(routing: NocRouting) -> Routing {
    match routing {
        NocRouting::Xy => Routing::Xy,
        NocRouting::Yx => Routing::Yx,
        NocRouting::O1turn => Routing::O1Turn,
        NocRouting::Cdr => Routing::Cdr,
        NocRouting::CdrDirectory => Routing::CdrDirectory,
    }
}
