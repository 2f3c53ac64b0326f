//! The network on chip beside the curves of another simulator, which lie beside the repository where
//! they are at hand: mean latency up to 85 % of saturation, and saturation. Without them the test says
//! so and passes.
//!
//! `cargo test --release -p rackmem-sim --test noc reference -- --nocapture` prints the table.

use std::path::Path;

use rackmem_sim::reference::noc::{Case, cases};

/// Largest error of the mean latency, and of the loads at which latency has grown by certain factors. The aim is 3 %;
/// this is what the seeds leave to chance.
const LATENCY_ERROR: f64 = if cfg!(debug_assertions) { 0.025 } else { 0.015 };
const LOAD_ERROR: f64 = 0.015;

/// Seeds of which the mean is taken. Without optimisation there is time for one.
const SEEDS: u64 = if cfg!(debug_assertions) { 1 } else { 3 };

#[test]
fn latency_and_saturation_are_those_of_the_reference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/noc");
    if !folder.is_dir() {
        eprintln!("SKIPPED: there are no reference curves in {}", folder.display());
        return;
    }
    let cases = cases(&folder).unwrap_or_else(|error| panic!("{error}"));
    assert!(!cases.is_empty(), "no case in {}", folder.display());
    println!("{:34} {:>6} {:>9} {:>9} {:>8}", "case", "load", "theirs", "ours", "error %");
    let faults: Vec<String> = cases.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Prints the table of a case; what is out of bounds.
fn faults(case: &Case) -> Vec<String> {
    let name = &case.name;
    let compared = case.compare(SEEDS).unwrap_or_else(|error| panic!("{error}"));
    let mut faults = Vec::new();
    for point in &compared.points {
        let (load, theirs, ours, error) = (point.load, point.theirs, point.ours, point.error());
        let note = if point.is_compared { "" } else { "  near or beyond saturation" };
        println!("{name:34} {load:>6} {theirs:>9.2} {ours:>9.2} {:>8.2}{note}", 100.0 * error);
        if point.is_compared && (error.is_nan() || error.abs() > LATENCY_ERROR) {
            faults.push(format!("{name} at {load}: {ours:.2} instead of {theirs:.2} cycles"));
        }
    }
    for (what, loads) in [("knee", compared.knee), ("saturation", compared.saturation)] {
        let Some((theirs, ours)) = loads else { continue };
        let error = ours / theirs - 1.0;
        println!("{name:30} {what:>10} {theirs:>9.3} {ours:>9.3} {:>8.2}", 100.0 * error);
        if error.is_nan() || error.abs() > LOAD_ERROR {
            faults.push(format!("{name}: {what} at {ours:.3} instead of {theirs:.3}"));
        }
    }
    faults
}
