//! Shows that a network cannot deadlock: its channel dependency graph has no cycle.
//!
//! A channel is a VC class of a link. It depends on another if a packet that holds the first may ask
//! for the second (Dally and Seitz, 1987). Virtual networks have disjoint VCs and packets that arrive
//! are taken by the endpoint independently of other virtual networks, so one is looked at at a time.

use super::routing::{Order, Tables, VcRange};
use super::topology::{Port, Topology};

/// Channels by router, port and VC; an edge where a packet may wait for one while it holds another.
#[derive(Clone, Debug)]
pub struct Dependencies {
    vcs: usize,
    ports: usize,
    after: Vec<Vec<u32>>,
}

impl Dependencies {
    /// The dependencies among the VCs of a virtual network whose packets take these orders.
    pub fn new(topology: &Topology, tables: &Tables, vnet: usize, orders: &[Order]) -> Self {
        let vcs = usize::from(tables.whole(vnet).count);
        let ports = topology.ports;
        let channels = topology.routers.len() * ports * vcs;
        let mut graph = Dependencies { vcs, ports, after: vec![Vec::new(); channels] };
        let links = link_table(topology);
        for &order in orders {
            for dst in 0..topology.endpoints.len() {
                graph.add_ways(topology, tables, &links, (vnet, order, dst));
            }
        }
        graph.after.iter_mut().for_each(|after| {
            after.sort_unstable();
            after.dedup();
        });
        graph
    }

    /// Adds all ways to a destination, which form a tree: a router needs to be visited once.
    fn add_ways(
        &mut self,
        topology: &Topology,
        tables: &Tables,
        links: &[Option<Port>],
        (vnet, order, dst): (usize, Order, usize),
    ) {
        let mut seen = vec![false; topology.routers.len()];
        let end = topology.endpoints[dst].eject.router;
        for endpoint in &topology.endpoints {
            let mut router = endpoint.inject.router;
            let mut held: Option<(usize, VcRange)> = None;
            while router != end {
                let hop = tables.hop(order, router, dst);
                let asked = (router * self.ports + hop.port(), tables.range(vnet, order, hop));
                if let Some(held) = held {
                    self.add(held, asked, tables.whole(vnet));
                }
                if std::mem::replace(&mut seen[router], true) {
                    break;
                }
                held = Some(asked);
                let Some(next) = links[router * self.ports + hop.port()] else { break };
                router = next.router;
            }
        }
    }

    fn add(&mut self, held: (usize, VcRange), asked: (usize, VcRange), whole: VcRange) {
        let channels = |(port, range): (usize, VcRange)| {
            let first = port * self.vcs + usize::from(range.first - whole.first);
            first..first + usize::from(range.count)
        };
        for from in channels(held) {
            self.after[from].extend(channels(asked).map(|to| to as u32));
        }
    }

    /// Channels of a cycle as (router, port, VC), or `None` if there is none.
    pub fn cycle(&self) -> Option<Vec<(usize, usize, usize)>> {
        let mut state = vec![State::New; self.after.len()];
        for start in 0..self.after.len() {
            if let Some(cycle) = self.search(start, &mut state) {
                let name =
                    |c: usize| (c / self.vcs / self.ports, c / self.vcs % self.ports, c % self.vcs);
                return Some(cycle.into_iter().map(name).collect());
            }
        }
        None
    }

    fn search(&self, start: usize, state: &mut [State]) -> Option<Vec<usize>> {
        if state[start] != State::New {
            return None;
        }
        let mut path = vec![(start, 0)];
        state[start] = State::Open;
        while let Some((channel, edge)) = path.last_mut() {
            let Some(&next) = self.after[*channel].get(*edge) else {
                state[*channel] = State::Done;
                path.pop();
                continue;
            };
            *edge += 1;
            let next = next as usize;
            match state[next] {
                State::New => {
                    state[next] = State::Open;
                    path.push((next, 0));
                }
                State::Open => {
                    let channels = path.iter().map(|&(channel, _)| channel);
                    return Some(channels.skip_while(|&channel| channel != next).collect());
                }
                State::Done => {}
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

fn link_table(topology: &Topology) -> Vec<Option<Port>> {
    let mut table = vec![None; topology.routers.len() * topology.ports];
    for link in &topology.links {
        table[link.from.router * topology.ports + link.from.port] = Some(link.to);
    }
    table
}
