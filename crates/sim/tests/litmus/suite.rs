//! The built-in set on cores: nothing forbidden, and relaxed outcomes of the kinds that these cores have.

use std::collections::BTreeMap;

use rackmem_sim::cpu::CpuSpec;
use rackmem_sim::litmus::generate::built_in;
use rackmem_sim::litmus::suite;

/// Runs of each test.
const SEEDS: u64 = 8;

/// Shapes in which loads pass loads, or stores: relaxed outcomes have to come.
const RELAXED: [&str; 10] =
    ["MP", "SB", "SB+rfi", "R", "RWC", "W+RWC", "ISA2", "IRIW", "Z6.4", "3.SB"];

/// Shapes that need stores to be late or early: they leave in order, after older loads.
const IN_ORDER: [&str; 5] = ["LB", "S", "2+2W", "3.LB", "3.2W"];

#[test]
fn cores_keep_to_the_model() {
    let tests = built_in();
    assert!(tests.len() >= 300, "{}", tests.len());
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let summary = suite::run(&tests, &CpuSpec::default(), 0..SEEDS, threads);
    let summary = summary.unwrap_or_else(|error| panic!("{error}"));
    if let Some(violation) = summary.violations.first() {
        panic!("{}\n{:?}", violation.text, violation.judged.seen);
    }
    let relaxed: BTreeMap<&str, usize> =
        summary.shapes.iter().map(|(shape, sums)| (*shape, sums.relaxed_seen)).collect();
    eprintln!("relaxed outcomes: {relaxed:?}");
    let relaxed = |shape: &str| relaxed[shape];
    for shape in RELAXED {
        assert!(relaxed(shape) > 0, "{shape}: no relaxed outcome came");
    }
    for shape in IN_ORDER {
        assert_eq!(relaxed(shape), 0, "{shape}: the documentation says that this never comes");
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<String> = built_in().into_iter().map(|test| test.name).collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}
