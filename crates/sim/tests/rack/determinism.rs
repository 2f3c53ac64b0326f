//! The same machine and seed give the same result, byte for byte.

use rackmem_sim::rack::Rack;
use rackmem_sim::run::{Options, RunError, run};

use super::machines::{SMALL, machine, report};

fn json(settings: &[&str]) -> String {
    let report = report(settings);
    serde_json::to_string(&report).expect("JSON")
}

#[test]
fn same_seed_same_bytes() {
    for more in ["traffic.loop=open traffic.offered_gbps=4", "traffic.pattern=hot-spot"] {
        assert_eq!(json(&[SMALL, more]), json(&[SMALL, more]));
        assert_ne!(json(&[SMALL, more]), json(&[SMALL, more, "seed=2"]));
    }
}

#[test]
fn it_does_not_matter_how_far_steps_may_go() {
    let machine = machine(&[SMALL, "traffic.loop=open traffic.offered_gbps=0.01"]);
    let (mut long, mut short) = (Rack::new(&machine).unwrap(), Rack::new(&machine).unwrap());
    while long.step(50_000) {}
    for cycle in 1..=50_000 {
        while short.step(cycle) {}
    }
    let state = |rack: &Rack| (rack.now(), rack.requests_taken(), rack.lines_completed());
    assert_eq!(state(&long), state(&short));
    assert!(long.requests_completed() > 0);
}

#[test]
fn what_cannot_run_says_why() {
    let refused =
        |settings: &[&str]| run(&machine(settings), &Options::default()).map(|_| ()).unwrap_err();
    let nobody = refused(&[SMALL, "traffic.pattern=transpose traffic.sources=1"]);
    assert!(matches!(&nobody, RunError::Impossible(why) if why.contains("traffic.pattern")));
    // Longer than the way there and back.
    let impatient = refused(&["run.watchdog_cycles=300", "traffic.pattern=tornado"]);
    assert!(matches!(&impatient, RunError::Stuck(why) if why.contains("requests under way")));
}
