//! Messages between parts of the chip.

use rackmem_abi::{Header, Packet, Reply, Request, Status};
use rackmem_rmc::Work;

use super::device_port;
use super::layout::Part;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Party};
use crate::engine::Cycle;
use crate::scratchpad::{self, Class};
use crate::sonuma::Lane;
use crate::window;

/// Virtual networks: each waits for later ones only, the last one for the first, so there is no
/// cycle. Requests wait for forwards and responses, forwards for responses, responses for nothing;
/// packets of the network interfaces for requests. With a port that they share (`noc.sources = "shared"`) parts take
/// whatever arrives instead, and none waits.
pub const VNETS: usize = 4;
/// Requests to homes.
pub const VNET_REQUEST: u8 = 0;
/// From homes to private caches and memory.
pub const VNET_FORWARD: u8 = 1;
/// Responses, each of which ends a wait.
pub const VNET_RESPONSE: u8 = 2;
/// Between parts of the network interfaces.
pub const VNET_NETWORK: u8 = 3;

/// A packet of the fabric between chips.
#[derive(Clone, Copy, Debug)]
pub struct NetPacket {
    /// As software and hardware of the runtime know it.
    pub packet: Packet,
    /// The RGP of the source that sent the request: its reply goes there.
    pub engine: u16,
    /// Of a request that has come, and of its reply: when it came to the chip, and when the RRPP had done with it.
    pub served: (Cycle, Cycle),
}

impl NetPacket {
    /// A packet of a node with one RMC.
    pub const fn of(packet: Packet) -> NetPacket {
        NetPacket { packet, engine: 0, served: (0, 0) }
    }

    /// A request of this RGP.
    pub const fn request(request: Request, engine: u16) -> NetPacket {
        NetPacket { packet: Packet::Request(request), engine, served: (0, 0) }
    }

    /// Its bytes between two chips.
    #[inline]
    pub const fn bytes(&self) -> u32 {
        let payload = match &self.packet {
            Packet::Request(request) => request.payload_bytes(),
            Packet::Reply(reply) => reply.payload_bytes(),
        };
        (rackmem_abi::HEADER_BYTES + payload) as u32
    }

    /// Number of the node that it goes to.
    pub const fn destination(&self) -> u16 {
        header(&self.packet).dst_nid
    }
}

/// The header of a request or a reply.
#[inline]
pub const fn header(packet: &Packet) -> &Header {
    match packet {
        Packet::Request(Request { header, .. }) | Packet::Reply(Reply { header, .. }) => header,
    }
}

/// Content of a message.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// Of the coherence protocol.
    Coherence {
        /// The block.
        line: Line,
        /// Sender; `None` = the home.
        from: Option<Party>,
        /// The message of the protocol.
        message: Message<Block>,
    },
    /// From the NI cache to the L1 in front of it.
    ToL1 {
        /// The block.
        line: Line,
        /// The message of the protocol.
        message: Message<Block>,
    },
    /// From an L1 to the NI cache behind it.
    ToBackSide {
        /// The block.
        line: Line,
        /// To the home, or to a party.
        to: Option<Party>,
        /// The message of the protocol.
        message: Message<Block>,
    },
    /// A block is wanted from memory.
    MemoryRead {
        /// The block.
        line: Line,
        /// The part that wants it: its home, or memory's neighbour.
        to: Part,
    },
    /// A home writes a block back.
    MemoryWrite {
        /// The block.
        line: Line,
        /// Its content.
        data: Block,
    },
    /// Memory answers.
    MemoryData {
        /// The block.
        line: Line,
        /// Its content.
        data: Block,
    },
    /// A store to borrowed memory that goes through its home.
    ThroughWrite {
        /// The block.
        line: Line,
        /// The block, or a change of it.
        data: Block,
        /// Party that waits until it has left.
        from: Party,
    },
    /// A core's access to a register of another node's device.
    Device(device_port::Access),
    /// Content of a part of a message, ahead of its packet.
    Content {
        /// Number of the node that it is from.
        from: u16,
        /// Its bytes, and how many they are.
        block: Block,
        /// At most a line.
        bytes: u8,
    },
    /// From the link of a window, or from its DMA engine.
    Tlp(window::packet::Packet),
    /// Between chips, from an RGP to the router, or back from it.
    Net(NetPacket),
    /// Between cache-integrated network interfaces.
    Scratchpad(scratchpad::Packet),
    /// From another node to a fabric interface: a place in its buffer for packets of this node is free again.
    Credit {
        /// Number of the interface, which is that of the one that sent it.
        link: u16,
        /// Number of the node that sent it.
        from: u16,
        /// The lane of the packet that was there.
        lane: Lane,
    },
    /// From the RGP frontend to the backend: a checked WQ entry.
    Work {
        /// Number of the queue pair, which is that of its core.
        qp: u16,
        /// Index of the entry in the WQ, which the CQ entry names.
        slot: u16,
        /// Operation, destination, offset, length and buffer.
        work: Work,
    },
    /// From the RCP backend to the frontend: the content of the CQ entry.
    Completion {
        /// Number of the queue pair, which is that of its core.
        qp: u16,
        /// The slot that is complete.
        slot: u16,
        /// Its result: success, or the error.
        status: Status,
        /// Bytes of the transfer.
        bytes: u32,
    },
}

