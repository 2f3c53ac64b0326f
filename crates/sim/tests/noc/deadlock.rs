//! No network can deadlock: the channel dependency graph of every topology and routing is acyclic,
//! and the check finds the cycles of networks that do not separate their classes.

use rackmem_sim::noc::deadlock::{self, Dependencies};
use rackmem_sim::noc::{
    Dateline, Order, Pipeline, Routing, Shape, Spec, SpecError, Tables, Topology, VnetSpec,
};

fn spec(topology: &str, routing: Routing, vcs: usize) -> Spec {
    let shape: Shape = topology.parse().unwrap();
    let vnet = VnetSpec { vcs, ordered: false };
    Spec { vnets: vec![vnet; 3], ..Spec::standalone(shape, routing, Pipeline::Three) }
}

const SHAPES: [&str; 12] = [
    "mesh:1x1",
    "mesh:8x8",
    "mesh:2x5",
    "chip-mesh",
    "torus:2x2",
    "torus:4x4",
    "torus:5x3",
    "torus:4x4x4",
    "flatfly:6x4",
    "flatfly:9",
    "crossbar:16",
    "noc-out",
];
const ROUTINGS: [Routing; 6] = [
    Routing::Xy,
    Routing::Yx,
    Routing::O1Turn,
    Routing::Cdr,
    Routing::CdrDirectory,
    Routing::Minimal,
];

#[test]
fn no_network_that_can_be_built_can_deadlock() {
    let mut built = 0;
    for shape in SHAPES {
        for routing in ROUTINGS {
            for vcs in [1, 2, 3] {
                let spec = spec(shape, routing, vcs);
                let topology = Topology::new(&spec).unwrap();
                let Ok(tables) = Tables::new(&spec, &topology) else { continue };
                built += 1;
                for vnet in 0..spec.vnets.len() {
                    let orders = routing.orders();
                    let graph = Dependencies::new(&topology, &tables, vnet, orders);
                    assert_eq!(graph.cycle(), None, "{shape} {routing} {vcs} {vnet}");
                }
                for dateline in [Dateline::Entry, Dateline::Crossing] {
                    assert_eq!(deadlock::check(&Spec { dateline, ..spec.clone() }), Ok(()));
                }
            }
        }
    }
    // Meshes: 4 x (3 routings x 3 + 3 x 2); tori: 4 x 2 x 2; flatfly: 2 x 2 x 3; others: 2 x 3.
    assert_eq!(built, 60 + 16 + 12 + 6);
}

#[test]
fn both_orders_on_the_same_vcs_are_found_to_deadlock() {
    let spec = spec("mesh:4x4", Routing::Xy, 2);
    let topology = Topology::new(&spec).unwrap();
    let tables = Tables::new(&spec, &topology).unwrap();
    let graph = Dependencies::new(&topology, &tables, 0, &[Order::Xy, Order::Yx]);
    let cycle = graph.cycle().expect("turns of both orders close a cycle");
    assert!(cycle.len() >= 4, "{cycle:?}");
}

/// The channels of so many virtual networks are not looked at.
#[test]
fn more_vcs_than_a_port_has_are_an_error() {
    let one = spec("mesh:16x16", Routing::Xy, 1);
    let spec = Spec { vnets: vec![one.vnets[0]; 1 << 20], ..one };
    let error = deadlock::check(&spec).unwrap_err();
    assert!(matches!(error, SpecError::TooLarge { limit: 32, .. }), "{error}");
}

#[test]
fn too_few_vcs_for_the_routing_are_an_error() {
    for (shape, routing) in [
        ("mesh:4x4", Routing::O1Turn),
        ("chip-mesh", Routing::CdrDirectory),
        ("torus:4x4", Routing::Minimal),
    ] {
        let spec = spec(shape, routing, 1);
        let topology = Topology::new(&spec).unwrap();
        let error = Tables::new(&spec, &topology).unwrap_err();
        assert!(
            matches!(error, SpecError::TooFewVcs { vnet: 0, vcs: 1, needed: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn orders_that_can_deadlock_on_a_topology_are_an_error() {
    for shape in ["torus:4x4", "flatfly:4x4", "crossbar:4", "noc-out"] {
        for routing in [Routing::Yx, Routing::O1Turn, Routing::Cdr, Routing::CdrDirectory] {
            let spec = spec(shape, routing, 4);
            let topology = Topology::new(&spec).unwrap();
            let error = Tables::new(&spec, &topology).unwrap_err();
            assert!(matches!(error, SpecError::RoutingUnsafe { .. }), "{error}");
        }
    }
}

#[test]
fn names_can_be_read_back() {
    for shape in SHAPES {
        let parsed: Shape = shape.parse().unwrap();
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
    }
    for routing in ROUTINGS {
        assert_eq!(routing.to_string().parse(), Ok(routing));
    }
}

#[test]
fn a_way_that_is_missing_is_found() {
    let torus = spec("torus:5x5", Routing::Minimal, 2);
    let mut topology = Topology::new(&torus).unwrap();
    let tables = Tables::new(&torus, &topology).unwrap();
    let graph = Dependencies::new(&topology, &tables, 0, &[Order::Xy]);
    assert_eq!((graph.cycle(), graph.unreached()), (None, None));
    topology.links.remove(0);
    let graph = Dependencies::new(&topology, &tables, 0, &[Order::Xy]);
    assert!(graph.unreached().is_some());
}
