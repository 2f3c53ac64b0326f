//! A node as its parts: tables, transaction layer, links, memory, cores.

use std::collections::VecDeque;

use rackmem_rmc::amt::Amt;
use rackmem_rmc::imt::Imt;

use super::lane::End;
use super::memory::Memory;
use super::nic::Nic;
use super::packet::Packet;
use super::time::Ps;
use super::transaction::Transactions;

/// First address of a network interface card's registers; memory ends here.
pub const CARD_BASE: u64 = 0x4000_0000;

/// Registers of a card.
pub const CARD_BYTES: u64 = 1 << 16;

/// The next operation of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Instructions that take so long.
    Work(Ps),
    /// A load that misses all caches, or of a device; the core waits for its value.
    Load(u64, u32),
    /// A store to a device and the barrier behind it: the core waits for the response.
    Store(u64, u32),
    /// Tells the workload that the core has come so far.
    Call(Call),
}

impl Op {
    /// A call without an argument.
    pub const fn call(what: u8) -> Op {
        Op::Call(Call { what, argument: 0 })
    }
}

/// A place in the software of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the place, which the workload, its stack or its channel has chosen.
    pub what: u8,
    /// A number for that place, such as a tag.
    pub argument: u32,
}

/// A core and its operations. Interrupt handlers go before threads, operation by operation.
#[derive(Clone, Debug, Default)]
pub struct Core {
    pub handler: VecDeque<Op>,
    pub thread: VecDeque<Op>,
    pub is_busy: bool,
    /// Time in which it did something.
    pub busy: Ps,
    /// Begin of the operation under way.
    pub since: Ps,
}

/// Counters of a node for its control centre (TSM §4.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// Packets for which the routing table has no entry: dropped.
    pub unroutable: u64,
    /// Accesses that the address mapping table has no slot for.
    pub unmapped: u64,
    /// Packets passed on for other nodes.
    pub forwarded: u64,
    /// Packets that found their link busy, or the other end without room.
    pub congested: u64,
}

/// A request of another node that waits.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub port: u8,
    pub packet: Packet,
}

/// A node with its module: tables, layers, links, cores and devices.
#[derive(Debug)]
pub struct Node {
    /// Address mapping table: the nodes whose memory it is, by address.
    pub amt: Amt,
    /// Interrupt mapping table: the node that handles each interrupt line.
    pub imt: Imt,
    /// The transaction layer: FIFOs of the channels, both ways.
    pub transactions: Transactions,
    pub ends: Vec<End>,
    /// The routing table: the link towards each node.
    pub routes: Vec<Option<u8>>,
    /// Packets for other nodes, by the link that they wait for.
    pub forward: Vec<VecDeque<Held>>,
    /// Requests of other nodes that are served.
    pub served: u32,
    /// Requests of other nodes that wait for that.
    pub held: VecDeque<Held>,
    /// Times of the node's DRAM, a DDR3 channel; contents are not modelled.
    pub memory: Memory,
    /// Cores by number: `soc.cores` of them.
    pub cores: Vec<Core>,
    pub nic: Option<Nic>,
    pub control: Control,
    /// Addresses of writes that have left for a link, less data that have: data follow their address.
    pub addresses_ahead: u64,
    /// Channel at which the search for the next packet of a virtual channel begins.
    pub turn: usize,
}
