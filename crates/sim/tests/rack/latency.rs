//! Latency without load is a sum of the machine's times.

use rackmem_sim::rack::zero_load_cycles;

use super::machines::{ALONE, machine, rack_report};

/// 35 ns at 2 GHz.
const HOP: u64 = 70;
/// The ways between node and router (2 + 2) and the last router (4).
const ENDS: u64 = 8;
/// RGP, and RCP after the last reply.
const SOURCE: u64 = 7 + 6;
/// RRPP before and after the access, and the access.
const SERVICE: u64 = 4 + 1 + 208;

/// All distances, and one latency for each.
fn assert_latencies(settings: &[&str], distances: usize, expected: impl Fn(u64) -> u64) {
    let all = [&[ALONE, "run.window_cycles=3_000_000"], settings].concat();
    let report = rack_report(&all);
    assert_eq!(report.by_hops.len(), distances, "{settings:?}");
    for of in report.by_hops {
        let expected = expected(of.hops as u64);
        let found = (of.latency.min_cycles, of.latency.max_cycles);
        assert_eq!(found, (expected, expected), "{} hops, {settings:?}", of.hops);
        assert_eq!(of.zero_load_cycles, expected, "{} hops, {settings:?}", of.hops);
    }
}

#[test]
fn a_line_takes_its_hops_twice_and_what_the_ends_take() {
    // A request of one flit there, a reply of five back; or the other way round.
    let line = |hops| SOURCE + 2 * (HOP * hops + ENDS) + SERVICE + 4;
    assert_latencies(&["workload.transfer_bytes=64"], 12, line);
    assert_latencies(&["workload.transfer_bytes=64", "traffic.op=write"], 12, line);
    // A fourth of the line is two flits with its header.
    let short = |hops| line(hops) - 3;
    assert_latencies(&["workload.transfer_bytes=16"], 12, short);
}

#[test]
fn further_lines_follow_at_the_pace_of_the_slowest_part() {
    const CUBE: &str = "rack.topology=torus:4x4x4 run.window_cycles=500_000";
    let first = |hops| SOURCE + 2 * (HOP * hops + ENDS) + SERVICE + 4;
    for (settings, pace) in [
        (&[][..], 5),
        // A channel takes a head every three cycles, and there are three on each side of a dateline.
        (&["rack.link_bytes=64", "node.memory_bytes_per_cycle=0 rack.request_vcs=6"], 2),
        // Of a lane with one channel on each side, a packet of five flits takes seven.
        (&["traffic.op=write"], 7),
        (&["node.memory_bytes_per_cycle=8"], 8),
        (&["node.rrpp_interval_cycles=9"], 9),
        (&["node.unroll_interval_cycles=11"], 11),
        (&["node.rcp_interval_cycles=6"], 6),
    ] {
        // Wider links have fewer flits behind the head.
        let flits = if settings.contains(&"rack.link_bytes=64") { 3 } else { 0 };
        let eight = |hops| first(hops) - flits + 7 * pace;
        assert_latencies(&[settings, &[CUBE, "workload.transfer_bytes=512"]].concat(), 6, eight);
    }
}

#[test]
fn hops_are_those_of_the_papers() {
    // Manycore NI: 6 on average, 12 at most; oneself does not count.
    let report = rack_report(&[ALONE, "run.window_cycles=2_000_000", "workload.transfer_bytes=64"]);
    let hops_mean = report.lanes[0].hops_mean;
    assert!((hops_mean - 6.0 * 512.0 / 511.0).abs() < 0.1, "{hops_mean}");
    assert_eq!(report.by_hops.last().map(|of| of.hops), Some(12));
}

#[test]
fn other_routers_and_tori_have_the_same_formula() {
    let settings = ["rack.topology=torus:5x4", "rack.router=1-stage", "workload.transfer_bytes=64"];
    let machine = machine(&settings);
    assert_latencies(&settings, 4, |hops| zero_load_cycles(&machine, hops));
    assert_eq!(zero_load_cycles(&machine, 3), SOURCE + 2 * (3 * HOP + 4) + SERVICE + 4);
}

#[test]
fn light_load_is_near_zero_load() {
    let settings = ["traffic.loop=open traffic.offered_gbps=0.5", "run.precision_percent=100"];
    let report = rack_report(&settings);
    for of in &report.by_hops {
        let excess = of.latency.mean_cycles / of.zero_load_cycles as f64;
        assert!((1.0..1.03).contains(&excess), "{of:?}");
    }
    assert!(!report.saturated);
}
