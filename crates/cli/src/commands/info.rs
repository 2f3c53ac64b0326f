//! `rackmem info`: how the nodes of a rack reach each other.

use clap::Args;
use rackmem::status::{LinkPath, LinkState, LinkStatus, NodeStatus, Proof};
use serde::Serialize;

use super::status::{Node, ask, check_answers, duration};
use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, Align, Table};
use crate::failure::Result;
use crate::rackctl::hosts;

/// Arguments of `rackmem info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A node and its links.
#[derive(Debug, Serialize)]
struct Linked<'a> {
    nid: u16,
    answers: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    links: &'a [LinkStatus],
}

/// Shows the links of this host's nodes.
///
/// # Errors
/// There is no rack, or a node does not answer.
pub fn run(choice: &Choice, args: &InfoArgs) -> Result<()> {
    let (rack, description) = choice.existing()?;
    let here = hosts::nodes_here(&rack, &description)?;
    let nodes = ask(&rack, &here, &here);
    match args.json {
        true => console::print_json(&nodes.iter().map(linked).collect::<Vec<_>>())?,
        false => console::print(&table(&nodes))?,
    }
    check_answers(&nodes)
}

fn linked(node: &Node) -> Linked<'_> {
    let status = node.status.as_ref();
    Linked {
        nid: node.nid,
        answers: node.answers,
        error: node.error.as_deref(),
        version: status.map(|status| status.version.as_str()),
        links: status.map_or(&[], |status| &status.links),
    }
}

fn table(nodes: &[Node]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("node", Right),
        ("version", Left),
        ("peer", Right),
        ("path", Left),
        ("state", Left),
        ("since", Right),
        ("packets", Left),
        ("known by", Left),
        ("round trip", Right),
        ("address", Left),
        ("last error", Left),
    ]);
    for node in nodes {
        match &node.status {
            None => table.row([node.nid.to_string(), "does not answer".to_owned()]),
            Some(status) if status.links.is_empty() => {
                table.row([node.nid.to_string(), status.version.clone(), "none".to_owned()]);
            }
            Some(status) => status.links.iter().for_each(|link| table.row(row(status, link))),
        }
    }
    table.render()
}

fn row(node: &NodeStatus, link: &LinkStatus) -> [String; 11] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        node.nid.to_string(),
        node.version.clone(),
        link.nid.to_string(),
        path(link),
        link.state.name().to_owned(),
        duration(link.since_ms),
        packets(link).to_owned(),
        or_dash(link.proof.as_ref().map(proof)),
        or_dash(link.round_trip_us.map(|us| format!("{us:.1} us"))),
        link.address.clone(),
        or_dash(Some(link.why.clone()).filter(|why| !why.is_empty())),
    ]
}

/// The way of packets, and why it is not the usual one.
fn path(link: &LinkStatus) -> String {
    let name = link.path.name();
    if link.path_why.is_empty() { name.to_owned() } else { format!("{name} ({})", link.path_why) }
}

/// Proof of a node: the beginning of its key, the secret, or both.
fn proof(proof: &Proof) -> String {
    match (&proof.key, proof.secret) {
        (Some(key), false) => format!("key {key}"),
        (Some(key), true) => format!("key {key} and secret"),
        (None, _) => "secret".to_owned(),
    }
}

/// Whether others could read the packets of a link.
fn packets(link: &LinkStatus) -> &'static str {
    match (link.path, link.state, link.sealed) {
        (LinkPath::Shm, ..) => "stay on this host",
        (_, LinkState::Down, _) => "-",
        (_, LinkState::Up, true) => "encrypted",
        (_, LinkState::Up, false) => "cleartext",
    }
}
