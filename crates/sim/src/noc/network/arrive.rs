//! The first phase of a cycle: flits and credits under way arrive.

use std::hint::select_unpredictable;

use super::super::topology::Axis;
use super::state::{InPort, NOBODY, PORTS};
use super::{Network, with_vcs};

impl Network {
    /// Flits enter buffers, credits are counted, tails reach endpoints, heads are routed.
    pub(super) fn arrive(&mut self) {
        with_vcs!(self, arrive_with());
    }

    /// The same with a port every `V` VCs.
    fn arrive_with<const V: usize>(&mut self) {
        self.credits_arrive::<V>();
        self.flits_arrive::<V>();
        self.route::<V>();
        for at in 0..self.tails.events(self.now).len() {
            self.deliver(self.tails.events(self.now)[at]);
        }
        self.tails.clear(self.now);
    }

    fn credits_arrive<const V: usize>(&mut self) {
        let Network { in_vcs, out_vcs, in_ports, out_ports, ready, active_sources, .. } = self;
        let (pending, full, sources) = (&self.pending, self.buffer_flits, in_ports.len());
        for &index in self.credits.events(self.now) {
            let (index, port) = (index as usize, index as usize / V);
            let out_vc = &mut out_vcs[index];
            debug_assert!(out_vc.credits < full);
            out_vc.credits += 1;
            let bit = 1u32 << (index % V);
            out_ports[port].credit |= bit;
            out_ports[port].empty |= bit * u32::from(out_vc.credits == full);
            if port >= sources {
                let source = port - sources;
                active_sources[source / 64] |= u64::from(pending[source] != 0) << (source % 64);
                continue;
            }
            let owner = first_of_block::<V>(index) + usize::from(out_vc.owner) % (PORTS * V);
            let owned = out_vc.owner != NOBODY;
            let goes_on = (out_vc.credits == 1) & owned & (in_vcs[owner].len > 0);
            request_switch::<V>(goes_on, in_ports, ready, owner);
        }
        self.credits.clear(self.now);
    }

    fn flits_arrive<const V: usize>(&mut self) {
        let Network { in_vcs, out_vcs, in_ports, ready, buffers, heads, .. } = self;
        let (shift, mask) = (self.buffer_shift, ((1u32 << self.buffer_shift) - 1) as u8);
        for &(index, flit) in self.flits.events(self.now) {
            let index = index as usize;
            let in_vc = &mut in_vcs[index];
            debug_assert!(in_vc.len < self.buffer_flits, "a flit came without a credit");
            // If it is the first, its place in the ring is free all the same.
            let place = in_vc.head.wrapping_add(in_vc.len).wrapping_sub(1) & mask;
            buffers[(index << shift) + usize::from(place)] = flit;
            in_vc.len += 1;
            let first = in_vc.len == 1;
            in_vc.front = select_unpredictable(first, flit, in_vc.front);
            let at = self.now + u64::from(in_ports[index / V].routing_delay);
            heads.push_if(first & !in_vc.active, at, index as u32);
            let out_vc = &out_vcs[first_of_block::<V>(index) + usize::from(in_vc.out_vc)];
            let goes_on = first & in_vc.active & (out_vc.credits > 0);
            request_switch::<V>(goes_on, in_ports, ready, index);
        }
        self.flits.clear(self.now);
    }

    /// Looks up where the packets at the front of input VCs go, and asks for output VCs.
    fn route<const V: usize>(&mut self) {
        let (port_shift, routes) = (self.port_shift, &mut self.slab.routes[..]);
        let (in_vcs, in_ports) = (&mut self.in_vcs[..], &mut self.in_ports[..]);
        let (routers, waiting) = (&self.routers[..], &mut self.waiting[..]);
        for &index in self.heads.events(self.now) {
            let index = index as usize;
            let in_vc = &mut in_vcs[index];
            let route = &mut routes[(in_vc.front >> 1) as usize];
            let port = index / V;
            let number = port >> port_shift;
            let mut hop = self.tables.hop_of(route.column, number);
            if self.tables.keeps_class() {
                let input = port & ((1 << port_shift) - 1);
                let second = self.tables.is_second(route.vnet.into(), index % V);
                // A bit of its hash for each dimension.
                let back = route.hash >> (hop.port() / 2 % 4) & 1 != 0;
                hop = self.tables.resolve(&self.topology, hop, (input, second), back);
            }
            let out = (number << port_shift) + hop.port();
            route.hops = route.hops.saturating_add(u8::from(!hop.ejects()));
            if routers[number].edge && route.from_directory {
                let axes = (self.axes[port], self.axes[out]);
                let turn = matches!(axes, (Axis::X, Axis::Y) | (Axis::Y, Axis::X));
                self.stats.directory_turns_at_edge += u64::from(turn);
            }
            in_vc.allowed = self.tables.allowed(route.vnet.into(), route.order, hop, route.hash);
            in_vc.out = (out % PORTS) as u8;
            in_ports[port].waiting |= 1 << (index % V);
            waiting[port / PORTS] |= 1 << (port % PORTS);
        }
        self.heads.clear(self.now);
    }

    fn deliver(&mut self, id: u32) {
        let entry = &mut self.slab.entries[id as usize];
        entry.arrived = self.now;
        let packet = entry.packet;
        let stats = &mut self.stats.vnets[usize::from(packet.vnet)];
        stats.packets_delivered += 1;
        stats.flits_ejected += u64::from(packet.flits);
        stats.hops += u64::from(self.slab.routes[id as usize].hops);
        let (dst, queue) = (usize::from(packet.dst), self.queue(packet.dst, packet.vnet));
        self.slab.push(&mut self.deliveries[queue], id);
        self.arrived[dst / 64] |= 1 << (dst % 64);
        self.live -= 1;
    }
}

/// Number of the first VC of a block.
#[inline]
fn first_of_block<const V: usize>(index: usize) -> usize {
    index & !(PORTS * V - 1)
}

/// Marks an input VC as ready for the switch if it has a flit, an output VC and a credit.
#[inline]
fn request_switch<const V: usize>(
    condition: bool,
    in_ports: &mut [InPort],
    ready: &mut [u64],
    index: usize,
) {
    let port = index / V;
    in_ports[port].ready |= u32::from(condition) << (index % V);
    ready[port / PORTS] |= u64::from(condition) << (port % PORTS);
}
