//! Racks for tests.

use rackmem_sim::machine::{Machine, Override, load};
use rackmem_sim::report::{RackReport, Report};
use rackmem_sim::run::{Options, run};

/// The rack of 512 nodes with other settings, each `path=value`, several separated by spaces.
pub fn machine(settings: &[&str]) -> Machine {
    let parse = |text: &str| text.parse::<Override>().expect("path=value");
    let settings = settings.iter().flat_map(|text| text.split_whitespace());
    let overrides: Vec<Override> = settings.map(parse).collect();
    load("rack-torus", &overrides).expect("a rack that can be built")
}

/// The report of a run of it.
pub fn report(settings: &[&str]) -> Report {
    run(&machine(settings), &Options::default()).expect("a run that ends")
}

/// The part about nodes and links.
pub fn rack_report(settings: &[&str]) -> RackReport {
    report(settings).rack.expect("a rack")
}

/// One node that asks for one thing at a time.
pub const ALONE: &str = "traffic.sources=1 traffic.outstanding=1 run.precision_percent=100";

/// A square of nodes, which is quick, with windows that are long enough for it.
pub const SMALL: &str = "rack.topology=torus:8x8 run.window_cycles=8000";

/// As many lines as a saturated port moves in a round trip, and no more.
pub const SATURATING: &str = "traffic.outstanding=40 workload.transfer_bytes=256";
