//! Sockets between the nodes of a run, and the Ethernet that carries them.

use rackmem_sim::exec::part::Part;
use rackmem_sim::exec::{Options, Until};

use super::guest::Guest;
use super::same::all_of;
use super::{load, run, said};

/// A link of 1 Gb/s and a round number for the latency.
const LAN: [(&str, &str); 2] = [("lan.latency_ns", "10000"), ("lan.gbit_s", "1")];

/// What node 1 measured of streams, in ns.
fn measured(settings: &[(&str, &str)], args: &[&str]) -> f64 {
    measured_by(settings, &[&["lan_test"], args].concat())
}

/// The same by another program.
fn measured_by(settings: &[(&str, &str)], args: &[&str]) -> f64 {
    let machine = load("sonuma", settings);
    let outcome = run(&machine, 2, args);
    said(&outcome);
    let text = String::from_utf8_lossy(&outcome.nodes[1].stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let ns = words.iter().rev().nth(1).unwrap_or_else(|| panic!("{text}"));
    ns.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// Each way: a call that sends, the frame, the latency, and the call that waits, which is made again.
#[test]
fn a_round_trip_is_made_of_latency_frames_and_calls() {
    let at = |settings: &[(&str, &str)], bytes: &str| {
        measured(&[&LAN[..], settings].concat(), &["ping", "4", bytes])
    };
    let base = at(&[], "6");
    let (frame_ns, call_ns) = (84.0 * 8.0, 100.0);
    let least = 2.0 * (10_000.0 + frame_ns + 3.0 * call_ns);
    assert!((least..least + 1_000.0).contains(&base), "{base}, at least {least}");
    let is_near = |found: f64, expected: f64, what: &str| {
        assert!((found - base - expected).abs() < 30.0, "{what}: {found} after {base}, {expected}");
    };
    is_near(at(&[("lan.latency_ns", "15000")], "6"), 2.0 * 5_000.0, "latency");
    is_near(at(&[("lan.gbit_s", "2")], "6"), -frame_ns, "rate");
    is_near(at(&[("system.call_cycles", "400")], "6"), 6.0 * call_ns, "calls");
    let frames = 2.0 * (1498.0 + 40.0) * 8.0 - 2.0 * frame_ns;
    let long = at(&[], "1460") - base;
    assert!((frames..frames + 1_500.0).contains(&long), "{long}, at least {frames}");
}

#[test]
fn a_datagram_takes_as_long_as_a_segment_and_a_long_one_as_its_fragments() {
    let at = |bytes| measured_by(&LAN, &["lan_datagrams", "4", bytes]);
    let (short, stream) = (at("6"), measured(&LAN, &["ping", "4", "6"]));
    assert!((short - stream).abs() < 500.0, "{short} and {stream}");
    // 40 whole fragments, and one of 808 bytes.
    let frames = 40.0 * 1538.0 + 38.0 + 20.0 + 808.0;
    let (least, long) = (short + 2.0 * (frames - 84.0) * 8.0, at("60000"));
    assert!((least..1.1 * least).contains(&long), "{long}, at least {least}");
}

#[test]
fn a_stream_fills_its_link() {
    for (rate, share) in [("1", 0.95), ("0.1", 0.98)] {
        let ns = measured(&[LAN[0], ("lan.gbit_s", rate)], &["bulk", "292000"]);
        let least = 200.0 * 1538.0 * 8.0 / rate.parse::<f64>().unwrap();
        assert!(least < ns && least > share * ns, "{rate} Gb/s: {ns} ns, at least {least}");
    }
}

#[test]
fn the_number_of_threads_and_pauses_change_nothing() {
    for args in [&["lan_test", "ping", "5", "3000"][..], &["lan_test", "bulk", "40000"]] {
        let guest = Guest::prebuilt(3, args);
        let with = |threads, pause: Option<u64>| {
            let machine = load("sonuma", &[LAN[0], LAN[1], ("run.threads", threads)]);
            let mut session = guest.session(&machine, &Options::default());
            let mut cycle = pause;
            while session.run(Until { cycle, ..Until::default() }, &mut Options::default()) {
                cycle = cycle.zip(pause).map(|(at, pause)| at + pause);
            }
            let outcome = session.finish(Options::default());
            said(&outcome);
            assert!(outcome.stats["node[1].lan.segments"] > 5.0, "{args:?}");
            all_of(&outcome)
        };
        let one = with("1", None);
        assert_eq!(with("2", None), one);
        assert_eq!(with("3", None), one);
        assert_eq!(with("2", Some(777)), one);
    }
}

#[test]
fn nobody_waits_for_a_program_that_is_not_there() {
    for (test, passed) in [("refused", "PASS refused\n"), ("ends", "PASS ends\n")] {
        let outcome = run(&load("sonuma", &[]), 2, &["lan_test", test]);
        said(&outcome);
        assert_eq!(String::from_utf8_lossy(&outcome.nodes[1].stdout), passed);
    }
}

#[test]
fn sockets_work_without_timing_and_after_it() {
    let guest = Guest::prebuilt(2, &["lan_test", "ping", "5", "3000"]);
    let part = Part::Instructions { after: 6_000, count: Some(2_000) };
    let outcome = guest.run_part(&load("sonuma", &LAN), part, Options::default());
    said(&outcome);
    assert!(outcome.measured.is_some());
}

#[test]
fn no_segment_overtakes_the_fabric() {
    let at = |latency: &str, fabric: &str| {
        let settings = [("lan.latency_ns", latency), ("lan.gbit_s", "1000000")];
        let settings = [&settings[..], &[("network.hop_latency_ns", fabric)]].concat();
        measured(&settings, &["ping", "4", "6"])
    };
    for [faster, fabric] in [["49", "50"], ["50", "12000"]] {
        let (found, expected) = (at(faster, fabric), at(fabric, fabric));
        assert!((found - expected).abs() < 10.0, "{found} and {expected}");
        assert!(found >= 2.0 * fabric.parse::<f64>().unwrap(), "{found}");
    }
}