impl NetPacket {
    /// The packet as it comes back from a mirror at the other end of the cable: for each request
    /// that leaves, the same one arrives from there.
    #[must_use]
    pub fn reflected(mut self) -> NetPacket {
        let (Packet::Request(Request { header, .. }) | Packet::Reply(Reply { header, .. })) =
            &mut self.packet;
        std::mem::swap(&mut header.dst_nid, &mut header.src_nid);
        self
    }
}

impl Payload {
    /// What comes back of this, for node `to`, from a mirror at the other end of the cable.
    #[must_use]
    pub fn reflected(self, to: u16) -> Payload {
        match self {
            Payload::Net(packet) => Payload::Net(packet.reflected()),
            Payload::Credit { link, lane, .. } => Payload::Credit { link, from: to, lane },
            other => other,
        }
    }

    /// The virtual network on which it travels.
    #[inline]
    pub fn vnet(&self) -> u8 {
        match self {
            Payload::Coherence { message, .. } => match message {
                Message::Request(_) => VNET_REQUEST,
                Message::Forward(_) => VNET_FORWARD,
                Message::Response(_) => VNET_RESPONSE,
            },
            Payload::MemoryRead { .. }
            | Payload::MemoryWrite { .. }
            | Payload::ThroughWrite { .. } => VNET_FORWARD,
            Payload::MemoryData { .. } => VNET_RESPONSE,
            Payload::Scratchpad(packet) => Payload::vnet_of(packet.class()),
            _ => VNET_NETWORK,
        }
    }

    /// The virtual network of a class of packets: the three priorities of CINI §4.
    #[inline]
    pub const fn vnet_of(class: Class) -> u8 {
        match class {
            Class::Read | Class::Write => VNET_NETWORK,
            Class::Reply => VNET_FORWARD,
            Class::Ack => VNET_RESPONSE,
        }
    }

    /// Bytes besides the header of the network on chip.
    #[inline]
    pub fn bytes(&self) -> u32 {
        match self {
            Payload::Coherence { message, .. } if message.has_data() => BLOCK_BYTES as u32,
            Payload::MemoryWrite { .. }
            | Payload::MemoryData { .. }
            | Payload::ThroughWrite { .. } => BLOCK_BYTES as u32,
            Payload::Net(packet) => packet.bytes(),
            Payload::Scratchpad(packet) => packet.payload_bytes(),
            Payload::Device(access) => u32::from(access.size),
            Payload::Work { .. } => rackmem_abi::WQ_ENTRY_BYTES as u32,
            Payload::Completion { .. } => rackmem_abi::CQ_ENTRY_BYTES as u32,
            _ => 0,
        }
    }
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub struct Letter {
    /// Part that receives it.
    pub to: Part,
    /// Its content, which also decides the virtual network and the length.
    pub payload: Payload,
    /// Index in the trace, or [`UNTRACED`].
    pub trace: u32,
}

/// The message is not traced.
pub const UNTRACED: u32 = u32::MAX;
