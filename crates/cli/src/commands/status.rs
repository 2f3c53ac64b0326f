//! `rackmem status`.

use std::path::PathBuf;

use rackmem::control;
use rackmem::rack::Rack;
use rackmem::status::{LinkState, LinkStatus, NodeStatus};
use serde::Serialize;

use crate::args::StatusArgs;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::rackctl::hosts;
use crate::size;

/// State of a node.
#[derive(Debug, Serialize)]
pub struct Node {
    /// Number of the node in its rack.
    pub nid: u16,
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
    /// Of a rack over several hosts: its file, and how many nodes it has. `nodes` lists those of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    rack_file: Option<PathBuf>,
    all_nodes: u16,
    contexts: Vec<u16>,
    nodes: Vec<Node>,
}

/// Shows all nodes.
///
/// # Errors
/// There is no rack, or a node does not answer.
pub fn run(choice: &Choice, args: &StatusArgs) -> Result<()> {
    let (rack, description) = choice.existing()?;
    let nodes = ask(&rack, &hosts::nodes_here(&rack, &description)?);
    let status = RackStatus {
        rack: rack.name().to_owned(),
        version: description.version,
        rack_file: description.rack_file,
        all_nodes: description.nodes,
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

/// Asks the daemons of these nodes for their status.
pub fn ask(rack: &Rack, nids: &[u16]) -> Vec<Node> {
    let node = |(nid, answer): (&u16, rackmem::Result<NodeStatus>)| match answer {
        Ok(status) => Node { nid: *nid, answers: true, error: None, status: Some(status) },
        Err(error) => {
            // A daemon that is there, but stopped or stuck.
            if error.errno() == libc::ETIMEDOUT {
                console::remark(&error.to_string());
            }
            Node { nid: *nid, answers: false, error: Some(error.to_string()), status: None }
        }
    };
    nids.iter().zip(control::status_of(rack, nids)).map(node).collect()
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

/// The links of a node that are down, in words.
fn missing_links(node: &NodeStatus) -> impl Iterator<Item = String> {
    let down = node.links.iter().filter(|link| link.state == LinkState::Down);
    down.map(|LinkStatus { nid, address, why, .. }| {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        format!("node {} has no link to node {nid} ({address}){why}\n", node.nid)
    })
}

fn table(status: &RackStatus) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("node", Right),
        ("process", Right),
        ("up for", Right),
        ("peers", Right),
        ("contexts", Left),
        ("queue pairs", Right),
        ("operations", Right),
        ("errors", Right),
    ]);
    for node in &status.nodes {
        let nid = node.nid.to_string();
        let Some(node) = &node.status else {
            table.row([nid, "does not answer".to_owned()]);
            continue;
        };
        let contexts: Vec<String> = node
            .contexts
            .iter()
            .map(|context| format!("{} ({})", context.ctx_id, size::exact(context.segment_bytes)))
            .collect();
        table.row([
            nid,
            node.pid.to_string(),
            duration(node.uptime_ms),
            node.peers_up.len().to_string(),
            if contexts.is_empty() { "-".to_owned() } else { contexts.join(", ") },
            node.qps.len().to_string(),
            size::rounded(node.qps.iter().map(|qp| qp.ops).sum::<u64>() as f64),
            node.qps.iter().map(|qp| qp.errors).sum::<u64>().to_string(),
        ]);
    }
    let nodes = match status.rack_file {
        None => count(status.nodes.len(), "node"),
        Some(_) => format!("{} of {} nodes on this host", status.nodes.len(), status.all_nodes),
    };
    let contexts = count(status.contexts.len(), "context");
    let answers = status.nodes.iter().filter_map(|node| node.status.as_ref());
    let missing: String = answers.flat_map(missing_links).collect();
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
