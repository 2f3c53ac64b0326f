//! The state of routers, packets and endpoints, in flat arrays.

use std::hint::select_unpredictable;

use super::super::routing::Order;
use super::super::spec::Packet;
use super::Bits;
use crate::engine::Cycle;

/// No such thing, where a number is expected.
pub(super) const NONE: u32 = u32::MAX;

/// No input VC.
pub(super) const NOBODY: u16 = u16::MAX;

/// Input or output ports of a block of routers: a set of them is a word.
pub(super) const PORTS: usize = 64;

/// Most VCs of a port: a set of them is half a word.
pub(super) const MAX_VCS: usize = 32;

/// As many routers as have [`PORTS`] ports, with places for `V` VCs at each: VC 0 of port `p` has the
/// number `p * V`. Requests never meet those of another router.
#[derive(Clone, Debug)]
pub(super) struct Block<const V: usize> {
    /// Inputs with a VC that is ready for the switch.
    pub ready: u64,
    /// Inputs with a head that waits for an output VC.
    pub waiting: u64,
    /// Inputs of routers that speculate.
    pub speculative: u64,
    pub in_ports: [InPort; PORTS],
    pub out_ports: [OutPort; PORTS],
    pub in_vcs: [[InVc; V]; PORTS],
    pub out_vcs: [[OutVc; V]; PORTS],
    /// Heads that wait for an output VC in vain are left alone until something changes at their output. By
    /// input, its VCs with such a head.
    pub parked_vcs: [u32; PORTS],
    /// By output, the inputs with such a head for it.
    pub parked_inputs: [u64; PORTS],
    /// By output, the inputs that ask for the switch; none between two steps.
    pub asking: [u64; PORTS],
}

impl<const V: usize> Block<V> {
    /// Marks an input if it has a VC that is ready for the switch.
    #[inline]
    pub fn request_switch(&mut self, input: usize) {
        self.ready |= u64::from(self.in_ports[input % PORTS].ready() != 0) << (input % PORTS);
    }

    /// Lets heads that wait for an output try again.
    pub fn unpark(&mut self, out: usize) {
        let inputs = std::mem::take(&mut self.parked_inputs[out % PORTS]);
        self.waiting |= inputs;
        for input in Bits(inputs) {
            self.in_ports[input % PORTS].waiting |=
                std::mem::take(&mut self.parked_vcs[input % PORTS]);
        }
    }
}

/// All blocks. Most networks have few VCs, which lie close together then.
#[derive(Clone, Debug)]
pub(super) enum Blocks {
    Few(Vec<Block<8>>),
    Many(Vec<Block<MAX_VCS>>),
}

/// Evaluates an expression with the blocks, whatever their stride of VCs is.
macro_rules! with_blocks {
    ($all:expr, $blocks:ident => $value:expr) => {
        match $all {
            Blocks::Few($blocks) => $value,
            Blocks::Many($blocks) => $value,
        }
    };
}
pub(super) use with_blocks;

impl Blocks {
    pub fn len(&self) -> usize {
        with_blocks!(self, blocks => blocks.len())
    }

    /// Places for VCs at a port.
    pub fn stride(&self) -> usize {
        match self {
            Blocks::Few(_) => 8,
            Blocks::Many(_) => MAX_VCS,
        }
    }

    /// Whether a router has something to allocate.
    pub fn have_work(&self) -> bool {
        with_blocks!(self, blocks => blocks.iter().any(|block| block.ready | block.waiting != 0))
    }

    pub fn in_port(&mut self, port: usize) -> &mut InPort {
        with_blocks!(self, blocks => &mut blocks[port / PORTS].in_ports[port % PORTS])
    }

    pub fn out_port(&self, port: usize) -> &OutPort {
        with_blocks!(self, blocks => &blocks[port / PORTS].out_ports[port % PORTS])
    }

    pub fn out_port_mut(&mut self, port: usize) -> &mut OutPort {
        with_blocks!(self, blocks => &mut blocks[port / PORTS].out_ports[port % PORTS])
    }

    pub fn in_vc(&self, port: usize, vc: usize) -> &InVc {
        with_blocks!(self, blocks => &blocks[port / PORTS].in_vcs[port % PORTS][vc])
    }

    pub fn out_vc(&self, port: usize, vc: usize) -> &OutVc {
        with_blocks!(self, blocks => &blocks[port / PORTS].out_vcs[port % PORTS][vc])
    }

