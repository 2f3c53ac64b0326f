//! Bandwidth against the bounds that follow from links and ports.

use super::machines::{SATURATING, SMALL, machine, rack_report};

/// Flits of a line: a header there, and a header and four flits back.
const LINE_FLITS: f64 = 6.0;
const LINE_BYTES: f64 = 64.0;

/// Most payload of a node under uniform traffic, in GB/s, if nothing but the bisection limits it: the
/// longest ring is cut at two places, which half of all traffic crosses, half of it each way.
fn bisection_gbps(size: &[usize], clock_ghz: f64) -> f64 {
    let nodes = size.iter().product::<usize>() as f64;
    let longest = size.iter().copied().max().unwrap_or(1) as f64;
    let links_each_way = 2.0 * nodes / longest;
    let crossing_share = nodes / 2.0 / (nodes - 1.0);
    let flits = links_each_way / (nodes / 2.0 * crossing_share);
    flits / LINE_FLITS * LINE_BYTES * clock_ghz
}

#[test]
fn uniform_traffic_saturates_below_the_bisection_bound_and_not_far_from_it() {
    for (topology, size, windows) in [
        ("rack.topology=torus:8x8", &[8, 8][..], "run.window_cycles=8000"),
        ("rack.topology=torus:16x4", &[16, 4], "run.window_cycles=8000"),
        ("rack.topology=torus:8x8x8", &[8, 8, 8], "run.window_cycles=4000 run.max_windows=2"),
    ] {
        let report = rack_report(&[SATURATING, topology, windows]);
        let bound = bisection_gbps(size, 2.0);
        let share = report.accepted_gbps.mean / bound;
        assert!((0.55..1.0).contains(&share), "{topology}: {share} of {bound} GB/s");
        assert!(report.link_max <= 1.0, "{}", report.link_max);
    }
}

#[test]
fn the_bound_of_the_rack_is_that_of_its_links() {
    // On rings of eight, every node may send as much as one link carries.
    let link_gbps = 16.0 * machine(&[]).clock_ghz;
    let bound = bisection_gbps(&[8, 8, 8], 2.0);
    assert!((bound / (link_gbps * 4.0 / 6.0) - 511.0 / 512.0).abs() < 1e-9, "{bound}");
}

#[test]
fn a_flow_between_neighbours_fills_the_port() {
    // Lines come in five flits, one after the other, over one link: buffers cover the credit loop.
    let one = ["rack.topology=torus:8x8", "traffic.sources=1", "traffic.pattern=hot-spot"];
    let hot = ["traffic.hot_node=1 traffic.hot_share=1.0 traffic.outstanding=64"];
    let report = rack_report(&[&one[..], &hot].concat());
    let full = LINE_BYTES / 5.0 * 2.0;
    let share = report.accepted_gbps.mean / full;
    assert!((0.99..1.001).contains(&share), "{share} of {full} GB/s");
    assert!((0.99..=1.0).contains(&report.link_max), "{}", report.link_max);
}

#[test]
fn an_open_loop_gets_what_it_asks_for_up_to_saturation() {
    let at = |gbps: &str| rack_report(&[SMALL, "traffic.loop=open run.window_cycles=20_000", gbps]);
    let below = at("traffic.offered_gbps=10");
    assert!((below.accepted_gbps.mean - 10.0).abs() < 0.3 && !below.saturated, "{below:?}");
    let above = at("traffic.offered_gbps=24");
    assert!(above.accepted_gbps.mean < 21.4 && above.saturated, "{above:?}");
    // Of few reads, chance may leave out many.
    let idle = "rack.topology=torus:2x2x2 seed=6 traffic.loop=open traffic.offered_gbps=0.1";
    let idle = rack_report(&[idle]);
    assert!(idle.accepted_gbps.mean < 0.095 && !idle.saturated, "{idle:?}");
}

#[test]
fn memory_and_flow_control_limit_bandwidth() {
    let slow = "node.memory_bytes_per_cycle=3.2 traffic.outstanding=16 workload.transfer_bytes=256";
    let memory = rack_report(&[SMALL, slow]);
    assert!((5.7..=6.41).contains(&memory.accepted_gbps.mean), "{memory:?}");
    assert!(memory.memory_wait_mean_cycles > 100.0, "{memory:?}");
    // Little's law: lines under way by latency; 4 hops there and back on average.
    let alone = ["traffic.sources=1 traffic.pattern=neighbour node.max_outstanding_lines=16"];
    let flow = rack_report(&[&[SMALL, SATURATING], &alone[..]].concat());
    let line_cycles = 7.0 + 2.0 * 78.0 + 213.0 + 4.0 - 7.0;
    let expected = 16.0 * LINE_BYTES / line_cycles * 2.0;
    let share = flow.accepted_gbps.mean / expected;
    assert!((0.97..1.01).contains(&share), "{share} of {expected} GB/s");
    assert!(flow.stalled_by_flow_control > 0.5, "{flow:?}");
}
