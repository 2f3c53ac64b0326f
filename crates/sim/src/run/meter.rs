//! Windows, and the report of them.

use std::time::Instant;

use crate::chip::Chip;
use crate::chip::message::VNETS;
use crate::machine::Machine;
use crate::report::{Latency, LinkLoad, Report, Stats, Window};

/// Counters at some moment.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    cycle: u64,
    rcp_lines: u64,
    rrpp_lines: u64,
    reads: u64,
    flits: u64,
    link_flits: Vec<u64>,
}

/// Takes counters at the ends of windows, and makes the report of them.
pub struct Meter<'a> {
    machine: &'a Machine,
    began: Instant,
    windows: Vec<Window>,
    /// Ends of the last window but one, and of the last one.
    before: Snapshot,
    last: Snapshot,
    stable: bool,
}

impl<'a> Meter<'a> {
    /// Begins the first window at cycle 0.
    pub fn start(machine: &'a Machine) -> Meter<'a> {
        Meter {
            machine,
            began: Instant::now(),
            windows: Vec::new(),
            before: Snapshot::default(),
            last: Snapshot::default(),
            stable: false,
        }
    }

    /// A window ends; whether the run does, too.
    pub fn window(&mut self, chip: &Chip) -> bool {
        self.before = std::mem::replace(&mut self.last, snapshot(chip));
        let app_gbps = self.gbps(self.lines(|at| at.rcp_lines + at.rrpp_lines) * 64.0);
        let previous = self.windows.last().map(|window| window.app_gbps);
        self.windows.push(Window { end_cycle: self.last.cycle, app_gbps });
        let run = &self.machine.run;
        let change = previous.map(|previous| (app_gbps - previous).abs() / previous.max(1e-9));
        self.stable = change.is_some_and(|change| change * 100.0 < run.stable_percent);
        let windows = self.windows.len() as u32;
        windows >= run.max_windows || windows >= run.min_windows && self.stable
    }

    /// The report of a run of synchronous reads.
    pub fn latency_report(self, chip: &mut Chip, mut latencies: Vec<u64>) -> Report {
        latencies.sort_unstable();
        let mut meter = self;
        meter.last = snapshot(chip);
        meter.before.link_flits = vec![0; meter.last.link_flits.len()];
        meter.stable = true;
        Report { latency: distribution(&latencies), ..meter.report(chip) }
    }

    /// The report of a run of asynchronous reads.
    pub fn bandwidth_report(self, chip: &mut Chip) -> Report {
        self.report(chip)
    }

    fn report(mut self, chip: &mut Chip) -> Report {
        self.before.link_flits.resize(self.last.link_flits.len(), 0);
        let breakdown = chip.wires.probe.breakdown();
        let rcp_gbps = self.gbps(self.lines(|at| at.rcp_lines) * 64.0);
        let rrpp_gbps = self.gbps(self.lines(|at| at.rrpp_lines) * 64.0);
        let link_bytes = f64::from(self.machine.noc.link_bytes);
        Report {
            machine: self.machine.name.clone(),
            cycles: chip.wires.now,
            seconds: self.began.elapsed().as_secs_f64(),
            stable: self.stable,
            latency: None,
            breakdown,
            rcp_gbps,
            rrpp_gbps,
            app_gbps: rcp_gbps + rrpp_gbps,
            noc_gbps: self.gbps(self.lines(|at| at.flits) * link_bytes),
            reads_per_us: self.lines(|at| at.reads) * self.machine.clock_ghz * 1e3,
            links: self.links(chip),
            stats: stats(chip),
            trace: chip.wires.trace.take(),
            rack: None,
            extension: None,
            windows: self.windows,
        }
    }

    /// Something per cycle in the last window.
    fn lines(&self, count: impl Fn(&Snapshot) -> u64) -> f64 {
        let cycles = self.last.cycle - self.before.cycle;
        (count(&self.last) - count(&self.before)) as f64 / cycles.max(1) as f64
    }

    /// Bytes per cycle as GB/s.
    fn gbps(&self, bytes_per_cycle: f64) -> f64 {
        bytes_per_cycle * self.machine.clock_ghz
    }

    fn links(&self, chip: &Chip) -> Vec<LinkLoad> {
        let cycles = (self.last.cycle - self.before.cycle).max(1) as f64;
        let flits = self.last.link_flits.iter().zip(&self.before.link_flits);
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
}

fn snapshot(chip: &Chip) -> Snapshot {
    let counts = &chip.wires.counts;
    Snapshot {
        cycle: chip.wires.now,
        rcp_lines: counts.rcp_lines,
        rrpp_lines: counts.rrpp_lines,
        reads: counts.reads,
        flits: chip.wires.net.stats().flits_injected(),
        link_flits: chip.wires.net.link_loads().map(|load| load.flits).collect(),
    }
}

fn distribution(sorted: &[u64]) -> Option<Latency> {
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    Some(Latency {
        count: sorted.len() as u64,
        mean_cycles: sorted.iter().sum::<u64>() as f64 / sorted.len() as f64,
        min_cycles: min,
        p50_cycles: at(0.5),
        p99_cycles: at(0.99),
        max_cycles: max,
    })
}

/// All counters by the paths of their parts.
fn stats(chip: &Chip) -> Stats {
    const NAMES: [&str; VNETS] = ["request", "forward", "response", "network"];
    let mut stats = Stats::new();
    let counts = &chip.wires.counts;
    counts.write_to(&mut stats);
    let mut put = |path: String, value: f64| {
        stats.insert(path, value);
    };
    let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
    let replies = counts.rrpp_replies;
    put("rrpp.latency_mean_cycles".into(), mean(counts.rrpp_latency_cycles, replies));
    put("rrpp.hops_mean".into(), mean(counts.rrpp_hops, counts.rrpp_accesses));
    put("rrpp.dram_share".into(), mean(counts.rrpp_from_memory, counts.rrpp_accesses));
    let network = chip.wires.net.stats();
    for (name, vnet) in NAMES.iter().zip(&network.vnets) {
        put(format!("noc.flits.{name}"), vnet.flits_injected as f64);
        put(format!("noc.packets.{name}"), vnet.packets_sent as f64);
        put(format!("noc.hops_mean.{name}"), mean(vnet.hops, vnet.packets_delivered));
    }
    put("noc.edge_turns_directory".into(), network.directory_turns_at_edge as f64);
    chip.homes.iter().for_each(|home| home.write_stats(&mut stats));
    let now = chip.wires.now;
    chip.memories.iter().for_each(|memory| memory.write_stats(now, &mut stats));
    chip.rrpps.iter().for_each(|rrpp| rrpp.write_stats(&mut stats));
    chip.rmcs.iter().for_each(|rmc| rmc.write_stats(&mut stats));
    for (number, tile) in chip.tiles.iter().enumerate() {
        stats.insert(format!("tile[{number}].core.reads"), tile.core.reads() as f64);
    }
    stats
}
