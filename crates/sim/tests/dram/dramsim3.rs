//! The devices against DRAMsim3 (commit 2981759) with its own settings, in the mean latency of reads and in what a
//! busy channel carries. The scheduler is DRAMsim3's, so it is the same to the clock; what follows from other settings
//! than the standard's is set here.

use std::fs;
use std::path::Path;

use rackmem_sim::dram::alone::{Access, Report, run};
use rackmem_sim::dram::{Kind, Tick};
use rackmem_sim::machine::{Machine, Override, load};

/// Requests of a run.
const COUNT: u64 = 40_000;

/// A mean is written with two digits, and the last request twice.
const TOLERANCE: f64 = 0.001;

/// Configurations: tRTRS is 1, and the data wires pause that long when they turn around, but not between the writes of
/// two ranks. DRAMsim3 does not know the key by which its file for DDR3 gives tREFI.
fn device(grade: &str) -> Machine {
    let own: &[&str] = match grade {
        "ddr3-1600" => &["dram.trefi_nck=7800", "dram.trtw_nck=8"],
        "ddr4-2400" => &["dram.trefi_nck=9360", "dram.trtw_nck=10", "dram.trfc_nck=420"],
        _ => &["dram.trtw_nck=11"],
    };
    let all = ["dram.trtrs_nck=1", "dram.twrwr_dr_nck=4", "dram.age_limit_ns=1e9"];
    let overrides = own.iter().chain(&all).map(|text| text.parse::<Override>().unwrap());
    load(grade, &overrides.collect::<Vec<_>>()).unwrap()
}

/// The requests of the reference: xorshift64*.
fn requests(pattern: &str, interval: Tick) -> impl Iterator<Item = Result<Access, String>> {
    let mut state: u64 = 88_172_645_463_325_252;
    let mut draw = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let (stream, writes) = (pattern == "stream", pattern == "random-write-third");
    (0..COUNT).map(move |number| {
        let address = if stream { number * 64 } else { draw() >> 20 & 0xffff_ffc0 };
        let write = writes && draw().is_multiple_of(3);
        let kind = if write { Kind::Write } else { Kind::Read };
        Ok(Access { at: Some(number * interval), address, kind })
    })
}

fn simulate(grade: &str, pattern: &str, interval: Tick, clocks: Option<Tick>) -> Report {
    run(&device(grade), requests(pattern, interval), clocks, |_| Ok(())).unwrap()
}

fn assert_near(found: f64, expected: f64, what: &str) {
    let off = found / expected - 1.0;
    assert!(off.abs() < TOLERANCE, "{what}: {found}, not {expected}: {:.2} % off", off * 100.0);
}

/// Some figures of the reference.
#[test]
fn latencies_are_those_of_dramsim3() {
    for (grade, pattern, interval, expected) in [
        ("ddr3-1600", "random", 200, 38.82),
        ("ddr3-1600", "random-write-third", 6, 107.61),
        ("ddr3-1600", "stream", 5, 34.01),
        ("ddr4-2400", "random", 12, 77.96),
        ("ddr4-2400", "random-write-third", 9, 100.03),
        ("ddr4-2400", "stream", 6, 93.14),
        ("ddr4-3200", "random-write-third", 6, 252.63),
        ("ddr4-3200", "stream", 6, 281.36),
    ] {
        let report = simulate(grade, pattern, interval, None);
        assert_near(report.reads.mean, expected, &format!("{grade} {pattern} {interval}"));
    }
}

/// The whole table, where it is.
#[test]
fn the_reference_is_met() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/dram/dramsim3.csv");
    let Ok(text) = fs::read_to_string(&path) else {
        eprintln!("LEFT OUT: there is no {}", path.display());
        return;
    };
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [grade, pattern, interval, done, _, mean, ..] = cells[..] else { panic!("{line}") };
        let done: u64 = done.parse().unwrap();
        rows += 1;
        if interval == "saturated" {
            let report = simulate(grade, pattern, 1, Some(160_000));
            // Writes count there as soon as they are taken.
            let writes = if pattern == "random-write-third" { 0.01 } else { 0.0 };
            let found = (report.reads.count + report.writes.count) as f64;
            let off = found / done as f64 - 1.0;
            assert!(off.abs() < TOLERANCE + writes, "{line}: {found}");
        } else {
            let report = simulate(grade, pattern, interval.parse().unwrap(), None);
            let near = if done < COUNT { 0.01 } else { TOLERANCE };
            let off = report.reads.mean / mean.parse::<f64>().unwrap() - 1.0;
            assert!(off.abs() < near, "{line}: {}", report.reads.mean);
        }
    }
    assert!(rows > 50, "{rows} rows");
}
