//! `rackmem status`.

use std::path::{Path, PathBuf};

use clap::Args;
use rackmem::control;
use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;
use rackmem::status::{LinkPath, LinkState, LinkStatus, NodeStatus};
use serde::Serialize;

use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::rackctl::hosts;
use crate::size;

/// Arguments of `rackmem status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// State of a node.
#[derive(Debug, Serialize)]
pub struct Node {
    /// Number of the node in its rack.
    pub nid: u16,
    /// Where its daemon listens, in a rack over several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether its daemon answers.
    pub answers: bool,
    /// Reason why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// State that its daemon has reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeStatus>,
}

/// State of a rack.
#[derive(Debug, Serialize)]
struct RackStatus {
    rack: String,
    version: String,
    /// Of a rack over several hosts: its file, and the nodes of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    rack_file: Option<PathBuf>,
    nodes_here: Vec<u16>,
    contexts: Vec<u16>,
    nodes: Vec<Node>,
}

/// Shows all nodes.
///
/// # Errors
/// There is no rack, or a node does not answer.
pub fn run(choice: &Choice, args: &StatusArgs) -> Result<()> {
    let (rack, description) = choice.existing()?;
    let here = hosts::nodes_here(&rack, &description)?;
    let all: Vec<u16> = (0..description.nodes).collect();
    let mut nodes = ask(&rack, &here, &all);
    if let Some(path) = &description.rack_file {
        add_addresses(&mut nodes, path);
    }
    let status = RackStatus {
        rack: rack.name().to_owned(),
        version: description.version,
        rack_file: description.rack_file,
        nodes_here: here,
        contexts: rack.contexts(),
        nodes,
    };
    if args.json {
        console::print_json(&status)?;
    } else {
        console::print(&table(&status))?;
    }
    check_answers(&status.nodes)
}

/// Adds what the rack file says. Users who may not read it, or its secret, see the rest.
fn add_addresses(nodes: &mut [Node], path: &Path) {
    let Ok(file) = RackFile::read(path) else { return };
    for (node, place) in nodes.iter_mut().zip(&file.nodes) {
        node.address = Some(place.address.to_string());
    }
}

/// Asks the daemons of these nodes for their status, those of other hosts through those that are here.
pub fn ask(rack: &Rack, here: &[u16], nids: &[u16]) -> Vec<Node> {
    let mut said = None;
    let node = |(nid, answer): (&u16, rackmem::Result<NodeStatus>)| {
        let (error, status) = match answer {
            Ok(status) => (None, Some(status)),
            Err(error) => {
                let text = error.to_string();
                // A daemon that is there, but stopped or stuck. It may be the one that was to ask several others.
                if error.errno() == libc::ETIMEDOUT && said.as_ref() != Some(&text) {
                    console::remark(&text);
                    said = Some(text.clone());
                }
                (Some(text), None)
            }
        };
        Node { nid: *nid, address: None, answers: status.is_some(), error, status }
    };
    nids.iter().zip(control::status_of(rack, here, nids)).map(node).collect()
}

/// Fails if a node does not answer.
///
/// # Errors
/// Names them.
pub fn check_answers(nodes: &[Node]) -> Result<()> {
    let silent: Vec<String> =
        nodes.iter().filter(|node| !node.answers).map(|node| node.nid.to_string()).collect();
    match silent.len() {
        0 => Ok(()),
        1 => Err(Failure::new(format!("node {} does not answer", silent[0]))),
        _ => Err(Failure::new(format!("nodes {} do not answer", silent.join(", ")))),
    }
}

/// Links that are down, in words: those of this host's nodes, and others between nodes that answer.
fn missing_links(status: &RackStatus) -> String {
    let answers = |nid: u16| status.nodes.iter().any(|node| node.nid == nid && node.answers);
    let mut text = String::new();
    for node in status.nodes.iter().filter_map(|node| node.status.as_ref()) {
        let is_here = status.nodes_here.contains(&node.nid);
        let down = node.links.iter().filter(|link| link.state == LinkState::Down);
        for link in down.filter(|link| is_here || answers(link.nid)) {
            let LinkStatus { nid: peer, address, why, .. } = link;
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let tried = tried(link);
            text +=
                &format!("node {} has no link to node {peer} ({address}){tried}{why}\n", node.nid);
        }
    }
    text
}

/// Time without a link between hosts, and calls in that time.
fn tried(link: &LinkStatus) -> String {
    let since = duration(link.since_ms);
    match (link.path, link.calls) {
        (LinkPath::Shm, _) => String::new(),
        (_, 0) => format!(" for {since}"),
        (_, calls) => format!(" for {since}, after {}", count(calls as usize, "call")),
    }
}

fn table(status: &RackStatus) -> String {
    use Align::{Left, Right};
    let mut columns = vec![
        ("node", Right),
        ("process", Right),
        ("up for", Right),
        ("peers", Right),
        ("contexts", Left),
        ("queue pairs", Right),
        ("operations", Right),
        ("errors", Right),
    ];
    if status.rack_file.is_some() {
        columns.push(("address", Left));
    }
    let mut table = Table::new(&columns);
    for Node { nid, address, status: node, .. } in &status.nodes {
        let nid = nid.to_string();
        let Some(node) = node else {
            table.row([nid, "does not answer".to_owned()]);
            continue;
        };
        let contexts: Vec<String> = node
            .contexts
            .iter()
            .map(|context| format!("{} ({})", context.ctx_id, size::exact(context.segment_bytes)))
            .collect();
        let cells = [
            nid,
            node.pid.to_string(),
            duration(node.uptime_ms),
            node.peers_up.len().to_string(),
            if contexts.is_empty() { "-".to_owned() } else { contexts.join(", ") },
            node.qps.len().to_string(),
            size::rounded(node.qps.iter().map(|qp| qp.ops).sum::<u64>() as f64),
            node.qps.iter().map(|qp| qp.errors).sum::<u64>().to_string(),
        ];
        table.row(cells.into_iter().chain(address.clone()));
    }
    let nodes = match status.rack_file {
        None => count(status.nodes.len(), "node"),
        Some(_) => {
            format!("{} of {} nodes on this host", status.nodes_here.len(), status.nodes.len())
        }
    };
    let contexts = count(status.contexts.len(), "context");
    let missing = missing_links(status);
    let missing = if missing.is_empty() { missing } else { format!("\n{missing}") };
    format!("rack '{}': {nodes}, {contexts}\n\n{}{missing}", status.rack, table.render())
}

/// Milliseconds in the two largest units that fit.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(999), "0 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(3_600_000), "1 h 0 min");
        assert_eq!(duration(90_000_000), "1 d 1 h");
    }
}
