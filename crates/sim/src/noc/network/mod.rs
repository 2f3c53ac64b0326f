//! The simulator: state in flat arrays, one function per phase of a cycle.
//!
//! A cycle: flits, credits and tails that arrive ([`arrive`]), sources ([`source`]), then the
//! routers that have something to allocate ([`allocate`]). [`build`] lays out the arrays.

mod allocate;
mod arrive;
mod build;
mod in_turn;
mod islip;
mod packets;
mod source;
mod state;
mod stats;
mod stuck;
#[cfg(test)]
mod tests;
mod wheel;

pub use stats::{LinkLoad, Stats, VnetStats};
pub use stuck::Stuck;

use super::routing::{Routing, Tables};
use super::spec::{Allocator, Packet};
use super::topology::{Axis, Topology};
use crate::engine::Cycle;
use packets::Packets;
use state::{Blocks, NONE, OutPort, OutVc, Queue, Route, RouterState, Sending, Slab, with_blocks};
use wheel::{List, Wheel};

/// A network with the packets in it.
#[derive(Clone, Debug)]
pub struct Network {
    now: Cycle,
    salt: u64,
    routing: Routing,
    allocator: Allocator,
    topology: Topology,
    tables: Tables,
    /// By port, the router that it belongs to.
    router_of: Vec<u16>,
    vnets: usize,
    /// VCs, and virtual networks, that are served one after the other.
    classes: Vec<Urgency>,
    buffer_flits: u8,
    shares_sources: bool,
    ejection_credits: bool,
    axes: Vec<Axis>,

    slab: Slab,
    blocks: Blocks,
    routers: Vec<RouterState>,
    packets: Packets,
    /// Ports with which endpoints send.
    source_ports: Vec<OutPort>,
    source_vcs: Vec<OutVc>,
    /// Places for VCs at a port: see [`Blocks`].
    stride: usize,
    round: in_turn::Round,
    /// Input VCs that have sent a tail in this step.
    ended: List<u32>,
    /// iSLIP: by output VC, the input VC that it serves first, counted in the block.
    vc_pointers: Vec<u16>,
    /// iSLIP: requests of a block for VCs, empty between two blocks.
    requests: Vec<islip::Request>,
    board: islip::Board,

    /// Input VCs that get a flit.
    flits: Wheel<u32>,
    /// Output VCs that get a credit: those of routers, and those of sources.
    credits: [Wheel<u32>; 2],
    /// Head flits that come to the front and are ready for VC allocation in that cycle.
    heads: Wheel<u32>,
    /// Packets whose tail reaches the endpoint.
    tails: Wheel<u32>,

    sources: Vec<Queue>,
    sending: Vec<Sending>,
    /// Virtual networks with something to send, by endpoint.
    pending: Vec<u32>,
    next_vnet: Vec<u8>,
    active_sources: Vec<u64>,
    /// Input VC 0 of the port that an endpoint sends into.
    entrances: Vec<u32>,
    /// The output that leads to an endpoint.
    exits: Vec<u32>,
    injection_delay: u64,

    deliveries: Vec<Queue>,
    /// Places that delivery queues have left, less packets on their way out.
    slots: Vec<u32>,
    arrived: Vec<u64>,
    /// Packets sent and not yet delivered.
    live: u64,
    stats: Stats,
}

/// Virtual networks that are alike in urgency.
#[derive(Clone, Copy, Debug)]
struct Urgency {
    /// Their VCs, as a mask.
    vcs: u32,
    /// Themselves, as a mask.
    vnets: u32,
}

/// A packet that has arrived, with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// As it was handed to [`Network::send`].
    pub packet: Packet,
    /// Cycle in which it was sent.
    pub created: Cycle,
    /// Cycle in which its head left the source queue.
    pub injected: Cycle,
    /// Cycle in which its tail reached the endpoint.
    pub arrived: Cycle,
    /// Links between routers that it crossed.
    pub hops: u8,
}

