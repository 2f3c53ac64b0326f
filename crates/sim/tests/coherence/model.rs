//! Model checking: every interleaving of a few operations on one block, with everything in flight
//! in any order.
//!
//! Operations, evictions and recalls are limited, and each causes a limited number of messages, so
//! there are no cycles (which is checked too): what never gets stuck gets done.
//!
//! The numbers of states are pinned. A change of the protocol changes them; then look at why.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rackmem_sim::coherence::Party;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::node::{Node, Op};
use crate::system::{Fault, System};
use crate::trace::Trace;

/// Operations that agents of a kind may do.
const CACHED: &[Op] = &[Op::Load, Op::Store, Op::Evict];
const UNCACHED: &[Op] = &[Op::ReadOnce, Op::Replace, Op::Modify];

#[derive(Clone, Debug)]
struct World {
    start: System,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Begin { node: Party, frontend: bool, op: Op },
    Deliver(usize),
    Arrive { node: Party, up: bool, index: usize },
    Memory,
    EvictFromLlc,
    Recall,
}

impl Model for World {
    type State = System;
    type Action = Action;

    fn init_states(&self) -> Vec<System> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &System, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (index, node) in state.nodes.iter().enumerate() {
            let party = index as Party;
            let (frontend, ops) = match node {
                Node::Unit { .. } => (None, UNCACHED),
                Node::Cache { .. } => (None, CACHED),
                Node::Pair { frontend, .. } => (Some(frontend), CACHED),
            };
            for (agent, frontend) in [(Some(node.agent()), false), (frontend, true)] {
                let Some(agent) = agent else { continue };
                if agent.wants.is_none() && agent.left > 0 {
                    actions.extend(ops.iter().map(|&op| Action::Begin {
                        node: party,
                        frontend,
                        op,
                    }));
                }
            }
            for up in [false, true] {
                let items = 0..state.on_wire(index, up);
                actions.extend(items.map(|index| Action::Arrive { node: party, up, index }));
            }
        }
        for (index, packet) in state.network.iter().enumerate() {
            // The same packet twice is the same step.
            let again = index > 0 && state.network[index - 1] == *packet;
            if state.is_deliverable(packet) && !again {
                actions.push(Action::Deliver(index));
            }
        }
        if state.reading {
            actions.push(Action::Memory);
        }
        if state.llc.is_some() && state.llc_evictions > 0 {
            actions.push(Action::EvictFromLlc);
        }
        if !state.home.is_busy() && !state.home.is_idle() && state.recalls > 0 {
            actions.push(Action::Recall);
        }
    }

    fn next_state(&self, last: &System, action: Action) -> Option<System> {
        let mut state = last.clone();
        let moved = catch_unwind(AssertUnwindSafe(|| match action {
            Action::Begin { node, frontend, op } => state.begin(node, frontend, op),
            Action::Deliver(index) => {
                state.deliver(index);
                true
            }
            Action::Arrive { node, up, index } => {
                state.arrive(node, up, index);
                true
            }
            Action::Memory => {
                state.read_memory();
                true
            }
            Action::EvictFromLlc => {
                state.evict_from_llc();
                true
            }
            Action::Recall => {
                state.recall();
                true
            }
        }));
        match moved {
            Ok(moved) => moved.then_some(state),
            Err(_) => Some(System { broken: Some("an illegal event"), ..last.clone() }),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is broken", |_, state: &System| state.broken.is_none()),
            Property::always("one writer", |_, state: &System| state.has_one_writer()),
            Property::always("copies are the last version", |_, state: &System| {
                state.copies_are_latest()
            }),
            Property::always("the directory is right", |_, state: &System| {
                state.directory_is_right()
            }),
            Property::always("owned only if so configured", |_, state: &System| {
                state.is_owned_only_if_configured()
            }),
            Property::always("never stuck", |_, state: &System| state.is_not_stuck()),
        ]
    }
}

fn world(nodes: Vec<Node>, llc_evictions: u8, recalls: u8) -> World {
    World { start: System { llc_evictions, recalls, ..System::new(nodes) } }
}

/// Checks a world to the end; it must hold and have this many states.
fn check(world: World, states: usize) {
    let checker = explore(world);
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "number of states");
}

