//! A link between the daemons of two nodes: four lanes in shared memory, two each way.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rackmem_abi::{Header, Status};
use rackmem_rmc::{Full, Network, Sink, Source, Unsent};

use crate::shm::bell::Bell;
use crate::shm::mapping::{Access, Mapping};
use crate::shm::ring::{Consumer, Packet, Producer, Ring};

/// Requests, replies of one side; then of the other.
const LANES: usize = 4;
const LANE_BYTES: usize = size_of::<Ring>();

/// Unit of a link: a sixteenth of a lane's area, so that the target fills packets while the source empties others, and
/// half of an L1 cache.
const UNIT_BYTES: usize = 16 << 10;

/// The side of a link, which decides the lanes that it sends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The node that made the link.
    Maker,
    /// The other node.
    Other,
    /// Both ends are the same node.
    Loop,
}

/// One lane, one end of it.
#[derive(Debug)]
struct Lane {
    index: usize,
}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    memory: Arc<Mapping>,
    /// Of the daemon at the other end; a loop needs none.
    bell: Option<Bell>,
    send: [(Lane, Producer); 2],
    receive: [(Lane, Consumer); 2],
    /// Something was sent since the other end was last woken.
    sent: bool,
}

const REQUESTS: usize = 0;
const REPLIES: usize = 1;

/// Creates the memory of a link.
///
/// # Errors
/// The error of the kernel.
pub fn create_memory() -> io::Result<Mapping> {
    Mapping::create("rackmem-link", LANES * LANE_BYTES)
}

/// Maps the memory of a link that a peer made.
///
/// # Errors
/// It is too small.
pub fn open_memory(fd: OwnedFd) -> io::Result<Mapping> {
    Mapping::open(fd, LANES * LANE_BYTES, Access::ReadWrite)
}

impl Link {
    /// One end of the link.
    pub fn new(memory: Arc<Mapping>, side: Side, bell: Option<Bell>) -> Link {
        let (out, back) = match side {
            Side::Maker => (0, 2),
            Side::Other => (2, 0),
            Side::Loop => (0, 0),
        };
        let lane = |index| Lane { index };
        Link {
            memory,
            bell,
            send: [(lane(out), Producer::default()), (lane(out + 1), Producer::default())],
            receive: [(lane(back), Consumer::default()), (lane(back + 1), Consumer::default())],
            sent: false,
        }
    }

    fn ring<'a>(memory: &'a Mapping, lane: &Lane) -> &'a Ring {
        // SAFETY: the memory holds `LANES` rings, all of whose members are atomics.
        unsafe { &*memory.base().cast::<Ring>().add(lane.index) }
    }

    fn has_credit(&self, which: usize, payload_bytes: usize) -> bool {
        let (lane, producer) = &self.send[which];
        producer.has_credit(Self::ring(&self.memory, lane), payload_bytes)
    }

    fn has_packet(&self, which: usize) -> bool {
        let (lane, consumer) = &self.receive[which];
        consumer.has_packet(Self::ring(&self.memory, lane))
    }

    #[inline]
    fn send<E>(
        &mut self,
        which: usize,
        words: [u64; 2],
        payload_bytes: usize,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let (lane, producer) = &mut self.send[which];
        let ring = Self::ring(&self.memory, lane);
        // SAFETY: the ring has `payload_bytes` of room there, and is mapped as long as the link lives.
        let fill = |at| fill(unsafe { Sink::from_raw(at, payload_bytes) });
        let sent = producer.send(ring, words, payload_bytes, fill);
        self.sent |= matches!(sent, Some(Ok(())));
        sent
    }

    /// The next packet that parses; others cannot come from a daemon that is well and are dropped.
    fn peek(&mut self, which: usize) -> Option<(Packet, Header, Option<Status>)> {
        let (lane, consumer) = &mut self.receive[which];
        let ring = Self::ring(&self.memory, lane);
        loop {
            let packet = consumer.peek(ring)?;
            if let Ok((header, status)) = Header::parse(packet.header, UNIT_BYTES)
                && status.is_some() == (which == REPLIES)
                && packet.payload_bytes == payload_bytes(&header, status)
            {
                return Some((packet, header, status));
            }
            consumer.take(ring, &packet);
        }
    }

    fn take(&mut self, which: usize, packet: &Packet) {
        let (lane, consumer) = &mut self.receive[which];
        consumer.take(Self::ring(&self.memory, lane), packet);
    }

    fn payload(&self, which: usize, packet: &Packet) -> Source<'_> {
        let (lane, consumer) = &self.receive[which];
        let at = consumer.payload(Self::ring(&self.memory, lane), packet);
        // SAFETY: the payload lies in the ring, which is mapped as long as the link lives.
        unsafe { Source::from_raw(at, packet.payload_bytes) }
    }
}

/// Bytes of payload that a packet with this header has.
fn payload_bytes(header: &Header, status: Option<Status>) -> usize {
    match status {
        Some(status) => header.reply_bytes(status),
        None => header.request_bytes(),
    }
}

/// A packet that was not taken off its lane yet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    link: usize,
    packet: Packet,
}

/// The links of a node, as its port to the fabric.
#[derive(Debug)]
pub struct Links {
    nid: u16,
    links: Vec<Option<Link>>,
    /// Link that is asked first for requests and for replies, so that none starves.
    turn: [usize; 2],
    /// The request that [`Network::peek_request`] has named.
    request: Option<Waiting>,
    /// The reply that [`Network::recv_reply`] has returned last.
    reply: Option<Waiting>,
}

