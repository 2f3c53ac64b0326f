//! The network on chip beside the curves of another simulator, which lie beside the repository where
//! they are at hand: mean latency up to 85 % of saturation, and saturation. Without them the test says
//! so and passes.
//!
//! `cargo test --release -p rackmem-sim --test noc_reference -- --nocapture` prints the table.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use rackmem_sim::noc::synthetic::{Experiment, PacketSize, Pattern, run};
use rackmem_sim::noc::{Pipeline, Routing, Shape, Spec, VnetSpec};

/// Largest error of the mean latency up to [`COMPARED`] of saturation, and of the loads at which latency
/// has grown by certain factors. The aim is 3 %; this is what the seeds leave to chance.
const LATENCY_ERROR: f64 = if cfg!(debug_assertions) { 0.025 } else { 0.015 };
const LOAD_ERROR: f64 = 0.015;
const COMPARED: f64 = 0.85;
/// Latency, in multiples of that without load, at which a network counts as saturated, and at the knee of
/// its curve, which more of the reference's curves reach.
const SATURATED: f64 = 3.0;
const KNEE: f64 = 1.5;
/// The reference's accepted load must be this share of what was offered.
const ACCEPTED: f64 = 0.985;

/// Seeds of which the mean is taken. Without optimisation there is time for one.
const SEEDS: u64 = if cfg!(debug_assertions) { 1 } else { 3 };

/// A load with the latency of both.
#[derive(Clone, Copy)]
struct Point {
    load: f64,
    theirs: f64,
    ours: f64,
}

#[test]
fn latency_and_saturation_are_those_of_the_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/noc");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("SKIPPED: there are no reference curves in {}", folder.display());
        return;
    };
    let is_case = |path: &PathBuf| path.extension().is_some_and(|end| end == "cfg");
    let mut cases: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(is_case).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no case in {}", folder.display());
    println!("{:34} {:>6} {:>9} {:>9} {:>8}", "case", "load", "theirs", "ours", "error %");
    let faults: Vec<String> = cases.iter().flat_map(|case| compare(case)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Prints the table of a case; what is out of bounds.
fn compare(case: &Path) -> Vec<String> {
    let name = case.file_stem().unwrap().to_str().unwrap();
    let (experiment, points) = (read_case(case), read_curve(&case.with_extension("csv")));
    let work = |&(load, theirs): &(f64, f64)| {
        let mean = |seed| run(&Experiment { rate: load, seed, ..experiment.clone() }).unwrap();
        let sum: f64 = (1..=SEEDS).map(|seed| mean(seed).latency_mean_cycles).sum();
        Point { load, theirs, ours: sum / SEEDS as f64 }
    };
    // The slow ones, at the end, are divided between two threads.
    let (mut odd, mut even) = (Vec::new(), Vec::new());
    for (i, point) in points.iter().enumerate() {
        if i % 2 == 0 { even.push(*point) } else { odd.push(*point) }
    }
    let (odd, even) = thread::scope(|scope| {
        let odd = scope.spawn(|| odd.iter().map(work).collect::<Vec<Point>>());
        let even = even.iter().map(work).collect::<Vec<Point>>();
        (odd.join().unwrap(), even)
    });
    let mut points = [odd, even].concat();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let reached = |growth: f64| {
        let theirs = load_of(growth, &points, |point| point.theirs);
        (theirs, load_of(growth, &points, |point| point.ours))
    };
    let (knee, saturation) = (reached(KNEE), reached(SATURATED));
    let end = saturation.0.unwrap_or(points.last().unwrap().load);
    let mut faults = Vec::new();
    for Point { load, theirs, ours } in points {
        let error = ours / theirs - 1.0;
        let compared = load <= COMPARED * end;
        let note = if compared { "" } else { "  near or beyond saturation" };
        println!("{name:34} {load:>6} {theirs:>9.2} {ours:>9.2} {:>8.2}{note}", 100.0 * error);
        if compared && error.abs() > LATENCY_ERROR {
            faults.push(format!("{name} at {load}: {ours:.2} instead of {theirs:.2} cycles"));
        }
    }
    for (what, loads) in [("knee", knee), ("saturation", saturation)] {
        let (Some(theirs), Some(ours)) = loads else { continue };
        let error = ours / theirs - 1.0;
        println!("{name:30} {what:>10} {theirs:>9.3} {ours:>9.3} {:>8.2}", 100.0 * error);
        if error.abs() > LOAD_ERROR {
            faults.push(format!("{name}: {what} at {ours:.3} instead of {theirs:.3}"));
        }
    }
    faults
}

/// The load at which latency has grown so much, between two points by the logarithm of latency.
fn load_of(growth: f64, points: &[Point], latency: impl Fn(&Point) -> f64) -> Option<f64> {
    let limit = growth * latency(points.first()?);
    let pair = points.windows(2).find(|pair| latency(&pair[1]) >= limit)?;
    let (low, high) = (latency(&pair[0]).ln(), latency(&pair[1]).ln());
    Some(pair[0].load + (pair[1].load - pair[0].load) * (limit.ln() - low) / (high - low))
}

/// Loads and mean latencies, where the reference accepted what was offered or is the first that did not.
fn read_curve(file: &Path) -> Vec<(f64, f64)> {
    let text = fs::read_to_string(file).unwrap();
    let mut points = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |i: usize| fields[i].parse::<f64>().ok();
        // A load that the reference did not finish has no latency.
        let (Some(load), Some(accepted), Some(latency)) = (number(1), number(3), number(4)) else {
            break;
        };
        points.push((load, latency));
        if accepted < ACCEPTED * load {
            break;
        }
    }
    points
}

fn read_case(file: &Path) -> Experiment {
    let text = fs::read_to_string(file).unwrap();
    let pairs = text.lines().filter_map(|line| line.trim_end_matches(';').split_once(" = "));
    let values: HashMap<&str, &str> = pairs.collect();
    let number = |name: &str| values[name].parse::<usize>().unwrap();
    let size = vec![values["k"]; number("n")].join("x");
    let topology: Shape = format!("{}:{size}", values["topology"]).parse().unwrap();
    let router = match (number("routing_delay"), number("speculative")) {
        (1, 0) => Pipeline::Five,
        (0, 0) => Pipeline::Four,
        (0, 1) => Pipeline::Three,
        other => panic!("no router has {other:?}"),
    };
    let spec = Spec {
        vnets: vec![VnetSpec { vcs: number("num_vcs"), ordered: false }],
        buffer_flits: number("vc_buf_size"),
        ..Spec::standalone(topology, Routing::usual(topology), router)
    };
    let pattern = match values["traffic"] {
        "uniform" => Pattern::Uniform,
        "bitcomp" => Pattern::BitComplement,
        other => panic!("no pattern is {other}"),
    };
    Experiment {
        pattern,
        packet_flits: PacketSize::fixed(number("packet_size") as u8),
        warm_up_cycles: 6_000,
        measure_cycles: 9_000,
        ..Experiment::new(spec, 0.1)
    }
}
