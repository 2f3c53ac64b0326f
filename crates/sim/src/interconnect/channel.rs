//! The queue pair channel of a node (TSM §4.2): descriptors, bursts, packets, completions.
//!
//! It knows of no addresses and of no contents. It takes the descriptors of its connections one after the other, a
//! connection in turn, and has its [`Host`] make its accesses and send its packets.

use std::collections::VecDeque;

use rackmem_rmc::two_sided::{Descriptor, Status};

use super::packet::Packet;
use super::qpair::{EndPoint, QueuePairs, Refused};
use crate::machine::spec::{QpairSpec, Translation};

/// An access of a channel, for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The descriptor of a message to be sent.
    SendDescriptor,
    /// The translated address of the message.
    Translation,
    /// A burst of its data.
    Read,
    /// The descriptor of a buffer.
    ReceiveDescriptor,
    /// A burst of data that has come.
    Write,
    ReceiveCompletion,
    SendCompletion,
}

impl Step {
    /// All of them, by number.
    pub const ALL: [Step; 7] = [
        Step::SendDescriptor,
        Step::Translation,
        Step::Read,
        Step::ReceiveDescriptor,
        Step::Write,
        Step::ReceiveCompletion,
        Step::SendCompletion,
    ];

    /// Whether it is one of a message's data.
    pub const fn is_data(self) -> bool {
        matches!(self, Step::Read | Step::Write)
    }

    /// Whether it writes memory.
    pub const fn is_write(self) -> bool {
        matches!(self, Step::Write | Step::ReceiveCompletion | Step::SendCompletion)
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The end of the connection at this node.
    pub connection: u16,
    /// The other end.
    pub peer: EndPoint,
    /// Bytes of all of it.
    pub bytes: u32,
    /// Where it is, or goes; `None`: it goes nowhere.
    pub buffer: Option<Descriptor>,
}

/// A part of a message that has come to the link; it keeps its room there.
#[derive(Clone, Copy, Debug)]
pub struct Part<B> {
    /// The link that it came from.
    pub port: u8,
    /// The connection that it is for, and the one that sent it.
    pub connection: u16,
    /// The node and connection that sent it.
    pub from: EndPoint,
    /// Bytes of the whole message.
    pub bytes: u32,
    /// The part itself, whose room at the link is free when it is consumed.
    pub packet: Packet<B>,
}

/// What is around a channel.
pub trait Host<B> {
    /// Begins an access to the queues of a message's connection, or to its data from `offset` on.
    fn access(&mut self, step: Step, of: &Message, bytes: u32, offset: u32);
    /// Whether the link takes another packet.
    fn has_room(&self) -> bool;
    /// Sends a packet of a message, with its data from `offset` on.
    fn send(&mut self, of: &Message, bytes: u32, offset: u32);
    /// A packet leaves its room at the link; its data are those from `offset` on.
    fn take(&mut self, part: &Part<B>, of: &Message, offset: u32);
    /// Answers a message that is in its buffer, or has been dropped: its receive has completed unless it was refused.
    fn received(&mut self, of: &Message, result: Result<Status, Refused>);
    /// A send has completed.
    fn sent(&mut self, of: &Message, status: Status);
}

/// The channel of a node.
#[derive(Clone, Debug)]
pub struct Channel<B = ()> {
    spec: QpairSpec,
    /// Descriptors and completions of all connections.
    pub queues: QueuePairs,
    /// The connection that is served next.
    turn: u16,
    sending: Option<Message>,
    asked: u32,
    read: u32,
    reading: u32,
    packed: u32,
    /// End of the message that was sent, as the other end has answered.
    status: Status,
    coming: Option<Message>,
    refused: Option<Refused>,
    /// Parts that wait for the descriptor, or for their bursts.
    parts: VecDeque<Part<B>>,
    /// Bytes of the message that comes: those whose write has begun, and those that are in memory.
    begun: u32,
    written: u32,
    /// Bursts that are being written.
    writing: u32,
    /// Bytes of the part that is taken, whose write has not begun.
    to_write: u32,
}

impl<B: Copy> Channel<B> {
    /// A channel without connections.
    pub fn new(spec: &QpairSpec) -> Channel<B> {
        Channel {
            spec: spec.clone(),
            queues: QueuePairs::new(spec.queue_entries as usize),
            turn: 0,
            sending: None,
            asked: 0,
            read: 0,
            reading: 0,
            packed: 0,
            status: Status::Done,
            coming: None,
            refused: None,
            parts: VecDeque::new(),
            begun: 0,
            written: 0,
            writing: 0,
            to_write: 0,
        }
    }

    /// Parts of messages that wait, and messages that are sent.
    pub fn under_way(&self) -> usize {
        self.parts.len() + usize::from(self.sending.is_some()) + usize::from(self.coming.is_some())
    }

    /// Begins the next message, if there is one.
    pub fn begin(&mut self, host: &mut impl Host<B>) {
        if self.sending.is_some() {
            return;
        }
        let count = self.queues.len() as u16;
        let turns = (0..count)
            .map(|number| ((u32::from(self.turn) + u32::from(number)) % u32::from(count)) as u16);
        let mut next = None;
        for connection in turns {
            if let Ok(Some(buffer)) = self.queues.sending(connection)
                && let Ok(peer) = self.queues.peer(connection)
            {
                next = Some(Message {
                    connection,
                    peer,
                    bytes: buffer.size_bytes as u32,
                    buffer: Some(buffer),
                });
                break;
            }
        }
        let Some(message) = next else { return };
        self.turn = (message.connection + 1) % count;
        self.sending = Some(message);
        (self.asked, self.read, self.reading, self.packed) = (0, 0, 0, 0);
        host.access(Step::SendDescriptor, &message, self.spec.descriptor_bytes, 0);
    }

