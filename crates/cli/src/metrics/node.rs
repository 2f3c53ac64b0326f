//! Metrics of the nodes of a daemon.

use rackmem::control;
use rackmem::rack::Rack;
use rackmem::status::{NodeStatus, QpStatus};

use super::text::{self, Family, Labels, counter, flag, gauge, write};
use crate::failure::Result;
use crate::http::Server;
use crate::live::measure::total;

/// Whether a daemon's control answers; the other metrics are missing as long as it does not.
pub(super) const ANSWERS: [Family<bool>; 1] = [gauge(
    "rackmem_node_up",
    "Whether the daemon of the node answers: 1, or 0 without other metrics of the node.",
    |answers| flag(*answers),
)];

pub(super) const NODE: [Family<NodeStatus>; 15] = [
    gauge("rackmem_node_uptime_seconds", "Time since the daemon started.", |node| {
        node.uptime_ms as f64 / 1000.0
    }),
    gauge("rackmem_node_rack_nodes", "Nodes of the rack.", |node| node.nodes.into()),
    gauge("rackmem_node_links_up", "Other nodes that the node has a link to.", |node| {
        node.peers_up.len() as f64
    }),
    gauge("rackmem_node_links_down", "Other nodes that the node has no link to.", |node| {
        f64::from(node.nodes).max(1.0) - 1.0 - node.peers_up.len() as f64
    }),
    gauge("rackmem_node_contexts", "Contexts that the node has joined.", |node| {
        node.contexts.len() as f64
    }),
    gauge("rackmem_node_segment_bytes", "Size of the segments of the node.", |node| {
        total(node.contexts.iter().map(|context| context.segment_bytes as f64))
    }),
    gauge("rackmem_node_members", "Members of contexts on the node.", |node| {
        total(node.contexts.iter().map(|context| context.clients.into()))
    }),
    gauge("rackmem_node_queue_pairs", "Queue pairs of the node.", |node| node.qps.len() as f64),
    gauge("rackmem_node_queue_entries", "Entries of the work queues of the node.", |node| {
        of_queue_pairs(node, |qp| qp.entries)
    }),
    gauge("rackmem_node_in_flight", "Operations in flight from the node.", |node| {
        of_queue_pairs(node, |qp| qp.outstanding)
    }),
    counter(
        "rackmem_node_operations_total",
        "Operations that the queue pairs of the node have completed, ended queue pairs included.",
        |node| node.total.ops as f64,
    ),
    counter(
        "rackmem_node_operation_bytes_total",
        "Payload of operations that have succeeded.",
        |node| node.total.bytes as f64,
    ),
    counter("rackmem_node_operation_errors_total", "Operations that have failed.", |node| {
        node.total.errors as f64
    }),
    counter(
        "rackmem_node_served_packets_total",
        "Requests of other nodes that the node has answered, in packets.",
        |node| node.served_packets as f64,
    ),
    counter(
        "rackmem_node_served_bytes_total",
        "Bytes that requests of other nodes have read or written.",
        |node| node.served_bytes as f64,
    ),
];

fn of_queue_pairs(node: &NodeStatus, what: fn(&QpStatus) -> u32) -> f64 {
    total(node.qps.iter().map(|qp| what(qp).into()))
}

/// The page about nodes, of which those without a status do not answer.
fn page(rack: &str, nodes: Vec<(u16, Option<NodeStatus>)>) -> String {
    let labels =
        |nid: u16| -> Labels { vec![("rack", rack.to_owned()), ("node", nid.to_string())] };
    let answers: Vec<_> = nodes.iter().map(|(nid, node)| (labels(*nid), node.is_some())).collect();
    let nodes: Vec<_> =
        nodes.into_iter().filter_map(|(nid, node)| Some((labels(nid), node?))).collect();
    let mut page = String::new();
    write(&mut page, &ANSWERS, &answers);
    write(&mut page, &NODE, &nodes);
    page
}

/// Serves the page about the nodes of this process.
///
/// # Errors
/// There is no thread for it.
pub fn serve_nodes(server: Server, rack: &Rack, nids: &[u16]) -> Result<()> {
    let (rack, nids) = (rack.clone(), nids.to_vec());
    text::serve(server, move || {
        let answers = control::status_of(&rack, &nids, &nids).into_iter().map(|node| node.ok());
        Ok(page(rack.name(), nids.iter().copied().zip(answers).collect()))
    })
}
