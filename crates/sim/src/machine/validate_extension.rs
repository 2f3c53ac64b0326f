//! Checks of nodes with an extended on-chip interconnect.

use rackmem_rmc::amt::MAX_SLOTS;
use rackmem_rmc::link::MAX_WINDOW;

use super::spec::{ExperimentKind, Machine};
use super::validate::{Checked, at_least, not_negative, positive, require};

/// Nodes of a rack: each may have a link to each other one.
const MAX_NODES: u16 = 64;

/// Cores of a node.
const MAX_CORES: u16 = 64;

/// Connections of the queue pair channel (TSM §4.2: up to 64k).
const MAX_CONNECTIONS: u32 = 1 << 16;

/// Bytes of a burst of channels: far beyond those of buses, so that its lines can be counted in 16 bits.
const MAX_BURST_BYTES: u32 = 1 << 16;

/// Checks a machine of kind `soc`.
///
/// # Errors
/// The first setting with which such nodes cannot be built.
pub(super) fn extension(machine: &Machine) -> Checked {
    addresses(machine)?;
    module(machine)?;
    link(machine)?;
    node(machine)?;
    card(machine)?;
    queue_pairs(machine)?;
    experiment(machine)
}

/// The nodes, and where each sees the others' addresses. Chips have as many nodes as execute, and the window follows
/// their memory.
fn addresses(machine: &Machine) -> Checked {
    let spec = &machine.extension;
    require((2..=MAX_NODES).contains(&spec.nodes), "extension.nodes", || {
        format!("is {}, must be 2 to {MAX_NODES}", spec.nodes)
    })?;
    let links = spec.topology.links(spec.nodes);
    require(links < spec.switch_ports, "extension.switch_ports", || {
        format!("is {}, must be more than the {links} links of a node", spec.switch_ports)
    })?;
    let ends = spec.lva_base_bytes.checked_add(spec.lva_bytes).is_some();
    require(ends, "extension.lva_bytes", || {
        "the window ends beyond 2^64; make it smaller".to_owned()
    })?;
    // Below the window a node has its memory and its devices.
    at_least("extension.lva_base_bytes", spec.lva_base_bytes, 2 << 30)
}

pub(super) fn module(machine: &Machine) -> Checked {
    let spec = &machine.extension;
    positive("extension.oci_mhz", spec.oci_mhz)?;
    at_least("extension.oci_bytes", spec.oci_bytes.into(), 1)?;
    at_least("extension.fifo_packets", spec.fifo_packets.into(), 1)?;
    at_least("extension.slave_transactions", spec.slave_transactions.into(), 1)?;
    require((1..=MAX_SLOTS).contains(&spec.amt_slots), "extension.amt_slots", || {
        format!("is {}, must be 1 to {MAX_SLOTS}", spec.amt_slots)
    })?;
    at_least("extension.amt_slots_per_cycle", spec.amt_slots_per_cycle.into(), 1)
}

pub(super) fn link(machine: &Machine) -> Checked {
    let spec = &machine.extension;
    positive("extension.lane_gbps", spec.lane_gbps)?;
    at_least("extension.lane_bytes", spec.lane_bytes.into(), 1)?;
    at_least("extension.frame_overhead_bytes", spec.frame_overhead_bytes.into(), 1)?;
    let window = spec.link_window;
    require(window.is_power_of_two() && window <= MAX_WINDOW, "extension.link_window", || {
        format!("is {window}, must be a power of two up to {MAX_WINDOW}")
    })?;
    require((1..=MAX_WINDOW).contains(&spec.link_room), "extension.link_room", || {
        format!("is {}, must be 1 to {MAX_WINDOW}", spec.link_room)
    })?;
    positive("extension.link_timeout_ns", spec.link_timeout_ns)?;
    not_negative("extension.flight_ns", spec.flight_ns)?;
    let faults = spec.lost_per_million.saturating_add(spec.damaged_per_million);
    require(faults <= 500_000, "extension.lost_per_million", || {
        format!(
            "{faults} of a million frames with extension.damaged_per_million, at most half may fail"
        )
    })
}

