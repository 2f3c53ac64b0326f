//! The first phase of a cycle: flits and credits under way arrive.

use super::super::topology::Axis;
use super::Network;
use super::state::{Block, NOBODY, OutPort, OutVc, PORTS};

impl Network {
    /// Flits enter buffers, credits are counted, tails reach endpoints, heads are routed.
    pub(super) fn arrive<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        self.credits_arrive(blocks);
        self.source_credits_arrive::<V>();
        self.flits_arrive(blocks);
        self.route(blocks);
        for at in 0..self.tails.events(self.now).len() {
            self.deliver(self.tails.events(self.now)[at]);
        }
        self.tails.clear(self.now);
    }

    fn credits_arrive<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        let [credits, _] = &mut self.credits;
        for &index in credits.events(self.now) {
            let (number, out, vc) = parts::<V>(index);
            let block = &mut blocks[number];
            let out_vc = &mut block.out_vcs[out][vc];
            // Read first: a load of what was just stored in part would wait for the store.
            let owner = usize::from(out_vc.owner);
            add_credit(&mut block.out_ports[out], out_vc, vc, self.buffer_flits);
            let input = owner / V % PORTS;
            let is_owned = owner != usize::from(NOBODY);
            block.in_ports[input].able |= u32::from(is_owned) << (owner % V);
            block.request_switch(input);
        }
        credits.clear(self.now);
    }

    fn source_credits_arrive<const V: usize>(&mut self) {
        let [_, credits] = &mut self.credits;
        for &index in credits.events(self.now) {
            let (source, vc) = (index as usize / V, index as usize % V);
            let out_vc = &mut self.source_vcs[index as usize];
            add_credit(&mut self.source_ports[source], out_vc, vc, self.buffer_flits);
            self.active_sources[source / 64] |=
                u64::from(self.pending[source] != 0) << (source % 64);
        }
        credits.clear(self.now);
    }

    fn flits_arrive<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        for &index in self.flits.events(self.now) {
            let (number, input, vc) = parts::<V>(index);
            let block = &mut blocks[number];
            let (in_vc, in_port) = (&mut block.in_vcs[input][vc], &mut block.in_ports[input]);
            debug_assert!(in_vc.len < self.buffer_flits, "a flit came without a credit");
            let at = self.now + u64::from(in_port.routing_delay);
            self.heads.push_if(in_vc.awaits_head(), at, index);
            in_vc.len += 1;
            in_port.filled |= 1 << vc;
            block.request_switch(input);
        }
        self.flits.clear(self.now);
    }

    /// Looks up where the packets at the front of input VCs go, and asks for output VCs.
    fn route<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        let routes = &mut self.slab.routes[..];
        for &index in self.heads.events(self.now) {
            let (number, input, vc) = parts::<V>(index);
            let line = &mut self.packets.lines[index as usize];
            let route = &mut routes[line.front as usize];
            let port = number * PORTS + input;
            let at = usize::from(self.router_of[port]);
            let router = &self.routers[at];
            let mut hop = self.tables.hop_of(route.column, at);
            if self.tables.keeps_class() {
                let second = self.tables.is_second(route.vnet.into(), vc);
                // A bit of its hash for each dimension.
                let back = route.hash >> (hop.port() / 2 % 4) & 1 != 0;
                let input = port - router.first as usize;
                hop = self.tables.resolve(&self.topology, hop, (input, second), back);
            }
            let out = router.first as usize + hop.port();
            route.hops = route.hops.saturating_add(u8::from(!hop.ejects()));
            if router.edge && route.from_directory {
                let axes = (self.axes[port], self.axes[out]);
                let turn = matches!(axes, (Axis::X, Axis::Y) | (Axis::Y, Axis::X));
                self.stats.directory_turns_at_edge += u64::from(turn);
            }
            line.allowed = self.tables.allowed(route.vnet.into(), route.order, hop, route.hash);
            line.vnet = route.vnet;
            line.waits_since = self.now as u32;
            let block = &mut blocks[number];
            let in_vc = &mut block.in_vcs[input][vc];
            in_vc.out = (out % PORTS) as u8;
            in_vc.left = route.flits;
            block.in_ports[input].waiting |= 1 << vc;
            block.waiting |= 1 << input;
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

/// Block, port in it, and VC.
#[inline]
fn parts<const V: usize>(index: u32) -> (usize, usize, usize) {
    let index = index as usize;
    (index / (PORTS * V), index / V % PORTS, index % V)
}

/// An output VC has a place more downstream.
#[inline]
fn add_credit(out_port: &mut OutPort, out_vc: &mut OutVc, vc: usize, full: u8) {
    debug_assert!(out_vc.credits < full);
    out_vc.credits += 1;
    out_port.credit |= 1 << vc;
    out_port.empty |= u32::from(out_vc.credits == full) << vc;
}
