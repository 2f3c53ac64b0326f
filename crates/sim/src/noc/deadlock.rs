//! Shows that a network cannot deadlock: its channel dependency graph has no cycle.
//!
//! A channel is a VC class of a link. It depends on another if a packet that holds the first may ask
//! for the second (Dally and Seitz, 1987). Virtual networks have disjoint VCs and packets that arrive
//! are taken by the endpoint independently of other virtual networks, so one is looked at at a time.

use super::routing::{Order, Tables, VcRange};
use super::topology::{Attachment, Port, Topology};

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

    /// Adds all ways to a destination. Where a packet goes on depends on the router, and at a torus that
    /// fixes classes also on the input and the class, so such a state needs to be visited once.
    fn add_ways(
        &mut self,
        topology: &Topology,
        tables: &Tables,
        links: &[Option<Port>],
        (vnet, order, dst): (usize, Order, usize),
    ) {
        let end = topology.endpoints[dst].eject.router;
        let mut seen = vec![[false; 2]; topology.routers.len() * self.ports];
        let start = |endpoint: &Attachment| Step { at: endpoint.inject, second: false, held: None };
        let mut steps: Vec<Step> = topology.endpoints.iter().map(start).collect();
        while let Some(Step { at, second, held }) = steps.pop() {
            if at.router == end {
                continue;
            }
            let entered = tables.hop(order, at.router, dst);
            let is_new = !std::mem::replace(
                &mut seen[at.router * self.ports + at.port][second as usize],
                true,
            );
            for back in [false, true] {
                if back && !entered.is_tie() {
                    continue;
                }
                let hop = tables.resolve(topology, entered, (at.port, second), back);
                let output = at.router * self.ports + hop.port();
                let asked = (output, tables.range(vnet, order, hop));
                if let Some(held) = held {
                    self.add(held, asked, tables.whole(vnet));
                }
                if let (true, Some(next)) = (is_new, links[output]) {
                    let second = tables.is_second(vnet, usize::from(asked.1.first));
                    steps.push(Step { at: next, second, held: Some(asked) });
                }
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

/// A packet at the input of a router, and the channels that it holds.
struct Step {
    at: Port,
    /// It came on a VC of the upper class.
    second: bool,
    held: Option<(usize, VcRange)>,
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
