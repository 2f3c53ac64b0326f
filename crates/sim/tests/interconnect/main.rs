//! Nodes whose on-chip interconnect reaches their neighbours (DEOI, Thunder): each layer takes the time that
//! its parameters say, nothing is lost or doubled whatever links do, tables are obeyed, interrupts overtake
//! data, connections are isolated.

mod addresses;
mod faults;
mod interrupts;
mod layers;
mod queue_pairs;
mod turns;

use rackmem_sim::machine::{self, Machine, Override};
use rackmem_sim::report::{ExtensionReport, Report};
use rackmem_sim::run::{self, Options};

/// A built-in machine with changes.
fn machine(name: &str, settings: &[(&str, &str)]) -> Machine {
    let settings: Vec<Override> =
        settings.iter().map(|&(path, value)| Override::new(path, value)).collect();
    machine::load(name, &settings).unwrap_or_else(|error| panic!("{error}"))
}

fn report(name: &str, settings: &[(&str, &str)]) -> Report {
    let machine = machine(name, settings);
    run::run(&machine, &Options::default()).unwrap_or_else(|error| panic!("{settings:?}: {error}"))
}

/// The measurements on it.
fn measured(name: &str, settings: &[(&str, &str)]) -> ExtensionReport {
    report(name, settings).extension.expect("nodes with an extended interconnect")
}
