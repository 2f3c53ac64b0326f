//! Shows that a network cannot deadlock: its channel dependency graph has no cycle.
//!
//! A channel is a VC class of a link. It depends on another if a packet that holds the first may ask
//! for the second (Dally and Seitz, 1987). Virtual networks have disjoint VCs and packets that arrive
//! are taken by the endpoint independently of other virtual networks, so one is looked at at a time.

use super::error::SpecError;
use super::routing::{Order, Routing, Tables, VcRange};
use super::spec::{Spec, VnetSpec};
use super::topology::{Attachment, Port, Shape, Topology};

/// Most endpoints of a network that is checked; larger ones are built by the same functions.
const MAX_CHECKED: usize = 1024;

/// Checks that every endpoint reaches every other and that no ring of channels can close.
///
/// # Errors
/// It does not, or one can, or the description has a fault.
pub fn check(spec: &Spec) -> Result<(), SpecError> {
    spec.check()?;
    // Two VCs have the same classes as more, and make fewer channels.
    let few = |vnet: &VnetSpec| VnetSpec { vcs: vnet.vcs.min(2), ..*vnet };
    let spec = Spec { vnets: spec.vnets.iter().map(few).collect(), ..spec.clone() };
    let topology = Topology::new(&spec)?;
    if topology.endpoints.len() > MAX_CHECKED {
        return match (&spec.topology, spec.routing) {
            (Shape::Edges(_), Routing::Minimal) => Err(SpecError::TooLarge {
                what: "endpoints on edges with routing `minimal`",
                given: topology.endpoints.len(),
                limit: MAX_CHECKED,
            }),
            _ => Ok(()),
        };
    }
    let tables = Tables::new(&spec, &topology)?;
    for vnet in 0..spec.vnets.len() {
        let graph = Dependencies::new(&topology, &tables, vnet, spec.routing.orders());
        if let Some((from, to)) = graph.unreached() {
            return Err(SpecError::NotConnected { from, to });
        }
        if let Some(channels) = graph.cycle() {
            let name = |&(router, port, _): &(usize, usize, usize)| format!("{router}.{port}");
            let ring = channels.iter().map(name).collect::<Vec<_>>().join(" -> ");
            return Err(SpecError::MayDeadlock { vnet, ring });
        }
    }
    Ok(())
}

/// Channels by router, port and VC; an edge where a packet may wait for one while it holds another.
#[derive(Clone, Debug)]
pub struct Dependencies {
    vcs: usize,
    ports: usize,
    after: Vec<Vec<u32>>,
    /// Endpoints of which the first does not reach the second.
    unreached: Option<(usize, usize)>,
}

impl Dependencies {
    /// The dependencies among the VCs of a virtual network whose packets take these orders.
    pub fn new(topology: &Topology, tables: &Tables, vnet: usize, orders: &[Order]) -> Self {
        let vcs = usize::from(tables.whole(vnet).count);
        let ports = topology.ports;
        let channels = topology.routers.len() * ports * vcs;
        let mut graph =
            Dependencies { vcs, ports, after: vec![Vec::new(); channels], unreached: None };
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
        let start = |(src, endpoint): (usize, &Attachment)| Step {
            src,
            at: endpoint.inject,
            second: false,
            held: None,
        };
        let mut steps: Vec<Step> = topology.endpoints.iter().enumerate().map(start).collect();
        while let Some(Step { src, at, second, held }) = steps.pop() {
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
                let Some(next) = links[output] else {
                    self.unreached.get_or_insert((src, dst));
                    continue;
                };
                if is_new {
                    let second = tables.is_second(vnet, usize::from(asked.1.first));
                    steps.push(Step { src, at: next, second, held: Some(asked) });
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

    /// Two endpoints of which the first does not reach the second, if there are such.
    pub fn unreached(&self) -> Option<(usize, usize)> {
        self.unreached
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
    /// Endpoint that sent it.
    src: usize,
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
