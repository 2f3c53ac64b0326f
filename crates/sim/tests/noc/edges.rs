//! Networks from lists of links: the same as meshes where they are meshes, free of deadlock, and clear about faults.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use rackmem_sim::engine::Random;
use rackmem_sim::machine::{Override, Use, load, load_text};
use rackmem_sim::noc::synthetic::{Experiment, PacketSize, run};
use rackmem_sim::noc::{
    Class, EdgeList, Network, Order, Packet, Pipeline, Routing, Shape, Spec, SpecError, Topology,
    VnetSpec, deadlock,
};
use rackmem_sim::reference::queueing::zero_load;

use super::{LONG, packet, receive, tick};

fn edges(text: &str) -> Shape {
    Shape::Edges(Arc::new(EdgeList::parse(text.as_bytes(), "links").unwrap()))
}

fn spec(text: &str, routing: Routing) -> Spec {
    Spec::standalone(edges(text), routing, Pipeline::Five)
}

fn text(links: impl IntoIterator<Item = (usize, usize)>) -> String {
    links.into_iter().map(|(a, b)| format!("{a} {b}\n")).collect()
}

fn ring(routers: usize) -> String {
    text((0..routers).map(|router| (router, (router + 1) % routers)))
}

fn tree(routers: usize) -> String {
    text((1..routers).map(|router| ((router - 1) / 3, router)))
}

/// A tree of random parents, and so many links more.
fn random(seed: u64, routers: u64, more: u64) -> String {
    let mut random = Random::new(seed, 0);
    let mut links: BTreeSet<(usize, usize)> =
        (1..routers).map(|router| (random.below(router) as usize, router as usize)).collect();
    for _ in 0..more {
        let (a, b) = (random.below(routers) as usize, random.below(routers) as usize);
        if a != b {
            links.insert((a.min(b), a.max(b)));
        }
    }
    text(links)
}

fn mesh(columns: usize, rows: usize) -> String {
    let right = |at: usize| (at % columns + 1 < columns).then_some((at, at + 1));
    let below = |at: usize| (at / columns + 1 < rows).then_some((at, at + columns));
    text((0..columns * rows).flat_map(|at| [right(at), below(at)].into_iter().flatten()))
}

/// Cycles and hops of every pair's packet, alone in the network.
fn alone(spec: &Spec) -> Vec<(u64, u8)> {
    let mut network = Network::new(spec, 1).unwrap();
    let graph = network.topology().clone();
    let endpoints = network.endpoints() as u16;
    let mut all = Vec::new();
    for (src, dst) in (0..endpoints).flat_map(|src| (0..endpoints).map(move |dst| (src, dst))) {
        let packet = packet(src, dst, 3);
        network.send(packet);
        let got = receive(&mut network, dst, 0);
        assert_eq!(got.arrived - got.created, zero_load(spec, &graph, &packet), "{src} {dst}");
        all.push((got.arrived - got.created, got.hops));
    }
    all
}

#[test]
fn a_mesh_of_links_takes_as_long_as_a_mesh() {
    for router in [Pipeline::One, Pipeline::Three, Pipeline::Five] {
        let of = |shape, routing| alone(&Spec::standalone(shape, routing, router));
        let by_name = of("mesh:5x4".parse().unwrap(), Routing::Xy);
        assert_eq!(of(edges(&mesh(5, 4)), Routing::Minimal), by_name);
        let up_down = of(edges(&mesh(5, 4)), Routing::UpDown);
        let same = up_down.iter().zip(&by_name).filter(|(ours, theirs)| ours == theirs).count();
        assert!(
            up_down.iter().zip(&by_name).all(|(ours, theirs)| ours.1 > theirs.1 || ours == theirs)
        );
        assert!(same * 10 > by_name.len() * 9, "{same} of {}", by_name.len());
    }
}

