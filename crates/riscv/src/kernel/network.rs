//! Sockets of a program, of streams and of datagrams, and what they tell those of other nodes of a run.
//!
//! Two ends of a connection talk by [`Segment`]s only, each with the connection's number. Those for the node itself
//! arrive at once; a driver carries the others: it takes them by [`Kernel::take_segments`], and gives them to the other
//! node's [`Kernel::deliver`]. From one node to another it keeps their order and loses none.

mod bound;
mod datagrams;
mod end;
mod place;
mod ports;
mod saved;
mod sockets;

#[cfg(test)]
mod tests;

use super::Kernel;

pub(super) use bound::Name;
pub(super) use end::Family;
pub(super) use place::Place;
pub use sockets::{BUFFER_BYTES, MOST_SOCKETS};
pub(super) use sockets::{Listener, Network, Socket, State};

/// Bytes of a data segment without its headers, at most: what an Ethernet frame of 1,500 bytes has room for.
pub const MOST_DATA: usize = 1460;

/// Bytes of a datagram without its headers, at most: as many as IPv4 has a length for.
pub const MOST_DATAGRAM: usize = 65_507;

/// One end of a connection: a node of the run and a port of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Number of the node, from 0.
    pub node: u16,
    /// Port of TCP, or of UDP.
    pub port: u16,
}

/// The number of a connection, which no other one of the run has: what is under way of an earlier connection between
/// the same ports is told from it. In TCP the sequence numbers that connections begin with are for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Number of the node that asks for it.
    pub node: u16,
    /// Those that this node has asked for before.
    pub count: u64,
}

/// What one node's sockets tell another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The end that sends it.
    pub from: Address,
    /// The end that it is for.
    pub to: Address,
    /// What is in it.
    pub content: Content,
}

/// What is in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A part of a connection.
    Stream {
        /// The connection that it is about.
        connection: Connection,
        /// What it says.
        kind: Kind,
    },
    /// A datagram, of [`MOST_DATAGRAM`] bytes at most.
    Datagram(Vec<u8>),
    /// Nobody is where the sender got a datagram for.
    Unreachable,
}

/// What a segment says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub enum Kind {
    /// Asks a listener for a connection.
    Connect,
    /// The listener's answer: the connection is open.
    Accept,
    /// The other answer: nobody listens.
    Refuse,
    /// The next bytes of the stream, [`MOST_DATA`] at most.
    Data(Vec<u8>),
    /// The sender may send so many bytes more, because they were read.
    Room {
        /// As many as the receiver's program has read since it last said so.
        bytes: u32,
    },
    /// The stream in this direction is at its end.
    Finish,
    /// The connection is over, in both directions.
    Reset,
}

impl Segment {
    /// Bytes that it takes of an Ethernet link, as a TCP segment without options, as the fragments of a UDP datagram or
    /// as an ICMP message: frames, preambles and gaps included.
    pub fn wire_bytes(&self) -> u64 {
        /// Preamble 8, header 14, checksum 4, gap 12.
        const FRAME: u64 = 38;
        const IPV4: u64 = 20;
        const TCP: u64 = 20;
        const UDP: u64 = 8;
        /// Its own header, and those of the datagram that it is about.
        const ICMP: u64 = 8 + IPV4 + UDP;
        const SMALLEST_PAYLOAD: u64 = 46;
        const FRAGMENT: u64 = 1480;
        let frame = |bytes: u64| FRAME + (IPV4 + bytes).max(SMALLEST_PAYLOAD);
        match &self.content {
            Content::Stream { kind: Kind::Data(bytes), .. } => frame(TCP + bytes.len() as u64),
            Content::Stream { .. } => frame(TCP),
            Content::Datagram(bytes) => {
                let bytes = UDP + bytes.len() as u64;
                bytes / FRAGMENT * frame(FRAGMENT)
                    + if bytes % FRAGMENT > 0 { frame(bytes % FRAGMENT) } else { 0 }
            }
            Content::Unreachable => frame(ICMP),
        }
    }
}

impl Kernel {
    /// Makes the program that of node `node` of a run of `nodes`; without this it is node 0 of 1. Called before the
    /// program begins, or goes on from a checkpoint.
    pub fn join_network(&mut self, node: u16, nodes: u16) {
        self.files.network().join(node, nodes);
    }

    /// Takes the segments for other nodes that calls and deliveries have made since, oldest first.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        self.files.network().take_segments()
    }

    /// Takes a segment that another node has sent. Returns the harts that were asleep and run again, as
    /// [`super::Reply::woken`] does.
    pub fn deliver(&mut self, segment: Segment) -> Vec<usize> {
        self.files.network().receive(segment);
        match self.files.note_sockets() {
            true => self.retrying().collect(),
            false => Vec::new(),
        }
    }
}
