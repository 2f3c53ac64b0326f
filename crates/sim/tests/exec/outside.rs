//! Programs without timing on machines whose memory is not all a node's own: what is in scratchpads, borrowed, or a
//! device's is reached with timing, one instruction at a time.

use rackmem_sim::exec::Outcome;
use rackmem_sim::exec::part::Part;
use rackmem_sim::machine::Machine;

use super::borrowed::{OWN_AND_BORROWED, small};
use super::guest::from;
use super::pads::FFT;
use super::parts::{ALL, alternate, answers, run_part};
use super::{load, run};

/// The lines of a program's output without cycles and nanoseconds, each up to its first comma.
pub(super) fn checked(outcome: &Outcome) -> Vec<String> {
    let has_time = |line: &String| [" cycles", " ns"].iter().any(|unit| line.contains(unit));
    let checked = answers(outcome).into_iter().filter(|line| !has_time(line));
    checked.map(|line| line.split(", ").next().unwrap_or_default().to_owned()).collect()
}

/// Machines, their nodes and programs with arguments.
fn programs() -> Vec<(Machine, u16, Vec<&'static str>)> {
    let integrated = || load("cache-integrated", &[]);
    let links = |name| small(name, &[("window.lent_bytes", "16M")]);
    let through = [("window.policy", "write-through-invalidate")];
    let update = [("window.policy", "write-through-update")];
    let plugged =
        [("memory.size_bytes", "12M"), ("window.lent_bytes", "4M"), ("window.plug_bytes", "1M")];
    vec![
        (integrated(), 1, vec!["scr_test"]),
        (integrated(), 1, FFT.to_vec()),
        (integrated(), 1, vec!["bitonic", "--n=64", "--cores=4", "--rounds=2"]),
        (small("tsm-sim", &[]), 2, vec!["window_test", "--llc-bytes=64K"]),
        (small("tsm-sim", &through), 2, vec!["window_test", "--llc-bytes=64K"]),
        (links("pcie-ntb"), 2, vec!["window_test", "--llc-bytes=64K"]),
        (links("deoi-cores"), 2, vec!["window_test", "--llc-bytes=64K", "--no-dma"]),
        (links("thunder-cores"), 2, vec!["window_test", "--llc-bytes=64K", "--no-dma"]),
        (load("tsm-sim", &[]), 2, vec!["tsm_share", "--share=atomics"]),
        (load("tsm-sim", &update), 2, vec!["tsm_share", "--share=policy"]),
        (load("pcie-ntb", &through), 2, vec!["tsm_share", "--share=policy"]),
        (load("thunder-cores", &[]), 2, vec!["tsm_rdma", "--exchange"]),
        (load("deoi-cores", &[]), 2, vec!["deoi_nic", "--rounds=2"]),
        (load("deoi-cores", &plugged), 3, OWN_AND_BORROWED.to_vec()),
    ]
}

#[test]
fn answers_are_the_same_wherever_the_part_begins() {
    for (machine, nodes, args) in programs() {
        let timed = checked(&run(&machine, nodes, &args));
        for after in [1, 3_000, 50_000, 200_000, ALL] {
            let outcome = run_part(&machine, nodes, &args, from(after));
            assert_eq!(checked(&outcome), timed, "{args:?} on {} after {after}", machine.name);
        }
    }
}

#[test]
fn cores_change_their_pace_at_any_instruction() {
    let mut all = 0;
    for (machine, nodes, args) in programs() {
        let timed = checked(&run(&machine, nodes, &args));
        for pieces in [[2_000, 20_000], [30_000, 777], [1, 3_011]] {
            let (outcome, switches) = alternate(&machine, nodes, &args, pieces);
            assert_eq!(checked(&outcome), timed, "{args:?} on {}, {pieces:?}", machine.name);
            all += switches;
        }
    }
    assert!(all > 100, "{all}");
}

#[test]
fn a_part_does_not_depend_on_threads() {
    let outcome = |threads| {
        let machine = small("tsm-sim", &[("run.threads", threads)]);
        let part = Part::Instructions { after: 20_000, count: Some(10_000) };
        let outcome = run_part(&machine, 2, &["window_test", "--llc-bytes=64K"], part);
        let measured = outcome.measured.clone().unwrap();
        (checked(&outcome), outcome.cycles, measured.cycles, measured.stats, outcome.stats)
    };
    assert!(outcome("1") == outcome("2"));
}
