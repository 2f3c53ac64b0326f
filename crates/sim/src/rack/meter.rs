//! What a run has shown, and the report of it.

use std::iter;
use std::time::Instant;

use super::Rack;
use super::counts::Counts;
use super::packet::{LANES, REPLY, REQUEST};
use super::report::{HopLatency, LaneReport, NodeBandwidth, RackReport};
use super::rgp::{STALLS, Stall};
use super::zero_load::{self, zero_load_cycles};
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::TrafficLoop;
use crate::measure::{Histogram, Sampler, Segment};
use crate::report::{Bin, Latency, LinkLoad, Measured, Report};

/// Names of the lanes in reports.
const LANE_NAMES: [&str; LANES] = ["request", "reply"];

/// An open loop that got less than this share of what it asked for is saturated.
const ACCEPTED_SHARE: f64 = 0.95;

/// Counters at some moment, and the latencies that have been seen since the last one.
#[derive(Clone, Debug, Default)]
struct Reading {
    cycle: u64,
    counts: Counts,
    payload_bytes: Vec<u64>,
    stall_cycles: [u64; STALLS],
    link_flits: Vec<u64>,
    figures: Figures,
    /// By hops.
    latencies: Vec<Histogram>,
}

impl Segment for Reading {
    fn append(&mut self, next: Reading) {
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.iter_mut().zip(&next.latencies).for_each(|(all, more)| all.merge(more));
        *self = Reading { latencies, ..next };
    }
}

impl Reading {
    fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        self.latencies.iter().for_each(|histogram| all.merge(histogram));
        all
    }
}

/// Measures a run.
pub(super) struct Meter<'a> {
    machine: &'a Machine,
    began: Instant,
    sampler: Sampler<Reading>,
}

impl<'a> Meter<'a> {
    /// Begins in cycle 0.
    pub fn start(machine: &'a Machine) -> Meter<'a> {
        Meter { machine, began: Instant::now(), sampler: Sampler::new(&machine.run, 1.0) }
    }

    /// Cycle up to which to simulate before the next look.
    pub fn next(&self) -> u64 {
        self.sampler.next()
    }

    /// Looks at the rack; whether the run ends.
    pub fn look(&mut self, rack: &mut Rack) -> bool {
        let received: u64 = rack.nodes.iter().map(|node| node.payload_bytes).sum();
        let bytes = (received + rack.counts.served_bytes) as f64;
        let nodes = rack.nodes.len() as f64;
        let gb = bytes * self.machine.clock_ghz / nodes;
        self.sampler.look(rack.now(), gb, || reading(rack))
    }

    /// The report of the steady state.
    pub fn report(self, rack: &Rack) -> Report {
        let steady = self.sampler.finish();
        let half_width = steady.half_width(|segment| segment.latencies().mean());
        let before = steady.before.unwrap_or_default();
        let mut segments = steady.segments.into_iter();
        let mut last = segments.next().unwrap_or_default();
        segments.for_each(|next| last.append(next));
        let estimate = steady.estimate;
        let measured = Measured {
            from_cycle: before.cycle,
            to_cycle: last.cycle,
            app_gbps_half_width: Some(estimate.half_width).filter(|half| half.is_finite()),
            latency_half_width_cycles: half_width,
            precision_percent: self.machine.run.precision_percent,
        };
        let report = Span { machine: self.machine, before, last }.report(rack);
        Report {
            seconds: self.began.elapsed().as_secs_f64(),
            converged: estimate.converged,
            measured: Some(measured),
            windows: steady.windows,
            ..report
        }
    }
}

/// What was counted between two readings.
struct Span<'a> {
    machine: &'a Machine,
    before: Reading,
    last: Reading,
}

