//! `rackmem status`.

use rackmem::control;
use rackmem::rack::Rack;
use rackmem::status::NodeStatus;
use serde::Serialize;

use crate::args::StatusArgs;
use crate::console::{self, Align, Table, count};
use crate::failure::{Failure, Result};
use crate::size;

/// State of a node.
#[derive(Debug, Serialize)]
struct Node {
    nid: u16,
    answers: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<NodeStatus>,
}

/// State of a rack.
#[derive(Debug, Serialize)]
struct RackStatus {
    rack: String,
    version: String,
    contexts: Vec<u16>,
    nodes: Vec<Node>,
}

/// Shows all nodes.
///
/// # Errors
/// There is no rack, or a node does not answer.
pub fn run(rack: Option<&str>, args: &StatusArgs) -> Result<()> {
    let rack = Rack::named(rack)?;
    let description = rack.describe()?;
    let nodes: Vec<Node> = (0..)
        .zip(control::status_of_all(&rack, description.nodes))
        .map(|(nid, answer)| match answer {
            Ok(status) => Node { nid, answers: true, error: None, status: Some(status) },
            Err(error) => {
                // A daemon that is there, but stopped or stuck.
                if error.errno() == libc::ETIMEDOUT {
                    console::remark(&error.to_string());
                }
                Node { nid, answers: false, error: Some(error.to_string()), status: None }
            }
        })
        .collect();
    let silent: Vec<String> =
        nodes.iter().filter(|node| !node.answers).map(|node| node.nid.to_string()).collect();
    let status = RackStatus {
        rack: rack.name().to_owned(),
        version: description.version,
        contexts: rack.contexts(),
        nodes,
    };
    if args.json {
        console::print_json(&status)?;
    } else {
        console::print(&table(&status))?;
    }
    match silent.len() {
        0 => Ok(()),
        1 => Err(Failure::new(format!("node {} does not answer", silent[0]))),
        _ => Err(Failure::new(format!("nodes {} do not answer", silent.join(", ")))),
    }
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
    let nodes = count(status.nodes.len(), "node");
    let contexts = count(status.contexts.len(), "context");
    format!("rack '{}': {nodes}, {contexts}\n\n{}", status.rack, table.render())
}

fn duration(ms: u64) -> String {
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
