//! The state of a node, as `rackmem status` and `rackmem top` show it.

use serde::{Deserialize, Serialize};

use crate::protocol::Progress;

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub nid: u16,
    /// Nodes of the rack.
    pub nodes: u16,
    /// Process of its daemon.
    pub pid: u32,
    /// Version of its daemon.
    pub version: String,
    /// Time since its daemon started, in milliseconds.
    pub uptime_ms: u64,
    /// Nodes that it has a link to.
    pub peers_up: Vec<u16>,
    /// Contexts that it has joined.
    pub contexts: Vec<ContextStatus>,
    /// Its queue pairs.
    pub qps: Vec<QpStatus>,
    /// Requests of other nodes that its RRPP has answered, in packets.
    pub served_packets: u64,
    /// Bytes that these requests read or wrote.
    pub served_bytes: u64,
}

/// A context on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextStatus {
    /// Its number.
    pub ctx_id: u16,
    /// Size of the node's segment.
    pub segment_bytes: u64,
    /// Members on this node.
    pub clients: u32,
}

/// A queue pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QpStatus {
    /// Process that uses it.
    pub pid: u32,
    /// Number in that process's connection.
    pub qp: u32,
    /// Context.
    pub ctx_id: u16,
    /// The way by which its operations progress.
    pub progress: Progress,
    /// Entries of each queue: a power of two from 2 to [`rackmem_abi::MAX_WQ_SIZE`].
    pub entries: u32,
    /// Operations completed.
    pub ops: u64,
    /// Payload bytes of the operations that succeeded.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations under way.
    pub outstanding: u32,
}
