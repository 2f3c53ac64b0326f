//! Topologies from a list of links: routers, links and endpoints as a text names them.
//!
//! A line is a link, `ROUTER ROUTER [CYCLES]`, or has BookSim2's form for its `anynet`: `router 0 node 0 router 1 15`
//! attaches endpoint 0 to router 0 and links that to router 1. What follows `#` is a comment. A link goes both ways; a
//! line from the other end gives that direction a latency of its own. Without a node in the whole text, every router
//! has an endpoint of its number. The order of lines does not matter.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::super::error::SpecError;
use super::super::spec::Spec;
use super::{
    Attachment, Axis, Link, MAX_BYTE, MAX_ENDPOINTS, MAX_PORTS, Port, Router, Topology, attach,
    attach_to_all,
};

/// Most routers of a list of links.
pub const MAX_ROUTERS: usize = 4096;

const FORM: &str =
    "expected `ROUTER ROUTER [CYCLES]` such as `0 1 2`, or `router 0 node 0 router 1 2`";

/// A graph of routers, linked both ways, with endpoints; connected, and within the simulator's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeList {
    routers: usize,
    /// By the two routers; without latency, it is that of the network's links.
    links: BTreeMap<(usize, usize), Option<u64>>,
    /// By endpoint, its router; empty if the routers are alike.
    nodes: Vec<usize>,
}

impl EdgeList {
    /// Reads a list; `file` is its name for errors.
    ///
    /// # Errors
    /// The first line that is not as it must be, or the line of the router that makes it no network.
    pub fn parse(bytes: &[u8], file: &str) -> Result<EdgeList, SpecError> {
        let bad = |(line, problem)| SpecError::BadEdges { file: file.to_owned(), line, problem };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
            bad((line + 1, "bytes that are no UTF-8 text; write routers as decimal numbers".into()))
        })?;
        let mut reader = Reader::default();
        for (number, line) in text.lines().enumerate() {
            reader.line = number + 1;
            let words: Vec<&str> =
                line.split('#').next().unwrap_or("").split_whitespace().collect();
            reader.read(&words).map_err(|problem| bad((number + 1, problem)))?;
        }
        reader.finish().map_err(bad)
    }

    /// Number of routers.
    pub fn routers(&self) -> usize {
        self.routers
    }

    /// Number of endpoints, with one at each router if the list names none.
    pub fn endpoints(&self) -> usize {
        if self.names_endpoints() { self.nodes.len() } else { self.routers }
    }

    /// Whether it says where endpoints are.
    pub fn names_endpoints(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Ports of the router that has most.
    pub fn ports(&self) -> usize {
        self.ports_by_router(1).into_iter().max().unwrap_or(0)
    }

    /// By router: endpoints, of which each router has so many if the list names none, and links.
    fn ports_by_router(&self, each: usize) -> Vec<usize> {
        let mut ports = vec![if self.names_endpoints() { 0 } else { each }; self.routers];
        let from = self.links.keys().map(|&(from, _)| from);
        self.nodes.iter().copied().chain(from).for_each(|router| ports[router] += 1);
        ports
    }

    /// The lines of a list that says the same.
    pub fn lines(&self) -> Vec<String> {
        let attached = |(node, router)| format!("router {router} node {node}");
        let link = |(&(from, to), latency): (&(usize, usize), &Option<u64>)| {
            let mut line = format!("{from} {to}");
            if let Some(cycles) = latency {
                let _ = write!(line, " {cycles}");
            }
            line
        };
        let nodes = self.nodes.iter().enumerate().map(attached);
        nodes.chain(self.links.iter().map(link)).collect()
    }
}

impl fmt::Display for EdgeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edges of {} routers", self.routers)
    }
}

/// A link of a list that is read.
struct Given {
    latency_cycles: Option<u64>,
    /// Line that names this direction; 0 if only the other one is named.
    line: usize,
}

/// A list that is read line by line.
#[derive(Default)]
struct Reader {
    line: usize,
    links: BTreeMap<(usize, usize), Given>,
    nodes: BTreeMap<usize, usize>,
    /// By router: the last line that names it, or 0.
    named: Vec<usize>,
}

