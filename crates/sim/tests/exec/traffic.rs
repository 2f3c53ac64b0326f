//! The traffic of a program's region of interest.

use rackmem_sim::exec::ExecError;
use rackmem_sim::exec::traffic::{self, Stretch};
use rackmem_sim::machine::{Machine, Override, Use, load_for};
use rackmem_sim::reference::queueing::in_flight;
use rackmem_sim::report::Report;
use rackmem_sim::run;

use super::guest::{Guest, limited};
use super::{SMALL_MESH, load, said};

/// The reads of `many_reads` are in its region of interest, and its warm-up is before it.
const IN_TURN: [&str; 7] =
    ["many_reads", "--bare", "--in-turn", "--threads=4", "--reads=40", "--warm-up=30", "--json"];
const ENDLESS: [&str; 7] = [
    "many_reads",
    "--bare",
    "--async",
    "--threads=4",
    "--reads=1000000000",
    "--warm-up=0",
    "--region=64M",
];

fn measure(machine: &Machine, args: &[&str], stretch: Stretch) -> Result<Report, ExecError> {
    let guest = Guest::prebuilt(1, args);
    traffic::measure(machine, &[guest.job()], stretch, limited(5_000_000))
}

/// A small chip with short windows.
fn chip(settings: &[(&str, &str)]) -> Machine {
    let windows = [("run.window_cycles", "20000"), ("run.max_windows", "4")];
    let all = SMALL_MESH.iter().chain(&windows).chain(settings);
    let all: Vec<Override> = all.map(|(path, value)| Override::new(*path, value)).collect();
    load_for(Use::Traffic, "manycore-ni", &all).expect("a machine that can be built")
}

/// The operations of the region count and no others; their stages take all of their time, which is that by the
/// program's clock.
#[test]
fn the_stages_of_a_programs_reads_are_its_time() {
    for placement in ["edge", "per-tile", "split", "uncached"] {
        let machine = chip(&[("ni.placement", placement)]);
        let report = measure(&machine, &IN_TURN, Stretch::Region).expect(placement);
        let latency = report.latency.expect(placement);
        assert_eq!(latency.count, 160, "{placement}");
        let stages: f64 = report.breakdown.iter().map(|stage| stage.mean_cycles).sum();
        assert!((stages / latency.mean_cycles - 1.0).abs() < 0.01, "{placement}: {report:?}");
        let written = &report.breakdown[0];
        assert!((10.0..200.0).contains(&written.mean_cycles), "{placement}: {written:?}");

        let one = ["many_reads", "--bare", "--reads=200", "--json"];
        let outcome = super::run(&machine, 1, &one);
        let told: serde_json::Value = serde_json::from_str(&said(&outcome)).expect("JSON");
        let told_cycles = told["mean_us"].as_f64().expect("a time") * 1000.0 * machine.clock_ghz;
        let report = measure(&machine, &one, Stretch::Region).expect(placement);
        let mean = report.latency.expect(placement).mean_cycles;
        assert!((mean / told_cycles - 1.0).abs() < 0.03, "{placement}: {mean} {told_cycles}");
    }
}

/// Large reads of full queues move what those of the generator move.
#[test]
fn a_programs_full_queues_are_those_of_the_generator() {
    for placement in ["edge", "split"] {
        let window = ("run.window_cycles", "50000");
        let machine = chip(&[window, ("ni.placement", placement)]);
        let args = [&ENDLESS[..], &["--bytes=8192"]].concat();
        let program = measure(&machine, &args, Stretch::Steady).expect(placement);

        let bytes = ("workload.transfer_bytes", "8192");
        let all = [&SMALL_MESH[..], &[window, bytes, ("ni.placement", placement)]].concat();
        let generator = run::run(&load("manycore-ni", &all), &run::Options::default());
        let ratio = program.app_gbps / generator.expect(placement).app_gbps;
        assert!((0.9..1.1).contains(&ratio), "{placement}: {ratio}");
    }
}

/// Little's law: 128 reads of each of four cores are under way, as entries of the work queue that leave a core together
/// are all seen. Latency grows in the first lap of the queues, of some eight here.
#[test]
fn a_programs_full_queues_hold_what_they_let_through_times_its_latency() {
    for placement in ["edge", "split"] {
        let long = [("run.window_cycles", "50000"), ("run.min_windows", "4")];
        let machine = chip(&[&long[..], &[("ni.placement", placement)]].concat());
        let args = [&ENDLESS[..], &["--bytes=512"]].concat();
        let report = measure(&machine, &args, Stretch::Steady).expect(placement);
        let share = in_flight(&report, machine.clock_ghz).expect("latencies") / (4.0 * 128.0);
        assert!((0.8..=1.02).contains(&share), "{placement}: {share}");
    }
}

/// A program that would go on for ever is stopped when its bandwidth is known, and the last-level cache is full from
/// the start.
#[test]
fn the_steady_state_of_a_program_is_measured() {
    let machine = chip(&[("run.precision_percent", "5")]);
    let report = measure(&machine, &ENDLESS, Stretch::Steady).expect("a steady state");
    assert!(report.converged && report.app_gbps > 5.0, "{report:?}");
    assert!((2..=4).contains(&report.windows.len()), "{:?}", report.windows);
    let measured = report.measured.expect("an interval");
    assert!(measured.to_cycle > measured.from_cycle && measured.to_cycle <= report.cycles);
    let of = |name: &str| report.stats[name];
    assert!(of("home.llc_writebacks") > of("rcp.lines") / 2.0, "{:?}", report.stats);
    assert!(of("core.reads") > 100.0);
    let busiest = report.links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
    assert!((0.05..=1.0).contains(&busiest), "{busiest}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let refused = |machine: &Machine, args: &[&str], stretch| {
        measure(machine, args, stretch).expect_err("no traffic").to_string()
    };
    let small = chip(&[]);
    assert_eq!(
        refused(&load("sonuma", &[]), &["hello"], Stretch::Region),
        "ni.placement: has no queue pairs in the tiles of a chip, whose traffic is measured"
    );
    assert_eq!(
        refused(&small, &["many_reads", "--help"], Stretch::Region),
        "the program ends, before a region of interest begins"
    );
    assert_eq!(
        refused(&small, &["many_reads", "--bare", "--reads=40"], Stretch::Steady),
        "its region of interest ends, before its bandwidth is known"
    );
    let wrong = ["many_reads", "--bare", "--bytes=100"];
    assert_eq!(
        refused(&small, &wrong, Stretch::Region),
        "node 0 ended with status 1, before a region of interest begins"
    );
    let endless = refused(&small, &ENDLESS, Stretch::Region);
    let first = endless.lines().next().expect("a line");
    assert!(first.ends_with(", before its region of interest ends"), "{endless}");
}
