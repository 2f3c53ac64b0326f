//! Asynchronous reads: the latency under load, and how far figures can be trusted.

use rackmem_sim::reference::queueing::in_flight;
use rackmem_sim::report::{Report, Window};
use rackmem_sim::run::{Options, run};

use super::machines::machine;

/// Sixteen cores that read blocks.
const SMALL: &str = "tiles.columns=4 tiles.rows=4 memory.controllers=4 llc.size_bytes=1M \
    workload.footprint_bytes=16M workload.transfer_bytes=64 run.window_cycles=20000 run.max_windows=20";

/// Cores do not queue behind the packets of network interfaces.
const APART: &str = "noc.sources=per-network";

fn report(settings: &[&str]) -> Report {
    run(&machine(&[&[SMALL], settings].concat()), &Options::default()).expect("a run")
}

fn mean_latency(report: &Report) -> f64 {
    report.latency.expect("latencies").mean_cycles
}

/// Little's law: queues that are always full hold as many reads as complete while one of them takes its time.
#[test]
fn full_queues_hold_what_they_let_through_times_its_latency() {
    for (placement, entries, outstanding) in [
        ("edge", 16, 16.0),
        ("split", 16, 16.0),
        ("per-tile", 16, 16.0),
        ("numa", 16, 1.0),
        ("uncached", 16, 16.0),
    ] {
        let settings = format!("ni.placement={placement} ni.wq_entries={entries}");
        let report = report(&[APART, &settings]);
        let held = in_flight(&report, 2.0).expect("latencies") / 16.0;
        // A slot is free until its core has time for it, which takes longest where queues are at the edge.
        let least = if placement == "numa" { 0.98 } else { 0.7 };
        let share = held / outstanding;
        assert!((least..=1.02).contains(&share), "{settings}: {held} of {outstanding}");
    }
}

/// A run goes on until latency has settled: over its first lap of the queues it grows, when bandwidth is level.
#[test]
fn latency_of_full_queues_is_that_after_their_first_lap() {
    for placement in ["edge", "split"] {
        let settings = format!("ni.placement={placement} ni.wq_entries=32");
        let of = |steady: &str| report(&["workload.transfer_bytes=4096", &settings, steady]);
        let settled = of("run.steady=bandwidth-and-latency");
        let share = in_flight(&settled, 2.0).expect("latencies") / (16.0 * 32.0);
        assert!((0.9..=1.1).contains(&share), "{placement}: {share}");
        let early = of("run.steady=bandwidth");
        let is_settled = |report: &Report| report.measured.and_then(|it| it.latency_settled);
        assert!(settled.converged && early.converged, "{placement}");
        assert_eq!([&settled, &early].map(is_settled), [Some(true), Some(false)], "{placement}");
    }
}

/// However many reads are under way, each one's stages follow each other without a gap.
#[test]
fn the_stages_of_reads_add_up_to_their_latency() {
    for placement in ["edge", "split", "per-tile", "numa", "uncached"] {
        for load in ["workload.kind=sync-read run.reads=16", "workload.rate=4", "workload.rate=0"] {
            let placement = format!("ni.placement={placement}");
            let report = report(&[&placement, load, "workload.transfer_bytes=192"]);
            let stages: f64 = report.breakdown.iter().map(|stage| stage.mean_cycles).sum();
            let off = stages / mean_latency(&report) - 1.0;
            assert!(off.abs() < 1e-9, "{placement} {load}: {:?}", report.breakdown);
        }
    }
}

#[test]
fn at_a_low_rate_a_read_takes_what_it_takes_alone() {
    for placement in ["edge", "split", "per-tile", "numa", "uncached"] {
        let placement = format!("ni.placement={placement}");
        let alone = report(&[&placement, "workload.kind=sync-read run.reads=64"]);
        for arrivals in ["poisson", "fixed"] {
            let rate =
                format!("workload.rate=0.05 workload.arrivals={arrivals} run.window_cycles=200000");
            let report = report(&[&placement, &rate]);
            let ratio = mean_latency(&report) / mean_latency(&alone);
            assert!((0.93..=1.07).contains(&ratio), "{placement} {arrivals}: {ratio}");
            assert!(!report.offered.expect("a rate").saturated);
        }
    }
}

#[test]
fn few_reads_are_not_too_few() {
    let rare = "workload.rate=1e-6 run.window_cycles=2000 run.min_windows=2 run.max_windows=2";
    let report = report(&[rare]);
    assert_eq!(report.reads_per_us, 0.0);
    assert!(!report.offered.expect("a rate").saturated);
}

