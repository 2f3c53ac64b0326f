//! Properties that only the inside of the network shows.

use super::super::spec::{Allocator, Class, Packet, Pipeline, Spec, VnetSpec};
use super::super::{Routing, Shape};
use super::{Delivered, Network};
use crate::engine::Random;

/// Longer than any of these tests takes, in cycles.
const LONG: u64 = 1_000_000;

impl Network {
    /// A cycle in which blocks of routers are visited from the last to the first.
    fn tick_backwards(&mut self) {
        self.tick_with(|half, now| {
            half.routers.tick_in_order(now, &mut half.crossing, |blocks| (0..blocks).rev());
        });
    }
}

fn storm(spec: &Spec, tick: fn(&mut Network)) -> Vec<Delivered> {
    storm_in(Network::new(spec, 3).unwrap(), tick)
}

fn storm_in(mut network: Network, tick: fn(&mut Network)) -> Vec<Delivered> {
    let mut random = Random::new(3, 0);
    let endpoints = network.endpoints() as u64;
    let mut log = Vec::new();
    for tag in 0..4000 {
        network.send(Packet {
            src: random.below(endpoints) as u16,
            dst: random.below(endpoints) as u16,
            vnet: random.below(2) as u8,
            flits: 1 + random.below(5) as u8,
            class: [Class::Other, Class::Directory][random.below(2) as usize],
            flow: 0,
            tag,
        });
        if tag % 8 == 0 {
            tick(&mut network);
        }
    }
    while !network.is_idle() {
        assert!(
            network.now() < LONG,
            "packets that do not move: {:?}",
            network.stuck(network.now(), 3)
        );
        tick(&mut network);
        let arrived: Vec<u16> = network.arrived().collect();
        for (endpoint, vnet) in arrived.into_iter().flat_map(|e| [(e, 0), (e, 1)]) {
            log.extend(network.take_timed(endpoint, vnet));
        }
    }
    log
}

#[test]
fn the_order_in_which_routers_are_visited_does_not_matter() {
    for (topology, routing) in [
        ("mesh:5x5", "o1turn"),
        ("chip-mesh:4x4", "cdr-directory"),
        ("torus:4x4", "minimal"),
        ("noc-out:4x4", "minimal"),
    ] {
        for router in [Pipeline::One, Pipeline::Three, Pipeline::Five] {
            let (topology, routing) = (topology.parse().unwrap(), routing.parse().unwrap());
            let mut spec = Spec::standalone(topology, routing, router);
            spec.vnets =
                vec![VnetSpec { vcs: 2, ordered: true }, VnetSpec { vcs: 3, ordered: false }];
            spec.buffer_flits = 3;
            spec.delivery_capacity_packets = 3;
            let forwards = storm(&spec, Network::tick);
            assert_eq!(
                forwards,
                storm(&spec, Network::tick_backwards),
                "{} {router}",
                spec.topology
            );
        }
    }
}

/// With and without a second thread, and with one that has the routers in some of the cycles only.
#[test]
fn a_second_thread_changes_nothing() {
    for allocator in [Allocator::OneRequest, Allocator::Islip] {
        let shape = "chip-mesh:4x4".parse().unwrap();
        let routing = "cdr-directory".parse().unwrap();
        let mut spec = Spec::standalone(shape, routing, Pipeline::Three);
        spec.vnets = vec![VnetSpec { vcs: 2, ordered: true }, VnetSpec { vcs: 3, ordered: false }];
        spec.delivery_capacity_packets = 3;
        spec.allocator = allocator;
        let alone = storm(&spec, Network::tick);
        let ways: [fn(&mut Network); 2] = [
            |network| network.simulate(network.now()),
            |network| match network.now() % 7 {
                0..3 => network.tick(),
                _ => network.simulate(network.now()),
            },
        ];
        for way in ways {
            let mut network = Network::new(&spec, 3).unwrap();
            network.work_in_two();
            assert_eq!(alone, storm_in(network, way), "{allocator:?}");
        }
    }
}

