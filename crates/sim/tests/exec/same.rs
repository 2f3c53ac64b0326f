//! Things that must not make a difference make none.

use rackmem_sim::cpu::Stretch;
use rackmem_sim::exec::{Options, Outcome, Until};

use super::guest::Guest;
use super::{RACK_OF_CHIPS, SMALL_MESH, chips, load, run};

/// All that a run has found out, but for the time that it has taken.
pub(super) fn all_of(outcome: &Outcome) -> String {
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
fn the_lives_of_instructions() {
    let guest = Guest::prebuilt(3, &["rack_test", "join", "barrier"]);
    let with = |threads, pipeline| {
        let machine = chips(&[("run.threads", threads)]);
        let outcome = guest.run(&machine, Options { pipeline, ..Options::default() });
        let lives: Vec<_> = outcome.nodes.iter().map(|node| node.lives.clone()).collect();
        (all_of(&outcome), lives)
    };
    let stretch = Stretch { cycles: 10_000..u64::MAX, most: 2000 };
    let (alone, none) = with("1", None);
    let (one, lives) = with("1", Some(stretch.clone()));
    assert!(alone == one && none.iter().all(Vec::is_empty));
    assert!(lives.iter().all(|cores| cores[0].1.instructions.len() == 2000));
    assert!(with("3", Some(stretch)) == (one, lives));
}

#[test]
fn sleeping_while_one_polls() {
    let with = |sleeps, icache_bytes| {
        let settings = [("cpu.sleeps", sleeps), ("cpu.icache_bytes", icache_bytes)];
        let tests = ["rack_test", "join", "polling", "barrier", "messages"];
        all_of(&run(&load("sonuma", &settings), 2, &tests))
    };
    // Loops that poll fit in the cache, or fetch each of their lines again.
    for icache_bytes in ["32768", "128"] {
        assert_eq!(with("true", icache_bytes), with("false", icache_bytes), "{icache_bytes} bytes");
    }
}

#[test]
fn pauses() {
    let machine = load("sonuma", &[]);
    let guest = Guest::prebuilt(3, &["rack_test", "join", "async", "barrier"]);
    let in_pieces = |cycles: u64| {
        let mut session = guest.session(&machine, &Options::default());
        let (mut pieces, mut until) = (0, cycles);
        while session.run(Until { cycle: Some(until), ..Until::default() }, &mut Options::default())
        {
            assert!(session.cycle() < until);
            (pieces, until) = (pieces + 1, until + cycles);
        }
        (pieces, all_of(&session.finish(Options::default())))
    };
    let (none, whole) = in_pieces(u64::MAX);
    assert_eq!(none, 0);
    for cycles in [997, 12_345] {
        let (pieces, found) = in_pieces(cycles);
        assert!(pieces > 2, "{pieces}");
        assert_eq!(found, whole, "pieces of {cycles} cycles");
    }
}
