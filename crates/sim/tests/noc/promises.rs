//! The network on chip against formulas, and what it promises: nothing lost, nothing out of order,
//! back-pressure, the same run for the same seed.

use proptest::prelude::*;
use rackmem_sim::engine::Random;
use rackmem_sim::noc::{Allocator, Class, Dateline, Network, Packet, Sources, Spec, VnetSpec};
use rackmem_sim::reference::queueing::zero_load;

use super::{packet, receive, tick};

const CLASSES: [Class; 3] = [Class::Other, Class::MemoryRequest, Class::Directory];

fn spec(topology: &str, routing: &str, router: &str) -> Spec {
    let (topology, routing) = (topology.parse().unwrap(), routing.parse().unwrap());
    Spec::standalone(topology, routing, router.parse().unwrap())
}

const ISLIP: Allocator = Allocator::Islip;
const ONE: Allocator = Allocator::OneRequest;

/// Topology, routing, and endpoints at each router.
const SHAPES: [(&str, &str, usize); 11] = [
    ("mesh:5x4", "xy", 1),
    ("mesh:4x5", "yx", 1),
    ("mesh:3x2", "xy", 3),
    ("chip-mesh:4x4", "cdr", 1),
    ("torus:4x5", "minimal", 1),
    ("torus:3x4x2", "minimal", 1),
    ("torus:4x2", "minimal", 2),
    ("flatfly:4x3", "minimal", 1),
    ("flatfly:3x2", "minimal", 4),
    ("crossbar:7", "minimal", 1),
    ("noc-out:4x4", "minimal", 1),
];

#[test]
fn latency_without_load_is_that_of_the_formula() {
    for (topology, routing, concentration) in SHAPES {
        for router in ["1-stage", "3-stage", "4-stage", "5-stage"] {
            for (flits, allocator) in [(1, ISLIP), (5, ISLIP), (1, ONE), (5, ONE)] {
                let spec = Spec { allocator, concentration, ..spec(topology, routing, router) };
                let mut network = Network::new(&spec, 1).unwrap();
                let graph = network.topology().clone();
                let endpoints = network.endpoints() as u16;
                for (src, dst) in (0..endpoints).flat_map(|s| (0..endpoints).map(move |d| (s, d))) {
                    let packet = packet(src, dst, flits);
                    network.send(packet);
                    let got = receive(&mut network, dst, 0);
                    let expected = zero_load(&spec, &graph, &packet);
                    let cycles = got.arrived - got.created;
                    assert_eq!(cycles, expected, "{topology} {router} {src} {dst} {flits}");
                    assert!(network.is_idle());
                }
            }
        }
    }
}

#[test]
fn five_cycles_a_hop_and_seven_besides() {
    let mut network = Network::new(&spec("mesh:8x8", "xy", "5-stage"), 1).unwrap();
    network.send(packet(0, 63, 1));
    let got = receive(&mut network, 63, 0);
    assert_eq!((got.arrived - got.created, got.hops), (5 * 14 + 7, 14));
}

/// Random packets; all that arrive, in order, as (cycle, endpoint, tag).
fn storm(spec: &Spec, seed: u64, packets: u32, max_flits: u64) -> Vec<(u64, u16, Packet)> {
    let mut network = Network::new(spec, seed).unwrap();
    let mut random = Random::new(seed, 1);
    let (endpoints, vnets) = (network.endpoints() as u64, spec.vnets.len() as u64);
    let mut log = Vec::new();
    let mut sent = 0;
    while sent < packets || !network.is_idle() {
        for _ in 0..random.below(endpoints) {
            if sent < packets {
                network.send(Packet {
                    src: random.below(endpoints) as u16,
                    dst: random.below(endpoints) as u16,
                    vnet: random.below(vnets) as u8,
                    flits: 1 + random.below(max_flits) as u8,
                    class: CLASSES[random.below(3) as usize],
                    flow: random.below(3) as u32,
                    tag: sent,
                });
                sent += 1;
            }
        }
        tick(&mut network);
        let arrived: Vec<u16> = network.arrived().collect();
        for endpoint in arrived {
            for vnet in 0..vnets as u8 {
                while let Some(packet) = network.take(endpoint, vnet) {
                    log.push((network.now(), endpoint, packet));
                }
            }
        }
    }
    log
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let topologies = prop::sample::select(vec![
        ("mesh:4x3", "xy"),
        ("mesh:3x4", "o1turn"),
        ("mesh:4x4", "cdr-directory"),
        ("chip-mesh:4x4", "cdr"),
        ("chip-mesh:3x3", "cdr-directory"),
        ("torus:4x4", "minimal"),
        ("torus:3x2x3", "xy"),
        ("flatfly:3x4", "xy"),
        ("crossbar:9", "minimal"),
        ("noc-out:4x4", "minimal"),
    ]);
    let pipelines = prop::sample::select(vec!["1-stage", "3-stage", "4-stage", "5-stage"]);
    let vnets = prop::collection::vec((2usize..5, any::<bool>()), 1..4);
    let any = any::<bool>;
    let rules = (any(), any(), any(), any(), any(), 1usize..4);
    (topologies, pipelines, vnets, 1usize..9, 1u64..4, 1usize..4, rules).prop_map(
        |((topology, routing), pipeline, vnets, buffer_flits, link, capacity, rules)| {
            let (islip, entry, ejection_credits, urgent, shared, concentration) = rules;
            let spec = spec(topology, routing, pipeline);
            let several = spec.topology.has_concentration();
            Spec {
                vnets: vnets.into_iter().map(|(vcs, ordered)| VnetSpec { vcs, ordered }).collect(),
                buffer_flits,
                link_latency_cycles: link,
                delivery_capacity_packets: capacity,
                allocator: if islip { ISLIP } else { ONE },
                dateline: if entry { Dateline::Entry } else { Dateline::Crossing },
                ejection_credits,
                sources: if shared { Sources::Shared } else { Sources::PerNetwork },
                urgent: if urgent { vec![1] } else { Vec::new() },
                concentration: if several { concentration } else { 1 },
                ..spec
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_arrives_once_where_it_should(spec in any_spec(), seed in 0u64..1000) {
        let log = storm(&spec, seed, 600, 7);
        let mut tags: Vec<u32> = log.iter().map(|(_, _, packet)| packet.tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..600).collect::<Vec<u32>>());
        prop_assert!(log.iter().all(|(_, endpoint, packet)| packet.dst == *endpoint));
    }

    #[test]
    fn flows_of_ordered_networks_keep_their_order(spec in any_spec(), seed in 0u64..1000) {
        let mut spec = spec;
        spec.vnets.iter_mut().for_each(|vnet| vnet.ordered = true);
        let mut last = std::collections::HashMap::new();
        for (_, _, packet) in storm(&spec, seed, 800, 6) {
            // The order of a flow under routings by class is that of its class too.
            let Packet { src, dst, vnet, flow, class, .. } = packet;
            let before = last.insert((src, dst, vnet, flow, class), packet.tag);
            prop_assert!(before.is_none_or(|tag| tag < packet.tag), "{packet:?} after {before:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run(spec in any_spec(), seed in 0u64..1000) {
        prop_assert_eq!(storm(&spec, seed, 300, 5), storm(&spec, seed, 300, 5));
    }
}
