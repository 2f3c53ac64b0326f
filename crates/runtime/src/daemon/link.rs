//! A link between the daemons of two nodes: four lanes in shared memory, two each way.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rackmem_abi::{PACKET_BYTES, Packet, Reply, Request};
use rackmem_rmc::{Full, Network};

use crate::shm::bell::Bell;
use crate::shm::mapping::{Access, Mapping};
use crate::shm::ring::{Consumer, Producer, Ring};

/// Requests, replies of one side; then of the other.
const LANES: usize = 4;
const LANE_BYTES: usize = size_of::<Ring>();

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

    fn has_credit(&self, which: usize) -> bool {
        let (lane, producer) = &self.send[which];
        producer.has_credit(Self::ring(&self.memory, lane))
    }

    fn has_packet(&self, which: usize) -> bool {
        let (lane, consumer) = &self.receive[which];
        consumer.has_packet(Self::ring(&self.memory, lane))
    }

    #[inline]
    fn send(
        &mut self,
        which: usize,
        emit: impl FnOnce(&mut [u8; PACKET_BYTES]) -> usize,
    ) -> Result<(), Full> {
        let mut bytes = [0; PACKET_BYTES];
        let len = emit(&mut bytes);
        let (lane, producer) = &mut self.send[which];
        if !producer.send(Self::ring(&self.memory, lane), &bytes, len) {
            return Err(Full);
        }
        self.sent = true;
        Ok(())
    }

    /// The next packet that parses; others cannot come from a daemon that is well and are dropped.
    fn receive(&mut self, which: usize) -> Option<Packet> {
        let mut bytes = [0; PACKET_BYTES];
        let (lane, consumer) = &mut self.receive[which];
        loop {
            let len = consumer.receive(Self::ring(&self.memory, lane), &mut bytes)?;
            if let Ok(packet) = Packet::parse(&bytes[..len]) {
                return Some(packet);
            }
        }
    }
}

/// The links of a node, as its port to the fabric.
#[derive(Debug)]
pub struct Links {
    nid: u16,
    links: Vec<Option<Link>>,
    /// Link that is asked first for requests and for replies, so that none starves.
    turn: [usize; 2],
    /// Link whose request [`Network::peek_request`] has named.
    peeked: Option<usize>,
}

impl Links {
    /// No links yet, in a rack of `nodes` nodes.
    pub fn new(nid: u16, nodes: u16) -> Links {
        let links = (0..nodes).map(|_| None).collect();
        Links { nid, links, turn: [0; 2], peeked: None }
    }

    /// Adds or removes the link to a node.
    pub fn set(&mut self, nid: u16, link: Option<Link>) {
        self.links[usize::from(nid)] = link;
        self.peeked = None;
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
    fn send(
        &mut self,
        nid: u16,
        which: usize,
        emit: impl FnOnce(&mut [u8; PACKET_BYTES]) -> usize,
    ) -> Result<(), Full> {
        match self.links.get_mut(usize::from(nid)) {
            Some(Some(link)) => link.send(which, emit),
            // Packets to a lost node vanish.
            _ => Ok(()),
        }
    }

    /// The next link from `turn` on that has a packet and satisfies `also`.
    fn next(&self, which: usize, also: impl Fn(&Link) -> bool) -> Option<usize> {
        let turn = self.turn[which];
        (turn..self.links.len()).chain(0..turn).find(|index| {
            self.links[*index].as_ref().is_some_and(|link| link.has_packet(which) && also(link))
        })
    }

    fn receive(&mut self, which: usize, index: usize) -> Option<Packet> {
        self.turn[which] = if index + 1 < self.links.len() { index + 1 } else { 0 };
        self.links[index].as_mut()?.receive(which)
    }
}

impl Network for Links {
    fn is_up(&self, nid: u16) -> bool {
        self.link(nid).is_some()
    }

    fn can_send_request(&self, dst_nid: u16) -> bool {
        self.link(dst_nid).is_none_or(|link| link.has_credit(REQUESTS))
    }

    fn try_send_request(&mut self, request: &Request) -> Result<(), Full> {
        self.send(request.header.dst_nid, REQUESTS, |bytes| request.emit(bytes))
    }

    fn can_send_reply(&self, dst_nid: u16) -> bool {
        self.link(dst_nid).is_none_or(|link| link.has_credit(REPLIES))
    }

    fn try_send_reply(&mut self, reply: &Reply) -> Result<(), Full> {
        self.send(reply.header.dst_nid, REPLIES, |bytes| reply.emit(bytes))
    }

    fn peek_request(&mut self) -> Option<u16> {
        self.peeked = self
            .next(REQUESTS, |link| link.has_credit(REPLIES))
            .or_else(|| self.next(REQUESTS, |_| true));
        self.peeked.map(|index| index as u16)
    }

    fn recv_request(&mut self) -> Option<Request> {
        let index = self.peeked.take().or_else(|| self.next(REQUESTS, |_| true))?;
        match self.receive(REQUESTS, index)? {
            // A node speaks for itself only.
            Packet::Request(request)
                if request.header.dst_nid == self.nid
                    && usize::from(request.header.src_nid) == index =>
            {
                Some(request)
            }
            _ => None,
        }
    }

    fn recv_reply(&mut self) -> Option<Reply> {
        let index = self.next(REPLIES, |_| true)?;
        match self.receive(REPLIES, index)? {
            Packet::Reply(reply) if usize::from(reply.header.src_nid) == index => Some(reply),
            _ => None,
        }
    }
}
