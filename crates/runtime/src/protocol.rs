//! Messages of clients and peers to a daemon, and its answers: the driver's calls (soNUMA §5.1, §7.1).
//!
//! A connection is one membership in one context. The comment of a message names the descriptors that
//! travel with it.

use std::fmt;

use rackmem_fabric::credentials::Psk;
use rackmem_fabric::guest::Invitation;
use serde::{Deserialize, Serialize};

use crate::status::NodeStatus;

/// Changes with every incompatible change of this file or of a layout in shared memory.
pub const PROTOCOL_VERSION: u32 = 8;

/// Name of the memory of local buffers. A process sees it in its list of mappings.
pub const BUFFER_NAME: &str = "rackmem-buffer";

/// The way by which operations of a queue pair progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// The calling thread, on mapped segments.
    Inline,
    /// The node's daemon, on mapped segments.
    Daemon,
    /// The daemons of both nodes, by request and reply packets.
    Packet,
}

impl Progress {
    /// Every way.
    pub const ALL: [Progress; 3] = [Progress::Inline, Progress::Daemon, Progress::Packet];

    /// Its name, as in `$RACKMEM_PROGRESS`.
    pub const fn name(self) -> &'static str {
        match self {
            Progress::Inline => "inline",
            Progress::Daemon => "daemon",
            Progress::Packet => "packet",
        }
    }

    /// The way of this name.
    pub fn from_name(name: &str) -> Option<Progress> {
        Self::ALL.into_iter().find(|progress| progress.name() == name)
    }
}

/// Message of a client to its daemon, or of a daemon to a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// First message of a client.
    Hello {
        /// [`PROTOCOL_VERSION`] of the client.
        version: u32,
    },
    /// Joins a context. With the open file of the context, which proves the right to.
    Open {
        /// Context.
        ctx_id: u16,
        /// Size of the node's segment in bytes; 0 takes the segment that exists.
        segment_bytes: u64,
        /// Whether other processes may be this node of the context, too, if they say the same.
        shared: bool,
    },
    /// Makes a queue pair.
    CreateQp {
        /// Entries of each queue: a power of two from 2 to [`rackmem_abi::MAX_WQ_SIZE`].
        entries: u32,
        /// The way by which its operations progress.
        progress: Progress,
    },
    /// Drops a queue pair.
    DestroyQp {
        /// Number from the answer to `CreateQp`.
        qp: u32,
    },
    /// Makes memory for local buffers.
    CreateBuffer {
        /// Size.
        size_bytes: u64,
    },
    /// Drops a buffer. Its addresses are no local buffer any more, so the client may have other memory there.
    DropBuffer {
        /// Number from the answer to `CreateBuffer`.
        buffer: u32,
    },
    /// Announces the address at which the client mapped a buffer, which becomes a local buffer.
    PlaceBuffer {
        /// Number from the answer to `CreateBuffer`.
        buffer: u32,
        /// First byte in the client.
        address: u64,
    },
    /// Announces the address at which the client mapped the memory of a queue pair: its operands become local buffers.
    PlaceQp {
        /// Number from the answer to `CreateQp`.
        qp: u32,
        /// First byte in the client.
        address: u64,
    },
    /// Announces the address at which the client mapped its segment, which becomes a local buffer, too.
    PlaceSegment {
        /// First byte of the data in the client.
        address: u64,
    },
    /// Asks for the segment of a node.
    Peer {
        /// Node.
        nid: u16,
    },
    /// Asks for a link of the process's own to the daemon of a node on another host.
    Invite {
        /// Node.
        nid: u16,
    },
    /// Leaves the context; without it the client counts as crashed.
    Close,
    /// Asks for the state of the node.
    Status,
    /// Asks for the state of a node of another host, which its daemon reports.
    StatusOf {
        /// Node.
        nid: u16,
    },
    /// A daemon asks that of another host for the state of its node.
    Ask,
    /// Answers [`Request::Ask`].
    Told(Box<NodeStatus>),
    /// First message of a daemon to a peer. With the memory of the link's rings and the event
    /// descriptor and bell that wake the sender.
    Link {
        /// [`PROTOCOL_VERSION`] of the sender.
        version: u32,
        /// The sender's node.
        nid: u16,
    },
    /// The connection for packets between two hosts has come: the link is up.
    Linked,
    /// The sender's daemon is not stopped.
    Beat,
    /// A process of the sender's node will connect by itself.
    Admit(Admission),
    /// A node of the link has opened a context. With its segment, if both are on one host.
    ContextUp {
        /// Context.
        ctx_id: u16,
        /// Number that distinguishes the context from others that had the same `ctx_id`.
        incarnation: u64,
        /// Size of the segment in bytes.
        size_bytes: u64,
    },
    /// A node of the link has closed a context.
    ContextDown {
        /// Context.
        ctx_id: u16,
        /// Whether its process died rather than left.
        lost: bool,
    },
}

