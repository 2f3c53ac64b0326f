//! Next hops on any graph, for routers whose tables know a packet's destination and nothing else.
//!
//! *Up-down* (Schroeder and others, Autonet, 1991): routers are ranked by hops from a root, then by number. A packet
//! goes up, then down, and never up again, so channels can be numbered in the order in which packets take them. Since
//! the tables do not know whether a packet has gone down, it goes down as soon as a way of downs alone leads to its
//! destination: then every later router has one, too. The root is the router with the fewest hops to all others.
//!
//! *Minimal*: a way that takes the fewest cycles without load. Rings of channels may close; the check finds them.
//!
//! Of ways that take equally many cycles, minimal takes the one to the neighbour with the lowest number, by which a
//! mesh that is numbered by rows has no ring. With up-down, they take turns by the destination's router.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::routing::Routing;
use super::Topology;
use super::edges::hops_from;

/// No way, or none yet.
const FAR: u64 = u64::MAX;

/// A link as seen from one of its ends.
struct Way {
    other: usize,
    port: u8,
    cycles: u64,
}

/// By router of the destination and router: the output port. Those of a destination's router are of no use.
pub(super) fn next_ports(
    topology: &Topology,
    routing: Routing,
    neighbours: &[Vec<usize>],
) -> Vec<u8> {
    let count = neighbours.len();
    let mut out: Vec<Vec<Way>> = (0..count).map(|_| Vec::new()).collect();
    let mut into: Vec<Vec<(usize, u64)>> = vec![Vec::new(); count];
    for link in &topology.links {
        let (from, other) = (link.from.router, link.to.router);
        let cycles = topology.routers[from].pipeline.hop_cycles(link.latency_cycles);
        out[from].push(Way { other, port: link.from.port as u8, cycles });
        into[other].push((from, cycles));
    }
    let ranked = ranked(neighbours);
    let mut rank = vec![0; count];
    ranked.iter().enumerate().for_each(|(place, &router)| rank[router] = place);
    let mut is_end = vec![false; count];
    topology.endpoints.iter().for_each(|at| is_end[at.eject.router] = true);
    let mut ports = vec![0; count * count];
    for (end, ports) in ports.chunks_mut(count.max(1)).enumerate().filter(|&(end, _)| is_end[end]) {
        match routing {
            Routing::UpDown => up_down(end, &out, (&ranked, &rank), ports),
            _ => minimal(end, &out, &into, ports),
        }
    }
    ports
}

/// Routers from the root down.
fn ranked(neighbours: &[Vec<usize>]) -> Vec<usize> {
    let sum = |&router: &usize| hops_from(router, neighbours).iter().sum::<usize>();
    let root = (0..neighbours.len()).min_by_key(sum).unwrap_or(0);
    let levels = hops_from(root, neighbours);
    let mut ranked: Vec<usize> = (0..neighbours.len()).collect();
    ranked.sort_by_key(|&router| levels[router]);
    ranked
}

fn up_down(end: usize, out: &[Vec<Way>], (ranked, rank): (&[usize], &[usize]), ports: &mut [u8]) {
    let mut left = vec![FAR; out.len()];
    left[end] = 0;
    for &router in ranked[..rank[end]].iter().rev() {
        let down = |way: &&Way| rank[way.other] > rank[router];
        choose(router, out[router].iter().filter(down), end, &mut left, ports);
    }
    for &router in ranked {
        if left[router] == FAR {
            let up = |way: &&Way| rank[way.other] < rank[router];
            choose(router, out[router].iter().filter(up), end, &mut left, ports);
        }
    }
}

fn minimal(end: usize, out: &[Vec<Way>], into: &[Vec<(usize, u64)>], ports: &mut [u8]) {
    let mut left = vec![FAR; out.len()];
    left[end] = 0;
    let mut next = BinaryHeap::from([Reverse((0, end))]);
    while let Some(Reverse((cycles, router))) = next.pop() {
        if cycles > left[router] {
            continue;
        }
        for &(from, link) in &into[router] {
            if cycles + link < left[from] {
                left[from] = cycles + link;
                next.push(Reverse((left[from], from)));
            }
        }
    }
    for router in (0..out.len()).filter(|&router| router != end) {
        choose(router, out[router].iter(), 0, &mut left, ports);
    }
}

/// Takes one of the ways after which the fewest cycles are left: of several, they take turns.
fn choose<'a>(
    router: usize,
    ways: impl Iterator<Item = &'a Way> + Clone,
    turn: usize,
    left: &mut [u64],
    ports: &mut [u8],
) {
    let total = |way: &Way| way.cycles.saturating_add(left[way.other]);
    let fewest = ways.clone().map(total).min().unwrap_or(FAR);
    let mut alike = ways.filter(|way| total(way) == fewest && fewest != FAR);
    let count = alike.clone().count();
    if let Some(port) = turn.checked_rem(count).and_then(|nth| alike.nth(nth)).map(|way| way.port) {
        (left[router], ports[router]) = (fewest, port);
    }
}
