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
    /// Work of all its queue pairs since its daemon started, those that have ended included.
    #[serde(default)]
    pub total: Work,
    /// Requests of other nodes that its RRPP has answered, in packets.
    pub served_packets: u64,
    /// Bytes that these requests read or wrote.
    pub served_bytes: u64,
    /// Its links to other nodes; of a large rack, those that are down and the first of the others.
    #[serde(default)]
    pub links: Vec<LinkStatus>,
}

/// Work of queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Operations completed.
    pub ops: u64,
    /// Payload bytes of the operations that succeeded.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
}

/// The link of a node to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The other node.
    pub nid: u16,
    /// Path of packets and segments.
    pub path: LinkPath,
    /// Why it is this one, in words; empty: it is the usual one.
    #[serde(default)]
    pub path_why: String,
    /// Where the other node listens: the path of a socket, or IP:PORT.
    pub address: String,
    /// Whether packets pass.
    pub state: LinkState,
    /// The last error, in words; empty: there was none.
    #[serde(default)]
    pub why: String,
    /// Whether its packets are encrypted. Shared memory is not: it does not leave the host.
    pub sealed: bool,
    /// What the other node has to prove, if it is on another host.
    #[serde(default)]
    pub proof: Option<Proof>,
    /// What the other node may do here, if it is on another host.
    #[serde(default)]
    pub rights: Vec<String>,
    /// Version of the other node's daemon, if it is on another host.
    #[serde(default)]
    pub version: String,
    /// Last measured round trip in microseconds.
    #[serde(default)]
    pub round_trip_us: Option<f64>,
    /// Time since the state last changed, in milliseconds.
    pub since_ms: u64,
    /// Attempts to reach the other node since then, if it is on another host and has the lower number: it is called.
    #[serde(default)]
    pub calls: u32,
    /// Processes of that node that have a link of their own to this one.
    pub guests: usize,
}

/// What a node has to prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Fingerprint of its key: the first digits of it in the rack file.
    pub key: Option<String>,
    /// Whether it has to know the secret of the rack.
    pub secret: bool,
}

/// Path by which two nodes reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkPath {
    /// Shared memory of one host.
    Shm,
    /// A connection between hosts.
    Tcp,
    /// UCX, beside a connection between hosts.
    Ucx,
}

/// Whether packets pass between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Packets pass.
    Up,
    /// The other node is not there, or refuses.
    Down,
}

impl LinkPath {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LinkPath::Shm => "shm",
            LinkPath::Tcp => "tcp",
            LinkPath::Ucx => "ucx",
        }
    }
}

impl LinkState {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LinkState::Up => "up",
            LinkState::Down => "down",
        }
    }
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
