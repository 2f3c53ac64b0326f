//! A link between the daemons of two nodes of one host: four lanes in shared memory, two each way.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rackmem_abi::{Header, Status};
use rackmem_fabric::{Lane, Link, payload_bytes};
use rackmem_rmc::{Sink, Source};

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

/// The end of a lane that this node sends on.
#[derive(Debug)]
struct Outgoing {
    ring: usize,
    producer: Producer,
}

/// The end of a lane that this node receives from.
#[derive(Debug)]
struct Incoming {
    ring: usize,
    consumer: Consumer,
    /// A packet that was found there, that parses, and that was not taken yet.
    front: Option<Packet>,
}

/// One end of a link; arrays have requests first, then replies.
#[derive(Debug)]
pub struct ShmLink {
    memory: Arc<Mapping>,
    /// Of the daemon at the other end; a loop needs none.
    bell: Option<Bell>,
    send: [Outgoing; 2],
    receive: [Incoming; 2],
    /// Something was sent since the other end was last woken.
    sent: bool,
}

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

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Request => 0,
        Lane::Reply => 1,
    }
}

impl ShmLink {
    /// One end of the link.
    pub fn new(memory: Arc<Mapping>, side: Side, bell: Option<Bell>) -> ShmLink {
        let (out, back) = match side {
            Side::Maker => (0, 2),
            Side::Other => (2, 0),
            Side::Loop => (0, 0),
        };
        let outgoing = |ring| Outgoing { ring, producer: Producer::default() };
        let incoming = |ring| Incoming { ring, consumer: Consumer::default(), front: None };
        ShmLink {
            memory,
            bell,
            send: [outgoing(out), outgoing(out + 1)],
            receive: [incoming(back), incoming(back + 1)],
            sent: false,
        }
    }

    fn ring(memory: &Mapping, index: usize) -> &Ring {
        // SAFETY: the memory holds `LANES` rings, all of whose members are atomics.
        unsafe { &*memory.base().cast::<Ring>().add(index) }
    }

    fn has_credit(&self, lane: Lane, payload_bytes: usize) -> bool {
        let Outgoing { ring, producer } = &self.send[index(lane)];
        producer.has_credit(Self::ring(&self.memory, *ring), payload_bytes)
    }

    /// Whether a packet suits its lane; others cannot come from a daemon that is well.
    #[inline]
    fn suits(packet: &Packet, lane: Lane) -> bool {
        Header::parse(packet.header, UNIT_BYTES).is_ok_and(|(header, status)| {
            status.is_some() == (lane == Lane::Reply)
                && packet.payload_bytes == payload_bytes(&header, status)
        })
    }
}

impl Link for ShmLink {
    fn unit_bytes(&self) -> usize {
        UNIT_BYTES
    }

    fn can_send_request(&self, payload_bytes: usize, _result_bytes: usize) -> bool {
        self.has_credit(Lane::Request, payload_bytes)
    }

    fn can_send_reply(&self, payload_bytes: usize) -> bool {
        self.has_credit(Lane::Reply, payload_bytes)
    }

    #[inline]
    fn send<E>(
        &mut self,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let lane = if status.is_some() { Lane::Reply } else { Lane::Request };
        let bytes = payload_bytes(header, status);
        let Outgoing { ring, producer } = &mut self.send[index(lane)];
        let ring = Self::ring(&self.memory, *ring);
        // SAFETY: the ring has `bytes` of room there, and is mapped as long as the link lives.
        let fill = |at| fill(unsafe { Sink::from_raw(at, bytes) });
        let sent = producer.send(ring, header.emit(status), bytes, fill);
        self.sent |= matches!(sent, Some(Ok(())));
        sent
    }

    /// Packets are there once they were sent; only a sleeping daemon has to be woken.
    fn transmit(&mut self) -> bool {
        if let (true, Some(bell)) = (std::mem::take(&mut self.sent), &self.bell) {
            bell.ring_if_asleep();
        }
        false
    }

    fn receive(&mut self) -> bool {
        false
    }

    fn has_work(&self) -> bool {
        self.receive.iter().any(|Incoming { ring, consumer, front }| {
            front.is_some() || consumer.has_packet(Self::ring(&self.memory, *ring))
        })
    }

    #[inline]
    fn front(&mut self, lane: Lane) -> Option<[u64; 2]> {
        let Incoming { ring, consumer, front } = &mut self.receive[index(lane)];
        let ring = Self::ring(&self.memory, *ring);
        while front.is_none() {
            let packet = consumer.peek(ring)?;
            if Self::suits(&packet, lane) {
                *front = Some(packet);
            } else {
                consumer.take(ring, &packet);
            }
        }
        front.as_ref().map(|packet| packet.header)
    }

    #[inline]
    fn payload(&self, lane: Lane) -> Source<'_> {
        let Incoming { ring, consumer, front } = &self.receive[index(lane)];
        let Some(packet) = front else { return Source::new(&[]) };
        let at = consumer.payload(Self::ring(&self.memory, *ring), packet);
        // SAFETY: the payload lies in the ring, which is mapped as long as the link lives.
        unsafe { Source::from_raw(at, packet.payload_bytes) }
    }

    #[inline]
    fn take(&mut self, lane: Lane) {
        let Incoming { ring, consumer, front } = &mut self.receive[index(lane)];
        if let Some(packet) = front.take() {
            consumer.take(Self::ring(&self.memory, *ring), &packet);
        }
    }
}