/// The end of a link in a line.
#[derive(Clone, Copy)]
enum End {
    Router(usize),
    Node(usize),
}

impl Reader {
    fn read(&mut self, words: &[&str]) -> Result<(), String> {
        match *words {
            [] => Ok(()),
            ["router" | "node", ..] => self.read_ends(words),
            [from, to] => self.link(router(from)?, router(to)?, None),
            [from, to, latency] => self.link(router(from)?, router(to)?, Some(cycles(latency)?)),
            _ => Err(FORM.to_owned()),
        }
    }

    /// A line of BookSim2's form: an end, and those that it is linked to.
    fn read_ends(&mut self, words: &[&str]) -> Result<(), String> {
        let (head, mut rest) = end(words)?;
        if rest.is_empty() {
            return Err(FORM.to_owned());
        }
        while !rest.is_empty() {
            let other;
            (other, rest) = end(rest)?;
            let mut latency = None;
            if let [word, after @ ..] = rest
                && !matches!(*word, "router" | "node")
            {
                (latency, rest) = (Some(cycles(word)?), after);
            }
            match (head, other) {
                (End::Router(from), End::Router(to)) => self.link(from, to, latency)?,
                (End::Router(router), End::Node(node)) | (End::Node(node), End::Router(router)) => {
                    self.attach(node, router, latency)?;
                }
                (End::Node(_), End::Node(_)) => {
                    return Err("a node cannot be linked to a node; name a router between".into());
                }
            }
        }
        Ok(())
    }

    fn attach(&mut self, node: usize, router: usize, latency: Option<u64>) -> Result<(), String> {
        if latency.is_some() {
            return Err(format!(
                "node {node} has a latency of its own; remove the number, all nodes have the same"
            ));
        }
        if let Some(other) = self.nodes.insert(node, router) {
            return Err(format!(
                "node {node} is attached twice, also to router {other}; remove one"
            ));
        }
        self.name(router);
        Ok(())
    }

    fn link(&mut self, from: usize, to: usize, latency_cycles: Option<u64>) -> Result<(), String> {
        if from == to {
            return Err(format!("router {from} is linked to itself; name another router"));
        }
        let line = self.line;
        match self.links.get(&(from, to)) {
            Some(&Given { line, .. }) if line != 0 => {
                return Err(format!(
                    "the link {from} {to} is there twice, first in line {line}; remove one"
                ));
            }
            _ => self.links.insert((from, to), Given { latency_cycles, line }),
        };
        self.links.entry((to, from)).or_insert(Given { latency_cycles, line: 0 });
        self.name(from);
        self.name(to);
        Ok(())
    }

    fn name(&mut self, router: usize) {
        self.named.resize(self.named.len().max(router + 1), 0);
        self.named[router] = self.line;
    }

    /// The list, or a line and what is wrong with it.
    fn finish(self) -> Result<EdgeList, (usize, String)> {
        let Reader { line, links, nodes, named } = self;
        if named.is_empty() {
            return Err((line.max(1), format!("the list has no links; {FORM}")));
        }
        let (last, end) = (named.len() - 1, named[named.len() - 1]);
        if let Some(gap) = named.iter().position(|&line| line == 0) {
            let why = format!(
                "router {last} is named, router {gap} is not; number routers from 0 without gaps"
            );
            return Err((end, why));
        }
        if let Some((gap, (&node, &router))) =
            nodes.iter().enumerate().find(|&(number, (&node, _))| number != node)
        {
            let why = format!(
                "node {node} is attached, node {gap} is not; number nodes from 0 without gaps"
            );
            return Err((named[router], why));
        }
        let links = links.into_iter().map(|(ends, given)| (ends, given.latency_cycles)).collect();
        let edges = EdgeList { routers: named.len(), links, nodes: nodes.into_values().collect() };
        let ports = edges.ports_by_router(1);
        if let Some(router) = ports.iter().position(|&ports| ports > MAX_PORTS) {
            let given = ports[router];
            let why = format!(
                "router {router} has {given} links and nodes, at most {MAX_PORTS} are possible; remove some"
            );
            return Err((named[router], why));
        }
        match hops_from(0, &edges.neighbours()).iter().position(|&hops| hops == usize::MAX) {
            Some(router) => {
                let why = format!("no way leads from router 0 to router {router}; link the parts");
                Err((named[router], why))
            }
            None => Ok(edges),
        }
    }
}

