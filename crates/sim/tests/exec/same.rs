//! Things that must not make a difference make none.

use rackmem_sim::exec::Outcome;

use super::{RACK_OF_CHIPS, SMALL_MESH, load, run};

/// All that a run has found out, but for the time that it has taken.
fn all_of(outcome: &Outcome) -> String {
    let nodes = outcome.nodes.iter().map(|node| {
        (&node.end, node.cycle, node.instructions, String::from_utf8_lossy(&node.stdout))
    });
    let nodes: Vec<_> = nodes.collect();
    format!("{} {nodes:?} {:?} {:?}", outcome.cycles, outcome.cut_short, outcome.stats)
}

#[test]
fn the_number_of_threads() {
    for (name, settings) in
        [("sonuma", vec![]), ("manycore-ni", [&RACK_OF_CHIPS[..], &SMALL_MESH].concat())]
    {
        let with = |threads| {
            let settings = [&settings[..], &[("run.threads", threads)]].concat();
            let tests = ["rack_test", "join", "async", "atomics-of-both-sides", "barrier"];
            all_of(&run(&load(name, &settings), 4, &tests))
        };
        let one = with("1");
        for threads in ["2", "3"] {
            assert_eq!(with(threads), one, "{name} with {threads} threads");
        }
    }
}

#[test]
fn sleeping_while_one_polls() {
    let with = |sleeps| {
        let settings = [("cpu.sleeps", sleeps)];
        let tests = ["rack_test", "join", "polling", "barrier", "messages"];
        all_of(&run(&load("sonuma", &settings), 2, &tests))
    };
    assert_eq!(with("true"), with("false"));
}
