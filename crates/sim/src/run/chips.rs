//! The measurement of chips: what they count, and the report of it.

use std::time::Instant;

use super::meter::{self, Metered, Reading, Span, link_flits, read_vnets};
use super::{Options, Rack, RunError, Watchdog, cores};
use crate::chip::message::VNETS;
use crate::chip::probe::Sums;
use crate::chip::{self, Chip};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::measure::{Histogram, Reads};
use crate::report::{Offered, Report};

/// Names of the virtual networks in reports.
const VNET_NAMES: [&str; VNETS] = ["request", "forward", "response", "network"];

/// Counters of parts that reports have for the whole chip, too.
const TOTALS: [(&str, &str); 6] = [
    ("home", "llc_hits"),
    ("home", "llc_misses"),
    ("home", "llc_writebacks"),
    ("memory", "reads"),
    ("memory", "writes"),
    ("rrpp", "replies"),
];

/// What chips count besides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    chip: chip::counts::Counts,
    flits: u64,
    stages: Sums,
}

/// A world and its watchdog: lines that its first chip moves are measured.
struct Watched<'a> {
    world: &'a mut Rack,
    watchdog: Watchdog,
    /// Reads in a cycle that its cores offer, if there is a rate.
    offered: Option<f64>,
}

impl Metered for Watched<'_> {
    type Counts = Counts;

    fn run_until(&mut self, end: Cycle) -> Result<(), RunError> {
        self.world.run_until(end, &mut self.watchdog)
    }

    fn amount(&mut self) -> f64 {
        lines(self.world.first())
    }

    fn offered(&self) -> Option<f64> {
        self.offered
    }

    fn fresh(&mut self) -> Reads {
        fresh(self.world.first())
    }

    fn read(&mut self, _: Cycle) -> Reading<Counts> {
        read(self.world.first())
    }
}

/// Lines that a chip has moved, to it and from it.
pub(crate) fn lines(chip: &Chip) -> f64 {
    let counts = &chip.wires.counts;
    (counts.rcp_lines + counts.rrpp_lines) as f64
}

/// Reads of a chip since its latencies were last taken.
pub(crate) fn fresh(chip: &Chip) -> Reads {
    chip.wires.latencies.reads()
}

/// Reads a chip's counters, and takes the latencies that it has collected.
pub(crate) fn read(chip: &mut Chip) -> Reading<Counts> {
    let latencies = std::mem::take(&mut chip.wires.latencies);
    reading(chip, latencies)
}

/// Measures asynchronous reads of all cores, which have begun.
pub(super) fn bandwidth(
    machine: &Machine,
    options: &Options<'_>,
    world: &mut Rack,
) -> Result<Report, RunError> {
    let watchdog = Watchdog::new(machine, 0);
    let rate = Some(machine.workload.rate).filter(|&rate| rate > 0.0);
    let offered_per_us = rate.map(|rate| rate * cores(machine).len() as f64);
    let offered = offered_per_us.map(|reads| reads / (machine.clock_ghz * 1e3));
    let mut watched = Watched { world, watchdog, offered };
    let (span, common) = meter::measure(machine, options, gbps(machine, 1.0), &mut watched)?;
    let report = report(&span, common, watched.world.first());
    let cycles = span.cycles() as f64;
    let completed = (span.after.counts.chip.reads - span.before.counts.chip.reads) as f64;
    let offered = offered.zip(offered_per_us).map(|(reads, reads_per_us)| Offered {
        reads_per_us,
        saturated: meter::is_saturated(reads * cycles, completed),
    });
    Ok(Report { offered, ..report })
}

/// The report of a run of synchronous reads, warm-up and all.
pub(super) fn latency_report(
    machine: &Machine,
    began: Instant,
    chip: &mut Chip,
    latencies: &[u64],
) -> Report {
    let mut counted = Histogram::new();
    latencies.iter().for_each(|&latency| counted.add(latency));
    let span = Span { machine, before: Reading::default(), after: reading(chip, counted) };
    let common = Report { converged: true, ..span.report(began) };
    report(&span, common, chip)
}

/// Adds what only chips have to a report.
pub(crate) fn report(span: &Span<'_, Counts>, common: Report, chip: &mut Chip) -> Report {
    let Span { machine, before, after } = span;
    let count = |of: fn(&Counts) -> u64| (of(&after.counts) - of(&before.counts)) as f64;
    let per_cycle = |of| span.per_cycle(count(of));
    let rcp_gbps = gbps(machine, per_cycle(|counts| counts.chip.rcp_lines));
    let rrpp_gbps = gbps(machine, per_cycle(|counts| counts.chip.rrpp_lines));
    let flit_gbps = f64::from(machine.noc.link_bytes) * machine.clock_ghz;
    Report {
        cycles: chip.wires.now,
        breakdown: chip.wires.probe.breakdown(&before.counts.stages, &after.counts.stages),
        rcp_gbps,
        rrpp_gbps,
        app_gbps: rcp_gbps + rrpp_gbps,
        noc_gbps: per_cycle(|counts| counts.flits) * flit_gbps,
        reads_per_us: per_cycle(|counts| counts.chip.reads) * machine.clock_ghz * 1e3,
        links: span.links(&chip.wires.net),
        trace: chip.wires.trace.take(),
        ..common
    }
}

/// Lines per cycle as GB/s.
pub(crate) fn gbps(machine: &Machine, lines_per_cycle: f64) -> f64 {
    lines_per_cycle * 64.0 * machine.clock_ghz
}

fn reading(chip: &Chip, latencies: Histogram) -> Reading<Counts> {
    Reading {
        cycle: chip.wires.now,
        link_flits: link_flits(&chip.wires.net),
        figures: figures(chip),
        latencies: vec![latencies],
        counts: Counts {
            chip: chip.wires.counts.clone(),
            flits: chip.wires.net.stats().flits_injected(),
            stages: chip.wires.probe.sums(),
        },
    }
}

/// All counters by the paths of their parts.
fn figures(chip: &Chip) -> Figures {
    let mut figures = Figures::default();
    let counts = &chip.wires.counts;
    counts.write_to(&mut figures);
    let mut mean = |path: &str, sum: u64, count: u64| {
        figures.mean(path.to_owned(), sum as f64, count as f64);
    };
    mean("rrpp.hops_mean", counts.rrpp_hops, counts.rrpp_accesses);
    // Accesses may begin before a window and reach their homes in it.
    mean("rrpp.dram_share", counts.rrpp_from_memory, counts.rrpp_served);
    read_vnets(&VNET_NAMES, &chip.wires.net, &mut figures);
    let turns = chip.wires.net.stats().directory_turns_at_edge as f64;
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
