//! A node as its parts: tables, transaction layer, links, memory, cores.

use std::collections::VecDeque;

use rackmem_rmc::amt::Amt;
use rackmem_rmc::imt::Imt;

use super::card::Card;
use super::memory::Memory;
use super::module::Module;
use super::time::Ps;

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

/// A node with its module: tables, layers, links, cores and devices.
#[derive(Debug)]
pub struct Node {
    /// Address mapping table: the nodes whose memory it is, by address.
    pub amt: Amt,
    /// Interrupt mapping table: the node that handles each interrupt line.
    pub imt: Imt,
    /// Transaction layer, routing layer and links.
    pub module: Module,
    /// Times of the node's DRAM, a DDR3 channel; contents are not modelled.
    pub memory: Memory,
    /// Cores by number: `soc.cores` of them.
    pub cores: Vec<Core>,
    /// Its network interface card, if it has one.
    pub card: Option<Card>,
}