#[test]
fn latency_grows_with_the_rate_until_reads_pile_up() {
    let at = |rate: &str| report(&["ni.placement=split", rate]);
    let [low, high, too_high] = ["workload.rate=1", "workload.rate=6", "workload.rate=200"].map(at);
    for (report, offered) in [(&low, 16.0), (&high, 96.0)] {
        assert_eq!(
            report.offered.map(|it| (it.reads_per_us, it.saturated)),
            Some((offered, false))
        );
        assert!((report.reads_per_us / offered - 1.0).abs() < 0.05, "{}", report.reads_per_us);
    }
    assert!(mean_latency(&low) < mean_latency(&high));
    assert!(too_high.offered.expect("a rate").saturated);
    // A backlog grows for ever, so that the run does not wait for its latency.
    let settled = too_high.measured.and_then(|measured| measured.latency_settled);
    assert!(too_high.converged && settled == Some(false), "{:?}", too_high.measured);
    assert!(mean_latency(&too_high) > 10.0 * mean_latency(&high), "the backlog counts");
    let latency = high.latency.expect("latencies");
    assert!(latency.p50_cycles <= latency.p95_cycles && latency.p95_cycles <= latency.p99_cycles);
    assert!(latency.p99_cycles <= latency.max_cycles && latency.min_cycles <= latency.p50_cycles);
}

#[test]
fn a_run_that_ends_too_soon_says_so_and_one_that_does_not_keeps_its_promise() {
    let short = report(&["run.window_cycles=3000 run.max_windows=2"]);
    assert!(!short.converged);
    let long = report(&["run.precision_percent=2"]);
    let measured = long.measured.expect("asynchronous reads");
    let half_width = measured.app_gbps_half_width.expect("long enough");
    assert!(long.converged && half_width <= 0.02 * long.app_gbps);
    assert!(measured.to_cycle <= long.cycles && measured.from_cycle < measured.to_cycle);
    // Counters are of the same time as the bandwidth.
    let lines = long.stat("rcp.lines").unwrap() + long.stat("rrpp.lines").unwrap();
    let gbps = lines * 128.0 / (measured.to_cycle - measured.from_cycle) as f64;
    assert!((gbps / long.app_gbps - 1.0).abs() < 1e-9, "{gbps} and {}", long.app_gbps);
    assert!((long.stat("core.reads").unwrap() - long.latency.unwrap().count as f64).abs() < 0.5);
}

/// The LLC of a long run is full, and what goes through it is spread over its banks and sets: what full queues move in
/// their first laps is what they move later.
#[test]
fn full_queues_begin_as_they_go_on() {
    let (mut first, mut later) = (0.0, 0.0);
    for seed in ["seed=1", "seed=2", "seed=3"] {
        let windows = "run.window_cycles=10000 run.min_windows=20 run.max_windows=20";
        let report = report(&[windows, seed]);
        let mean = |windows: &[Window]| {
            windows.iter().map(|window| window.app_gbps).sum::<f64>() / windows.len() as f64
        };
        first += mean(&report.windows[1..6]);
        later += mean(&report.windows[10..]);
    }
    let off = first / later - 1.0;
    assert!(off.abs() < 0.02, "{off}");
}

/// As many blocks are read for others as are written for this node, so half of those that go have changed; from the
/// begin, as no way is empty.
#[test]
fn a_full_cache_writes_back_every_other_block_that_it_loads() {
    let short = "run.window_cycles=4000 run.min_windows=2 run.max_windows=2";
    let report = report(&[short]);
    let share = report.stats["home.llc_writebacks"] / report.stats["home.llc_misses"];
    assert!((0.47..=0.53).contains(&share), "{share}");
}

/// What changes nothing changes nothing that is claimed to be known.
#[test]
fn seeds_and_windows_do_not_matter() {
    let found: Vec<Report> =
        ["seed=1", "seed=2", "run.window_cycles=7000 run.max_windows=60", "seed=9"]
            .map(|setting| {
                report(&["workload.transfer_bytes=512 run.precision_percent=3", setting])
            })
            .into();
    for pair in found.windows(2) {
        let half = |report: &Report| report.measured.unwrap().app_gbps_half_width.unwrap();
        assert!(pair[0].converged && pair[1].converged);
        let apart = (pair[0].app_gbps - pair[1].app_gbps).abs();
        assert!(apart <= half(&pair[0]) + half(&pair[1]), "{apart}");
    }
}
