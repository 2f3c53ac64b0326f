//! The same machine does the same again, however time is stepped through.

use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::WorkloadKind;
use rackmem_sim::run::{Options, Rack, run};

use super::machines::machine;
use super::rest;

const TINY: &str = "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
    workload.footprint_bytes=16M run.window_cycles=3000 run.max_windows=3 run.reads=4 \
    workload.warmup_reads=2";

/// The report but for the time that it took.
fn report(machine: &Machine) -> String {
    let options = Options { trace: (0, 2000), progress: None };
    let report = run(machine, &options).expect("a run");
    serde_json::to_string(&report).expect("a report")
}

#[test]
fn same_seed_same_report() {
    for workload in ["workload.kind=sync-read", "workload.kind=async-read"] {
        for placement in ["edge", "per-tile", "split", "numa", "uncached"] {
            for routing in ["o1turn", "cdr-directory"] {
                let placement = format!("ni.placement={placement} noc.routing={routing}");
                let with = |seed| machine(&[TINY, workload, &placement, seed]);
                let first = report(&with("seed=5"));
                assert_eq!(first, report(&with("seed=5")), "{workload} {placement}");
                assert_ne!(first, report(&with("seed=6")), "{workload} {placement}");
            }
        }
    }
}

/// Offsets of the reads that have been traced.
fn offsets(seed: &str) -> Vec<String> {
    let machine = machine(&[TINY, "workload.kind=sync-read ni.placement=per-tile", seed]);
    let options = Options { trace: (0, 4000), progress: None };
    let report = run(&machine, &options).expect("a run");
    let sent = report.trace.events.into_iter().map(|event| event.what);
    sent.filter(|what| what.starts_with("request Read")).collect()
}

#[test]
fn another_seed_reads_something_else() {
    assert_eq!(offsets("seed=5"), offsets("seed=5"));
    assert_ne!(offsets("seed=5"), offsets("seed=6"));
}

/// All that can be seen of a chip after so many cycles.
fn state(machine: &Machine, cycles: u64, every_cycle: bool) -> String {
    let mut mirror = Rack::mirrored(machine).expect("a chip");
    let chip = mirror.first();
    for tile in &mut chip.tiles {
        let reads = if machine.workload.kind == WorkloadKind::SyncRead { 1000 } else { 0 };
        tile.core.start(0, reads, &mut chip.wires);
    }
    loop {
        let next = mirror.first().next_cycle().expect("something to do");
        if next > cycles {
            break;
        }
        let next = if every_cycle { mirror.first().wires.now + 1 } else { next };
        mirror.advance(next, next);
    }
    let chip = mirror.first();
    let latencies: Vec<_> = chip.tiles.iter_mut().map(|tile| tile.core.take_latencies()).collect();
    let loads: Vec<_> = chip.wires.net.link_loads().collect();
    let cores: Vec<_> = chip.tiles.iter().map(|tile| tile.core.describe()).collect();
    let (counts, net) = (&chip.wires.counts, chip.wires.net.stats());
    let figures = rest::figures(chip);
    format!("{counts:?} {figures:?} {net:?} {latencies:?} {loads:?} {cores:?} {:?}", chip.left())
}

#[test]
fn idle_cycles_may_be_skipped() {
    for settings in [
        "workload.kind=sync-read ni.placement=edge workload.footprint_bytes=4K",
        "workload.kind=sync-read ni.placement=split memory.latency_ns=2000",
        "workload.kind=async-read ni.placement=per-tile network.hop_latency_ns=3000",
        "workload.kind=async-read ni.placement=edge noc.topology=noc-out",
        "workload.kind=async-read ni.placement=per-tile ni.wq_entries=2 llc.transactions=1",
        "workload.kind=sync-read ni.placement=edge llc.transactions=1 llc.latency_cycles=40",
        "workload.kind=sync-read ni.placement=numa noc.topology=crossbar",
        "workload.kind=async-read memory.model=ddr3 dram.read_queue=4",
        "workload.kind=sync-read memory.model=ddr3 clock_ghz=1.7 dram.trefi_nck=500",
    ] {
        let machine = machine(&[TINY, settings]);
        assert_eq!(state(&machine, 12_000, true), state(&machine, 12_000, false), "{settings}");
    }
}

/// The first cycles are for both threads; after that, where the host has a core for the second one.
#[test]
fn a_second_thread_changes_nothing() {
    for settings in [
        "workload.kind=sync-read ni.placement=edge",
        "workload.kind=async-read ni.placement=split workload.transfer_bytes=8192",
        "workload.kind=async-read ni.placement=edge workload.transfer_bytes=8192",
        "workload.kind=async-read ni.placement=per-tile workload.transfer_bytes=2048",
        "workload.kind=async-read ni.placement=edge noc.topology=noc-out",
        "workload.kind=async-read ni.placement=per-tile ni.wq_entries=2 llc.transactions=1",
        "workload.kind=async-read memory.model=ddr3 dram.read_queue=4",
    ] {
        let with = |threads| machine(&[TINY, settings, threads]);
        let (one, two) = (with("run.threads=1"), with("run.threads=2"));
        assert_eq!(state(&one, 12_000, false), state(&two, 12_000, false), "{settings}");
        assert_eq!(report(&one), report(&two), "{settings}");
    }
}