fn explore(world: World) -> impl Checker<World> {
    world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

/// With this fault, this property must fail.
fn check_fault(fault: Fault, mut world: World, property: &'static str) {
    world.start.fault = Some(fault);
    let checker = explore(world);
    assert!(checker.discovery(property).is_some(), "{fault:?} goes unnoticed");
}

#[test]
fn two_caches() {
    check(world(vec![Node::cache(4), Node::cache(4)], 1, 1), 514_533);
}

#[test]
fn three_caches() {
    check(world(vec![Node::cache(2), Node::cache(2), Node::cache(2)], 1, 1), 590_916);
}

/// The cores' caches and the NI cache at the edge are all the same; beside them an NI that reads
/// and writes without a cache.
#[test]
fn two_caches_and_a_unit() {
    check(world(vec![Node::cache(2), Node::cache(2), Node::unit(2)], 1, 1), 861_688);
}

#[test]
fn a_cache_and_two_units() {
    check(world(vec![Node::cache(2), Node::unit(2), Node::unit(1)], 1, 1), 236_061);
}

#[test]
fn a_pair() {
    check(world(vec![Node::pair(0, 4, 4)], 1, 2), 945_481);
}

#[test]
fn a_pair_and_a_unit() {
    check(world(vec![Node::pair(0, 3, 3), Node::unit(2)], 0, 0), 667_536);
}

#[test]
fn a_pair_and_a_cache() {
    check(world(vec![Node::pair(0, 3, 3), Node::cache(2)], 0, 0), 377_930);
}

#[test]
fn a_pair_a_cache_and_a_unit() {
    check(world(vec![Node::pair(0, 2, 2), Node::cache(1), Node::unit(1)], 0, 1), 689_363);
}

#[test]
fn two_pairs() {
    check(world(vec![Node::pair(0, 2, 2), Node::pair(1, 1, 2)], 0, 0), 769_355);
}

#[test]
fn a_plain_pair_and_a_cache() {
    check(world(vec![Node::plain_pair(0, 3, 3), Node::cache(2)], 0, 0), 383_437);
}

#[test]
fn two_plain_pairs() {
    check(world(vec![Node::plain_pair(0, 2, 2), Node::plain_pair(1, 1, 1)], 0, 1), 871_975);
}

/// Every run of these worlds ends: their states can be put in an order.
#[test]
#[expect(clippy::mutable_key_type, reason = "the trace is not a part of the key")]
fn nothing_goes_on_for_ever() {
    for nodes in [
        vec![Node::cache(2), Node::cache(1), Node::unit(1)],
        vec![Node::pair(0, 2, 1), Node::cache(1)],
        vec![Node::plain_pair(0, 2, 1), Node::cache(1)],
    ] {
        let world = world(nodes, 1, 1);
        let mut states = world.init_states();
        let mut numbers = HashMap::from([(states[0].clone(), 0)]);
        let mut edges = Vec::new();
        while edges.len() < states.len() {
            let next: Vec<_> = world.next_states(&states[edges.len()]);
            let next = next.into_iter().map(|state| {
                *numbers.entry(state).or_insert_with_key(|state| {
                    states.push(state.clone());
                    states.len() - 1
                })
            });
            edges.push(next.collect::<Vec<_>>());
        }
        let mut incoming = vec![0; states.len()];
        edges.iter().flatten().for_each(|&to| incoming[to] += 1);
        let mut ready = vec![0];
        let mut ordered = 0;
        while let Some(from) = ready.pop() {
            ordered += 1;
            for &to in &edges[from] {
                incoming[to] -= 1;
                if incoming[to] == 0 {
                    ready.push(to);
                }
            }
        }
        assert_eq!(ordered, states.len(), "the others are on a cycle, or behind one");
    }
}

#[test]
fn a_copy_that_stays_is_noticed() {
    let caches = vec![Node::cache(2), Node::cache(2)];
    check_fault(Fault::AckWithoutInv, world(caches, 0, 0), "one writer");
}

#[test]
fn a_home_that_does_not_block_is_noticed() {
    let caches = vec![Node::cache(2), Node::cache(2)];
    check_fault(Fault::HomeDoesNotWait, world(caches, 0, 0), "nothing is broken");
}

#[test]
fn a_lost_write_back_is_noticed() {
    let caches = vec![Node::cache(2), Node::cache(2)];
    check_fault(Fault::LostWriteBack, world(caches, 1, 0), "the directory is right");
}

#[test]
fn a_reader_that_does_not_report_is_noticed() {
    let nodes = vec![Node::cache(1), Node::unit(1)];
    check_fault(Fault::NoUnblock, world(nodes, 0, 0), "never stuck");
}

/// The wires between L1 and NI cache have to keep the order.
#[test]
fn wires_that_reorder_are_noticed() {
    let nodes = vec![Node::pair(0, 3, 3), Node::cache(1)];
    check_fault(Fault::WiresReorder, world(nodes, 0, 0), "nothing is broken");
}

/// The steps of each controller: these tables are the protocol, as the paper omits them. Every line is a
/// step that happens in some run; a step that is not there panics, or would be found here.
#[test]
fn steps_are_those_in_the_tables() {
    let trace = Trace::on();
    for nodes in [
        vec![Node::cache(2), Node::cache(2), Node::unit(1)],
        vec![Node::cache(2), Node::cache(1), Node::cache(1)],
        vec![Node::pair(0, 2, 2), Node::unit(1)],
        vec![Node::pair(0, 3, 3)],
        vec![Node::pair(0, 2, 2), Node::cache(1)],
    ] {
        let mut world = world(nodes, 1, 1);
        world.start.trace = trace.clone();
        explore(world).assert_properties();
    }
    for controller in ["cache", "home", "pair"] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/coherence/tables/");
        let path = format!("{root}{controller}.txt");
        let table = trace.table(controller);
        if std::env::var_os("RACKMEM_WRITE_TABLES").is_some() {
            std::fs::write(&path, &table).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), table, "{path}");
    }
}
