//! The report of a rack of simplified nodes, for people.

use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::{TrafficLoop, TrafficOp, TrafficPattern};
use rackmem_sim::report::{RackReport, Report};

use super::render::{latency_of, span};
use crate::console::{Align, Table};
use crate::size;

/// Its parts.
pub(super) fn report(machine: &Machine, report: &Report, rack: &RackReport) -> Vec<String> {
    let measured = span(report);
    let summary =
        [load(machine, rack), bandwidth(rack), links(rack), stalls(rack), measured].concat();
    let latency =
        latency_of(operation(machine), Some(machine.workload.transfer_bytes), machine, report);
    let parts = [Some(summary), latency, Some(by_hops(rack)), Some(lanes(rack))];
    parts.into_iter().flatten().collect()
}

fn operation(machine: &Machine) -> &'static str {
    match machine.traffic.op {
        TrafficOp::Read => "read",
        TrafficOp::Write => "write",
    }
}

fn pattern(machine: &Machine) -> String {
    let traffic = &machine.traffic;
    match traffic.pattern {
        TrafficPattern::Uniform => "uniform".to_owned(),
        TrafficPattern::Neighbour => "neighbour".to_owned(),
        TrafficPattern::HotSpot => {
            format!("hot-spot ({} % to node {})", traffic.hot_share * 100.0, traffic.hot_node)
        }
        TrafficPattern::Transpose => "transpose".to_owned(),
        TrafficPattern::BitComplement => "bit-complement".to_owned(),
        TrafficPattern::Tornado => "tornado".to_owned(),
    }
}

fn load(machine: &Machine, rack: &RackReport) -> String {
    let traffic = &machine.traffic;
    let amount = match traffic.r#loop {
        TrafficLoop::Closed => format!("{} outstanding per node", traffic.outstanding),
        TrafficLoop::Open => format!("{} GB/s offered per node", traffic.offered_gbps),
    };
    let sources = match rack.sources == rack.nodes {
        true => String::new(),
        false => format!(" from {} of them", rack.sources),
    };
    let length = size::exact(machine.workload.transfer_bytes.into());
    let (pattern, operation) = (pattern(machine), operation(machine));
    format!("{} nodes, {pattern} {operation}s of {length}{sources}, {amount}\n", rack.nodes)
}

fn bandwidth(rack: &RackReport) -> String {
    let accepted = rack.accepted_gbps;
    let saturated = if rack.saturated { "; SATURATED" } else { "" };
    format!(
        "accepted per source: {:.2} GB/s (least {:.2}, most {:.2}){saturated}\n",
        accepted.mean, accepted.min, accepted.max
    )
}

fn links(rack: &RackReport) -> String {
    let [mean, max] = [rack.link_mean, rack.link_max].map(|load| load * 100.0);
    format!("links between routers: {mean:.1} % in use, busiest link {max:.1} %\n")
}

fn stalls(rack: &RackReport) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    format!(
        "RGPs wait {} of the time for ITT entries, {} for lines under way, {} for their port; \
         lines wait {:.1} cycles for memory\n",
        percent(rack.stalled_by_table),
        percent(rack.stalled_by_flow_control),
        percent(rack.stalled_by_port),
        rack.memory_wait_mean_cycles
    )
}

fn by_hops(rack: &RackReport) -> String {
    const COLUMNS: [&str; 7] = ["hops", "requests", "no load", "mean", "median", "99 %", "max"];
    let mut table = Table::new(&COLUMNS.map(|name| (name, Align::Right)));
    for of in &rack.by_hops {
        let latency = &of.latency;
        table.row([
            of.hops.to_string(),
            latency.count.to_string(),
            of.zero_load_cycles.to_string(),
            format!("{:.1}", latency.mean_cycles),
            latency.p50_cycles.to_string(),
            latency.p99_cycles.to_string(),
            latency.max_cycles.to_string(),
        ]);
    }
    table.render() + "latency in cycles by hops between the two nodes\n"
}

fn lanes(rack: &RackReport) -> String {
    let names = ["packets", "hops", "at source", "way", "in network", "at pipeline"];
    let columns = names.iter().map(|&name| (name, Align::Right));
    let mut table =
        Table::new(&[("lane", Align::Left)].into_iter().chain(columns).collect::<Vec<_>>());
    for lane in &rack.lanes {
        let cycles = |mean: f64| format!("{mean:.1}");
        table.row([
            lane.name.to_owned(),
            lane.packets.to_string(),
            format!("{:.2}", lane.hops_mean),
            cycles(lane.source_wait_mean_cycles),
            cycles(lane.way_mean_cycles),
            cycles(lane.network_wait_mean_cycles),
            cycles(lane.arrival_wait_mean_cycles),
        ]);
    }
    table.render()
        + "mean cycles of a packet: its way without load, and where it waits beyond that\n"
}
