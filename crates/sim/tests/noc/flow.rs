//! Throughput, credits and back-pressure of the network on chip, against formulas.

use rackmem_sim::noc::synthetic::{Experiment, Matrix, PacketSize, Pattern, Report, run};
use rackmem_sim::noc::{Class, Network, Packet, Pipeline, Routing, Shape, Sources, Spec, VnetSpec};

use super::{drain, packet, receive, tick};

fn spec(topology: &str, router: Pipeline, vcs: usize, buffer_flits: usize) -> Spec {
    let shape: Shape = topology.parse().unwrap();
    let (routing, vnets) = (Routing::usual(&shape), vec![VnetSpec { vcs, ordered: false }]);
    Spec { vnets, buffer_flits, ..Spec::standalone(shape, routing, router) }
}

/// Flits that one flow delivers in `cycles` cycles of steady state.
fn flow(spec: &Spec, flits: u8, cycles: u64) -> u64 {
    let mut network = Network::new(spec, 1).unwrap();
    let last = network.endpoints() as u16 - 1;
    let mut delivered = 0;
    for cycle in 0..1000 + cycles {
        while network.queued(0, 0) < 2 {
            network.send(packet(0, last, flits));
        }
        network.tick();
        while network.take(last, 0).is_some() {
            delivered += if cycle >= 1000 { u64::from(flits) } else { 0 };
        }
    }
    delivered
}

#[test]
fn one_flow_fills_its_links_if_buffers_cover_the_credit_loop() {
    for router in [Pipeline::One, Pipeline::Three, Pipeline::Four, Pipeline::Five] {
        for flits in [1, 4] {
            let delivered = flow(&spec("mesh:5x1", router, 8, 8), flits, 4000);
            assert!((3996..=4004).contains(&delivered), "{router} {flits}: {delivered}");
        }
    }
}

/// With one VC and long packets, `buffer` flits leave per loop of a credit: from switch to switch,
/// and back. With one stage, the way in is the longest: two cycles, and one back.
#[test]
fn one_flow_is_limited_by_credits_if_buffers_do_not() {
    for (router, round_trip) in [(Pipeline::One, 3), (Pipeline::Three, 5), (Pipeline::Five, 5)] {
        for buffer in 1..=4 {
            let delivered = flow(&spec("mesh:5x1", router, 1, buffer), 200, 40_000);
            let share = delivered as f64 / 40_000.0;
            let expected = (buffer as f64 / f64::from(round_trip)).min(1.0);
            // Only the head of each packet of 200 flits takes a few cycles more.
            assert!(
                (0.96..1.01).contains(&(share / expected)),
                "{router} {buffer}: {share} {expected}"
            );
        }
    }
}

#[test]
fn buffers_may_be_as_deep_as_their_counters_allow() {
    for buffer in [31, 32, 127, 128, 200] {
        let mut spec = spec("mesh:5x1", Pipeline::Five, 2, buffer);
        spec.link_latency_cycles = 60;
        let delivered = flow(&spec, 4, 40_000);
        // Two VCs share the loop of a credit: two cycles, a link, one, and a link.
        let expected = (2.0 * buffer as f64 / 123.0).min(1.0);
        let share = delivered as f64 / 40_000.0;
        assert!((0.9..1.01).contains(&(share / expected)), "{buffer}: {share} {expected}");
    }
}

fn uniform(spec: Spec, flits: u8, rate: f64) -> Report {
    let experiment = Experiment {
        packet_flits: PacketSize::fixed(flits),
        measure_cycles: 4000,
        drain_limit_cycles: 10_000,
        ..Experiment::new(spec, rate)
    };
    run(&experiment).unwrap()
}

#[test]
fn a_mesh_saturates_between_what_buffers_allow_and_what_its_bisection_allows() {
    // Half of the traffic crosses the middle: 8 links for 32 sources, so at most 0.5.
    let below = uniform(spec("mesh:8x8", Pipeline::Five, 8, 8), 1, 0.40);
    assert!(!below.saturated && below.latency_mean_cycles < 60.0, "{below:?}");
    let above = uniform(spec("mesh:8x8", Pipeline::Five, 8, 8), 1, 0.55);
    assert!(above.saturated && above.accepted < 0.5, "{above:?}");
    let few = uniform(spec("mesh:8x8", Pipeline::Five, 2, 5), 1, 0.20);
    assert!(!few.saturated, "{few:?}");
    let few = uniform(spec("mesh:8x8", Pipeline::Five, 2, 5), 1, 0.42);
    assert!(few.saturated, "{few:?}");
}