    /// Whether heads wait for an output in vain.
    pub fn is_waited_for(&self, out: usize) -> bool {
        with_blocks!(self, blocks => blocks[out / PORTS].parked_inputs[out % PORTS] != 0)
    }
}

/// An input VC: what changes from flit to flit. Its packets are in [`Packets`](super::packets::Packets).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InVc {
    /// Output port of the packet at the front, counted in the block.
    pub out: u8,
    /// VC of that output, if the packet at the front holds one.
    pub held: u8,
    pub len: u8,
    /// Flits of the packet at the front that have not left; 0 if no packet has been routed.
    pub left: u8,
}

impl InVc {
    /// Whether the next flit that arrives comes to the front, as a head.
    #[inline]
    pub fn awaits_head(&self) -> bool {
        (self.len | self.left) == 0
    }
}

/// The state of a router for VC allocation and routing.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouterState {
    /// Its first port; the others follow, all in one block.
    pub first: u32,
    /// Its ports, as bits of the block's words.
    pub ports: u64,
    /// Input port that VC allocation serves first, counted in the block.
    pub next_waiting: u8,
    /// Heads compete for the switch in the cycle in which they get a VC.
    pub speculates: bool,
    /// Turns of directories' packets are counted here.
    pub edge: bool,
}

/// The state of an input port for allocation.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct InPort {
    /// VCs with a flit.
    pub filled: u32,
    /// VCs of which the packet at the front holds an output VC with a credit.
    pub able: u32,
    /// VCs whose head flit waits for an output VC and may get one.
    pub waiting: u32,
    /// Output VC 0 upstream, or the VC 0 of a source, where credits go; [`NONE`] at an unused input.
    pub upstream: u32,
    /// VC for which the switch is asked first.
    pub next_vc: u8,
    /// VC for which it is asked in this cycle.
    pub asks: u8,
    /// iSLIP: the output that it accepts first, counted in the block.
    pub next_out: u8,
    /// Cycles until a credit is upstream.
    pub credit_delay: u8,
    /// An endpoint is upstream, no router.
    pub from_source: bool,
    /// Cycles from the arrival of a head to VC allocation: for RC, unless that was done upstream.
    pub routing_delay: u8,
}

impl InPort {
    /// VCs with a flit, an output VC and a credit.
    #[inline]
    pub fn ready(&self) -> u32 {
        self.filled & self.able
    }
}

/// The state of an output port for allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutPort {
    /// Flits that it has sent.
    pub flits: u64,
    /// VCs with a credit.
    pub credit: u32,
    /// VCs that no packet holds.
    pub free: u32,
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
    /// Credits that a flit costs: one at links between routers and at endpoints that return it, else none.
    pub counts_credits: u8,
    /// First of its endpoint's delivery queues, whose places are limited; queue 0 at links.
    pub first_slot: u32,
    /// Cycles from switch allocation to the return of the credit from an endpoint; 0 if the endpoint
    /// takes flits without credits, and on links between routers.
    pub credit_return: u8,
}

impl OutPort {
    /// The VC that a packet gets which may use these; they are free.
    ///
    /// An empty one is best, since nothing in it can hold the packet up, and of these the lowest,
    /// so that at light load few buffers are in use and stay in the processor's cache. Then comes
    /// one with a credit, then any that is free, in turn.
    #[inline]
    pub fn best_of(&self, free: u32) -> usize {
        let (empty, credit) = (free & self.empty, free & self.credit);
        let in_turn = select_unpredictable(credit != 0, credit, free);
        let best = select_unpredictable(empty != 0, empty, in_turn);
        let from = select_unpredictable(empty != 0, 0, self.next_vc);
        first_from(best.into(), from) % 32
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

/// An output VC has a place more downstream.
#[inline]
pub(super) fn add_credit(out_port: &mut OutPort, out_vc: &mut OutVc, vc: usize, full: u8) {
    debug_assert!(out_vc.credits < full);
    out_vc.credits += 1;
    out_port.credit |= 1 << vc;
    out_port.empty |= u32::from(out_vc.credits == full) << vc;
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
    pub flits: u8,
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

/// The packet that a source queue is sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub flits_left: u8,
    pub vc: u8,
    pub vnet: u8,
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