/// If packets of two virtual networks compete for a link all the time, the urgent one's come first.
#[test]
fn urgent_packets_go_first() {
    let mean_latency = |urgent: Vec<u8>| {
        let shape = Shape::Crossbar { ports: 4 };
        let spec = Spec {
            vnets: vec![VnetSpec { vcs: 2, ordered: false }; 2],
            urgent,
            ..Spec::standalone(shape, Routing::Minimal, Pipeline::Three)
        };
        let mut net = Network::new(&spec, 1).unwrap();
        let (mut sum, mut count) = ([0u64; 2], [0u64; 2]);
        for cycle in 0..4000u64 {
            for src in 0..3 {
                for vnet in 0..2u8 {
                    if cycle % 16 == u64::from(src) && net.queued(src, vnet) < 4 {
                        let packet = Packet {
                            src,
                            dst: 3,
                            vnet,
                            flits: 3,
                            class: Class::Other,
                            flow: 0,
                            tag: 0,
                        };
                        net.send(packet);
                    }
                }
            }
            net.tick();
            for vnet in 0..2u8 {
                while let Some(delivered) = net.take_timed(3, vnet) {
                    sum[usize::from(vnet)] += delivered.arrived - delivered.created;
                    count[usize::from(vnet)] += 1;
                }
            }
        }
        [0, 1].map(|vnet| sum[vnet] as f64 / count[vnet] as f64)
    };
    let [first, second] = mean_latency(vec![1]);
    assert!(second * 3.0 < first, "{second} and {first} cycles");
    let [first, second] = mean_latency(Vec::new());
    assert!((first / second - 1.0).abs() < 0.3, "{first} and {second} cycles: they take turns");
}

/// Requests of each other endpoint that 0 has answered. They always have `outstanding` requests of so many flits
/// under way, and 0 takes one every `period` cycles.
fn served(spec: &Spec, outstanding: usize, period: u64, flits: u8) -> Vec<u64> {
    let mut net = Network::new(spec, 1).unwrap();
    let clients = 1..net.endpoints() as u16;
    let packet = |src, dst, vnet, flits| Packet {
        src,
        dst,
        vnet,
        flits,
        class: Class::Other,
        flow: 0,
        tag: 0,
    };
    for client in clients.clone() {
        (0..outstanding).for_each(|_| net.send(packet(client, 0, 0, flits)));
    }
    let mut served = vec![0; clients.len()];
    for _ in 0..20_000 {
        net.tick();
        if net.now().is_multiple_of(period)
            && let Some(request) = net.take(0, 0)
        {
            served[usize::from(request.src) - 1] += 1;
            net.send(packet(0, request.src, 1, 1));
        }
        for client in clients.clone() {
            if net.take(client, 1).is_some() {
                net.send(packet(client, 0, 0, flits));
            }
        }
    }
    served
}

/// The answers of an endpoint that all others ask pass through its router between their heads, in step with
/// them. iSLIP serves some of them twice as often as others.
#[test]
fn an_endpoint_that_all_ask_serves_all() {
    for (ports, vcs) in [(6, 1), (6, 2), (9, 1), (9, 2), (9, 3), (11, 2), (11, 3)] {
        for router in [Pipeline::One, Pipeline::Three, Pipeline::Five] {
            for (allocator, least) in [(Allocator::OneRequest, 0.8), (Allocator::Islip, 0.45)] {
                let spec = Spec {
                    vnets: vec![VnetSpec { vcs, ordered: false }; 2],
                    delivery_capacity_packets: 2,
                    allocator,
                    ..Spec::standalone(Shape::Crossbar { ports }, Routing::Minimal, router)
                };
                for (outstanding, period, flits) in
                    [(1, 1, 1), (4, 1, 1), (4, 1, 5), (4, 3, 5), (4, 8, 5), (8, 8, 2), (1, 5, 5)]
                {
                    let served = served(&spec, outstanding, period, flits);
                    let most = *served.iter().max().unwrap() as f64;
                    assert!(
                        served.iter().all(|&count| count as f64 > least * most),
                        "{ports} ports of {vcs} VCs, {router} {allocator:?}, {outstanding} requests of \
                         {flits} flits, one taken every {period} cycles: {served:?}"
                    );
                }
            }
        }
    }
}
