//! The latency of a request that is alone in the rack: a sum of its machine's times.

use super::packet::{Format, REPLY, REQUEST};
use crate::machine::Machine;

/// Cycles from posting a request to its completion over so many hops if nothing else is under way.
///
/// The first line pays for all parts; those behind it follow at the pace of the slowest part. If the
/// last line is short, its shorter packets count for nothing but their own way.
pub fn zero_load_cycles(machine: &Machine, hops: u64) -> u64 {
    let (node, format) = (&machine.node, Format::new(machine));
    let lines = format.lines();
    let length = format.length(1);
    let service = [node.rrpp_request_cycles, node.access_cycles, node.rrpp_reply_cycles];
    let ends = u64::from(node.rgp_cycles) + u64::from(node.rcp_cycles);
    let line = way(machine, hops, format.flits(REQUEST, length))
        + service.iter().map(|&cycles| u64::from(cycles)).sum::<u64>()
        + way(machine, hops, format.flits(REPLY, length));
    ends + line + (f64::from(lines - 1) * pace(machine, &format)).ceil() as u64
}

/// Cycles from leaving its queue to the arrival of its tail, summed over so many packets with so many
/// hops and flits in all, if each is alone.
pub(super) fn ways_cycles(machine: &Machine, packets: u64, hops: u64, flits: u64) -> u64 {
    let hop_cycles = machine.cycles(machine.network.hop_latency_ns);
    packets * ends_cycles(machine) + hops * hop_cycles + flits - packets
}

fn way(machine: &Machine, hops: u64, flits: u8) -> u64 {
    ways_cycles(machine, 1, hops, flits.into())
}

/// Cycles of every packet besides hops: the way in, the last router and the way out.
fn ends_cycles(machine: &Machine) -> u64 {
    let last_router = machine.rack.router.hop_cycles(machine.node.ejection_cycles.into());
    u64::from(machine.node.injection_cycles) + last_router
}

/// Cycles between two lines of a request at the slowest part that they pass.
fn pace(machine: &Machine, format: &Format) -> f64 {
    let (node, rack) = (&machine.node, &machine.rack);
    let lane =
        |lane, vcs| lane_pace(machine, format.flits(lane, rackmem_abi::LINE_BYTES as u8), vcs);
    let memory = match node.memory_bytes_per_cycle {
        0.0 => 0.0,
        bytes => rackmem_abi::LINE_BYTES as f64 / bytes,
    };
    let parts = [
        f64::from(node.unroll_interval_cycles),
        f64::from(node.rrpp_interval_cycles),
        f64::from(node.rcp_interval_cycles),
        lane(REQUEST, rack.request_vcs),
        lane(REPLY, rack.reply_vcs),
        memory,
    ];
    parts.into_iter().fold(0.0, f64::max)
}

/// Cycles between two packets of a lane: their flits cross a link, and each channel on one side of a
/// dateline, which are half of all, rests while the next head passes the router's first stages.
fn lane_pace(machine: &Machine, flits: u8, vcs: u32) -> f64 {
    let of_channel = u64::from(flits) + machine.rack.router.cycles_before_switch();
    f64::from(flits).max(of_channel as f64 / f64::from(vcs / 2))
}
