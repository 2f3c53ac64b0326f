//! Times of the layers, and their sums.

use super::measured;

const SHORT: (&str, &str) = ("experiment.count", "500");

fn layers(settings: &[(&str, &str)]) -> [f64; 7] {
    let report = measured("deoi", &[&[SHORT], settings].concat());
    report.layers_ns.expect("layers of reads")
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 0.01
}

#[test]
fn latency_is_the_sum_of_its_layers() {
    for place in ["local", "remote"] {
        let report = measured("deoi", &[SHORT, ("experiment.place", place)]);
        let sum: f64 = report.layers_ns.unwrap().iter().sum();
        assert!(near(sum, report.latency_ns.unwrap()), "{place}: {sum} {report:?}");
        assert!(report.least_latency_ns <= report.latency_ns);
        assert!(report.latency_ns <= report.most_latency_ns);
    }
}

#[test]
fn a_local_read_passes_no_layer_of_the_module() {
    let [_, master, slave, routing, link, physical, _] = layers(&[("experiment.place", "local")]);
    assert_eq!([master, slave, routing, link, physical], [0.0; 5]);
}

#[test]
fn link_and_physical_layer_take_what_cycles_and_words_take() {
    // Aurora 64B/66B at 10 Gbps: 6.4 ns a cycle, 6.6 ns a word. A request has 4 + 8 bytes, its answer 4 + 32,
    // a frame 8 more: 3 words and 6.
    let [_, _, _, _, link, physical, _] = layers(&[]);
    assert!(near(link, 2.0 * 37.0 * 6.4), "{link}");
    assert!(near(physical, 2.0 * (10.0 * 6.4 + 5.0) + 9.0 * 6.6), "{physical}");
}

#[test]
fn each_parameter_moves_its_own_layer() {
    let before = layers(&[]);
    for (layer, setting, more) in [
        (4, ("extension.link_cycles", "47"), 2.0 * 10.0 * 6.4),
        (5, ("extension.flight_ns", "105"), 200.0),
        (0, ("soc.port_ns", "170"), 100.0),
        (6, ("dram.controller_ns", "180"), 100.0),
    ] {
        let after = layers(&[setting]);
        // Requests meet refreshes at other moments.
        assert!(
            (after[layer] - before[layer] - more).abs() < 1.0,
            "{setting:?}: {before:?} {after:?}"
        );
    }
    // A larger table than can be compared in a cycle takes a cycle of the link's clock more.
    let slower = layers(&[("extension.amt_slots_per_cycle", "8")]);
    assert!(slower[1] > before[1] + 5.0 && slower[1] < before[1] + 8.0, "{slower:?}");
}

#[test]
fn a_slower_lane_sends_words_later() {
    let [fast, slow] = ["10.0", "2.5"].map(|gbps| layers(&[("extension.lane_gbps", gbps)])[5]);
    assert!(near((slow - 10.0) / (fast - 10.0), 4.0), "{fast} {slow}");
}
