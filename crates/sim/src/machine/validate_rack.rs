//! Checks of racks of simplified nodes.

use super::rack::{TrafficLoop, TrafficPattern};
use super::spec::Machine;
use super::validate::{Checked, at_least, not_negative, positive, power_of_two, require};
use crate::noc::Shape;

/// Nodes that a packet's header tells apart.
const MAX_NODES: usize = rackmem_abi::MAX_NODES;

/// Requests under way from a node: more than any queue pairs hold, and few enough for flat tables.
const MAX_REQUESTS: u32 = 1 << 14;

/// Virtual channels and buffers of a router are counted in words and bytes.
const MAX_VCS: u32 = 32;
const MAX_BUFFER_FLITS: u32 = 200;

/// Longest time between two parts of a network: it is counted in bytes.
const MAX_LINK_CYCLES: u64 = 200;

/// Checks a machine of kind `torus`.
///
/// # Errors
/// The first setting with which such a rack cannot be built.
pub(super) fn rack(machine: &Machine) -> Checked {
    links(machine)?;
    lanes(machine)?;
    node(machine)?;
    traffic(machine)
}

fn links(machine: &Machine) -> Checked {
    let rack = &machine.rack;
    require(matches!(rack.topology, Shape::Torus { .. }), "rack.topology", || {
        format!("is {}, must be a torus such as torus:8x8x8", rack.topology)
    })?;
    let nodes = rack.topology.endpoints();
    require(nodes <= MAX_NODES, "rack.topology", || {
        format!("{nodes} nodes, but packets can name {MAX_NODES} at most; make it smaller")
    })?;
    let (hop, router) = (machine.cycles(machine.network.hop_latency_ns), rack.router.hop_cycles(0));
    require(
        (router + 1..=router + MAX_LINK_CYCLES).contains(&hop),
        "network.hop_latency_ns",
        || {
            format!(
                "is {hop} cycles, must be {} to {}: rack.router takes {router} of it, the rest is link",
                router + 1,
                router + MAX_LINK_CYCLES
            )
        },
    )
}

fn lanes(machine: &Machine) -> Checked {
    let rack = &machine.rack;
    power_of_two("rack.link_bytes", rack.link_bytes.into())?;
    for (key, vcs) in [("rack.request_vcs", rack.request_vcs), ("rack.reply_vcs", rack.reply_vcs)] {
        require(vcs >= 2, key, || {
            format!("is {vcs}, must be at least 2: rings need one on each side of their dateline")
        })?;
    }
    let vcs = rack.request_vcs.saturating_add(rack.reply_vcs);
    require(vcs <= MAX_VCS, "rack.reply_vcs", || {
        format!("{vcs} with rack.request_vcs, a router's port has {MAX_VCS} at most")
    })?;
    require((1..=MAX_BUFFER_FLITS).contains(&rack.buffer_flits), "rack.buffer_flits", || {
        format!("is {}, must be 1 to {MAX_BUFFER_FLITS}", rack.buffer_flits)
    })
}

fn node(machine: &Machine) -> Checked {
    let node = &machine.node;
    for (key, value) in [
        ("node.injection_cycles", node.injection_cycles),
        ("node.ejection_cycles", node.ejection_cycles),
    ] {
        require((1..=MAX_LINK_CYCLES).contains(&value.into()), key, || {
            format!("is {value}, must be 1 to {MAX_LINK_CYCLES}")
        })?;
    }
    for (key, value) in [
        ("node.arrival_queue_packets", node.arrival_queue_packets),
        ("node.request_queue_packets", node.request_queue_packets),
        ("node.rgp_cycles", node.rgp_cycles),
        ("node.unroll_interval_cycles", node.unroll_interval_cycles),
        ("node.rrpp_interval_cycles", node.rrpp_interval_cycles),
        ("node.rrpp_transactions", node.rrpp_transactions),
        ("node.access_cycles", node.access_cycles),
        ("node.rcp_interval_cycles", node.rcp_interval_cycles),
        ("node.rcp_cycles", node.rcp_cycles),
    ] {
        at_least(key, value.into(), 1)?;
    }
    require((1..=MAX_REQUESTS).contains(&node.itt_entries), "node.itt_entries", || {
        format!("is {}, must be 1 to {MAX_REQUESTS}", node.itt_entries)
    })?;
    not_negative("node.memory_bytes_per_cycle", node.memory_bytes_per_cycle)
}

fn traffic(machine: &Machine) -> Checked {
    let traffic = &machine.traffic;
    let nodes = machine.rack.topology.endpoints();
    require((0.0..=1.0).contains(&traffic.hot_share), "traffic.hot_share", || {
        format!("is {}, must be 0 to 1: a share of the requests", traffic.hot_share)
    })?;
    require(usize::from(traffic.hot_node) < nodes, "traffic.hot_node", || {
        format!("is {}, but the last node is {}", traffic.hot_node, nodes - 1)
    })?;
    require(usize::from(traffic.sources) <= nodes, "traffic.sources", || {
        format!("is {}, but the rack has {nodes} nodes; 0 means all", traffic.sources)
    })?;
    let cube = match machine.rack.topology {
        Shape::Torus { size: [x, y, z], dimensions } => x == y && (dimensions == 2 || y == z),
        _ => true,
    };
    require(traffic.pattern != TrafficPattern::Transpose || cube, "traffic.pattern", || {
        format!(
            "is transpose, which needs rings of equal length in all dimensions; rack.topology is {}",
            machine.rack.topology
        )
    })?;
    match traffic.r#loop {
        TrafficLoop::Closed => require(
            (1..=MAX_REQUESTS).contains(&traffic.outstanding),
            "traffic.outstanding",
            || format!("is {}, must be 1 to {MAX_REQUESTS}", traffic.outstanding),
        ),
        TrafficLoop::Open => offered(machine),
    }
}

/// A node posts at most one request in a cycle.
fn offered(machine: &Machine) -> Checked {
    let gbps = machine.traffic.offered_gbps;
    positive("traffic.offered_gbps", gbps)?;
    let most = f64::from(machine.workload.transfer_bytes) * machine.clock_ghz;
    require(gbps <= most, "traffic.offered_gbps", || {
        format!("is {gbps}, must be at most {most}: a request of workload.transfer_bytes a cycle")
    })
}
