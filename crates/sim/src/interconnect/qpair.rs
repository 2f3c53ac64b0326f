//! Queue pairs of Thunder (TSM §4.2): the connections of a node, each with the queues of
//! [`rackmem_rmc::two_sided`].
//!
//! A connection may touch its own queues, and memory of its own region; a message reaches the connection
//! that it was opened with and no other. A message for which no receive is posted waits where it is.

use rackmem_rmc::two_sided::{Arrival, Completion, Descriptor, Queues, Status};
use serde::{Deserialize, Serialize};

/// Most connections of a node (TSM §4.2: up to 64k).
pub const MAX_CONNECTIONS: usize = 1 << 16;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndPoint {
    /// Number of the node that this end is in.
    pub node: u16,
    /// Number of the connection at that node.
    pub connection: u16,
}

/// Reasons for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such connection, or it is not the sender's.
    NoConnection,
    /// The buffer is not all in the connection's region.
    NoAccess,
    /// The queue, or the completions that it would need, are full.
    Full,
    /// All connections are in use.
    TooMany,
    /// No receive is posted: the message waits.
    NotPosted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    peer: EndPoint,
    region: (u64, u64),
    queues: Queues,
}

/// The connections of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePairs {
    connections: Vec<Connection>,
    entries: usize,
}

impl QueuePairs {
    /// No connections yet; each will have send and receive queues of so many entries.
    pub fn new(entries: usize) -> QueuePairs {
        QueuePairs { connections: Vec::new(), entries }
    }

    /// A connection with `peer`, whose buffers lie in `region` (start and bytes). Its number.
    ///
    /// # Errors
    /// [`Refused::TooMany`].
    pub fn open(&mut self, peer: EndPoint, region: (u64, u64)) -> Result<u16, Refused> {
        if self.connections.len() == MAX_CONNECTIONS {
            return Err(Refused::TooMany);
        }
        self.connections.push(Connection { peer, region, queues: Queues::new(self.entries) });
        Ok((self.connections.len() - 1) as u16)
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The other end of a connection.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn peer(&self, connection: u16) -> Result<EndPoint, Refused> {
        let found = self.connections.get(usize::from(connection)).ok_or(Refused::NoConnection)?;
        Ok(found.peer)
    }

    /// Posts a message.
    ///
    /// # Errors
    /// [`Refused::NoConnection`], [`Refused::NoAccess`], [`Refused::Full`].
    pub fn post_send(&mut self, connection: u16, message: Descriptor) -> Result<(), Refused> {
        let queues = self.get(connection)?.queues_of(message)?;
        queues.post_send(message).then_some(()).ok_or(Refused::Full)
    }

    /// Posts a buffer for a message.
    ///
    /// # Errors
    /// As [`QueuePairs::post_send`].
    pub fn post_receive(&mut self, connection: u16, buffer: Descriptor) -> Result<(), Refused> {
        let queues = self.get(connection)?.queues_of(buffer)?;
        // Senders do not see it: their messages wait here.
        queues.post_receive(buffer, |_, _| {}).then_some(()).ok_or(Refused::Full)
    }

    /// The message that is sent next, or now; it stays until [`QueuePairs::sent`].
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn sending(&mut self, connection: u16) -> Result<Option<Descriptor>, Refused> {
        Ok(self.get(connection)?.queues.waiting_send())
    }

    /// A message of so many bytes begins to arrive. Returns its destination, or `None` if it is longer than
    /// the buffer and to be dropped.
    ///
    /// # Errors
    /// [`Refused::NoConnection`] unless the connection was opened with its sender;
    /// [`Refused::NotPosted`].
    pub fn arriving(
        &mut self,
        connection: u16,
        from: EndPoint,
        bytes: u32,
    ) -> Result<Option<Descriptor>, Refused> {
        let connection = self.get(connection)?;
        if connection.peer != from {
            return Err(Refused::NoConnection);
        }
        let buffer = connection.queues.waiting_receive().ok_or(Refused::NotPosted)?;
        Ok(buffer.takes(bytes.into()).then_some(buffer))
    }

    /// All of a message has arrived, or was dropped: its receive completes.
    ///
    /// # Errors
    /// [`Refused::NoConnection`]; [`Refused::NotPosted`] if none had begun.
    pub fn arrived(&mut self, connection: u16, bytes: u32) -> Result<Status, Refused> {
        let queues = &mut self.get(connection)?.queues;
        let buffer = queues.waiting_receive().ok_or(Refused::NotPosted)?;
        let (length_bytes, is_too_long) = (bytes.into(), !buffer.takes(bytes.into()));
        queues.receive(Arrival { length_bytes, is_too_long });
        Ok(Status::of(is_too_long))
    }

    /// The other end has answered the message that was being sent: its send completes.
    ///
    /// # Errors
    /// [`Refused::NoConnection`]; [`Refused::NotPosted`] if there is none.
    pub fn sent(&mut self, connection: u16, status: Status) -> Result<(), Refused> {
        let queues = &mut self.get(connection)?.queues;
        if !queues.leave(status) {
            return Err(Refused::NotPosted);
        }
        queues.confirm(u64::MAX);
        Ok(())
    }

    /// The oldest completion that software has not read.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn poll(&mut self, connection: u16) -> Result<Option<Completion>, Refused> {
        Ok(self.get(connection)?.queues.poll())
    }

    /// The other end of a connection, its region, and the buffers that wait for messages.
    pub fn connections(
        &self,
    ) -> impl Iterator<Item = (EndPoint, (u64, u64), impl Iterator<Item = Descriptor>)> {
        let connections = self.connections.iter();
        connections.map(|Connection { peer, region, queues }| (*peer, *region, queues.receives()))
    }

    fn get(&mut self, connection: u16) -> Result<&mut Connection, Refused> {
        self.connections.get_mut(usize::from(connection)).ok_or(Refused::NoConnection)
    }
}

impl Connection {
    /// Its queues, for a descriptor of its own memory.
    fn queues_of(&mut self, descriptor: Descriptor) -> Result<&mut Queues, Refused> {
        let (start, bytes) = self.region;
        let is_own = descriptor.is_inside(start, bytes);
        is_own.then_some(&mut self.queues).ok_or(Refused::NoAccess)
    }
}