fn node(machine: &Machine) -> Checked {
    let soc = &machine.soc;
    require((1..=MAX_CORES).contains(&soc.cores), "soc.cores", || {
        format!("is {}, must be 1 to {MAX_CORES}", soc.cores)
    })?;
    positive("soc.core_mhz", soc.core_mhz)?;
    at_least("soc.line_bytes", soc.line_bytes.into(), 1)?;
    for (key, value) in [
        ("soc.port_ns", soc.port_ns),
        ("soc.register_ns", soc.register_ns),
        ("soc.call_ns", soc.call_ns),
        ("soc.interrupt_ns", soc.interrupt_ns),
        ("soc.wake_ns", soc.wake_ns),
        ("soc.copy_ns_per_kb", soc.copy_ns_per_kb),
    ] {
        not_negative(key, value)?;
    }
    Ok(())
}

pub(super) fn card(machine: &Machine) -> Checked {
    let nic = &machine.nic;
    positive("nic.gbps", nic.gbps)?;
    require(nic.mtu > nic.header_bytes, "nic.mtu", || {
        format!("is {}, must be more than nic.header_bytes, {}", nic.mtu, nic.header_bytes)
    })?;
    for (key, value) in [
        ("nic.burst_bytes", nic.burst_bytes),
        ("nic.bursts", nic.bursts),
        ("nic.buffer_frames", nic.buffer_frames),
        ("nic.ring", nic.ring),
        ("nic.coalesce_frames", nic.coalesce_frames),
        ("nic.packets_per_ack", nic.packets_per_ack),
    ] {
        at_least(key, value.into(), 1)?;
    }
    // Fewer packets than one acknowledgement is for would wait for it for ever.
    let least = nic.packets_per_ack.saturating_mul(nic.mtu - nic.header_bytes);
    at_least("nic.window_bytes", nic.window_bytes.into(), least.into())?;
    for (key, value) in [
        ("nic.coalesce_ns", nic.coalesce_ns),
        ("nic.mac_ns", nic.mac_ns),
        ("nic.switch_ns", nic.switch_ns),
        ("nic.peer_ns", nic.peer_ns),
        ("nic.send_ns", nic.send_ns),
        ("nic.receive_ns", nic.receive_ns),
        ("nic.ack_ns", nic.ack_ns),
        ("nic.reclaim_ns", nic.reclaim_ns),
    ] {
        not_negative(key, value)?;
    }
    Ok(())
}

pub(super) fn queue_pairs(machine: &Machine) -> Checked {
    let qpair = &machine.qpair;
    require((1..=MAX_CONNECTIONS).contains(&qpair.connections), "qpair.connections", || {
        format!("is {}, must be 1 to {MAX_CONNECTIONS}", qpair.connections)
    })?;
    for (key, value) in [
        ("qpair.queue_entries", qpair.queue_entries),
        ("qpair.packet_bytes", qpair.packet_bytes),
        ("qpair.burst_bytes", qpair.burst_bytes),
        ("qpair.bursts", qpair.bursts),
        ("qpair.page_bytes", qpair.page_bytes),
    ] {
        at_least(key, value.into(), 1)?;
    }
    require(qpair.burst_bytes <= MAX_BURST_BYTES, "qpair.burst_bytes", || {
        format!("is {}, must be 1 to {MAX_BURST_BYTES}", qpair.burst_bytes)
    })?;
    require(qpair.ocm_reserved_bytes <= qpair.ocm_bytes, "qpair.ocm_reserved_bytes", || {
        format!(
            "is {}, there are {} bytes of on-chip memory",
            qpair.ocm_reserved_bytes, qpair.ocm_bytes
        )
    })
}

fn experiment(machine: &Machine) -> Checked {
    let experiment = &machine.experiment;
    at_least("experiment.count", experiment.count, 1)?;
    let needs_bytes = experiment.kind != ExperimentKind::Reads;
    at_least("experiment.message_bytes", experiment.message_bytes.into(), needs_bytes.into())?;
    require(experiment.message_bytes <= 1 << 30, "experiment.message_bytes", || {
        format!("is {}, must be at most 1 GB: a node's memory", experiment.message_bytes)
    })?;
    let line = machine.soc.line_bytes.into();
    at_least("experiment.footprint_bytes", experiment.footprint_bytes, line)?;
    require(experiment.footprint_bytes <= 1 << 30, "experiment.footprint_bytes", || {
        format!("is {}, must be at most 1 GB: a node's memory", experiment.footprint_bytes)
    })
}
