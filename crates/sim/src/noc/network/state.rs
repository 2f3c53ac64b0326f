//! The state of routers, packets and endpoints, in flat arrays.

use super::super::routing::Order;
use super::super::spec::Packet;
use crate::engine::Cycle;

/// No such thing, where a number is expected.
pub(super) const NONE: u32 = u32::MAX;

/// No input VC.
pub(super) const NOBODY: u16 = u16::MAX;

/// A flit: the packet's place in the slab, and in the lowest bit whether it is the tail.
pub(super) type Flit = u32;

/// Input or output ports of a block of routers: a set of them is a word.
pub(super) const PORTS: usize = 64;

/// An input VC. The flit at the front is here, those behind it lie in the buffer array; a head flit
/// is one that finds no packet active.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InVc {
    /// The flit at the front, if there is one.
    pub front: Flit,
    /// VCs that the packet at the front may use at its output.
    pub allowed: u32,
    /// Output VC that the packet at the front holds, counted in the block.
    pub out_vc: u16,
    /// Output port of the packet at the front, counted in the block.
    pub out: u8,
    /// Position of the second flit in the ring.
    pub head: u8,
    /// Flits, with the one at the front.
    pub len: u8,
    /// The packet at the front holds an output VC.
    pub active: bool,
    /// iSLIP: the output VC that it accepts first, counted in the block.
    pub next_out_vc: u16,
}

/// The state of a router for VC allocation and routing.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouterState {
    /// Input port that VC allocation serves first, counted in the block.
    pub next_waiting: u8,
    /// Heads compete for the switch in the cycle in which they get a VC.
    pub speculates: bool,
    /// Turns of directories' packets are counted here.
    pub edge: bool,
}

/// The state of an input port for allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct InPort {
    /// VCs with a flit, an output VC and a credit.
    pub ready: u32,
    /// VCs whose head flit waits for an output VC and may get one.
    pub waiting: u32,
    /// Output VC 0 upstream, where credits go; [`NONE`] at an unused input.
    pub upstream: u32,
    /// VC for which the switch is asked first.
    pub next_vc: u8,
    /// VC for which it is asked in this cycle.
    pub asks: u8,
    /// iSLIP: the output that it accepts first, counted in the block.
    pub next_out: u8,
    /// Cycles until a credit is upstream.
    pub credit_delay: u8,
    /// Cycles from the arrival of a head to VC allocation: for RC, unless that was done upstream.
    pub routing_delay: u8,
}

/// Heads that wait for an output VC in vain. They are left alone until something changes at an
/// output for which they wait.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    /// By input port, its VCs with such a head.
    pub vcs: Vec<u32>,
    /// By output port, inputs of its block with such a head for it.
    pub inputs: Vec<u64>,
}

/// The state of an output port for allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutPort {
    /// Flits that it has sent.
    pub flits: u64,
    /// VCs that no packet holds.
    pub free: u32,
    /// VCs with a credit.
    pub credit: u32,
    /// VCs with all credits: nothing is in the buffer downstream or on its way there.
    pub empty: u32,
    /// Input VC 0 downstream; [`NONE`] for outputs to endpoints.
    pub downstream: u32,
    /// Endpoint behind it, or [`NONE`].
    pub endpoint: u32,
    /// Cycles from switch allocation to the arrival downstream.
    pub delay: u8,
    /// Input port that the switch serves first, counted in the block.
    pub next_input: u8,
    /// VC that VC allocation gives first if none is empty.
    pub next_vc: u8,
    /// Cycles from switch allocation to the return of the credit from an endpoint; 0 if the endpoint
    /// takes flits without credits, and on links between routers.
    pub credit_return: u8,
}

impl OutPort {
    /// The VC that a packet which may use `allowed` gets.
    ///
    /// An empty one is best, since nothing in it can hold the packet up, and of these the lowest,
    /// so that at light load few buffers are in use and stay in the processor's cache. Then comes
    /// one with a credit, then any that is free, in turn.
    #[inline]
    pub fn choose_vc(&self, allowed: u32) -> Option<u8> {
        let free = allowed & self.free;
        let (empty, credit) = (free & self.empty, free & self.credit);
        let (best, from) = if credit != 0 { (credit, self.next_vc) } else { (free, self.next_vc) };
        let (best, from) = if empty != 0 { (empty, 0) } else { (best, from) };
        (free != 0).then(|| first_from(best.into(), from) as u8)
    }

    /// The next of these VCs, in turn.
    pub fn next_of(&self, vcs: u32) -> Option<u8> {
        (vcs != 0).then(|| first_from(vcs.into(), self.next_vc) as u8)
    }
}

/// The first bit that is set at `from` or after it, else the first of all; one is set, and `from`
/// is less than 64.
#[inline]
pub(super) fn first_from(bits: u64, from: u8) -> usize {
    let later = bits & u64::MAX << (from % 64);
    let chosen = if later == 0 { bits } else { later };
    chosen.trailing_zeros() as usize
}

/// An output VC: the buffer downstream as seen from here.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutVc {
    /// Input VC whose packet holds it, counted in the block, or [`NOBODY`].
    pub owner: u16,
    /// Free places downstream.
    pub credits: u8,
}

/// The fields of a packet for routing, apart so that they stay in the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// Column of the table of hops with those to its destination.
    pub column: u32,
    /// Chooses the VC in ordered virtual networks.
    pub hash: u16,
    pub vnet: u8,
    pub order: Order,
    pub from_directory: bool,
    pub hops: u8,
}

/// A packet in the slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub packet: Packet,
    pub created: Cycle,
    pub injected: Cycle,
    pub arrived: Cycle,
    /// Next in its queue, or next free entry.
    pub next: u32,
    pub live: bool,
}

/// A queue of packets, linked through the slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub first: u32,
    pub last: u32,
    pub len: u32,
}

impl Queue {
    pub const EMPTY: Queue = Queue { first: NONE, last: NONE, len: 0 };
}

/// The packet that a source is sending, per virtual network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub packet: u32,
    pub flits_left: u8,
    pub vc: u8,
}

/// All packets that are somewhere in the network, its sources or its delivery queues.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    pub entries: Vec<Entry>,
    pub routes: Vec<Route>,
    free: u32,
}

impl Slab {
    pub fn new() -> Slab {
        Slab { entries: Vec::new(), routes: Vec::new(), free: NONE }
    }

    pub fn insert(&mut self, packet: Packet, route: Route, now: Cycle) -> u32 {
        let entry =
            Entry { packet, created: now, injected: now, arrived: 0, next: NONE, live: true };
        if self.free == NONE {
            self.entries.push(entry);
            self.routes.push(route);
            return self.entries.len() as u32 - 1;
        }
        let id = self.free;
        self.free = self.entries[id as usize].next;
        self.entries[id as usize] = entry;
        self.routes[id as usize] = route;
        id
    }

    pub fn remove(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.live = false;
        entry.next = self.free;
        self.free = id;
    }

    pub fn push(&mut self, queue: &mut Queue, id: u32) {
        self.entries[id as usize].next = NONE;
        match queue.last {
            NONE => queue.first = id,
            last => self.entries[last as usize].next = id,
        }
        queue.last = id;
        queue.len += 1;
    }

    pub fn pop(&mut self, queue: &mut Queue) -> u32 {
        let id = queue.first;
        queue.first = self.entries[id as usize].next;
        if queue.first == NONE {
            queue.last = NONE;
        }
        queue.len -= 1;
        id
    }
}
