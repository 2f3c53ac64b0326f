//! What travels between nodes: transaction layer packets, as far as the model needs them.

use crate::chip::block::Block;
use crate::engine::Cycle;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The outstanding request queue of a node.
    Queue(u16),
    /// The DMA engine of a node.
    Engine(u16),
}

impl Asker {
    /// The node.
    pub const fn node(self) -> u16 {
        match self {
            Asker::Queue(node) | Asker::Engine(node) => node,
        }
    }
}

/// A packet. Addresses are those of the node that it goes to, of whole lines where data are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Asks for lines, each of which is answered by itself.
    Read {
        /// Who.
        asker: Asker,
        /// Names the request at the asker.
        tag: u32,
        /// The first line's address.
        address: u64,
        /// How many.
        lines: u16,
    },
    /// A line.
    Data {
        /// For whom.
        asker: Asker,
        /// Of this request.
        tag: u32,
        /// Which of its lines.
        index: u16,
        /// What it holds.
        block: Block,
    },
    /// Writes a line or a part of one.
    Write {
        /// The line's address.
        address: u64,
        /// What is written: a block, or a change of one.
        block: Block,
        /// Who wants to know when it is done, and how that names it; nobody: it is posted.
        asker: Option<(Asker, u32)>,
    },
    /// A write is done.
    Written {
        /// For whom.
        asker: Asker,
        /// Which.
        tag: u32,
    },
}

/// A packet that has left its node.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// When.
    pub cycle: Cycle,
    /// For which node.
    pub to: u16,
    /// What.
    pub packet: Packet,
}
