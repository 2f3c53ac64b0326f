//! The network interface card of another node, driven by a program (DEOI §III): registers across the link, rings and
//! buffers in the program's memory, interrupts that wake it.

use rackmem_sim::exec::{self, End, Outcome};
use rackmem_sim::run::Options;

use super::guest::Guest;
use super::{errors, figures, load, run, said};

/// TCP and IP headers, which a list of operations adds to messages.
const HEADER_BYTES: u32 = 52;

/// Half a round trip of a frame by a list of operations without costs of software but for one system call, that by
/// which the program waits.
fn listed(frame_bytes: u32, settings: &[(&str, &str)]) -> f64 {
    let message_bytes = (frame_bytes - HEADER_BYTES).to_string();
    let list = [
        ("experiment.kind", "nic-ping-pong"),
        ("experiment.place", "remote"),
        ("experiment.message_bytes", &message_bytes),
        ("experiment.count", "20"),
        ("soc.interrupt_ns", "0"),
        ("soc.wake_ns", "0"),
        ("soc.call_ns", "500"),
        ("soc.copy_ns_per_kb", "0"),
        ("nic.send_ns", "0"),
        ("nic.receive_ns", "0"),
        ("nic.reclaim_ns", "0"),
    ];
    let all: Vec<(&str, &str)> = list.iter().chain(settings).copied().collect();
    let report = rackmem_sim::run::run(&load("deoi", &all), &Options::default()).expect("a run");
    report.extension.and_then(|extension| extension.latency_ns).expect("rounds")
}

fn drive(nodes: u16, settings: &[(&str, &str)], argv: &[&str]) -> Outcome {
    let argv: Vec<&str> = ["deoi_nic"].iter().chain(argv).copied().collect();
    run(&load("deoi-cores", settings), nodes, &argv)
}

/// Whatever a driver does with the card takes as long as the list says: registers, descriptors, data, interrupts, wire.
#[test]
fn frames_of_a_program_take_as_long_as_those_of_a_list() {
    for coalesce in ["1", "24"] {
        let settings = [("nic.coalesce_frames", coalesce)];
        for bytes in [64, 256, 1024, 1448] {
            let sizes = format!("--sizes={bytes}");
            let text = said(&drive(2, &settings, &[&sizes, "--rounds=20"]));
            let (executed, listed) = (figures(&text)[1], listed(bytes, &settings));
            let off = executed / listed - 1.0;
            assert!(off.abs() < 0.02, "{bytes} bytes, {coalesce}: {executed} ns, not {listed}");
        }
    }
}

/// Streams fill the wire: 1500 of 1538 bytes are the frames'. Interrupts tell of many frames at once.
#[test]
fn streams_come_whole_at_the_rate_of_the_wire() {
    let outcome = drive(2, &[], &["--rounds=1", "--frames=480"]);
    let text = said(&outcome);
    let [out, into] = figures(&text)[3..5] else { panic!("{text}") };
    let wire = 1000.0 * 1500.0 / 1538.0;
    assert!((0.93 * wire..wire).contains(&out) && (0.93 * wire..wire).contains(&into), "{text}");
    let counted = |name: &str| outcome.stats[&format!("node[{name}")];
    assert!(
        (40.0..100.0).contains(&counted("1].nic.interrupts")),
        "{}",
        counted("1].nic.interrupts")
    );
    assert_eq!((counted("1].nic.dropped"), counted("1].control.unmapped")), (0.0, 0.0));
    assert_eq!(counted("0].nic.interrupts"), 0.0, "its own card is another node's");
}

/// Bursts that are parts of a line bring the bytes of their part.
#[test]
fn short_bursts_carry_frames_whole() {
    for burst_bytes in ["16", "32"] {
        let settings = [("nic.burst_bytes", burst_bytes)];
        let text = said(&drive(2, &settings, &["--sizes=100,1500", "--rounds=2", "--frames=12"]));
        assert!(text.contains("100 bytes") && text.contains("1500 bytes"), "{text}");
    }
}

/// The driver refuses frames that the card would cut.
#[test]
fn frames_longer_than_the_mtu_are_refused() {
    let short = [("nic.mtu", "750")];
    let text = said(&drive(2, &short, &["--sizes=750", "--rounds=2"]));
    assert!(text.contains("750 bytes"), "{text}");
    for argv in [&["--sizes=751"][..], &["--frames=2", "--frame-bytes=1500"]] {
        let outcome = drive(2, &short, argv);
        let error = errors(&outcome, 0);
        assert_eq!(outcome.nodes[0].end, End::Exit(1));
        assert!(error.contains("no frames longer than 750 bytes (nic.mtu)"), "{error}");
    }
}

/// Frames that reach memory long after the card has had them interrupt, too.
#[test]
fn a_slow_way_to_memory_loses_no_interrupt() {
    for setting in
        [("nic.bursts", "1"), ("extension.link_room", "1"), ("extension.link_cycles", "370")]
    {
        let text =
            said(&drive(2, &[setting], &["--sizes=64,1500,100", "--rounds=3", "--frames=40"]));
        assert!(text.contains("Mbps in"), "{setting:?}: {text}");
    }
}

/// The card drops frames for which it has no buffer: the driver waits for a second, and says so.
#[test]
fn frames_that_find_no_buffer_end_the_driver() {
    let machine = load("deoi-cores", &[("nic.bursts", "1"), ("nic.burst_bytes", "4")]);
    let guest = Guest::prebuilt(2, &["deoi_nic", "--rounds=1", "--frames=200"]);
    let outcome = guest.run(&machine, exec::Options::default());
    let error = errors(&outcome, 0);
    assert!(
        outcome.stats["node[1].nic.dropped"] > 0.0 && error.contains("no interrupt"),
        "{error}"
    );
    assert_eq!(outcome.nodes[0].end, End::Exit(1));
}

/// Frames of the link that are lost are sent again, so that the driver notices no more than the time.
#[test]
fn a_driver_over_bad_links_gets_every_frame() {
    let rounds = ["--rounds=40", "--frames=60"];
    let faults =
        [("extension.lost_per_million", "10000"), ("extension.damaged_per_million", "10000")];
    let bad = drive(2, &faults, &rounds);
    let (slow, fast) = (said(&bad), said(&drive(2, &[], &rounds)));
    assert!(figures(&slow)[1] > figures(&fast)[1], "{slow}{fast}");
    assert!(bad.stats["node[0].link[0].lost"] > 0.0);
}

/// Node 0 uses the card of node 1, whose user is the node before it, whatever the number of nodes and threads.
#[test]
fn each_card_has_one_user() {
    let on = |threads| drive(3, &[("run.threads", threads)], &["--rounds=2"]);
    let outcome = on("1");
    assert!(said(&outcome).contains("64 bytes"));
    assert!(outcome.stats["node[1].nic.interrupts"] > 0.0);
    assert_eq!(outcome.stats["node[2].nic.interrupts"], 0.0);
    assert_eq!(on("3").stats, outcome.stats);
}

#[test]
fn machines_without_cards_say_so() {
    let outcome = run(&load("tsm-sim", &[]), 2, &["deoi_nic"]);
    let error = errors(&outcome, 0);
    assert!(error.contains("use deoi-cores"), "{error}");
}
