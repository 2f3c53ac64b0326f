//! Programs for private caches with the network interface in them: which packets overtake which, and what copies cost.

use super::{load, run, said};

/// Cycles of round trips to a core to which others copy, or do not.
#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    acknowledgement: f64,
    answer: f64,
    store: f64,
}

fn measured(settings: &[(&str, &str)], is_idle: bool) -> RoundTrips {
    let mut args = vec!["overtake", "--rounds=50", "--json"];
    args.extend(is_idle.then_some("--idle"));
    let said = said(&run(&load("cache-integrated", settings), 1, &args));
    RoundTrips {
        acknowledgement: figure(&said, "acknowledgement_cycles"),
        answer: figure(&said, "answer_cycles"),
        store: figure(&said, "store_cycles"),
    }
}

/// A number in a line of JSON.
pub(super) fn figure(said: &str, name: &str) -> f64 {
    let text = said.split(&format!("\"{name}\":")).nth(1).expect("a figure");
    text.split([',', '}']).next().unwrap().trim().parse().expect("a number")
}

#[test]
fn acknowledgements_and_answers_overtake_a_queue_of_data() {
    let (idle, loaded) = (measured(&[], true), measured(&[], false));
    let queued = loaded.store - idle.store;
    assert!(queued > 40.0, "there is no queue: {idle:?}, {loaded:?}");
    let overtaking = [loaded.acknowledgement - idle.acknowledgement, loaded.answer - idle.answer];
    for waited in overtaking {
        assert!(waited * 4.0 < queued, "waited {waited} of {queued} cycles: {loaded:?}");
    }
}

/// A cache that takes what comes as fast as the network brings it, so that the network is what packets wait for.
#[test]
fn priorities_save_time_where_a_link_is_full() {
    let of = |priorities| {
        measured(&[("scratchpad.bytes_per_cycle", "8"), ("noc.priorities", priorities)], false)
    };
    let (first, in_turn) = (of("true"), of("false"));
    assert!(first.acknowledgement + 2.0 < in_turn.acknowledgement, "{first:?}, {in_turn:?}");
    assert!(first.answer + 2.0 < in_turn.answer, "{first:?}, {in_turn:?}");
}

/// Fifteen cores copy to the one whose round trips are measured. Each of them waits for its copies, so that none may
/// be left out when the others go on.
#[test]
fn all_that_copy_to_one_core_come_to_an_end() {
    let machine = load("cache-integrated-128", &[("tiles.columns", "4"), ("tiles.rows", "4")]);
    let said = said(&run(&machine, 1, &["overtake", "--cores=16", "--rounds=50", "--json"]));
    assert!(figure(&said, "store_cycles") < 1000.0, "{said}");
}

/// Both programs check what they transform.
#[test]
fn a_receiver_of_each_element_costs_more_than_one_of_each_copy() {
    let communication = |program| {
        let args = [program, "--n=64", "--cores=2", "--mechanism=dma", "--rounds=2", "--json"];
        figure(&said(&run(&load("cache-integrated", &[]), 1, &args)), "communication_cycles")
    };
    let [by_part, by_element] = ["fft", "fft_by_element"].map(communication);
    assert!(by_element > 1.5 * by_part, "{by_element} and {by_part} cycles");
}