impl Links {
    /// No links yet, in a rack of `nodes` nodes.
    pub fn new(nid: u16, nodes: u16) -> Links {
        let links = (0..nodes).map(|_| None).collect();
        Links { nid, links, turn: [0; 2], request: None, reply: None }
    }

    /// Adds or removes the link to a node.
    pub fn set(&mut self, nid: u16, link: Option<Link>) {
        (self.request, self.reply) = (None, None);
        self.links[usize::from(nid)] = link;
    }

    /// Whether a packet waits.
    pub fn have_packets(&self) -> bool {
        self.links.iter().flatten().any(|link| link.has_packet(0) || link.has_packet(1))
    }

    /// Wakes the daemons that packets were sent to, if they sleep.
    pub fn flush(&mut self) {
        for link in self.links.iter_mut().flatten().filter(|link| link.sent) {
            link.sent = false;
            if let Some(bell) = &link.bell {
                bell.ring_if_asleep();
            }
        }
    }

    fn link(&self, nid: u16) -> Option<&Link> {
        self.links.get(usize::from(nid))?.as_ref()
    }

    #[inline]
    fn send<E>(
        &mut self,
        which: usize,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        match self.links.get_mut(usize::from(header.dst_nid)) {
            Some(Some(link)) => {
                link.send(which, header.emit(status), payload_bytes(header, status), fill)
            }
            // Packets to a lost node vanish.
            _ => Some(Ok(())),
        }
    }

    /// The links from the one on whose turn it is.
    fn in_turn(&self, which: usize) -> impl Iterator<Item = usize> + use<> {
        let turn = self.turn[which];
        (turn..self.links.len()).chain(0..turn)
    }

    fn take(&mut self, which: usize, waiting: Waiting) {
        let next = waiting.link + 1;
        self.turn[which] = if next < self.links.len() { next } else { 0 };
        if let Some(link) = &mut self.links[waiting.link] {
            link.take(which, &waiting.packet);
        }
    }

    fn payload(&self, which: usize, waiting: Option<Waiting>) -> Source<'_> {
        let found = waiting.and_then(|waiting| {
            self.links[waiting.link].as_ref().map(|link| link.payload(which, &waiting.packet))
        });
        found.unwrap_or(Source::new(&[]))
    }

    /// The next request of a link for this node; a node speaks for itself only.
    fn request_of(&mut self, index: usize) -> Option<(Waiting, Header)> {
        let nid = self.nid;
        let link = self.links[index].as_mut()?;
        loop {
            let (packet, header, _) = link.peek(REQUESTS)?;
            if header.dst_nid == nid && usize::from(header.src_nid) == index {
                return Some((Waiting { link: index, packet }, header));
            }
            link.take(REQUESTS, &packet);
        }
    }
}

impl Network for Links {
    fn is_up(&self, nid: u16) -> bool {
        self.link(nid).is_some()
    }

    fn unit_bytes(&self, _nid: u16) -> usize {
        UNIT_BYTES
    }

    fn can_send_request(&self, dst_nid: u16, payload_bytes: usize, _result_bytes: usize) -> bool {
        self.link(dst_nid).is_none_or(|link| link.has_credit(REQUESTS, payload_bytes))
    }

    #[inline]
    fn send_request(
        &mut self,
        header: &Header,
        load: impl FnOnce(Sink<'_>) -> Result<(), Status>,
    ) -> Result<(), Unsent> {
        let sent = self.send(REQUESTS, header, None, load).ok_or(Unsent::Full)?;
        sent.map_err(Unsent::Unloaded)
    }

    fn can_send_reply(&self, dst_nid: u16, payload_bytes: usize) -> bool {
        self.link(dst_nid).is_none_or(|link| link.has_credit(REPLIES, payload_bytes))
    }

    #[inline]
    fn send_reply(
        &mut self,
        header: &Header,
        status: Status,
        fill: impl FnOnce(Sink<'_>),
    ) -> Result<(), Full> {
        let fill = |out: Sink<'_>| {
            fill(out);
            Ok::<(), Infallible>(())
        };
        self.send(REPLIES, header, Some(status), fill).map(|_| ()).ok_or(Full)
    }

    fn peek_request(&mut self) -> Option<Header> {
        let mut stalled = None;
        for index in self.in_turn(REQUESTS) {
            let Some((waiting, header)) = self.request_of(index) else { continue };
            let link = self.link(index as u16);
            if link.is_some_and(|link| link.has_credit(REPLIES, header.reply_bytes(Status::Ok))) {
                self.request = Some(waiting);
                return Some(header);
            }
            stalled.get_or_insert((waiting, header));
        }
        let (waiting, header) = stalled?;
        self.request = Some(waiting);
        Some(header)
    }

    fn operands(&self) -> Source<'_> {
        self.payload(REQUESTS, self.request)
    }

    fn take_request(&mut self) {
        if let Some(waiting) = self.request.take() {
            self.take(REQUESTS, waiting);
        }
    }

    fn recv_reply(&mut self) -> Option<(Header, Status)> {
        if let Some(waiting) = self.reply.take() {
            self.take(REPLIES, waiting);
        }
        for index in self.in_turn(REPLIES) {
            let Some(link) = self.links[index].as_mut() else { continue };
            while let Some((packet, header, status)) = link.peek(REPLIES) {
                // A node speaks for itself only.
                if let Some(status) = status.filter(|_| usize::from(header.src_nid) == index) {
                    self.reply = Some(Waiting { link: index, packet });
                    return Some((header, status));
                }
                link.take(REPLIES, &packet);
            }
        }
        None
    }

    fn result(&self) -> Source<'_> {
        self.payload(REPLIES, self.reply)
    }
}