#[test]
fn rings_carry_more_than_lines_and_a_crossbar_more_than_both() {
    let accepted = |topology| uniform(spec(topology, Pipeline::Three, 8, 8), 1, 0.75).accepted;
    let (mesh, torus, flat) =
        (accepted("mesh:8x8"), accepted("torus:8x8"), accepted("flatfly:8x8"));
    assert!(mesh < torus && torus < flat, "{mesh} {torus} {flat}");
}

#[test]
fn traffic_is_as_it_was_asked_for() {
    let report = uniform(spec("mesh:8x8", Pipeline::Five, 8, 8), 5, 0.1);
    // Uniform traffic to all, oneself included: 2 x 63 / 24 links.
    assert!((report.hops_mean - 5.25).abs() < 0.1, "{report:?}");
    assert!((report.offered - 0.1).abs() < 0.005, "{report:?}");
    let fixed = |pattern, hops: f64| {
        let spec = spec("mesh:8x8", Pipeline::Five, 8, 8);
        let experiment = Experiment { pattern, ..Experiment::new(spec, 0.02) };
        let report = run(&experiment).unwrap();
        assert!((report.hops_mean - hops).abs() < 0.1, "{report:?}");
    };
    fixed(Pattern::Transpose, 5.25);
    fixed(Pattern::BitComplement, 8.0);
    // Three to the right and down, or five back: (5 * 3 + 3 * 5) / 8 in each dimension.
    fixed(Pattern::Tornado, 7.5);
    fixed(Pattern::Neighbour, 3.5);
}

#[test]
fn matrices_and_hot_spots_give_every_pair_its_share() {
    let hops = |topology: &str, concentration: usize, pattern: Pattern| {
        let spec = Spec { concentration, ..spec(topology, Pipeline::Five, 8, 8) };
        let measure_cycles = 100_000;
        let experiment = Experiment { pattern, measure_cycles, ..Experiment::new(spec, 0.1) };
        let report = run(&experiment).unwrap();
        assert!((report.offered - 0.1).abs() < 0.01, "{report:?}");
        report.hops_mean
    };
    // Three of four packets make three hops, one makes one.
    let matrix = Matrix::parse("0,3,3\n1,0,1\n", "matrix", 4).unwrap();
    let mean = hops("mesh:4x1", 1, Pattern::Matrix(matrix));
    assert!((mean - 2.5).abs() < 0.1, "{mean}");
    // Half of the packets go to the middle, 1.2 hops; the others anywhere, 1.6 hops.
    let mean = hops("mesh:5x1", 1, "hot-spot:0.5:2".parse().unwrap());
    assert!((mean - 1.4).abs() < 0.05, "{mean}");
    // All go to the two ends.
    let mean = hops("mesh:5x1", 1, "hot-spot:1:0,4".parse().unwrap());
    assert!((mean - 2.0).abs() < 0.05, "{mean}");
    // Every endpoint of a router sends to the mirrored router.
    let mean = hops("mesh:4x4", 2, Pattern::Transpose);
    assert!((mean - 2.5).abs() < 0.05, "{mean}");
}

/// A credit is back in five cycles: switch, link, endpoint, and the way back. The fifth flit waits for it
/// if the endpoint's buffer holds four.
#[test]
fn an_endpoint_that_returns_credits_takes_no_more_than_its_buffers_hold() {
    for (ejection_credits, buffer, late) in [(true, 4, 1), (true, 5, 0), (false, 4, 0)] {
        let one_vc = spec("mesh:1x1", Pipeline::Three, 1, buffer);
        let mut network = Network::new(&Spec { ejection_credits, ..one_vc }, 1).unwrap();
        network.send(packet(0, 0, 5));
        let got = receive(&mut network, 0, 0);
        assert_eq!(got.arrived - got.created, 5 + 4 + late, "{ejection_credits} {buffer}");
    }
}