/// A link may take longer one way than the other, and a way round may take less.
#[test]
fn links_have_latencies_of_their_own() {
    let of = |text: &str, routing| alone(&spec(text, routing));
    let (forth, back) = (1, 3);
    let two = of("0 1 20\n1 0 3 # back\n", Routing::UpDown);
    assert_eq!((two[forth * 2 - 1].0, two[back - 1].0), (7 + 4 + 20 + 2, 7 + 4 + 3 + 2));
    assert_eq!(of("0 1 9\n", Routing::UpDown)[2].0, 7 + 4 + 9 + 2);
    let round = of("0 1 40\n1 2\n2 0\n", Routing::Minimal);
    assert_eq!(round[1], (7 + 2 * 5 + 2, 2));
    let direct = of("0 1 4\n1 2\n2 0\n", Routing::Minimal);
    assert_eq!(direct[1], (7 + 4 + 4 + 2, 1));
}

#[test]
fn every_packet_arrives_under_a_load_near_saturation() {
    let random = random(7, 24, 20);
    for (text, rate) in [(&ring(12), 0.9), (&tree(20), 0.9), (&random, 0.9), (&random, 0.05)] {
        for allocator in ["islip", "one-request"] {
            let mut spec = spec(text, Routing::UpDown);
            spec.vnets = vec![VnetSpec { vcs: 1, ordered: false }; 2];
            spec.buffer_flits = 2;
            spec.allocator = allocator.parse().unwrap();
            assert_eq!(deadlock::check(&spec), Ok(()));
            let experiment = Experiment {
                packet_flits: PacketSize::fixed(4),
                measure_cycles: 1_000,
                drain_limit_cycles: LONG,
                latency_limit_cycles: f64::INFINITY,
                ..Experiment::new(spec.clone(), rate)
            };
            let report = run(&experiment).unwrap();
            assert_eq!(report.packets_missing, 0, "{report:?}");
            all_arrive(&spec, 4_000);
        }
    }
}

/// Sends packets as fast as endpoints take them, and waits until the network is empty.
fn all_arrive(spec: &Spec, packets: u32) {
    let mut network = Network::new(spec, 1).unwrap();
    let mut random = Random::new(1, 1);
    let endpoints = network.endpoints() as u64;
    let mut came = BTreeSet::new();
    for tag in 0..packets {
        let (src, dst) = (random.below(endpoints) as u16, random.below(endpoints) as u16);
        let vnet = random.below(2) as u8;
        network.send(Packet { src, dst, vnet, flits: 4, class: Class::Other, flow: 0, tag });
    }
    while !network.is_idle() || network.arrived().next().is_some() {
        tick(&mut network);
        for endpoint in network.arrived().collect::<Vec<u16>>() {
            for vnet in 0..2 {
                while let Some(packet) = network.take(endpoint, vnet) {
                    assert_eq!(packet.dst, endpoint);
                    assert!(came.insert(packet.tag), "twice: {packet:?}");
                }
            }
        }
    }
    assert_eq!(came.len(), packets as usize);
}

/// With one VC. A way never turns up after it went down, and never visits a router twice.
#[test]
fn up_down_closes_no_ring_on_random_graphs() {
    for seed in 0..200 {
        let text = random(seed, 2 + seed % 40, seed % 53);
        let mut spec = spec(&text, Routing::UpDown);
        spec.vnets[0].vcs = 1;
        assert_eq!(deadlock::check(&spec), Ok(()), "{text}");
    }
}

#[test]
fn minimal_routing_is_refused_where_rings_close_and_only_there() {
    for closed in [ring(5), ring(6), ring(12)] {
        let error = deadlock::check(&spec(&closed, Routing::Minimal)).unwrap_err();
        assert!(matches!(error, SpecError::MayDeadlock { .. }), "{error}");
        assert!(error.to_string().contains("up-down"), "{error}");
    }
    for open in [ring(3), tree(30), mesh(8, 8), mesh(3, 7)] {
        assert_eq!(deadlock::check(&spec(&open, Routing::Minimal)), Ok(()));
    }
    let large = deadlock::check(&spec(&tree(1100), Routing::Minimal)).unwrap_err();
    assert!(large.to_string().contains("with routing `minimal`, at most 1024"), "{large}");
    assert_eq!(deadlock::check(&spec(&tree(1100), Routing::UpDown)), Ok(()));
    for other in [Routing::Xy, Routing::O1Turn, Routing::Cdr] {
        let error = deadlock::check(&spec(&ring(4), other)).unwrap_err();
        assert!(error.to_string().contains("use up-down or minimal"), "{error}");
    }
    let mesh = Spec::standalone("mesh:4x4".parse().unwrap(), Routing::UpDown, Pipeline::Five);
    assert!(matches!(deadlock::check(&mesh), Err(SpecError::RoutingUnsafe { .. })));
}

