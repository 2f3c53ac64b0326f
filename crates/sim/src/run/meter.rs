//! What a run of a chip has shown, and the report of it.

use std::time::Instant;

use crate::chip::Chip;
use crate::chip::message::VNETS;
use crate::chip::probe::Sums;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::measure::{Histogram, Sampler, Segment};
use crate::report::{Bin, Latency, LinkLoad, Measured, Offered, Report};

/// An open loop of which less than this share was completed is saturated.
const COMPLETED_SHARE: f64 = 0.95;

/// Counters of parts that reports have for the whole chip, too.
const TOTALS: [(&str, &str); 6] = [
    ("home", "llc_hits"),
    ("home", "llc_misses"),
    ("home", "llc_writebacks"),
    ("memory", "reads"),
    ("memory", "writes"),
    ("rrpp", "replies"),
];

/// Counters at some moment, and the latencies that have been seen since the last one.
#[derive(Clone, Debug, Default)]
struct Reading {
    cycle: Cycle,
    rcp_lines: u64,
    rrpp_lines: u64,
    reads: u64,
    flits: u64,
    link_flits: Vec<u64>,
    figures: Figures,
    stages: Sums,
    latencies: Histogram,
}

impl Segment for Reading {
    fn append(&mut self, next: Reading) {
        let mut latencies = std::mem::take(&mut self.latencies);
        latencies.merge(&next.latencies);
        *self = Reading { latencies, ..next };
    }
}

/// Measures a run of asynchronous reads.
pub struct Meter<'a> {
    machine: &'a Machine,
    began: Instant,
    sampler: Sampler<Reading>,
}

