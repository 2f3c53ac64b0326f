//! Congestion is where it has to be, and nowhere else.

use rackmem_sim::report::RackReport;

use super::machines::{SMALL, rack_report};

fn pattern(pattern: &str) -> RackReport {
    rack_report(&[SMALL, "traffic.outstanding=16", &format!("traffic.pattern={pattern}")])
}

#[test]
fn a_hot_node_slows_down_everybody() {
    let (uniform, hot) = (pattern("uniform"), pattern("hot-spot"));
    // Its port gives a line in five cycles, of which each of the others gets its part: a fifth of
    // what they ask for.
    let most = 64.0 / 5.0 * 2.0 / 63.0 / 0.2;
    assert!(hot.accepted_gbps.mean < most * 1.05, "{hot:?}");
    assert!(hot.accepted_gbps.mean < 0.3 * uniform.accepted_gbps.mean, "{hot:?}");
    // Requests queue up before it and in the network behind.
    let wait = |report: &RackReport| {
        report.lanes[0].network_wait_mean_cycles + report.lanes[0].arrival_wait_mean_cycles
    };
    assert!(wait(&hot) > 10.0 * wait(&uniform), "{} {}", wait(&hot), wait(&uniform));
    let p99 = |report: &RackReport| report.by_hops[3].latency.p99_cycles;
    assert!(p99(&hot) > 3 * p99(&uniform), "{} {}", p99(&hot), p99(&uniform));
}

#[test]
fn replies_are_not_blocked_behind_requests() {
    let hot = pattern("hot-spot");
    let (requests, replies) = (&hot.lanes[0], &hot.lanes[1]);
    assert!(replies.network_wait_mean_cycles * 20.0 < requests.network_wait_mean_cycles, "{hot:?}");
    assert!(replies.arrival_wait_mean_cycles < 1.0, "{hot:?}");
}

#[test]
fn tornado_uses_half_of_the_links_and_neighbours_all_of_them() {
    let tornado = pattern("tornado");
    // All go three links in one direction of each dimension; replies go back over the others.
    let requests = tornado.lanes[0].hops_mean;
    assert_eq!(requests, 6.0);
    assert!(tornado.accepted_gbps.mean < 0.6 * pattern("uniform").accepted_gbps.mean);
    let neighbours = pattern("neighbour");
    assert_eq!(neighbours.lanes[0].hops_mean, 1.0);
    // Their ports are full, while links could carry more than twice as much.
    assert!(neighbours.accepted_gbps.mean > 0.75 * 25.6, "{neighbours:?}");
    assert!(neighbours.link_max < 0.4, "{neighbours:?}");
}

#[test]
fn transpose_and_bit_complement_go_where_they_should() {
    let transpose = pattern("transpose");
    assert_eq!((transpose.nodes, transpose.sources), (64, 56));
    let complement = pattern("bit-complement");
    assert_eq!(complement.sources, 64);
    // In each dimension 1, 3, 3 and 1 links.
    assert!((complement.lanes[0].hops_mean - 4.0).abs() < 0.1, "{complement:?}");
}
