//! Windows, and the report of the last one.

use std::time::Instant;

use super::Rack;
use super::counts::Counts;
use super::histogram::Histogram;
use super::packet::{LANES, REPLY, REQUEST};
use super::report::{HopLatency, LaneReport, NodeBandwidth, RackReport};
use super::rgp::{STALLS, Stall};
use super::zero_load::{self, zero_load_cycles};
use crate::machine::Machine;
use crate::machine::spec::TrafficLoop;
use crate::report::{LinkLoad, Report, Stats, Window};

/// Names of the lanes in reports.
const LANE_NAMES: [&str; LANES] = ["request", "reply"];

/// An open loop that got less than this share of what it asked for is saturated.
const ACCEPTED_SHARE: f64 = 0.95;

/// Counters at some moment.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    cycle: u64,
    counts: Counts,
    payload_bytes: Vec<u64>,
    stall_cycles: [u64; STALLS],
    link_flits: Vec<u64>,
}

/// Measures a run.
pub(super) struct Meter<'a> {
    machine: &'a Machine,
    began: Instant,
    windows: Vec<Window>,
    /// Ends of the last window but one, and of the last one.
    before: Snapshot,
    last: Snapshot,
    stable: bool,
}

impl<'a> Meter<'a> {
    /// Begins.
    pub fn start(machine: &'a Machine, rack: &mut Rack) -> Meter<'a> {
        let last = snapshot(rack);
        let (windows, before, stable) = (Vec::new(), Snapshot::default(), false);
        Meter { machine, began: Instant::now(), windows, before, last, stable }
    }

    /// A window ends; whether the run does, too. If not, latencies begin anew.
    pub fn window(&mut self, rack: &mut Rack) -> bool {
        self.before = std::mem::replace(&mut self.last, snapshot(rack));
        let app_gbps = self.rcp_gbps() + self.rrpp_gbps();
        let previous = self.windows.last().map(|window| window.app_gbps);
        self.windows.push(Window { end_cycle: self.last.cycle, app_gbps });
        let run = &self.machine.run;
        let change = previous.map(|previous| (app_gbps - previous).abs() / previous.max(1e-9));
        let stable = change.is_some_and(|change| change * 100.0 < run.stable_percent);
        self.stable = stable && app_gbps > 0.0;
        let windows = self.windows.len() as u32;
        let ends = windows >= run.max_windows || windows >= run.min_windows && self.stable;
        if !ends {
            rack.latencies.iter_mut().for_each(Histogram::clear);
        }
        ends
    }

    /// The report of the last window.
    pub fn report(self, rack: &Rack) -> Report {
        let links = self.links(rack);
        let mut all = Histogram::new();
        rack.latencies.iter().for_each(|histogram| all.merge(histogram));
        let requests_per_cycle = self.per_cycle(self.counts().requests_completed as f64);
        let flits: u64 = self.counts().lanes.iter().map(|lane| lane.flits).sum();
        let rack_report = self.rack(rack, &links);
        Report {
            machine: self.machine.name.clone(),
            cycles: rack.now(),
            seconds: self.began.elapsed().as_secs_f64(),
            stable: self.stable,
            latency: all.latency(),
            rcp_gbps: self.rcp_gbps(),
            rrpp_gbps: self.rrpp_gbps(),
            app_gbps: self.rcp_gbps() + self.rrpp_gbps(),
            noc_gbps: self.node_gbps(flits * u64::from(self.machine.rack.link_bytes)),
            reads_per_us: requests_per_cycle * self.machine.clock_ghz * 1e3,
            links,
            stats: stats(rack),
            rack: Some(rack_report),
            windows: self.windows,
            ..Report::default()
        }
    }

    /// Counters of the last window.
    fn counts(&self) -> Counts {
        self.last.counts.since(&self.before.counts)
    }

    fn per_cycle(&self, count: f64) -> f64 {
        count / (self.last.cycle - self.before.cycle).max(1) as f64
    }

    /// Bytes of a window in GB/s.
    fn gbps(&self, bytes: u64) -> f64 {
        self.per_cycle(bytes as f64) * self.machine.clock_ghz
    }

    /// Bytes of all nodes in a window as a node's GB/s.
    fn node_gbps(&self, bytes: u64) -> f64 {
        self.gbps(bytes) / self.last.payload_bytes.len().max(1) as f64
    }

    fn rcp_gbps(&self) -> f64 {
        self.node_gbps(self.payload_bytes().sum())
    }

    fn rrpp_gbps(&self) -> f64 {
        self.node_gbps(self.counts().served_bytes)
    }

    /// Payload of the last window by node.
    fn payload_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.last
            .payload_bytes
            .iter()
            .zip(&self.before.payload_bytes)
            .map(|(last, before)| last - before)
    }