impl<'a> Meter<'a> {
    /// Begins in cycle 0.
    pub fn start(machine: &'a Machine) -> Meter<'a> {
        let unit = gbps(machine, 1.0);
        Meter { machine, began: Instant::now(), sampler: Sampler::new(&machine.run, unit) }
    }

    /// Cycle up to which to simulate before the next look.
    pub fn next(&self) -> Cycle {
        self.sampler.next()
    }

    /// Looks at the chip; whether the run ends.
    pub fn look(&mut self, chip: &mut Chip) -> bool {
        let counts = &chip.wires.counts;
        let lines = (counts.rcp_lines + counts.rrpp_lines) as f64;
        self.sampler.look(chip.wires.now, lines, || reading(chip))
    }

    /// The report of the steady state.
    pub fn report(self, chip: &mut Chip) -> Report {
        let machine = self.machine;
        let steady = self.sampler.finish();
        let half_width = steady.half_width(|segment| segment.latencies.mean());
        let before = steady.before.unwrap_or_default();
        let mut segments = steady.segments.into_iter();
        let mut after = segments.next().unwrap_or_default();
        segments.for_each(|next| after.append(next));
        let estimate = steady.estimate;
        let measured = Measured {
            from_cycle: before.cycle,
            to_cycle: after.cycle,
            app_gbps_half_width: Some(estimate.half_width).filter(|half| half.is_finite()),
            latency_half_width_cycles: half_width,
            precision_percent: machine.run.precision_percent,
        };
        let report = report(machine, self.began, chip, &before, &after);
        let offered = (machine.workload.rate > 0.0).then(|| {
            let reads_per_us = machine.workload.rate * super::cores(machine).len() as f64;
            let saturated = report.reads_per_us < reads_per_us * COMPLETED_SHARE;
            Offered { reads_per_us, saturated }
        });
        Report {
            converged: estimate.converged,
            measured: Some(measured),
            offered,
            latency: after.latencies.summary().map(Latency::from),
            latencies: Bin::of(&after.latencies),
            windows: steady.windows,
            ..report
        }
    }
}

/// The report of a run of synchronous reads, warm-up and all.
pub fn latency_report(
    machine: &Machine,
    began: Instant,
    chip: &mut Chip,
    latencies: &[u64],
) -> Report {
    let mut counted = Histogram::new();
    latencies.iter().for_each(|&latency| counted.add(latency));
    let last = reading(chip);
    let report = report(machine, began, chip, &Reading::default(), &last);
    let latency = counted.summary().map(Latency::from);
    Report { converged: true, latency, latencies: Bin::of(&counted), ..report }
}

/// What was counted between two readings.
fn report(
    machine: &Machine,
    began: Instant,
    chip: &mut Chip,
    before: &Reading,
    after: &Reading,
) -> Report {
    let cycles = (after.cycle - before.cycle).max(1) as f64;
    let per_cycle = |of: fn(&Reading) -> u64| (of(after) - of(before)) as f64 / cycles;
    let rcp_gbps = gbps(machine, per_cycle(|at| at.rcp_lines));
    let rrpp_gbps = gbps(machine, per_cycle(|at| at.rrpp_lines));
    let flit_gbps = f64::from(machine.noc.link_bytes) * machine.clock_ghz;
    Report {
        machine: machine.name.clone(),
        cycles: chip.wires.now,
        seconds: began.elapsed().as_secs_f64(),
        breakdown: chip.wires.probe.breakdown(&before.stages, &after.stages),
        rcp_gbps,
        rrpp_gbps,
        app_gbps: rcp_gbps + rrpp_gbps,
        noc_gbps: per_cycle(|at| at.flits) * flit_gbps,
        reads_per_us: per_cycle(|at| at.reads) * machine.clock_ghz * 1e3,
        links: links(chip, before, after),
        stats: after.figures.since(&before.figures),
        trace: chip.wires.trace.take(),
        ..Report::default()
    }
}

/// Lines per cycle as GB/s.
fn gbps(machine: &Machine, lines_per_cycle: f64) -> f64 {
    lines_per_cycle * 64.0 * machine.clock_ghz
}

fn links(chip: &Chip, before: &Reading, after: &Reading) -> Vec<LinkLoad> {
    let cycles = (after.cycle - before.cycle).max(1) as f64;
    let earlier = before.link_flits.iter().copied().chain(std::iter::repeat(0));
    let flits = after.link_flits.iter().zip(earlier);
    // Some networks have routers to the left of column 0; a drawing begins at 0.
    let left = chip.wires.net.link_loads().map(|load| load.from.0).min().unwrap_or(0);
    let place = |(x, y): (i16, i16)| ((x - left) as u16, y as u16);
    chip.wires
        .net
        .link_loads()
        .zip(flits)
        .map(|(load, (last, before))| LinkLoad {
            from: place(load.from),
            to: place(load.to),
            utilisation: (last - before) as f64 / cycles,
        })
        .collect()
}

fn reading(chip: &mut Chip) -> Reading {
    let counts = &chip.wires.counts;
    Reading {
        cycle: chip.wires.now,
        rcp_lines: counts.rcp_lines,
        rrpp_lines: counts.rrpp_lines,
        reads: counts.reads,
        flits: chip.wires.net.stats().flits_injected(),
        link_flits: chip.wires.net.link_loads().map(|load| load.flits).collect(),
        figures: figures(chip),
        stages: chip.wires.probe.sums(),
        latencies: std::mem::take(&mut chip.wires.latencies),
    }
}

/// All counters by the paths of their parts.
fn figures(chip: &Chip) -> Figures {
    const NAMES: [&str; VNETS] = ["request", "forward", "response", "network"];
    let mut figures = Figures::default();
    let counts = &chip.wires.counts;
    counts.write_to(&mut figures);
    let mut mean = |path: &str, sum: u64, count: u64| {
        figures.mean(path.to_owned(), sum as f64, count as f64);
    };
    mean("rrpp.hops_mean", counts.rrpp_hops, counts.rrpp_accesses);
    mean("rrpp.dram_share", counts.rrpp_from_memory, counts.rrpp_accesses);
    let network = chip.wires.net.stats();
    for (name, vnet) in NAMES.iter().zip(&network.vnets) {
        figures.insert(format!("noc.flits.{name}"), vnet.flits_injected as f64);
        figures.insert(format!("noc.packets.{name}"), vnet.packets_sent as f64);
        let (hops, packets) = (vnet.hops as f64, vnet.packets_delivered as f64);
        figures.mean(format!("noc.hops_mean.{name}"), hops, packets);
    }
    let turns = network.directory_turns_at_edge as f64;
    figures.insert("noc.edge_turns_directory".to_owned(), turns);
    chip.homes.iter().for_each(|home| home.write_stats(&mut figures));
    let now = chip.wires.now;
    chip.memories.iter().for_each(|memory| memory.write_stats(now, &mut figures));
    chip.ni.write_stats(&chip.tiles, &chip.wires, &mut figures);
    for (part, name) in TOTALS {
        figures.total(part, name);
    }
    let cycles = figures.total("rrpp", "latency_mean_cycles");
    figures.insert("rrpp.latency_cycles".to_owned(), cycles);
    for (number, tile) in chip.tiles.iter().enumerate() {
        figures.insert(format!("tile[{number}].core.reads"), tile.core.reads() as f64);
    }
    figures
}