    /// Reads bursts as long as some may be under way and the link takes packets.
    pub fn read(&mut self, host: &mut impl Host<B>) {
        let Some(message) = self.sending else { return };
        while self.asked < message.bytes && self.reading < self.spec.bursts && host.has_room() {
            let bytes = self.spec.burst_bytes.min(message.bytes - self.asked);
            let offset = self.asked;
            self.asked += bytes;
            self.reading += 1;
            host.access(Step::Read, &message, bytes, offset);
        }
    }

    /// Makes packets of data that have been read.
    fn pack(&mut self, host: &mut impl Host<B>) {
        let Some(message) = self.sending else { return };
        while self.read - self.packed >= self.spec.packet_bytes
            || (self.read == message.bytes && self.packed < message.bytes)
        {
            let bytes = self.spec.packet_bytes.min(self.read - self.packed);
            let offset = self.packed;
            self.packed += bytes;
            host.send(&message, bytes, offset);
        }
    }

    /// A part of a message has come.
    pub fn arrive(&mut self, part: Part<B>, host: &mut impl Host<B>) {
        self.parts.push_back(part);
        if self.parts.len() == 1 {
            self.take(host);
        }
    }

    /// Parts of the message that comes: they wait for its descriptor, then go to memory.
    pub fn take(&mut self, host: &mut impl Host<B>) {
        let Some(&part) = self.parts.front() else { return };
        let Some(coming) = self.coming else { return self.meet(part, host) };
        if self.to_write == 0 && self.writing < self.spec.bursts {
            self.parts.pop_front();
            if coming.buffer.is_none() {
                return self.drop_part(&part, &coming, host);
            }
            self.to_write = part.packet.bytes;
            host.take(&part, &coming, self.begun);
        }
        self.write(host);
    }

    /// The first part of a message meets its buffer.
    fn meet(&mut self, part: Part<B>, host: &mut impl Host<B>) {
        let met = self.queues.arriving(part.connection, part.from, part.bytes);
        // A message without a buffer waits, and with it the link: back pressure.
        if met == Err(Refused::NotPosted) {
            return;
        }
        self.refused = met.err();
        let Part { connection, from: peer, bytes, .. } = part;
        let message = Message { connection, peer, bytes, buffer: met.unwrap_or(None) };
        self.coming = Some(message);
        (self.begun, self.written, self.writing, self.to_write) = (0, 0, 0, 0);
        host.access(Step::ReceiveDescriptor, &message, self.spec.descriptor_bytes, 0);
    }

    /// A part of a message that goes nowhere leaves the link.
    fn drop_part(&mut self, part: &Part<B>, coming: &Message, host: &mut impl Host<B>) {
        host.take(part, coming, self.written);
        self.written += part.packet.bytes;
        if self.written < coming.bytes {
            return self.take(host);
        }
        match self.refused {
            Some(_) => self.received(host),
            None => host.access(Step::ReceiveCompletion, coming, self.spec.descriptor_bytes, 0),
        }
    }

    fn write(&mut self, host: &mut impl Host<B>) {
        let Some(coming) = self.coming else { return };
        while self.to_write > 0 && self.writing < self.spec.bursts {
            let bytes = self.spec.burst_bytes.min(self.to_write);
            let offset = self.begun;
            self.begun += bytes;
            self.to_write -= bytes;
            self.writing += 1;
            host.access(Step::Write, &coming, bytes, offset);
        }
        if self.to_write == 0 && self.writing < self.spec.bursts && !self.parts.is_empty() {
            self.take(host);
        }
    }

    /// An access of the channel is done.
    pub fn done(&mut self, step: Step, bytes: u32, host: &mut impl Host<B>) {
        match step {
            Step::SendDescriptor => {
                if self.spec.translation == Translation::Channel
                    && let Some(message) = self.sending
                {
                    // The translated address is there before the first burst is asked for.
                    return host.access(Step::Translation, &message, 0, 0);
                }
                self.read(host);
            }
            Step::Translation => {
                self.pack(host);
                self.read(host);
            }
            Step::Read => {
                self.read += bytes;
                self.reading -= 1;
                self.pack(host);
                self.read(host);
            }
            Step::ReceiveDescriptor => self.take(host),
            Step::Write => {
                self.written += bytes;
                self.writing -= 1;
                if let Some(coming) = self.coming.filter(|coming| self.written == coming.bytes) {
                    let bytes = self.spec.descriptor_bytes;
                    return host.access(Step::ReceiveCompletion, &coming, bytes, 0);
                }
                self.write(host);
            }
            Step::ReceiveCompletion => self.received(host),
            Step::SendCompletion => {
                let Some(message) = self.sending.take() else { return };
                let sent = self.queues.sent(message.connection, self.status);
                debug_assert_eq!(sent, Ok(()));
                host.sent(&message, self.status);
                self.begin(host);
            }
        }
    }

    /// A message, or a page of it, is in its buffer.
    fn received(&mut self, host: &mut impl Host<B>) {
        let Some(message) = self.coming.take() else { return };
        let result = match self.refused.take() {
            Some(refused) => Err(refused),
            None => self.queues.arrived(message.connection, message.bytes),
        };
        host.received(&message, result);
        self.take(host);
    }

    /// The other end has answered the message that is sent: its send completes.
    pub fn answered(&mut self, status: Status, host: &mut impl Host<B>) {
        let Some(message) = self.sending else { return };
        self.status = status;
        host.access(Step::SendCompletion, &message, self.spec.descriptor_bytes, 0);
    }
}
