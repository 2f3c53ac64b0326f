//! Queue pairs of Thunder (TSM §4.2) as a pure state machine: send, receive and completion queues of isolated
//! connections.
//!
//! A connection may touch its own queues, and memory of its own region; a message reaches the connection
//! that it was opened with and no other. Messages of a connection are delivered and complete in the order
//! of their descriptors. A message for which no receive is posted waits where it is. One that is longer
//! than the buffer completes with an error at both ends, and touches nothing. Each queue is bounded, and the
//! completion queue has room for all that is posted, so that it never overflows.

use std::collections::VecDeque;

/// Most connections of a node (TSM §4.2: up to 64k).
pub const MAX_CONNECTIONS: usize = 1 << 16;

/// A buffer of a send or receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// First byte; the whole buffer lies in the connection's region.
    pub address: u64,
    /// Bytes to be sent, or that there is room for.
    pub bytes: u32,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPoint {
    /// Number of the node that this end is in.
    pub node: u16,
    /// Number of the connection at that node.
    pub connection: u16,
}

/// The result of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The message is in the other end's buffer, or in this one's.
    Done,
    /// The message was longer than the buffer.
    TooLong,
}

/// An entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whether it is about a send; else about a receive.
    pub is_send: bool,
    /// Number of the descriptor in that queue, counted from the start.
    pub number: u32,
    /// Bytes of the message.
    pub bytes: u32,
    /// Done, or too long for the buffer.
    pub outcome: Outcome,
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
    sends: VecDeque<Descriptor>,
    receives: VecDeque<Descriptor>,
    completions: VecDeque<Completion>,
    sent: u32,
    received: u32,
}

/// The connections of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        self.connections.push(Connection {
            peer,
            region,
            sends: VecDeque::with_capacity(self.entries),
            receives: VecDeque::with_capacity(self.entries),
            completions: VecDeque::with_capacity(2 * self.entries),
            sent: 0,
            received: 0,
        });
        Ok((self.connections.len() - 1) as u16)
    }

    /// The receiver of a connection's messages.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn peer(&self, connection: u16) -> Result<EndPoint, Refused> {
        let found = self.connections.get(usize::from(connection));
        found.map(|connection| connection.peer).ok_or(Refused::NoConnection)
    }

    /// Posts a message.
    ///
    /// # Errors
    /// [`Refused::NoConnection`], [`Refused::NoAccess`], [`Refused::Full`].
    pub fn post_send(&mut self, connection: u16, buffer: Descriptor) -> Result<(), Refused> {
        let entries = self.entries;
        let connection = self.get(connection)?;
        connection.check(buffer)?;
        if connection.sends.len() + connection.unread(true) >= entries {
            return Err(Refused::Full);
        }
        connection.sends.push_back(buffer);
        Ok(())
    }

    /// Posts a buffer for a message.
    ///
    /// # Errors
    /// As [`QueuePairs::post_send`].
    pub fn post_receive(&mut self, connection: u16, buffer: Descriptor) -> Result<(), Refused> {
        let entries = self.entries;
        let connection = self.get(connection)?;
        connection.check(buffer)?;
        if connection.receives.len() + connection.unread(false) >= entries {
            return Err(Refused::Full);
        }
        connection.receives.push_back(buffer);
        Ok(())
    }

    /// The message that is sent next, or now; it stays until [`QueuePairs::sent`].
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn sending(&mut self, connection: u16) -> Result<Option<Descriptor>, Refused> {
        Ok(self.get(connection)?.sends.front().copied())
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
        let buffer = connection.receives.front().ok_or(Refused::NotPosted)?;
        Ok((buffer.bytes >= bytes).then_some(*buffer))
    }

    /// All of a message has arrived, or was dropped: its receive completes.
    ///
    /// # Errors
    /// [`Refused::NoConnection`]; [`Refused::NotPosted`] if none had begun.
    pub fn arrived(&mut self, connection: u16, bytes: u32) -> Result<Outcome, Refused> {
        let connection = self.get(connection)?;
        let buffer = connection.receives.pop_front().ok_or(Refused::NotPosted)?;
        let outcome = if buffer.bytes >= bytes { Outcome::Done } else { Outcome::TooLong };
        let number = connection.received;
        connection.received = number.wrapping_add(1);
        connection.completions.push_back(Completion { is_send: false, number, bytes, outcome });
        Ok(outcome)
    }

    /// The other end has answered the message that was being sent: its send completes.
    ///
    /// # Errors
    /// [`Refused::NoConnection`]; [`Refused::NotPosted`] if there is none.
    pub fn sent(&mut self, connection: u16, outcome: Outcome) -> Result<(), Refused> {
        let connection = self.get(connection)?;
        let buffer = connection.sends.pop_front().ok_or(Refused::NotPosted)?;
        let number = connection.sent;
        connection.sent = number.wrapping_add(1);
        let bytes = buffer.bytes;
        connection.completions.push_back(Completion { is_send: true, number, bytes, outcome });
        Ok(())
    }

    /// The oldest completion that software has not read.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    pub fn poll(&mut self, connection: u16) -> Result<Option<Completion>, Refused> {
        Ok(self.get(connection)?.completions.pop_front())
    }

    fn get(&mut self, connection: u16) -> Result<&mut Connection, Refused> {
        self.connections.get_mut(usize::from(connection)).ok_or(Refused::NoConnection)
    }
}

impl Connection {
    fn check(&self, buffer: Descriptor) -> Result<(), Refused> {
        let (start, bytes) = self.region;
        let offset = buffer.address.checked_sub(start).ok_or(Refused::NoAccess)?;
        let fits = offset <= bytes && u64::from(buffer.bytes) <= bytes - offset;
        if fits { Ok(()) } else { Err(Refused::NoAccess) }
    }

    fn unread(&self, is_send: bool) -> usize {
        self.completions.iter().filter(|completion| completion.is_send == is_send).count()
    }
}