impl Span<'_> {
    fn report(&self, rack: &Rack) -> Report {
        let links = self.links(rack);
        let requests_per_cycle = self.per_cycle(self.counts().requests_completed as f64);
        let flits: u64 = self.counts().lanes.iter().map(|lane| lane.flits).sum();
        let rack_report = self.rack(rack, &links);
        Report {
            machine: self.machine.name.clone(),
            cycles: rack.now(),
            latency: self.last.latencies().summary().map(Latency::from),
            latencies: Bin::of(&self.last.latencies()),
            rcp_gbps: self.rcp_gbps(),
            rrpp_gbps: self.rrpp_gbps(),
            app_gbps: self.rcp_gbps() + self.rrpp_gbps(),
            noc_gbps: self.node_gbps(flits * u64::from(self.machine.rack.link_bytes)),
            reads_per_us: requests_per_cycle * self.machine.clock_ghz * 1e3,
            links,
            stats: self.last.figures.since(&self.before.figures),
            rack: Some(rack_report),
            ..Report::default()
        }
    }

    /// Counters of the span.
    fn counts(&self) -> Counts {
        self.last.counts.since(&self.before.counts)
    }

    fn per_cycle(&self, count: f64) -> f64 {
        count / (self.last.cycle - self.before.cycle).max(1) as f64
    }

    /// Bytes in GB/s.
    fn gbps(&self, bytes: u64) -> f64 {
        self.per_cycle(bytes as f64) * self.machine.clock_ghz
    }

    /// Bytes of all nodes as a node's GB/s.
    fn node_gbps(&self, bytes: u64) -> f64 {
        self.gbps(bytes) / self.last.payload_bytes.len().max(1) as f64
    }

    fn rcp_gbps(&self) -> f64 {
        self.node_gbps(self.payload_bytes().sum())
    }

    fn rrpp_gbps(&self) -> f64 {
        self.node_gbps(self.counts().served_bytes)
    }

    /// Payload by node.
    fn payload_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        let before = self.before.payload_bytes.iter().copied().chain(iter::repeat(0));
        self.last.payload_bytes.iter().zip(before).map(|(last, before)| last - before)
    }

    fn links(&self, rack: &Rack) -> Vec<LinkLoad> {
        let before = self.before.link_flits.iter().copied().chain(iter::repeat(0));
        let flits = self.last.link_flits.iter().zip(before);
        let place = |(x, y): (i16, i16)| (x as u16, y as u16);
        let load = |(load, (last, before)): (crate::noc::LinkLoad, (&u64, u64))| LinkLoad {
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

    fn by_hops(&self) -> Vec<HopLatency> {
        let of = |(hops, histogram): (usize, &Histogram)| {
            let zero_load_cycles = zero_load_cycles(self.machine, hops as u64);
            let latency = histogram.summary().map(Latency::from)?;
            Some(HopLatency { hops, zero_load_cycles, latency })
        };
        self.last.latencies.iter().enumerate().filter_map(of).collect()
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

fn reading(rack: &mut Rack) -> Reading {
    let now = rack.now();
    let mut stall_cycles = [0; STALLS];
    for node in &mut rack.nodes {
        node.rgp.settle(now);
        let sums = stall_cycles.iter_mut().zip(node.rgp.stall_cycles);
        sums.for_each(|(sum, cycles)| *sum += cycles);
    }
    let fresh = vec![Histogram::new(); rack.latencies.len()];
    Reading {
        cycle: now,
        counts: rack.counts,
        payload_bytes: rack.nodes.iter().map(|node| node.payload_bytes).collect(),
        stall_cycles,
        link_flits: rack.network.link_loads().map(|load| load.flits).collect(),
        figures: figures(rack),
        latencies: std::mem::replace(&mut rack.latencies, fresh),
    }
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
    for (name, vnet) in LANE_NAMES.iter().zip(&rack.network.stats().vnets) {
        figures.insert(format!("noc.packets.{name}"), vnet.packets_sent as f64);
        figures.insert(format!("noc.flits.{name}"), vnet.flits_injected as f64);
        let (hops, packets) = (vnet.hops as f64, vnet.packets_delivered as f64);
        figures.mean(format!("noc.hops_mean.{name}"), hops, packets);
    }
    for (number, node) in rack.nodes.iter().enumerate() {
        figures.insert(format!("node[{number}].payload_bytes"), node.payload_bytes as f64);
    }
    figures
}
