//! The measurement of a rack: what it counts, and the report of it.

use std::iter;
use std::ops::Add;

use super::Rack;
use super::counts::Counts;
use super::packet::{LANES, REPLY, REQUEST};
use super::rgp::{STALLS, Stall};
use super::run::check;
use super::zero_load::{self, zero_load_cycles};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::TrafficLoop;
use crate::measure::{Histogram, Reads};
use crate::report::{HopLatency, LaneReport, Latency, LinkLoad, NodeBandwidth, RackReport, Report};
use crate::run::meter::{Metered, Reading, Span, is_saturated, link_flits, read_vnets};
use crate::run::{RunError, Watchdog};

/// Names of the lanes in reports.
const LANE_NAMES: [&str; LANES] = ["request", "reply"];

/// Counters of a rack; it has a latency histogram for each number of hops.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    counts: Counts,
    /// By node.
    payload_bytes: Vec<u64>,
    stall_cycles: [u64; STALLS],
}

/// A rack and its watchdog: the GB/s of a node are measured.
pub(super) struct Measured {
    pub rack: Rack,
    pub watchdog: Watchdog,
    pub clock_ghz: f64,
    /// Reads in a cycle that open loops offer together.
    pub offered: Option<f64>,
}

impl Metered for Measured {
    type Counts = Tally;

    fn run_until(&mut self, end: Cycle) -> Result<(), RunError> {
        while self.rack.step(end) {
            check(&self.rack, &mut self.watchdog)?;
        }
        check(&self.rack, &mut self.watchdog)
    }

    fn amount(&mut self) -> f64 {
        let Rack { nodes, counts, .. } = &self.rack;
        let received: u64 = nodes.iter().map(|node| node.payload_bytes).sum();
        (received + counts.served_bytes) as f64 * self.clock_ghz / nodes.len() as f64
    }

    fn offered(&self) -> Option<f64> {
        self.offered
    }

    fn fresh(&mut self) -> Reads {
        let of = self.rack.latencies.iter().map(Histogram::reads);
        of.fold(Reads::default(), Reads::add)
    }

    fn read(&mut self, now: Cycle) -> Reading<Tally> {
        let rack = &mut self.rack;
        let mut stall_cycles = [0; STALLS];
        for node in &mut rack.nodes {
            node.rgp.settle(now);
            let sums = stall_cycles.iter_mut().zip(node.rgp.stall_cycles);
            sums.for_each(|(sum, cycles)| *sum += cycles);
        }
        let fresh = vec![Histogram::new(); rack.latencies.len()];
        let payload_bytes = rack.nodes.iter().map(|node| node.payload_bytes).collect();
        Reading {
            cycle: now,
            link_flits: link_flits(&rack.network),
            figures: figures(rack),
            latencies: std::mem::replace(&mut rack.latencies, fresh),
            counts: Tally { counts: rack.counts, payload_bytes, stall_cycles },
        }
    }
}

