//! The RDMA channel as programs use it (TSM §4.2): it takes as long as a list of operations, and copies what both nodes
//! have stored.

use rackmem_sim::exec::Outcome;
use rackmem_sim::run::Options;

use super::{errors, load, run, said};

/// Time of a block of a list of operations, in ns. The operating system of the chips takes a call for the channel's
/// interrupt and to wake the thread, as for all its parts: 800 cycles of 667 MHz.
fn listed(bytes: u64) -> f64 {
    let bytes = bytes.to_string();
    let settings = [
        ("experiment.kind", "rdma"),
        ("experiment.message_bytes", &bytes),
        ("experiment.count", "20"),
        ("soc.interrupt_ns", "0"),
        ("soc.wake_ns", "1200"),
    ];
    let report = rackmem_sim::run::run(&load("thunder", &settings), &Options::default());
    let extension = report.ok().and_then(|report| report.extension).expect("a run");
    extension.latency_ns.expect("blocks")
}

fn copy(settings: &[(&str, &str)], argv: &[&str]) -> Outcome {
    let argv: Vec<&str> = ["tsm_rdma"].iter().chain(argv).copied().collect();
    run(&load("thunder-cores", settings), 2, &argv)
}

/// Times of a block in and out, in ns.
fn times(text: &str) -> (f64, f64) {
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|&word| word == name).expect(name);
        words[at + 1].parse().expect("a time")
    };
    (after("in"), after("out"))
}

/// The program itself takes the time of the clock, some hundred nanoseconds.
#[test]
fn blocks_of_a_program_take_as_long_as_those_of_a_list() {
    for bytes in [4 << 10, 16 << 10, 64 << 10] {
        let listed = listed(bytes);
        let text = said(&copy(&[], &[&format!("--block-bytes={bytes}"), "--blocks=20"]));
        let (into, _) = times(&text);
        assert!((into / listed - 1.0).abs() < 0.02, "{text}{listed}");
    }
}

/// Caches of both nodes have modified blocks of what is copied, in the local buffer, at the borrower and at the lender.
#[test]
fn copies_are_of_what_both_nodes_have_stored() {
    for coherent in ["true", "false"] {
        for faults in ["0", "50000"] {
            let settings = [
                ("window.coherent", coherent),
                ("extension.lost_per_million", faults),
                ("extension.damaged_per_million", faults),
            ];
            let outcome = copy(&settings, &["--exchange"]);
            assert_eq!(said(&outcome), "PASS exchange\n", "coherent {coherent}, faults {faults}");
            assert_eq!(outcome.stats["node[0].link[0].lost"] > 0.0, faults != "0");
        }
    }
}

/// What caches give back while a copy takes its place does not come after it.
#[test]
fn what_caches_give_back_does_not_overwrite_a_copy() {
    for coherent in ["true", "false"] {
        let settings =
            [("window.coherent", coherent), ("llc.size_bytes", "32K"), ("l1.size_bytes", "8K")];
        let outcome = copy(&settings, &["--overwrite=32K"]);
        assert_eq!(said(&outcome), "PASS overwrite\n", "coherent {coherent}");
    }
}

/// Bursts that are shorter or longer than lines, or no whole number of them, and any number of them under way.
#[test]
fn bursts_of_any_length_bring_all_bytes() {
    for (bytes, bursts) in [("32", "1"), ("64", "4"), ("96", "3"), ("4096", "2")] {
        let settings = [("qpair.burst_bytes", bytes), ("qpair.bursts", bursts)];
        let outcome = copy(&settings, &["--block-bytes=64,8256", "--blocks=3"]);
        assert!(said(&outcome).contains("8256 bytes"), "{bytes} {bursts}");
        let moved = 3 * 2 * (64 + 8256);
        assert_eq!(outcome.stats["node[0].rdma.bytes"], f64::from(moved));
    }
}

#[test]
fn copies_that_cannot_be_are_refused() {
    let outcome = copy(&[], &["--errors"]);
    assert_eq!(said(&outcome), "PASS errors\n");
    assert_eq!(outcome.stats["node[0].rdma.bytes"], 128.0, "those that are not refused");
}

#[test]
fn the_answer_does_not_depend_on_the_threads() {
    let on = |threads| copy(&[("run.threads", threads)], &["--exchange"]).stats;
    assert_eq!(on("1"), on("2"));
}

#[test]
fn machines_without_the_channel_say_so() {
    let outcome = run(&load("tsm-sim", &[]), 2, &["tsm_rdma"]);
    let error = errors(&outcome, 0);
    assert!(error.contains("use thunder-cores"), "{error}");
}
