//! The network on chip that a machine asks for.

use super::message::{VNET_FORWARD, VNET_NETWORK, VNET_RESPONSE, VNETS};
use crate::machine::Machine;
use crate::machine::spec::{NocRouting, NocTopology, Placement};
use crate::noc::{Allocator, Dateline, Pipeline, Routing, Shape, Spec, VnetSpec};

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
    let hop = match noc.topology {
        NocTopology::NocOut => noc.butterfly_router_cycles + 1,
        NocTopology::Mesh | NocTopology::Crossbar => noc.hop_cycles,
    };
    let (router, link_latency_cycles) = pipeline(u64::from(hop));
    // Forwards of a home to memory must not overtake each other: a block that is written back is
    // in memory before it is read again. Nor may remote stores of a core to another one.
    let is_integrated = machine.ni.placement == Placement::CacheIntegrated;
    let vnet = |number: usize| VnetSpec {
        vcs: noc.vcs as usize,
        ordered: number == usize::from(VNET_FORWARD)
            || is_integrated && number == usize::from(VNET_NETWORK),
    };
    Spec {
        topology,
        concentration: 1,
        routing: match noc.topology {
            NocTopology::Mesh => routing(noc.routing),
            NocTopology::NocOut | NocTopology::Crossbar => Routing::Minimal,
        },
        router,
        vnets: (0..VNETS).map(vnet).collect(),
        urgent: if noc.priorities { vec![VNET_RESPONSE, VNET_FORWARD] } else { Vec::new() },
        buffer_flits: noc.buffer_flits as usize,
        link_latency_cycles,
        tree_hop_cycles: u64::from(noc.tree_hop_cycles),
        tiles_per_cycle: u64::from(noc.tiles_per_cycle),
        // A packet that is sent in a cycle can enter its router in the next one.
        injection_latency_cycles: u64::from(noc.injection_cycles.max(2) - 1),
        ejection_latency_cycles: u64::from(noc.ejection_cycles),
        delivery_capacity_packets: noc.delivery_packets as usize,
        allocator: Allocator::OneRequest,
        dateline: Dateline::Crossing,
        ejection_credits: false,
    }
}

/// A router of two stages and the link, or one cycle for all if there is no time for stages.
fn pipeline(hop_cycles: u64) -> (Pipeline, u64) {
    let stages = Pipeline::Three.hop_cycles(0);
    match hop_cycles.checked_sub(stages) {
        Some(link @ 1..) => (Pipeline::Three, link),
        _ => (Pipeline::One, hop_cycles),
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