    fn links(&self, rack: &Rack) -> Vec<LinkLoad> {
        let flits = self.last.link_flits.iter().zip(&self.before.link_flits);
        let place = |(x, y): (i16, i16)| (x as u16, y as u16);
        let load = |(load, (last, before)): (crate::noc::LinkLoad, (&u64, &u64))| LinkLoad {
            from: place(load.from),
            to: place(load.to),
            utilisation: self.per_cycle((last - before) as f64),
        };
        rack.network.link_loads().zip(flits).map(load).collect()
    }

    fn rack(&self, rack: &Rack, links: &[LinkLoad]) -> RackReport {
        let traffic = &self.machine.traffic;
        let offered = (traffic.r#loop == TrafficLoop::Open).then_some(traffic.offered_gbps);
        let accepted = self.accepted(rack);
        let counts = self.counts();
        let served = counts.lanes[usize::from(REQUEST)].packets;
        let stalled = |stall: Stall| {
            let stall = stall as usize;
            let cycles = self.last.stall_cycles[stall] - self.before.stall_cycles[stall];
            self.per_cycle(cycles as f64) / rack.sources().max(1) as f64
        };
        RackReport {
            nodes: rack.nodes.len(),
            sources: rack.sources(),
            offered_gbps: offered,
            accepted_gbps: accepted,
            saturated: offered.is_some_and(|offered| accepted.mean < offered * ACCEPTED_SHARE),
            by_hops: self.by_hops(rack),
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

    fn by_hops(&self, rack: &Rack) -> Vec<HopLatency> {
        let of = |(hops, histogram): (usize, &Histogram)| {
            let zero_load_cycles = zero_load_cycles(self.machine, hops as u64);
            histogram.latency().map(|latency| HopLatency { hops, zero_load_cycles, latency })
        };
        rack.latencies.iter().enumerate().filter_map(of).collect()
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

fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

fn snapshot(rack: &mut Rack) -> Snapshot {
    let now = rack.now();
    let mut stall_cycles = [0; STALLS];
    for node in &mut rack.nodes {
        node.rgp.settle(now);
        let sums = stall_cycles.iter_mut().zip(node.rgp.stall_cycles);
        sums.for_each(|(sum, cycles)| *sum += cycles);
    }
    Snapshot {
        cycle: now,
        counts: rack.counts,
        payload_bytes: rack.nodes.iter().map(|node| node.payload_bytes).collect(),
        stall_cycles,
        link_flits: rack.network.link_loads().map(|load| load.flits).collect(),
    }
}

/// Counters of the whole run by the paths of their parts.
fn stats(rack: &Rack) -> Stats {
    let counts = &rack.counts;
    let mut stats: Stats = [
        ("rcp.requests", counts.requests_completed),
        ("rcp.lines", counts.lanes[usize::from(REPLY)].packets),
        ("rrpp.requests", counts.lanes[usize::from(REQUEST)].packets),
        ("rrpp.memory_wait_cycles", counts.memory_wait_cycles),
    ]
    .map(|(path, count)| (path.to_owned(), count as f64))
    .into();
    for (name, vnet) in LANE_NAMES.iter().zip(&rack.network.stats().vnets) {
        stats.insert(format!("noc.packets.{name}"), vnet.packets_sent as f64);
        stats.insert(format!("noc.flits.{name}"), vnet.flits_injected as f64);
        stats.insert(format!("noc.hops_mean.{name}"), mean(vnet.hops, vnet.packets_delivered));
    }
    for (number, node) in rack.nodes.iter().enumerate() {
        stats.insert(format!("node[{number}].payload_bytes"), node.payload_bytes as f64);
    }
    stats
}
