//! Queue pairs in hardware as programs use them (TSM §4.2): they take as long as those of a list of operations, and
//! keep connections apart.

use rackmem_sim::exec::Outcome;
use rackmem_sim::run::Options;

use super::{errors, figures, load, run, said};

/// Latency and bandwidth of a list of operations, without costs of software.
fn listed(kind: &str, bytes: u32) -> (f64, f64) {
    let bytes = bytes.to_string();
    let settings = [
        ("experiment.kind", kind),
        ("experiment.message_bytes", &bytes),
        ("experiment.count", "20"),
        ("qpair.library_ns", "0"),
        ("qpair.poll_ns", "0"),
    ];
    let report = rackmem_sim::run::run(&load("thunder", &settings), &Options::default());
    let extension = report.ok().and_then(|report| report.extension).expect("a run");
    (extension.latency_ns.expect("rounds"), extension.mbps.expect("messages") / 8.0)
}

fn exchange(settings: &[(&str, &str)], argv: &[&str]) -> Outcome {
    let argv: Vec<&str> = ["tsm_qpair"].iter().chain(argv).copied().collect();
    run(&load("thunder-cores", settings), 2, &argv)
}

/// The program itself takes some hundred nanoseconds a message: for the descriptor, the look for the completion, and
/// the clock. So long messages take as long as the list says, and short ones not much longer.
#[test]
fn messages_of_a_program_take_as_long_as_those_of_a_list() {
    for bytes in [64, 1024, 16 << 10, 64 << 10] {
        let (listed, _) = listed("qpair-ping-pong", bytes);
        let text = said(&exchange(&[], &[&format!("--sizes={bytes}")]));
        let executed = figures(&text)[1];
        let more = executed - listed;
        assert!(more.abs() < 0.02 * listed || (0.0..700.0).contains(&more), "{text}{listed}");
        assert!(bytes < 16 << 10 || more.abs() < 0.02 * listed, "{text}{listed}");
    }
}

#[test]
fn streams_of_a_program_are_as_fast_as_those_of_a_list() {
    let (_, listed) = listed("qpair-stream", 64 << 10);
    let text = said(&exchange(&[], &["--sizes=64K", "--rounds=1", "--messages=40"]));
    let executed = figures(&text)[3];
    assert!((executed / listed - 1.0).abs() < 0.02, "{text}{listed}");
}

#[test]
fn a_connection_reaches_its_own_memory_and_its_own_peer_only() {
    assert_eq!(said(&exchange(&[], &["--isolation"])), "PASS isolation\n");
}

/// Packets need not be whole bursts, nor bursts parts of packets.
#[test]
fn messages_of_any_packets_and_bursts_come_whole() {
    for (packet_bytes, burst_bytes) in [("16", "128"), ("100", "64"), ("64", "100"), ("7", "3")] {
        let settings = [("qpair.packet_bytes", packet_bytes), ("qpair.burst_bytes", burst_bytes)];
        let text = said(&exchange(&settings, &["--sizes=64,1000", "--rounds=2", "--messages=4"]));
        assert!(text.contains("1000 bytes"), "{packet_bytes} {burst_bytes}: {text}");
    }
}

/// A program has no more messages under way than the queues have entries.
#[test]
fn messages_of_short_queues_come_whole() {
    for entries in ["1", "2", "3"] {
        let settings = [("qpair.queue_entries", entries)];
        let argv = ["--sizes=64,1000", "--rounds=2", "--messages=12"];
        let text = said(&exchange(&settings, &argv));
        assert!(text.contains("1000 bytes"), "{entries}: {text}");
        assert_eq!(said(&exchange(&settings, &["--isolation"])), "PASS isolation\n");
    }
}

/// Frames of the link that are lost or damaged are sent again; the answer does not depend on the threads.
#[test]
fn messages_over_bad_links_come_whole() {
    let on = |threads| {
        let settings = [
            ("extension.lost_per_million", "20000"),
            ("extension.damaged_per_million", "20000"),
            ("run.threads", threads),
        ];
        exchange(&settings, &["--sizes=100,5000", "--messages=20"])
    };
    let outcome = on("1");
    assert!(said(&outcome).contains("5000 bytes"));
    assert!(outcome.stats["node[0].link[0].lost"] > 0.0);
    assert_eq!(on("2").stats, outcome.stats);
}

#[test]
fn machines_without_queue_pairs_say_so() {
    let outcome = run(&load("tsm-sim", &[]), 2, &["tsm_qpair"]);
    let error = errors(&outcome, 0);
    assert!(error.contains("use thunder-cores"), "{error}");
}

/// The channel goes by addresses of the node's own memory.
#[test]
fn buffers_in_borrowed_memory_are_refused() {
    let outcome = exchange(&[("window.heap", "true")], &[]);
    let error = errors(&outcome, 0);
    assert!(error.contains("cannot open a queue pair: Not supported"), "{error}");
}
