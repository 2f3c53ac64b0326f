//! Links that lose and damage frames, and links without room.

use super::{measured, report};

const FAULTY: [(&str, &str); 3] = [
    ("extension.lost_per_million", "20000"),
    ("extension.damaged_per_million", "20000"),
    ("experiment.count", "1500"),
];

/// Counters of all links, by their last name.
fn count(report: &rackmem_sim::report::Report, name: &str) -> f64 {
    let ends = format!(".{name}");
    report.stats.iter().filter(|(path, _)| path.ends_with(&ends)).map(|(_, value)| value).sum()
}

#[test]
fn reads_over_bad_links_all_come_back_later() {
    let good = measured("deoi", &[("experiment.count", "1500")]);
    let bad = report("deoi", &FAULTY);
    assert!(count(&bad, "lost") > 20.0 && count(&bad, "damaged") > 20.0, "{:?}", bad.stats);
    let measured = bad.extension.as_ref().unwrap();
    assert_eq!(measured.failed, 0);
    assert!(measured.latency_ns.unwrap() > good.latency_ns.unwrap() + 100.0);
    let sum: f64 = measured.layers_ns.unwrap().iter().sum();
    assert!((sum - measured.latency_ns.unwrap()).abs() < 0.01, "time is accounted for");
}

#[test]
fn a_card_over_bad_links_delivers_every_frame() {
    for kind in ["nic-send", "nic-receive", "nic-ping-pong"] {
        let settings = [
            ("experiment.kind", kind),
            ("experiment.message_bytes", "1400"),
            ("experiment.warm_up", "10"),
        ];
        let bad =
            report("deoi", &[&FAULTY[..2], &settings, &[("experiment.count", "300")]].concat());
        assert!(count(&bad, "lost") > 0.0, "{kind}");
    }
}

#[test]
fn messages_over_bad_links_arrive_whole() {
    let settings = [
        ("experiment.message_bytes", "65536"),
        ("experiment.kind", "qpair-stream"),
        ("experiment.count", "40"),
    ];
    for buffers in ["uncached", "cached", "ocm"] {
        let all = [&FAULTY[..2], &settings, &[("qpair.buffers", buffers)]].concat();
        let bad = report("thunder", &all);
        assert!(count(&bad, "lost") > 0.0 && count(&bad, "dropped") > 0.0, "{:?}", bad.stats);
    }
}

#[test]
fn the_least_room_only_costs_time() {
    let narrow = [
        ("extension.link_room", "1"),
        ("extension.link_window", "1"),
        ("extension.fifo_packets", "1"),
        ("extension.slave_transactions", "1"),
    ];
    for (name, kind, bytes) in [
        ("deoi", "nic-send", "4096"),
        ("deoi", "nic-receive", "4096"),
        ("thunder", "qpair-stream", "65536"),
    ] {
        let experiment = [
            ("experiment.kind", kind),
            ("experiment.message_bytes", bytes),
            ("experiment.place", "remote"),
            ("experiment.count", "100"),
            ("experiment.warm_up", "10"),
        ];
        let wide = measured(name, &experiment).mbps.unwrap();
        let held = report(name, &[&experiment[..], &narrow].concat());
        assert!(held.extension.as_ref().unwrap().mbps.unwrap() < wide, "{kind}");
        assert!(count(&held, "congested") > 0.0, "{kind}: {:?}", held.stats);
    }
}

#[test]
fn the_same_machine_gives_the_same_result() {
    let twice = [(); 2].map(|()| report("deoi", &FAULTY));
    assert_eq!(twice[0].stats, twice[1].stats);
    assert_eq!(twice[0].cycles, twice[1].cycles);
}