#[test]
fn endpoints_are_where_nodes_are() {
    let text = "router 0 node 2 node 0 router 1 15 router 2\nnode 1 router 2\nrouter 1 router 2\n";
    let spec = spec(text, Routing::UpDown);
    let topology = Topology::new(&spec).unwrap();
    let places: Vec<usize> = topology.endpoints.iter().map(|at| at.eject.router).collect();
    assert_eq!((places, spec.endpoints(), topology.ports), (vec![0, 2, 0], 3, 4));
    let slow: Vec<u64> = topology.links.iter().map(|link| link.latency_cycles).collect();
    assert_eq!(slow, [15, 1, 15, 1, 1, 1]);
    assert_eq!(alone(&spec).len(), 9);
    all_arrive(&Spec { vnets: vec![VnetSpec { vcs: 1, ordered: false }; 2], ..spec.clone() }, 500);
    let error = Topology::new(&Spec { concentration: 2, ..spec }).unwrap_err();
    assert!(matches!(error, SpecError::NoConcentration { .. }), "{error}");
    let several = Spec { concentration: 3, ..self::spec(&ring(4), Routing::UpDown) };
    assert_eq!((several.endpoints(), alone(&several).len()), (12, 144));
    // One router is a crossbar.
    assert_eq!(alone(&self::spec("router 0 node 0 node 1", Routing::UpDown)).len(), 4);
}

/// The order of lines, and the ends of a link that a line names first, change nothing.
#[test]
fn a_list_is_the_same_in_any_order_and_from_json() {
    let lists =
        ["0 1\n1 2 3\n0 2\n", "2 0\n2 1 3\n1 0", "0 2\n2 0\nrouter 1 router 0 router 2 3\n"];
    let read = lists.map(edges);
    assert!(read.iter().all(|shape| *shape == read[0]), "{read:?}");
    for text in [lists[0], "router 1 node 0 node 2 router 0 4\nrouter 0 router 1 2 node 1"] {
        let spec = spec(text, Routing::UpDown);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec, "{json}");
    }
    let error = serde_json::from_str::<Shape>(r#"{"edges": ["0 1", "1 1"]}"#).unwrap_err();
    assert!(error.to_string().contains("edges:2: router 1 is linked to itself"), "{error}");
}

