//! Programs on machines: the answers do not depend on the machine, nor anything on the threads.

use guest::Guest;
use rackmem_sim::exec::{End, Outcome};
use rackmem_sim::machine::{self, Machine, Override};

mod answers;
mod borrowed;
mod cache;
mod card;
mod checkpoints;
mod contexts;
mod damaged;
mod damaged_lent;
mod ends;
mod files;
mod guest;
mod integrated;
mod lent;
mod mutation;
mod outside;
mod pads;
mod parts;
mod queue_pairs;
mod rdma;
mod reuse;
mod same;
mod several;
mod shared_port;
mod sockets;
mod tracks;
mod traffic;
mod turns;

/// Settings that all nodes of Manycore NI's chips need to execute programs.
const RACK_OF_CHIPS: [(&str, &str); 2] =
    [("network.remote", "nodes"), ("ni.completion", "acknowledged")];

/// A small mesh, so that unoptimised builds are fast enough.
const SMALL_MESH: [(&str, &str); 3] =
    [("tiles.columns", "2"), ("tiles.rows", "2"), ("memory.controllers", "2")];

fn load(name: &str, settings: &[(&str, &str)]) -> Machine {
    let settings: Vec<Override> =
        settings.iter().map(|(path, value)| Override::new(*path, value)).collect();
    machine::load(name, &settings).expect("a machine that can be built")
}

/// Small chips of Manycore NI that execute programs.
fn chips(settings: &[(&str, &str)]) -> Machine {
    load("manycore-ni", &[&RACK_OF_CHIPS[..], &SMALL_MESH, settings].concat())
}

/// Runs a program on so many nodes; the first word of `args` is its name.
fn run(machine: &Machine, nodes: u16, args: &[&str]) -> Outcome {
    Guest::prebuilt(nodes, args).execute(machine)
}

/// Standard output of node 0, after all nodes have ended well.
fn said(outcome: &Outcome) -> String {
    for (nid, node) in outcome.nodes.iter().enumerate() {
        let errors = errors(outcome, nid);
        let all_is_well = node.end == End::Exit(0) && outcome.cut_short.is_none();
        assert!(all_is_well, "node {nid}: {:?} {errors} {:?}", node.end, outcome.cut_short);
    }
    String::from_utf8_lossy(&outcome.nodes[0].stdout).into_owned()
}

/// Standard error of a node.
fn errors(outcome: &Outcome, nid: usize) -> String {
    String::from_utf8_lossy(&outcome.nodes[nid].stderr).into_owned()
}

/// The numbers of a text, in order.
fn figures(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The number that follows these words in a text.
fn number_after(text: &str, words: &str) -> f64 {
    let number = text.split(words).nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}
