//! The first phase of a cycle: what has been under way arrives.

use super::super::routing::Order;
use super::super::topology::Axis;
use super::Network;
use super::state::{Flit, NONE, PORTS};

impl Network {
    /// Flits enter buffers, credits are counted, tails reach endpoints, heads are routed.
    pub(super) fn arrive(&mut self) {
        let now = self.now;
        let credits = self.credits.take(now);
        for &out_vc in &credits {
            self.credit_arrives(out_vc as usize);
        }
        self.credits.put_back(now, credits);

        let flits = self.flits.take(now);
        for &(in_vc, flit) in &flits {
            self.flit_arrives(in_vc as usize, flit);
        }
        self.flits.put_back(now, flits);

        let heads = self.heads.take(now);
        for &in_vc in &heads {
            self.route(in_vc as usize);
        }
        self.heads.put_back(now, heads);

        let tails = self.tails.take(now);
        for &packet in &tails {
            self.deliver(packet);
        }
        self.tails.put_back(now, tails);
    }

    #[inline]
    fn credit_arrives(&mut self, index: usize) {
        let out_vc = &mut self.out_vcs[index];
        debug_assert!(out_vc.credits < self.buffer_flits);
        out_vc.credits += 1;
        let (credits, owner) = (out_vc.credits, out_vc.owner);
        let bit = 1 << (index & self.vc_mask());
        let port = &mut self.out_ports[index >> self.vc_shift];
        port.credit |= bit;
        port.empty |= if credits == self.buffer_flits { bit } else { 0 };
        if credits == 1 && owner != NONE && self.in_vcs[owner as usize].len > 0 {
            self.request_switch(owner as usize);
        }
    }

    #[inline]
    fn flit_arrives(&mut self, index: usize, flit: Flit) {
        let in_vc = &mut self.in_vcs[index];
        debug_assert!(in_vc.len < self.buffer_flits, "a flit came without a credit");
        let mask = (1usize << self.buffer_shift) - 1;
        let place = (usize::from(in_vc.head) + usize::from(in_vc.len)) & mask;
        self.buffers[(index << self.buffer_shift) + place] = flit;
        in_vc.len += 1;
        if in_vc.len > 1 {
            return;
        }
        if !in_vc.active {
            let lookahead = in_vc.lookahead;
            self.head_at_front(index, lookahead);
        } else if self.out_vcs[in_vc.out_vc as usize].credits > 0 {
            self.request_switch(index);
        }
    }

    /// A head flit that has just arrived takes a cycle for RC, unless that was done upstream.
    #[inline]
    fn head_at_front(&mut self, index: usize, lookahead: bool) {
        if lookahead {
            self.route(index);
        } else {
            self.heads.push(self.now + 1, index as u32);
        }
    }

    /// Looks up where the packet at the front of an input VC goes, and asks for an output VC.
    #[inline(always)]
    fn route(&mut self, index: usize) {
        let in_vc = &mut self.in_vcs[index];
        let flit = self.buffers[(index << self.buffer_shift) + usize::from(in_vc.head)];
        let route = &mut self.slab.routes[(flit >> 1) as usize];
        let port = index >> self.vc_shift;
        let number = port >> self.port_shift;
        let order = if route.yx { Order::Yx } else { Order::Xy };
        let hop = self.tables.hop(order, number, route.dst.into());
        let out = (number << self.port_shift) + hop.port();
        route.hops = route.hops.saturating_add(u8::from(!hop.ejects()));
        if self.routers[number].edge && route.from_directory {
            let axes = (self.axes[port], self.axes[out]);
            let turn = matches!(axes, (Axis::X, Axis::Y) | (Axis::Y, Axis::X));
            self.stats.directory_turns_at_edge += u64::from(turn);
        }
        in_vc.allowed = self.tables.allowed(route.vnet.into(), order, hop, route.hash);
        in_vc.out = (out % PORTS) as u8;
        self.in_ports[port].waiting |= 1 << (index & self.vc_mask());
        self.waiting[port / PORTS] |= 1 << (port % PORTS);
    }

    /// Marks an input VC, which has a flit, an output VC and a credit, as ready for the switch.
    #[inline]
    fn request_switch(&mut self, index: usize) {
        let port = index >> self.vc_shift;
        self.in_ports[port].ready |= 1 << (index & self.vc_mask());
        self.ready[port / PORTS] |= 1 << (port % PORTS);
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