fn end<'a, 'b>(words: &'a [&'b str]) -> Result<(End, &'a [&'b str]), String> {
    match words {
        ["router", number, rest @ ..] => Ok((End::Router(router(number)?), rest)),
        ["node", number, rest @ ..] => Ok((End::Node(below(number, "node", MAX_ENDPOINTS)?), rest)),
        _ => Err(FORM.to_owned()),
    }
}

fn router(word: &str) -> Result<usize, String> {
    below(word, "router", MAX_ROUTERS)
}

fn below(word: &str, what: &str, limit: usize) -> Result<usize, String> {
    match number(word) {
        Some(number) if number < limit as u64 => Ok(number as usize),
        Some(_) => Err(format!(
            "{what} {} is too many; at most {limit} are possible, numbered from 0",
            shown(word)
        )),
        None => Err(format!("`{}` is no {what}; {FORM}", shown(word))),
    }
}

fn cycles(word: &str) -> Result<u64, String> {
    let cycles = number(word).filter(|cycles| (1..=MAX_BYTE as u64).contains(cycles));
    cycles.ok_or_else(|| {
        format!("`{}` is no latency of a link; give 1 to {MAX_BYTE} cycles", shown(word))
    })
}

/// Its value, or the largest number if it is larger.
fn number(word: &str) -> Option<u64> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| word.parse().unwrap_or(u64::MAX))
}

/// So much of a word as fits into a message.
fn shown(word: &str) -> String {
    word.escape_debug().take(24).collect()
}

impl EdgeList {
    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut neighbours = vec![Vec::new(); self.routers];
        self.links.keys().for_each(|&(from, to)| neighbours[from].push(to));
        neighbours
    }
}

/// By router: links on the shortest way from this one; `usize::MAX` if there is none.
pub(super) fn hops_from(start: usize, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut hops = vec![usize::MAX; neighbours.len()];
    let mut reached = vec![start];
    hops[start] = 0;
    let mut at = 0;
    while let Some(&router) = reached.get(at) {
        at += 1;
        for &next in &neighbours[router] {
            if hops[next] == usize::MAX {
                hops[next] = hops[router] + 1;
                reached.push(next);
            }
        }
    }
    hops
}

/// Builds the graph. A router has its endpoints at its first ports, then its links by neighbour.
pub(super) fn build(spec: &Spec, edges: &EdgeList) -> Topology {
    let endpoints = if edges.names_endpoints() {
        let mut used = vec![0; edges.routers];
        edges.nodes.iter().map(|&router| attach(next(&mut used, router))).collect()
    } else {
        attach_to_all(edges.routers, spec.concentration)
    };
    let mut used = vec![0; edges.routers];
    endpoints.iter().for_each(|at: &Attachment| used[at.eject.router] += 1);
    let ports: BTreeMap<(usize, usize), Port> =
        edges.links.keys().map(|&ends| (ends, next(&mut used, ends.0))).collect();
    let link = |(&(a, b), &latency): (&(usize, usize), &Option<u64>)| Link {
        from: ports[&(a, b)],
        to: ports[&(b, a)],
        latency_cycles: latency.unwrap_or(spec.link_latency_cycles),
        axis: Axis::Other,
    };
    let router = |x| Router { x: x as i16, y: 0, pipeline: spec.router, edge: false };
    let mut topology = Topology {
        shape: spec.topology.clone(),
        routers: (0..edges.routers).map(router).collect(),
        locals: spec.concentration,
        dateline: spec.dateline,
        ports: used.into_iter().max().unwrap_or(0),
        links: edges.links.iter().map(link).collect(),
        endpoints,
        next_ports: Vec::new(),
    };
    topology.next_ports = super::ways::next_ports(&topology, spec.routing, &edges.neighbours());
    topology
}

/// The next port of a router that is not in use.
fn next(used: &mut [usize], router: usize) -> Port {
    used[router] += 1;
    Port { router, port: used[router] - 1 }
}