/// Answer of a daemon to a [`Request`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// Answers `Hello` and `Link`. To a peer with the bell's memory and event descriptor: a client that has not proved
    /// any right gets none.
    Welcome {
        /// The daemon's node.
        nid: u16,
        /// Nodes of the rack.
        nodes: u16,
        /// Whether a node of the rack is on another host than this one, and is reached by packets only.
        over_hosts: bool,
    },
    /// Answers `Open`. With the node's segment, the bell's memory and its event descriptor.
    Opened {
        /// The client's number, which names it as owner of line locks.
        owner: u32,
        /// Whether the context's file was opened for reading only.
        read_only: bool,
    },
    /// Answers `CreateQp`. With the queues' memory.
    Qp {
        /// Its number in this connection.
        qp: u32,
    },
    /// Answers `CreateBuffer`. With the memory.
    Buffer {
        /// Its number in this connection.
        buffer: u32,
    },
    /// Answers `Peer`. With the segment if `Present`.
    Peer {
        /// Whether it has joined.
        state: PeerState,
        /// Whether the node is on another host, joined or not.
        is_remote: bool,
    },
    /// Answers `Invite`.
    Invited {
        /// The way to the node's daemon.
        invitation: Box<Invitation>,
        /// Size of the node's segment in bytes.
        size_bytes: u64,
    },
    /// Answers all other requests that succeeded.
    Done,
    /// Answers `Status`.
    Status(Box<NodeStatus>),
    /// The call failed.
    Error {
        /// Positive `errno`.
        errno: i32,
        /// Text for people.
        message: String,
    },
}

/// A process that a daemon vouches for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Number of the admission.
    pub number: u64,
    /// Secret of the process.
    pub key: Psk,
    /// The only context that it reaches.
    pub ctx_id: u16,
    /// Number that distinguishes the context from others that had the same `ctx_id`.
    pub incarnation: u64,
    /// Whether it may only read.
    pub is_read_only: bool,
    /// Size of the receiver's segment, as the process is told.
    pub size_bytes: u64,
}

// Keys stay out of logs.
impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("number", &self.number).finish_non_exhaustive()
    }
}

/// State of a node in a context, as its peer's daemon knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerState {
    /// It has joined.
    Present,
    /// It has joined, on another host: packets reach its segment, mappings do not.
    Remote,
    /// It is up and has not joined.
    Absent,
    /// It has joined and left.
    Left,
    /// It has joined, and its process ended without leaving.
    Died,
    /// There is no link to it: its daemon has not started yet, or is gone.
    Lost,
    /// The rack has no such node.
    NoNode,
}

impl PeerState {
    /// Whether operations on the node fail because it, or the way to it, is not there.
    pub(crate) fn is_lost(self) -> bool {
        matches!(self, PeerState::Died | PeerState::Lost | PeerState::NoNode)
    }
}
