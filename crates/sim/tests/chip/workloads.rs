//! Invariants of the microbenchmarks (soNUMA and Manycore NI).

use rackmem_sim::chip::Chip;
use rackmem_sim::machine::{BUILT_IN, Kind, Override, load};
use rackmem_sim::run::{Options, Rack, RunError, run};

use super::machines::machine;
use super::rest;

const READS: u32 = 20;

/// All cores make some reads at the same time, and all comes to rest.
fn drained(settings: &[&str]) {
    let machine = machine(&[settings, &["workload.kind=sync-read"]].concat());
    let mut mirror = Rack::mirrored(&machine).expect("a chip");
    let chip = mirror.first();
    for tile in &mut chip.tiles {
        tile.core.start(0, READS, &mut chip.wires);
    }
    while let Some(next) = mirror.first().next_cycle() {
        assert!(next < 1_000_000, "{settings:?}: {:#?}", mirror.first().left());
        mirror.advance(next, next);
    }
    let chip = mirror.first();
    assert_eq!(chip.left(), Vec::<String>::new(), "{settings:?}");
    let counts = &chip.wires.counts;
    let reads = u64::from(READS) * u64::from(chip.wires.layout.tiles);
    let lines = reads * u64::from(machine.workload.transfer_bytes).div_ceil(64);
    assert_eq!(counts.reads, reads, "one CQ entry per WQ entry: {settings:?}");
    for count in [
        counts.requests_out,
        counts.rrpp_requests,
        counts.rrpp_accesses,
        counts.rrpp_lines,
        counts.rcp_lines,
    ] {
        assert_eq!(count, lines, "one reply per request: {settings:?}");
    }
    assert_eq!(rest::figures(chip).total("rrpp", "replies"), lines as f64, "{settings:?}");
    let turns = chip.wires.net.stats().directory_turns_at_edge;
    if settings.iter().any(|text| text.contains("noc.routing=cdr-directory")) {
        assert_eq!(turns, 0, "{settings:?}");
    } else if settings.iter().any(|text| text.contains("noc.routing=xy")) {
        assert!(turns > 0, "the test of the others tests nothing");
    }
    for tile in &mut chip.tiles {
        assert_eq!(tile.core.take_latencies().len(), READS as usize);
    }
}

#[test]
fn all_is_done_once_and_nothing_is_left() {
    for placement in ["edge", "per-tile", "split", "numa"] {
        let placement = format!("ni.placement={placement}");
        for routing in ["xy", "yx", "o1turn", "cdr", "cdr-directory"] {
            drained(&[
                &placement,
                &format!("noc.routing={routing}"),
                "workload.transfer_bytes=128",
            ]);
        }
        for topology in ["noc-out", "crossbar"] {
            let tiles = "tiles.columns=4 tiles.rows=4 memory.controllers=4";
            drained(&[&placement, &format!("noc.topology={topology}"), tiles]);
        }
        drained(&[&placement, "ni.completion=acknowledged ni.max_outstanding_lines=3"]);
        drained(&[&placement, "ni.cache=separate tiles.rows=4 memory.controllers=4"]);
    }
}

#[test]
fn what_rcps_store_is_what_rrpps_send() {
    for placement in ["edge", "per-tile", "split", "numa", "uncached"] {
        let placement = format!("ni.placement={placement}");
        // Few reads under way, so that each request's answer soon has its effect.
        let small = "run.window_cycles=15000 run.max_windows=2 tiles.columns=4 tiles.rows=4 \
            workload.transfer_bytes=64 ni.wq_entries=16 memory.controllers=4 llc.size_bytes=1M \
            workload.footprint_bytes=16M";
        let machine = machine(&[small, &placement]);
        let report = run(&machine, &Options::default()).expect("a run");
        let (rcp, rrpp) = (report.rcp_gbps, report.rrpp_gbps);
        assert!(rcp > 5.0 && (rcp / rrpp - 1.0).abs() < 0.03, "{placement}: {rcp} and {rrpp} GB/s");
    }
}

#[test]
fn blocks_of_queues_begin_in_the_llc() {
    for placement in ["edge", "per-tile", "split", "uncached", "numa"] {
        let machine = machine(&[&format!("ni.placement={placement}")]);
        let mut chip = Chip::new(&machine, 0, 2).expect("a chip");
        chip.warm(&machine);
        let Chip { wires, homes, .. } = &chip;
        let found = |line| homes[usize::from(wires.layout.home_of(line))].peek(line, wires);
        let there = (0..wires.layout.queue_lines()).filter(|&line| found(line).is_some()).count();
        let expected = if placement == "numa" { 0 } else { wires.layout.queue_lines() };
        assert_eq!(there as u64, expected, "{placement}");
    }
}

#[test]
fn every_chip_makes_reads_or_says_that_it_has_none() {
    let plain = |name| load(name, &[]).expect("a machine that can be built");
    for built_in in BUILT_IN.iter().filter(|built_in| plain(built_in.name).kind == Kind::Chip) {
        for kind in ["sync-read", "async-read"] {
            let settings = [
                ("workload.kind", kind),
                ("workload.warmup_reads", "1"),
                ("run.reads", "2"),
                ("run.window_cycles", "2000"),
                ("run.min_windows", "2"),
                ("run.max_windows", "2"),
            ];
            let settings = settings.map(|(path, value)| Override::new(path, value).if_read());
            let machine = load(built_in.name, &settings).expect("a machine that can be built");
            match run(&machine, &Options::default()) {
                Ok(_) => {}
                Err(RunError::Impossible(why)) => assert!(why.contains(": `rackmem "), "{why}"),
                Err(error) => panic!("{} with {kind}: {error}", built_in.name),
            }
        }
    }
}

/// Accesses that began before the measured part reach their homes in it, and those are counted with what they read.
#[test]
fn a_share_is_one_of_the_accesses_of_its_window() {
    for seed in [107, 447, 555] {
        let settings = [
            "tiles.columns=2",
            "tiles.rows=2",
            "memory.controllers=2",
            "run.window_cycles=80",
            "run.min_windows=80",
            "run.max_windows=80",
            "run.steady=bandwidth",
            "workload.rate=30",
            "noc.topology=crossbar",
            "llc.occupancy_cycles=60",
            &format!("seed={seed}"),
        ];
        let settings = settings.map(|setting| setting.parse::<Override>().unwrap());
        let machine = load("manycore-ni", &settings).unwrap();
        let report = run(&machine, &Options::default()).unwrap();
        let share = report.stats["rrpp.dram_share"];
        assert!((0.5..=1.0).contains(&share), "seed {seed}: {share}");
        assert!(report.stats["rrpp.from_memory"] <= report.stats["rrpp.served"]);
    }
}
