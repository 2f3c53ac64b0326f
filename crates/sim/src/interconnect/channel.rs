//! The queue pair channel of a node (TSM §4.2): descriptors, bursts, packets, completions.
//!
//! It knows of no addresses and of no contents. It takes the descriptors of its connections one after the other, a
//! connection in turn, and has its [`Host`] make its accesses and send its packets.
//!
//! A node sends one message at a time, so of each other node at most one message is coming. Links take turns, part by
//! part. A message without a buffer holds up its own link only.

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

/// A message that comes, from its first part to its answer.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    message: Message,
    refused: Option<Refused>,
    /// Its buffer's descriptor has been read.
    is_met: bool,
    /// Bytes that have left the link, and that are in memory or dropped.
    taken: u32,
    written: u32,
}

/// The parts that have come over one link.
#[derive(Clone, Debug)]
struct Arrivals<B> {
    port: u8,
    parts: VecDeque<Part<B>>,
}

/// The rest of the part that is being written: the node that sent it, its place in the message, its bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Writing {
    from: u16,
    offset: u32,
    bytes: u32,
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
    /// Messages that come, at most one of each node.
    incoming: Vec<Incoming>,
    /// Parts that wait for their descriptor, or for bursts.
    arrivals: Vec<Arrivals<B>>,
    /// The place in `arrivals` that is looked at first.
    next_link: usize,
    part: Writing,
    /// Bursts under way.
    writing: u32,
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
            incoming: Vec::new(),
            arrivals: Vec::new(),
            next_link: 0,
            part: Writing::default(),
            writing: 0,
        }
    }

    /// Parts of messages that wait, and messages that are sent.
    pub fn under_way(&self) -> usize {
        let parts: usize = self.arrivals.iter().map(|link| link.parts.len()).sum();
        parts + usize::from(self.sending.is_some()) + self.incoming.len()
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
        match self.arrivals.iter_mut().find(|link| link.port == part.port) {
            Some(link) => link.parts.push_back(part),
            None => self.arrivals.push(Arrivals { port: part.port, parts: [part].into() }),
        }
        self.take(host);
    }

    /// Parts that have come go to memory, as far as bursts may be under way. The first part of a message waits for the
    /// descriptor of its buffer.
    pub fn take(&mut self, host: &mut impl Host<B>) {
        loop {
            self.write(host);
            if self.part.bytes > 0 || self.writing >= self.spec.bursts {
                return;
            }
            let Some((part, number)) = self.next_part(host) else { return };
            let Incoming { message, taken, .. } = self.incoming[number];
            host.take(&part, &message, taken);
            let bytes = part.packet.bytes;
            self.incoming[number].taken += bytes;
            match message.buffer {
                Some(_) => self.part = Writing { from: message.peer.node, offset: taken, bytes },
                None => self.put(number, bytes, host),
            }
        }
    }

    /// The next part of a message that has met its buffer, with the number of that message. Meets buffers meanwhile.
    fn next_part(&mut self, host: &mut impl Host<B>) -> Option<(Part<B>, usize)> {
        let links = self.arrivals.len();
        for ahead in 0..links {
            let at = (self.next_link + ahead) % links;
            let Some(&part) = self.arrivals[at].parts.front() else { continue };
            match self.number_of(part.from.node) {
                Some(number) if self.incoming[number].is_met => {
                    self.arrivals[at].parts.pop_front();
                    self.next_link = (at + 1) % links;
                    return Some((part, number));
                }
                Some(_) => {}
                None => self.meet(part, host),
            }
        }
        None
    }

    /// Place of the message that comes from a node.
    fn number_of(&self, node: u16) -> Option<usize> {
        self.incoming.iter().position(|incoming| incoming.message.peer.node == node)
    }

    /// The first part of a message meets its buffer.
    fn meet(&mut self, part: Part<B>, host: &mut impl Host<B>) {
        let met = self.queues.arriving(part.connection, part.from, part.bytes);
        // A message without a buffer waits, and with it the link: back pressure.
        if met == Err(Refused::NotPosted) {
            return;
        }
        let Part { connection, from: peer, bytes, .. } = part;
        let message = Message { connection, peer, bytes, buffer: met.unwrap_or(None) };
        let refused = met.err();
        self.incoming.push(Incoming { message, refused, is_met: false, taken: 0, written: 0 });
        host.access(Step::ReceiveDescriptor, &message, self.spec.descriptor_bytes, 0);
    }

    /// Bytes of a message are where they go: after the last ones it completes, or is answered if it was refused.
    fn put(&mut self, number: usize, bytes: u32, host: &mut impl Host<B>) {
        let incoming = &mut self.incoming[number];
        incoming.written += bytes;
        let Incoming { message, refused, written, .. } = *incoming;
        match refused {
            _ if written < message.bytes => {}
            Some(_) => self.received(number, host),
            None => {
                host.access(Step::ReceiveCompletion, &message, self.spec.descriptor_bytes, 0);
            }
        }
    }

    fn write(&mut self, host: &mut impl Host<B>) {
        let Some(number) = self.number_of(self.part.from) else { return };
        let message = self.incoming[number].message;
        while self.part.bytes > 0 && self.writing < self.spec.bursts {
            let bytes = self.spec.burst_bytes.min(self.part.bytes);
            let offset = self.part.offset;
            self.part.offset += bytes;
            self.part.bytes -= bytes;
            self.writing += 1;
            host.access(Step::Write, &message, bytes, offset);
        }
    }

    /// An access of the channel for a message with node `peer` is done.
    pub fn done(&mut self, step: Step, peer: u16, bytes: u32, host: &mut impl Host<B>) {
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
            Step::ReceiveDescriptor | Step::Write | Step::ReceiveCompletion => {
                if let Some(number) = self.number_of(peer) {
                    self.done_incoming(step, number, bytes, host);
                }
                self.take(host);
            }
            Step::SendCompletion => {
                let Some(message) = self.sending.take() else { return };
                let sent = self.queues.sent(message.connection, self.status);
                debug_assert_eq!(sent, Ok(()));
                host.sent(&message, self.status);
                self.begin(host);
            }
        }
    }

    fn done_incoming(&mut self, step: Step, number: usize, bytes: u32, host: &mut impl Host<B>) {
        match step {
            Step::ReceiveDescriptor => self.incoming[number].is_met = true,
            Step::Write => {
                self.writing -= 1;
                self.put(number, bytes, host);
            }
            _ => self.received(number, host),
        }
    }

    /// A message, or a page of it, is in its buffer.
    fn received(&mut self, number: usize, host: &mut impl Host<B>) {
        let Incoming { message, refused, .. } = self.incoming.swap_remove(number);
        let result = match refused {
            Some(refused) => Err(refused),
            None => self.queues.arrived(message.connection, message.bytes),
        };
        host.received(&message, result);
    }

    /// The other end has answered the message that is sent: its send completes.
    pub fn answered(&mut self, status: Status, host: &mut impl Host<B>) {
        let Some(message) = self.sending else { return };
        self.status = status;
        host.access(Step::SendCompletion, &message, self.spec.descriptor_bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interconnect::packet::Channel as On;
    use crate::machine::load;

    /// A node that receives: accesses end in the order in which they begin.
    #[derive(Default)]
    struct Receiver {
        accesses: VecDeque<(Step, u16, u32)>,
        /// Places in messages that parts left the link for, and that bursts were written to, by sender.
        parts: Vec<(u16, u32, u32)>,
        bursts: Vec<(u16, u32, u32)>,
        received: Vec<u16>,
    }

    impl Host<()> for Receiver {
        fn access(&mut self, step: Step, of: &Message, bytes: u32, offset: u32) {
            if step == Step::Write {
                self.bursts.push((of.peer.node, offset, bytes));
            }
            self.accesses.push_back((step, of.peer.node, bytes));
        }

        fn has_room(&self) -> bool {
            true
        }

        fn send(&mut self, _: &Message, _: u32, _: u32) {}

        fn take(&mut self, part: &Part<()>, of: &Message, offset: u32) {
            assert_eq!(part.from, of.peer, "a part goes to its own message");
            self.parts.push((of.peer.node, offset, part.packet.bytes));
        }

        fn received(&mut self, of: &Message, result: Result<Status, Refused>) {
            assert_eq!(result, Ok(Status::Done));
            self.received.push(of.peer.node);
        }

        fn sent(&mut self, _: &Message, _: Status) {}
    }

    const BYTES: u32 = 1000;

    fn channel(packet_bytes: u32) -> Channel {
        let mut spec = load("thunder", &[]).unwrap().qpair;
        spec.packet_bytes = packet_bytes;
        let mut channel = Channel::new(&spec);
        for node in 1..4 {
            let peer = EndPoint { node, connection: 0 };
            assert_eq!(channel.queues.open(peer, (0, 4096)), Ok(node - 1));
        }
        channel
    }

    fn post(channel: &mut Channel, sender: u16) {
        let buffer = Descriptor { offset: 0, size_bytes: BYTES.into(), id: 0 };
        assert_eq!(channel.queues.post_receive(sender - 1, buffer), Ok(()));
    }

    /// Parts of a message of some node.
    fn parts(sender: u16, port: u8, packet_bytes: u32) -> Vec<Part<()>> {
        let from = EndPoint { node: sender, connection: 0 };
        let part = |at: u32| {
            let packet = Packet::new(On::Message, sender, 0, BYTES, packet_bytes.min(BYTES - at));
            Part { port, connection: sender - 1, from, bytes: BYTES, packet }
        };
        (0..BYTES).step_by(packet_bytes as usize).map(part).collect()
    }

    fn finish(channel: &mut Channel, host: &mut Receiver) {
        while let Some((step, peer, bytes)) = host.accesses.pop_front() {
            channel.done(step, peer, bytes, host);
        }
    }

    /// Places that follow each other and are all of a message.
    fn assert_whole(places: &[(u16, u32, u32)], sender: u16) {
        let own = places.iter().filter(|place| place.0 == sender);
        let end = own.fold(0, |end, &(_, offset, bytes)| {
            assert_eq!(offset, end, "sender {sender}");
            end + bytes
        });
        assert_eq!(end, BYTES, "sender {sender}");
    }

    /// Parts of messages of several nodes come mixed, by links of their own or by one, and not in pieces of bursts.
    #[test]
    fn messages_of_several_nodes_come_whole() {
        for (packet_bytes, ports) in [(1024, [0, 1, 2]), (100, [0, 1, 2]), (300, [0, 0, 1])] {
            let (mut channel, mut host) = (channel(packet_bytes), Receiver::default());
            let all: Vec<_> =
                (1..4).map(|n| parts(n, ports[usize::from(n) - 1], packet_bytes)).collect();
            (1..4).for_each(|sender| post(&mut channel, sender));
            for at in 0..all[0].len() {
                all.iter().for_each(|parts| channel.arrive(parts[at], &mut host));
            }
            finish(&mut channel, &mut host);
            host.received.sort_unstable();
            assert_eq!((host.received, channel.under_way()), (vec![1, 2, 3], 0));
            for sender in 1..4 {
                assert_whole(&host.parts, sender);
                assert_whole(&host.bursts, sender);
            }
        }
    }

    /// A message without a buffer holds up what comes behind it on its link, and nothing else.
    #[test]
    fn a_message_without_a_buffer_waits_alone() {
        let (mut channel, mut host) = (channel(300), Receiver::default());
        for sender in 1..4 {
            let port = u8::from(sender == 3);
            parts(sender, port, 300).into_iter().for_each(|part| channel.arrive(part, &mut host));
        }
        (2..4).for_each(|sender| post(&mut channel, sender));
        channel.take(&mut host);
        finish(&mut channel, &mut host);
        assert_eq!(host.received, [3]);
        post(&mut channel, 1);
        channel.take(&mut host);
        finish(&mut channel, &mut host);
        assert_eq!((&host.received[1..], channel.under_way()), (&[1, 2][..], 0));
    }
}