impl Network {
    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.entrances.len()
    }

    /// The graph of routers, links and endpoints.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The cycle that the next [`tick`](Network::tick) simulates.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// Puts a packet into the queue of its source and virtual network, which has no limit.
    ///
    /// # Panics
    /// An endpoint or virtual network does not exist, or the packet has no flits.
    pub fn send(&mut self, packet: Packet) {
        let endpoints = self.endpoints();
        assert!(usize::from(packet.src) < endpoints, "packet from endpoint {}", packet.src);
        assert!(usize::from(packet.dst) < endpoints, "packet to endpoint {}", packet.dst);
        assert!(usize::from(packet.vnet) < self.vnets, "packet in virtual network {}", packet.vnet);
        assert!(packet.flits > 0, "packet without flits");
        let hash = self.hash(&packet);
        let order = self.routing.order(&packet, hash);
        let route = Route {
            column: self.tables.column(order, packet.dst.into()),
            hash: hash as u16,
            vnet: packet.vnet,
            order,
            from_directory: packet.class.is_of_directory(),
            hops: 0,
            flits: packet.flits,
        };
        let id = self.slab.insert(packet, route, self.now);
        let src = usize::from(packet.src);
        let queue = self.source_queue(packet.src, packet.vnet);
        self.slab.push(&mut self.sources[queue], id);
        self.pending[src] |= 1 << (queue - src * self.vnets);
        self.active_sources[src / 64] |= 1 << (src % 64);
        self.stats.vnets[usize::from(packet.vnet)].packets_sent += 1;
        self.live += 1;
    }

    /// Hash of what keeps packets in order: source, destination, virtual network and flow.
    fn hash(&self, packet: &Packet) -> u32 {
        let flow =
            u64::from(packet.flow) << 32 | u64::from(packet.src) << 16 | u64::from(packet.dst);
        let mixed =
            (flow ^ self.salt ^ u64::from(packet.vnet) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed >> 32) as u32
    }

    fn queue(&self, endpoint: u16, vnet: u8) -> usize {
        usize::from(endpoint) * self.vnets + usize::from(vnet)
    }

    /// The source queue of an endpoint for packets of a virtual network.
    #[inline]
    fn source_queue(&self, endpoint: u16, vnet: u8) -> usize {
        self.queue(endpoint, if self.shares_sources { 0 } else { vnet })
    }

    /// Packets that wait at a source in the queue of a virtual network, including one that has left in part.
    pub fn queued(&self, src: u16, vnet: u8) -> usize {
        let queue = self.source_queue(src, vnet);
        self.sources[queue].len as usize + usize::from(self.sending[queue].flits_left > 0)
    }

    /// Simulates one cycle of all routers and links.
    pub fn tick(&mut self) {
        self.with_blocks(|network, blocks| {
            with_blocks!(blocks, blocks => {
                network.arrive(blocks);
                network.inject();
                let order = 0..blocks.len();
                network.allocate(blocks, order);
            });
        });
        self.now += 1;
    }

    /// Lends the blocks to a phase of a cycle.
    fn with_blocks(&mut self, phase: impl FnOnce(&mut Network, &mut Blocks)) {
        let mut blocks = std::mem::replace(&mut self.blocks, Blocks::Few(Vec::new()));
        phase(self, &mut blocks);
        self.blocks = blocks;
    }

    /// Whether nothing is queued or on its way; delivery queues may hold packets.
    pub fn is_idle(&self) -> bool {
        self.live == 0
    }

    /// The next cycle in which something happens if nothing is sent or taken until then: `now` if a
    /// router or source has work, `None` if the network is idle or all packets in it wait: for full
    /// delivery queues, or for each other.
    pub fn next_event(&self) -> Option<Cycle> {
        if self.live == 0 {
            return None;
        }
        if self.has_work() {
            return Some(self.now);
        }
        let nexts = [
            self.flits.next(self.now),
            self.next_credit(),
            self.heads.next(self.now),
            self.tails.next(self.now),
        ];
        nexts.into_iter().flatten().min()
    }

    /// Whether a router or a source has work.
    #[inline]
    fn has_work(&self) -> bool {
        self.blocks.have_work() || self.active_sources.iter().any(|&word| word != 0)
    }

    /// Whether something arrives in the cycle that is simulated next.
    #[inline]
    fn has_arrivals(&self) -> bool {
        let wheels = [&self.flits, &self.credits[0], &self.credits[1], &self.heads, &self.tails];
        wheels.iter().any(|wheel| !wheel.events(self.now).is_empty())
    }

    /// Lets time pass in which nothing happens, up to `cycle`, which is simulated next.
    ///
    /// # Panics
    /// There is an event before that cycle.
    pub fn skip_to(&mut self, cycle: Cycle) {
        assert!(
            self.next_event().is_none_or(|event| event >= cycle),
            "cycle {cycle} is after the next event"
        );
        self.pass_to(cycle);
    }

    /// Simulates this cycle, whether or not something happens in it.
    ///
    /// # Panics
    /// In debug builds, if there is an event before that cycle.
    #[inline]
    pub fn simulate(&mut self, cycle: Cycle) {
        if self.now < cycle {
            debug_assert!(self.next_event().is_none_or(|event| event >= cycle));
            self.pass_to(cycle);
        }
        if self.live != 0 && self.now == cycle && (self.has_work() || self.has_arrivals()) {
            self.tick();
        } else {
            self.pass_to(cycle + 1);
        }
    }

    /// Lets time pass up to a cycle before which there is no event.
    fn pass_to(&mut self, cycle: Cycle) {
        // Credits of the last packets may still be on their way back.
        while self.now < cycle && self.next_credit().is_some_and(|at| at < cycle) {
            self.with_blocks(|network, blocks| {
                with_blocks!(blocks, blocks => network.arrive(blocks));
            });
            self.now += 1;
        }
        self.now = self.now.max(cycle);
    }

    fn next_credit(&self) -> Option<Cycle> {
        self.credits.iter().filter_map(|credits| credits.next(self.now)).min()
    }

    /// Endpoints with packets in a delivery queue, in the order of their numbers.
    pub fn arrived(&self) -> impl Iterator<Item = u16> + '_ {
        self.arrived
            .iter()
            .enumerate()
            .flat_map(|(word, &bits)| Bits(bits).map(move |bit| (word * 64 + bit) as u16))
    }

    /// One bit per endpoint with packets in a delivery queue, 64 to a word.
    pub fn arrived_words(&self) -> &[u64] {
        &self.arrived
    }

    /// The packet that [`take`](Network::take) would take.
    pub fn peek(&self, endpoint: u16, vnet: u8) -> Option<&Packet> {
        let first = self.deliveries[self.queue(endpoint, vnet)].first;
        (first != NONE).then(|| &self.slab.entries[first as usize].packet)
    }

    /// Takes the packet that has waited longest in a delivery queue.
    pub fn take(&mut self, endpoint: u16, vnet: u8) -> Option<Packet> {
        self.take_timed(endpoint, vnet).map(|delivered| delivered.packet)
    }

    /// As [`take`](Network::take), with the packet's times.
    pub fn take_timed(&mut self, endpoint: u16, vnet: u8) -> Option<Delivered> {
        let queue = self.queue(endpoint, vnet);
        if self.deliveries[queue].first == NONE {
            return None;
        }
        let id = self.slab.pop(&mut self.deliveries[queue]);
        self.slab.remove(id);
        self.slots[self.vnets + queue] += 1;
        self.blocks.unpark(self.exits[usize::from(endpoint)] as usize);
        let first = usize::from(endpoint) * self.vnets;
        if self.deliveries[first..first + self.vnets].iter().all(|queue| queue.len == 0) {
            self.arrived[usize::from(endpoint) / 64] &= !(1 << (endpoint % 64));
        }
        let entry = &self.slab.entries[id as usize];
        let (packet, created, injected) = (entry.packet, entry.created, entry.injected);
        let hops = self.slab.routes[id as usize].hops;
        Some(Delivered { packet, created, injected, arrived: entry.arrived, hops })
    }

    /// Counters since the network was built.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Flits on each link between routers, with its place on the floor plan.
    pub fn link_loads(&self) -> impl Iterator<Item = LinkLoad> + '_ {
        self.topology.links.iter().map(|link| {
            let place = |router: usize| {
                let router = self.topology.routers[router];
                (router.x, router.y)
            };
            LinkLoad {
                from: place(link.from.router),
                to: place(link.to.router),
                flits: self.blocks.out_port(self.port_index(link.from)).flits,
            }
        })
    }
}

/// The numbers of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}
