//! Packets between nodes: transaction layer packets, as far as the model needs them.

use crate::block::Block;

/// The part that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The outstanding request queue of a node.
    Queue(u16),
    /// The DMA engine of a node, or its network interface card.
    Engine(u16),
    /// A core of a node, of a device.
    Core(u16),
    /// The RDMA channel of a node.
    Rdma(u16),
}

impl Asker {
    /// Number of the node that the answer goes to.
    pub const fn node(self) -> u16 {
        match self {
            Asker::Queue(node) | Asker::Engine(node) | Asker::Core(node) | Asker::Rdma(node) => {
                node
            }
        }
    }
}

/// A packet. Addresses are those of the node that it goes to, of whole lines where data are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Asks for lines, each of which is answered by itself.
    Read {
        /// Queue or engine that the lines go to.
        asker: Asker,
        /// Names the request at the asker.
        tag: u32,
        address: u64,
        /// Lines in sequence, from `address` on.
        lines: u16,
    },
    /// A line.
    Data {
        asker: Asker,
        tag: u32,
        /// Index of the line among those of the request.
        index: u16,
        block: Block,
    },
    /// Writes a line or a part of one.
    Write {
        address: u64,
        /// Content to be written: a block, or a change of one.
        block: Block,
        /// Queue or engine that waits for the answer, with its name for the write; none: it is posted.
        asker: Option<(Asker, u32)>,
        /// Data of the TLP that it is the first line of; 0: it comes with the line before.
        tlp_bytes: u32,
    },
    /// Goes with a part of a message: the connections that it is for, and that it is of.
    Message { connection: u16, from: u16 },
    /// A write is done.
    Written {
        asker: Asker,
        /// Name that the write's asker gave it.
        tag: u32,
    },
}