#[test]
fn a_fault_is_named_with_its_line() {
    let many = text((1..66).map(|leaf| (0, leaf)));
    for (list, line, said) in [
        (&b""[..], 1, "no links"),
        (b"# nothing\n\n", 2, "no links"),
        (b"0 1\n1\n", 2, "ROUTER ROUTER [CYCLES]"),
        (b"0 1\n1 2 3 4\n", 2, "ROUTER ROUTER [CYCLES]"),
        (b"0 1\n1 x\n", 2, "`x` is no router"),
        (b"0 1\n-1 1\n", 2, "`-1` is no router"),
        (b"0 1\n0 +1\n", 2, "`+1` is no router"),
        (b"0 1\n1 4096\n", 2, "at most 4096"),
        (b"0 1\n1 99999999999999999999999999\n", 2, "too many"),
        (b"0 1\n1 1\n", 2, "router 1 is linked to itself"),
        (b"0 1\n1 2\n\n0 1 2\n", 4, "twice, first in line 1"),
        (b"0 1\n1 0\n1 0\n", 3, "twice, first in line 2"),
        (b"0 1 0\n", 1, "give 1 to 200"),
        (b"0 1 201\n", 1, "give 1 to 200"),
        (b"0 1 1.5\n", 1, "`1.5` is no latency"),
        (b"0 1\n3 1\n0 3\n", 3, "router 3 is named, router 2 is not"),
        (b"0 1\n2 3\n", 2, "no way leads from router 0 to router 2"),
        (b"0 1\n1 \xff\n", 2, "no UTF-8"),
        (b"router 0\n", 1, "ROUTER ROUTER [CYCLES]"),
        (b"router 0 node\n", 1, "ROUTER ROUTER [CYCLES]"),
        (b"router 0 1\n", 1, "ROUTER ROUTER [CYCLES]"),
        (b"node 0 node 1\n", 1, "a node cannot be linked to a node"),
        (b"router 0 node 4096\n", 1, "at most 4096"),
        (b"router 0 node 0 15\n", 1, "latency of its own"),
        (b"router 0 node 0\nrouter 1 node 0\n", 2, "attached twice, also to router 0"),
        (b"router 0 node 0 router 1\nrouter 1 node 2\n", 2, "node 2 is attached, node 1 is not"),
        (many.as_bytes(), 65, "router 0 has 66 links and nodes, at most 64"),
    ] {
        let error = EdgeList::parse(list, "links").unwrap_err().to_string();
        assert!(error.starts_with(&format!("links:{line}: ")) && error.contains(said), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let wide = text((1..64).map(|leaf| (0, leaf)));
    let error = Topology::new(&Spec { concentration: 2, ..spec(&wide, Routing::UpDown) });
    assert!(error.unwrap_err().to_string().contains("65 ports at a router"));
    let named = "edges:links".parse::<Shape>().unwrap_err();
    assert!(named.to_string().contains("--topology edges:FILE"), "{named}");
}

proptest! {
    /// Whatever the bytes are, they are read or refused; what is read can be built, and does not deadlock.
    #[test]
    fn any_text_is_read_or_refused(words in prop::collection::vec("(router|node|[0-4]|9|#|\n|\n)", 0..60)) {
        if let Ok(list) = EdgeList::parse(words.join(" ").as_bytes(), "links") {
            let again = EdgeList::parse(list.lines().join("\n").as_bytes(), "links");
            prop_assert_eq!(again, Ok(list.clone()));
            let shape = Shape::Edges(Arc::new(list));
            let spec = Spec::standalone(shape, Routing::UpDown, Pipeline::Three);
            prop_assert_eq!(deadlock::check(&spec), Ok(()));
            prop_assert!(Network::new(&spec, 1).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = EdgeList::parse(&bytes, "links");
    }
}

/// Chips and racks say which topologies they have.
#[test]
fn machines_have_no_lists_of_links() {
    let refused = |machine: &str, setting: &str| {
        load(machine, &[setting.parse::<Override>().unwrap()]).unwrap_err().to_string()
    };
    let rack = refused("rack-torus", "rack.topology=edges:links");
    assert!(rack.contains("rack.topology") && rack.contains("machines have none"), "{rack}");
    let chip = refused("manycore-ni", "noc.topology=edges");
    assert!(chip.contains("noc.topology") && chip.contains("`mesh`"), "{chip}");
    let text = "kind = \"torus\"\nrack.topology = { edges = [\"0 1\"] }\n";
    let lines = load_text(Use::Any, "mine.toml", text, &[]).unwrap_err().to_string();
    assert!(lines.contains("rack.topology is a value"), "{lines}");
}

/// Two ways from router 0 up to the root, router 3, behind which the others are.
#[test]
fn ways_alike_take_turns_with_up_down_only() {
    let text = "0 1\n0 2\n1 3\n2 3\n3 4\n3 5\n";
    let second = |routing, dst| {
        Topology::new(&spec(text, routing)).unwrap().hops(Order::Xy, 0, dst)[0].to.router
    };
    assert_eq!([3, 4, 5].map(|dst| second(Routing::UpDown, dst)), [2, 1, 2]);
    assert_eq!([3, 4, 5].map(|dst| second(Routing::Minimal, dst)), [1, 1, 1]);
}