#[test]
fn a_full_delivery_queue_holds_packets_back_and_loses_none() {
    let mut spec = spec("mesh:3x1", Pipeline::Three, 2, 4);
    spec.vnets = vec![VnetSpec { vcs: 1, ordered: true }; 2];
    spec.delivery_capacity_packets = 2;
    let mut network = Network::new(&spec, 1).unwrap();
    (0..20).for_each(|tag| network.send(Packet { tag, ..packet(0, 2, 3) }));
    (0..500).for_each(|_| network.tick());
    let before = network.stats().vnets[0].packets_delivered;
    assert_eq!(before, 2, "the queue holds two packets");
    assert!(network.queued(0, 0) >= 14, "buffers are full up to the source");
    assert!(!network.is_idle());
    let oldest = network.stuck(network.now(), 1).remove(0);
    assert_eq!((oldest.packet.tag, oldest.since), (2, 0));
    assert!(oldest.to_string().contains("router 2 (2, 0)"), "{oldest}");

    // The other virtual network goes past.
    network.send(Packet { vnet: 1, ..packet(0, 2, 3) });
    (0..50).for_each(|_| network.tick());
    assert!(network.peek(2, 1).is_some());

    let mut tags = Vec::new();
    for _ in 0..2000 {
        tags.extend(network.take(2, 0).map(|packet| packet.tag));
        network.tick();
    }
    assert_eq!(tags, (0..20).collect::<Vec<u32>>());
}

#[test]
fn skipping_idle_cycles_changes_nothing() {
    let run = |skip: bool| {
        let mut network = Network::new(&spec("noc-out:4x4", Pipeline::Three, 2, 3), 1).unwrap();
        let mut log = Vec::new();
        let endpoints = network.endpoints() as u64;
        for i in 0..40u64 {
            let at = i * i * 3;
            while network.now() < at {
                if skip {
                    let event = network.next_event().unwrap_or(at).min(at);
                    network.skip_to(event.max(network.now()));
                }
                if network.now() < at {
                    network.tick();
                }
            }
            let (src, dst) = (i * 7 % endpoints, i * 5 % endpoints);
            network.send(packet(src as u16, dst as u16, 5));
            let arrived: Vec<u16> = network.arrived().collect();
            log.extend(arrived.iter().filter_map(|&e| network.take_timed(e, 0)));
        }
        (log, network.stats())
    };
    let (left, right) = (run(true), run(false));
    assert!(left.0.len() > 20);
    assert_eq!(left, right);
}

/// A packet that finds no room where it goes holds up those behind it, of other virtual networks too, if all share
/// a queue at their source.
#[test]
fn a_shared_source_is_first_in_first_out() {
    for (sources, overtakes) in [(Sources::PerNetwork, true), (Sources::Shared, false)] {
        let mut spec = spec("mesh:2x1", Pipeline::Three, 1, 2);
        spec.vnets.push(VnetSpec { vcs: 1, ordered: false });
        spec.delivery_capacity_packets = 1;
        spec.sources = sources;
        let mut network = Network::new(&spec, 1).unwrap();
        for _ in 0..8 {
            network.send(packet(0, 1, 2));
        }
        network.send(Packet { vnet: 1, ..packet(0, 1, 2) });
        let waiting = network.queued(0, 1);
        assert_eq!(waiting, if overtakes { 1 } else { 9 });
        (0..200).for_each(|_| network.tick());
        assert_eq!(network.take(1, 1).is_some(), overtakes, "{sources:?}");
        let mut taken = 0;
        while !network.is_idle() {
            taken += u32::from(network.take(1, 0).is_some());
            tick(&mut network);
        }
        assert_eq!(taken + u32::from(network.take(1, 0).is_some()), 8);
        assert_eq!(network.take(1, 1).is_some(), !overtakes, "{sources:?}");
    }
}

#[test]
fn directories_do_not_turn_at_the_edge_with_their_own_routing() {
    let turns = |routing| {
        let shape: Shape = "chip-mesh".parse().unwrap();
        let mut network =
            Network::new(&Spec::standalone(shape, routing, Pipeline::Three), 1).unwrap();
        for tile in 0..64 {
            for edge in 64..80 {
                network.send(Packet { class: Class::Directory, ..packet(tile, edge, 1) });
            }
        }
        drain(&mut network);
        network.stats().directory_turns_at_edge
    };
    assert_eq!(turns(Routing::CdrDirectory), 0);
    assert_eq!(turns(Routing::Xy), 64 * 16 * 7 / 8);
}

#[test]
fn every_flit_is_counted_on_every_link() {
    let mut network = Network::new(&spec("mesh:4x4", Pipeline::Five, 2, 4), 1).unwrap();
    network.send(packet(0, 15, 5));
    drain(&mut network);
    let loaded: Vec<_> = network.link_loads().filter(|load| load.flits > 0).collect();
    assert_eq!(loaded.len(), 6);
    assert!(loaded.iter().all(|load| load.flits == 5));
    assert_eq!((loaded[0].from, loaded[0].to), ((0, 0), (1, 0)));
    let stats = network.stats().vnets[0];
    assert_eq!((stats.flits_injected, stats.flits_ejected, stats.hops), (5, 5, 6));
}
