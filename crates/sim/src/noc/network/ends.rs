//! The ends of a network: queues at sources, and of packets that have been delivered.

use std::sync::Arc;

use super::super::routing::{Routing, Tables};
use super::super::spec::{Allocator, Packet};
use super::crossing::Crossing;
use super::state::{NONE, OutPort, OutVc, Queue, Route, Sending, Slab, add_credit};
use super::{Delivered, VnetStats};
use crate::engine::Cycle;

/// All endpoints, and the packets of the network.
pub(super) struct Ends {
    /// From the routers in a cycle, and for them after it.
    pub crossing: Crossing,
    pub salt: u64,
    pub routing: Routing,
    pub tables: Arc<Tables>,
    pub allocator: Allocator,
    pub vnets: usize,
    /// Virtual networks that are served one after the other, as masks.
    pub classes: Vec<u32>,
    pub shares_sources: bool,
    pub buffer_flits: u8,
    /// Places for VCs at a port, as routers have them.
    pub stride: usize,

    pub slab: Slab,
    /// Ports with which endpoints send.
    pub ports: Vec<OutPort>,
    pub vcs: Vec<OutVc>,
    pub sources: Vec<Queue>,
    pub sending: Vec<Sending>,
    /// Virtual networks with something to send, by endpoint.
    pub pending: Vec<u32>,
    pub next_vnet: Vec<u8>,
    pub active_sources: Vec<u64>,
    pub injection_delay: u64,
    /// Input VC 0 of the port that an endpoint sends into.
    pub entrances: Vec<u32>,

    pub deliveries: Vec<Queue>,
    /// Endpoints with a packet in a delivery queue, a bit each.
    pub arrived: Vec<u64>,
    /// Packets sent and not yet delivered.
    pub live: u64,
    pub counts: Vec<VnetStats>,
}

impl Ends {
    pub fn endpoints(&self) -> usize {
        self.entrances.len()
    }

    /// Puts a packet into the queue of its source.
    pub fn send(&mut self, packet: Packet, now: Cycle) {
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
        let id = self.slab.insert(packet, route, now);
        let src = usize::from(packet.src);
        let queue = self.source_queue(packet.src, packet.vnet);
        self.slab.push(&mut self.sources[queue], id);
        self.pending[src] |= 1 << (queue - src * self.vnets);
        self.active_sources[src / 64] |= 1 << (src % 64);
        self.counts[usize::from(packet.vnet)].packets_sent += 1;
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
    pub fn source_queue(&self, endpoint: u16, vnet: u8) -> usize {
        self.queue(endpoint, if self.shares_sources { 0 } else { vnet })
    }

    pub fn queued(&self, src: u16, vnet: u8) -> usize {
        let queue = self.source_queue(src, vnet);
        self.sources[queue].len as usize + usize::from(self.sending[queue].flits_left > 0)
    }

    /// Simulates a cycle: credits reach sources, tails reach endpoints, sources send.
    pub fn tick(&mut self, now: Cycle) {
        self.credits_arrive();
        for at in 0..self.crossing.outward.tails.events().len() {
            let (id, hops) = self.crossing.outward.tails.events()[at];
            self.deliver(id, hops, now);
        }
        self.crossing.outward.tails.clear();
        self.inject(now);
    }

    fn credits_arrive(&mut self) {
        for &index in self.crossing.outward.credits.events() {
            let (source, vc) = (index as usize / self.stride, index as usize % self.stride);
            let out_vc = &mut self.vcs[index as usize];
            add_credit(&mut self.ports[source], out_vc, vc, self.buffer_flits);
            self.active_sources[source / 64] |=
                u64::from(self.pending[source] != 0) << (source % 64);
        }
        self.crossing.outward.credits.clear();
    }

    fn deliver(&mut self, id: u32, hops: u8, now: Cycle) {
        let entry = &mut self.slab.entries[id as usize];
        entry.arrived = now;
        let packet = entry.packet;
        self.slab.routes[id as usize].hops = hops;
        let counts = &mut self.counts[usize::from(packet.vnet)];
        counts.packets_delivered += 1;
        counts.flits_ejected += u64::from(packet.flits);
        counts.hops += u64::from(hops);
        let (dst, queue) = (usize::from(packet.dst), self.queue(packet.dst, packet.vnet));
        self.slab.push(&mut self.deliveries[queue], id);
        self.arrived[dst / 64] |= 1 << (dst % 64);
        self.live -= 1;
    }

    /// Whether a source has work.
    #[inline]
    pub fn have_work(&self) -> bool {
        self.active_sources.iter().any(|&word| word != 0)
    }

    pub fn peek(&self, endpoint: u16, vnet: u8) -> Option<&Packet> {
        let first = self.deliveries[self.queue(endpoint, vnet)].first;
        (first != NONE).then(|| &self.slab.entries[first as usize].packet)
    }

    pub fn take(&mut self, endpoint: u16, vnet: u8) -> Option<Delivered> {
        let queue = self.queue(endpoint, vnet);
        if self.deliveries[queue].first == NONE {
            return None;
        }
        let id = self.slab.pop(&mut self.deliveries[queue]);
        self.slab.remove(id);
        self.crossing.inward.taken.push((endpoint, queue as u32));
        let first = usize::from(endpoint) * self.vnets;
        if self.deliveries[first..first + self.vnets].iter().all(|queue| queue.len == 0) {
            self.arrived[usize::from(endpoint) / 64] &= !(1 << (endpoint % 64));
        }
        let entry = &self.slab.entries[id as usize];
        let (packet, created, injected) = (entry.packet, entry.created, entry.injected);
        let hops = self.slab.routes[id as usize].hops;
        Some(Delivered { packet, created, injected, arrived: entry.arrived, hops })
    }
}