impl Span<'_, Tally> {
    /// Adds what only racks have to a report.
    pub fn complete(&self, common: Report, rack: &Rack) -> Report {
        let links = self.links(&rack.network);
        let counts = self.counts();
        let requests_per_cycle = self.per_cycle(counts.requests_completed as f64);
        let flits: u64 = counts.lanes.iter().map(|lane| lane.flits).sum();
        let rcp_gbps = self.node_gbps(self.payload_bytes().sum());
        let rrpp_gbps = self.node_gbps(counts.served_bytes);
        let rack_report = self.rack(rack, &links);
        Report {
            cycles: rack.now(),
            rcp_gbps,
            rrpp_gbps,
            app_gbps: rcp_gbps + rrpp_gbps,
            noc_gbps: self.node_gbps(flits * u64::from(self.machine.rack.link_bytes)),
            reads_per_us: requests_per_cycle * self.machine.clock_ghz * 1e3,
            links,
            rack: Some(rack_report),
            ..common
        }
    }

    fn counts(&self) -> Counts {
        self.after.counts.counts.since(&self.before.counts.counts)
    }

    /// Bytes in GB/s.
    fn gbps(&self, bytes: u64) -> f64 {
        self.per_cycle(bytes as f64) * self.machine.clock_ghz
    }

    /// Bytes of all nodes as a node's GB/s.
    fn node_gbps(&self, bytes: u64) -> f64 {
        self.gbps(bytes) / self.after.counts.payload_bytes.len().max(1) as f64
    }

    fn payload_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        let before = self.before.counts.payload_bytes.iter().chain(iter::repeat(&0));
        self.after.counts.payload_bytes.iter().zip(before).map(|(after, before)| after - before)
    }

    fn rack(&self, rack: &Rack, links: &[LinkLoad]) -> RackReport {
        let offered = offered_gbps(self.machine);
        let accepted = self.accepted(rack);
        let counts = self.counts();
        let served = counts.lanes[usize::from(REQUEST)].packets;
        let stalled = |stall: Stall| {
            let stall = stall as usize;
            let cycles =
                self.after.counts.stall_cycles[stall] - self.before.counts.stall_cycles[stall];
            self.per_cycle(cycles as f64) / rack.sources().max(1) as f64
        };
        RackReport {
            nodes: rack.nodes.len(),
            sources: rack.sources(),
            offered_gbps: offered,
            accepted_gbps: accepted,
            saturated: offered.is_some_and(|offered| {
                is_saturated(self.reads(rack, offered), self.reads(rack, accepted.mean))
            }),
            by_hops: self.by_hops(),
            link_mean: links.iter().map(|link| link.utilisation).sum::<f64>() / links.len() as f64,
            link_max: links.iter().map(|link| link.utilisation).fold(0.0, f64::max),
            lanes: [REQUEST, REPLY].map(|lane| self.lane(lane)).into(),
            memory_wait_mean_cycles: mean(counts.memory_wait_cycles, served),
            stalled_by_table: stalled(Stall::Table),
            stalled_by_flow_control: stalled(Stall::FlowControl),
            stalled_by_port: stalled(Stall::Port),
        }
    }

    fn accepted(&self, rack: &Rack) -> NodeBandwidth {
        let posts = rack.nodes.iter().map(|node| node.source.is_some());
        let sources = self.payload_bytes().zip(posts).filter(|&(_, posts)| posts);
        let mut gbps: Vec<f64> = sources.map(|(bytes, _)| self.gbps(bytes)).collect();
        gbps.sort_unstable_by(f64::total_cmp);
        let mean = gbps.iter().sum::<f64>() / gbps.len().max(1) as f64;
        let end = |gbps: Option<&f64>| gbps.copied().unwrap_or(0.0);
        NodeBandwidth { mean, min: end(gbps.first()), max: end(gbps.last()) }
    }

    /// Reads of the span, if each source gets so many GB/s.
    fn reads(&self, rack: &Rack, gbps: f64) -> f64 {
        let bytes = gbps / self.machine.clock_ghz * self.cycles() as f64 * rack.sources() as f64;
        bytes / f64::from(self.machine.workload.transfer_bytes)
    }

    fn by_hops(&self) -> Vec<HopLatency> {
        let of = |(hops, histogram): (usize, &Histogram)| {
            let zero_load_cycles = zero_load_cycles(self.machine, hops as u64);
            let latency = histogram.summary().map(Latency::from)?;
            Some(HopLatency { hops, zero_load_cycles, latency })
        };
        self.after.latencies.iter().enumerate().filter_map(of).collect()
    }

    fn lane(&self, lane: u8) -> LaneReport {
        let counts = &self.counts().lanes[usize::from(lane)];
        let way = zero_load::ways_cycles(self.machine, counts.packets, counts.hops, counts.flits);
        let waited = counts.transit_cycles - way;
        LaneReport {
            name: LANE_NAMES[usize::from(lane)],
            packets: counts.packets,
            hops_mean: mean(counts.hops, counts.packets),
            source_wait_mean_cycles: mean(counts.source_wait_cycles, counts.packets),
            way_mean_cycles: mean(way, counts.packets),
            network_wait_mean_cycles: mean(waited, counts.packets),
            arrival_wait_mean_cycles: mean(counts.arrival_wait_cycles, counts.packets),
        }
    }
}

/// GB/s that each source offers, in open loops.
pub(super) fn offered_gbps(machine: &Machine) -> Option<f64> {
    let traffic = &machine.traffic;
    (traffic.r#loop == TrafficLoop::Open).then_some(traffic.offered_gbps)
}

fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

/// Counters by the paths of their parts.
fn figures(rack: &Rack) -> Figures {
    let counts = &rack.counts;
    let mut figures = Figures::default();
    for (path, count) in [
        ("rcp.requests", counts.requests_completed),
        ("rcp.lines", counts.lanes[usize::from(REPLY)].packets),
        ("rrpp.requests", counts.lanes[usize::from(REQUEST)].packets),
        ("rrpp.memory_wait_cycles", counts.memory_wait_cycles),
    ] {
        figures.insert(path.to_owned(), count as f64);
    }
    read_vnets(&LANE_NAMES, &rack.network, &mut figures);
    for (number, node) in rack.nodes.iter().enumerate() {
        figures.insert(format!("node[{number}].payload_bytes"), node.payload_bytes as f64);
    }
    figures
}
