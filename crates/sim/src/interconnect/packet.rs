//! Packets of the channels of the on-chip interconnect (DEOI §III), and the accesses that they belong to,
//! with the time that each layer took.

use super::nic::Step;
use super::time::Ps;
use crate::report::LAYERS;

/// A channel: those of AXI, interrupts, and messages of queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Address and length of a read.
    ReadAddress,
    /// Its data.
    ReadData,
    /// Address and length of a write.
    WriteAddress,
    /// Its data.
    WriteData,
    /// That it is done.
    WriteResponse,
    /// A change of an interrupt line.
    Interrupt,
    /// A part of a message of a queue pair.
    Message,
    /// The result of a message.
    MessageResponse,
}

/// Number of channels in [`Channel`]; each has a FIFO of its own.
pub const CHANNELS: usize = 8;

/// Virtual channels of a link: interrupts, responses, requests. Requests wait for responses, responses and interrupts
/// for nothing, so no cycle of waiting comes about.
pub const VCS: usize = 3;

impl Channel {
    /// Its number.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The virtual channel that it travels on.
    #[inline]
    pub fn vc(self) -> usize {
        match self {
            Channel::Interrupt => 0,
            Channel::ReadData | Channel::WriteResponse | Channel::MessageResponse => 1,
            Channel::ReadAddress
            | Channel::WriteAddress
            | Channel::WriteData
            | Channel::Message => 2,
        }
    }

    /// Whether its packets have an address.
    #[inline]
    pub fn has_address(self) -> bool {
        matches!(self, Channel::ReadAddress | Channel::WriteAddress | Channel::Message)
    }

    /// Whether its packets take the time of the access that they belong to: the address of a write does not,
    /// as the data follow it.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.is_request() || matches!(self, Channel::ReadData | Channel::WriteResponse)
    }

    /// Whether its packets are what a home waits for to serve an access.
    #[inline]
    pub fn is_request(self) -> bool {
        matches!(self, Channel::ReadAddress | Channel::WriteData)
    }

    /// The side, master or slave, whose transaction layer its packets pass: where they start, or where they end.
    #[inline]
    pub(super) fn side(self, is_at_source: bool) -> Layer {
        let at_slave = match self {
            Channel::ReadAddress | Channel::WriteData => !is_at_source,
            Channel::ReadData | Channel::WriteResponse => is_at_source,
            _ => false,
        };
        if at_slave { Layer::Slave } else { Layer::Master }
    }

    /// Whether its packets carry data.
    #[inline]
    pub fn has_data(self) -> bool {
        matches!(self, Channel::ReadData | Channel::WriteData | Channel::Message)
    }
}

/// The unit that one channel hands over at once. A frame of the link layer carries one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<B = ()> {
    /// The channel decides the virtual channel, and which header and data the packet has.
    pub channel: Channel,
    /// Number of the node that sends it; answers go there.
    pub source: u16,
    /// Number of the node that it goes to.
    pub destination: u16,
    /// The access that it belongs to; for interrupts the line and its level, for messages the tag.
    pub tag: u32,
    /// Bytes of data.
    pub bytes: u32,
    /// The time of the access that it belongs to, up to where it is.
    pub trip: Trip,
    /// Its content, where nodes have such.
    pub body: B,
}

impl<B: Default> Packet<B> {
    /// A packet that belongs to no access.
    pub fn new(channel: Channel, source: u16, destination: u16, tag: u32, bytes: u32) -> Packet<B> {
        let (trip, body) = (Trip::default(), B::default());
        Packet { channel, source, destination, tag, bytes, trip, body }
    }
}

/// A layer, or another part of an access's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Program, caches and ports of the node that asks.
    Software,
    /// Transaction layer of the node that asks.
    Master,
    /// Transaction layer of the node that answers.
    Slave,
    /// Table lookup and waiting for a link.
    Routing,
    /// Link layer, both directions.
    Link,
    /// Physical layer, both directions.
    Physical,
    /// On-chip interconnect and memory, or a device.
    Memory,
}

/// Names of the layers in reports.
pub const LAYER_NAMES: [&str; LAYERS] = [
    "software",
    "transaction_master",
    "transaction_slave",
    "routing",
    "link",
    "physical",
    "memory",
];

/// The part that asked, and its request; it is notified of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Master {
    /// A core that waits.
    Core(u16),
    /// A network interface card.
    Nic(Step),
    /// The queue pair channel.
    Qpair(u32),
}

/// A read or write, from its request until the master is notified of its end.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Part that is notified of its end.
    pub master: Master,
    /// The node that asks.
    pub node: u16,
    /// The node whose memory or device it is, once that is known.
    pub home: u16,
    /// Whether it writes.
    pub is_write: bool,
    /// The address, as the node that asks sees it, then as its home does.
    pub address: u64,
    /// Bytes that it reads or writes.
    pub bytes: u32,
    /// Time of the request.
    pub start: Ps,
    /// Where its time went.
    pub trip: Trip,
    /// It went nowhere: a bus error.
    pub failed: bool,
}

/// The time of an access by layers, each picosecond in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trip {
    /// Up to when its time is accounted for.
    pub mark: Ps,
    /// The time of each layer up to then.
    pub layers: [Ps; LAYERS],
}

impl Access {
    /// An access that begins now.
    pub fn new(
        master: Master,
        node: u16,
        is_write: bool,
        address: u64,
        bytes: u32,
        now: Ps,
    ) -> Access {
        Access {
            master,
            node,
            home: node,
            is_write,
            address,
            bytes,
            start: now,
            trip: Trip::begin(now),
            failed: false,
        }
    }
}

impl Trip {
    /// One that begins now.
    pub fn begin(now: Ps) -> Trip {
        Trip { mark: now, layers: [0; LAYERS] }
    }

    /// All time up to `now` that is not accounted for was this layer's.
    #[inline]
    pub fn charge(&mut self, layer: Layer, now: Ps) {
        self.layers[layer as usize] += now - self.mark;
        self.mark = now;
    }
}
