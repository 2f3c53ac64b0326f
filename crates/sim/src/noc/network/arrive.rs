//! The first phase of a cycle: what has been under way arrives.

use super::super::topology::Axis;
use super::state::{Flit, InPort, NONE, PORTS};
use super::{Network, with_vcs};

impl Network {
    /// Flits enter buffers, credits are counted, tails reach endpoints, heads are routed.
    pub(super) fn arrive(&mut self) {
        with_vcs!(self, arrive_with());
    }

    /// The same with a port every `V` VCs.
    fn arrive_with<const V: usize>(&mut self) {
        let now = self.now;
        let credits = self.credits.take(now);
        self.credits_arrive::<V>(&credits);
        self.credits.put_back(now, credits);

        let flits = self.flits.take(now);
        self.flits_arrive::<V>(&flits);
        self.flits.put_back(now, flits);

        let heads = self.heads.take(now);
        self.route::<V>(&heads);
        self.heads.put_back(now, heads);

        let tails = self.tails.take(now);
        for &packet in &tails {
            self.deliver(packet);
        }
        self.tails.put_back(now, tails);
    }

    fn credits_arrive<const V: usize>(&mut self, credits: &[u32]) {
        let full = self.buffer_flits;
        let (in_vcs, out_vcs) = (&self.in_vcs[..], &mut self.out_vcs[..]);
        let (in_ports, out_ports) = (&mut self.in_ports[..], &mut self.out_ports[..]);
        let ready = &mut self.ready[..];
        for &index in credits {
            let index = index as usize;
            let out_vc = &mut out_vcs[index];
            debug_assert!(out_vc.credits < full);
            out_vc.credits += 1;
            let (port, bit) = (&mut out_ports[index / V], 1 << (index % V));
            port.credit |= bit;
            port.empty |= if out_vc.credits == full { bit } else { 0 };
            let owner = out_vc.owner;
            if out_vc.credits == 1 && owner != NONE && in_vcs[owner as usize].len > 0 {
                request_switch::<V>(in_ports, ready, owner as usize);
            }
        }
    }

    fn flits_arrive<const V: usize>(&mut self, flits: &[(u32, Flit)]) {
        let (shift, mask) = (self.buffer_shift, (1usize << self.buffer_shift) - 1);
        let (in_vcs, out_vcs) = (&mut self.in_vcs[..], &self.out_vcs[..]);
        let (in_ports, ready) = (&mut self.in_ports[..], &mut self.ready[..]);
        let buffers = &mut self.buffers[..];
        for &(in_vc, flit) in flits {
            let index = in_vc as usize;
            let in_vc = &mut in_vcs[index];
            debug_assert!(in_vc.len < self.buffer_flits, "a flit came without a credit");
            in_vc.len += 1;
            if in_vc.len > 1 {
                let place = (usize::from(in_vc.head) + usize::from(in_vc.len) - 2) & mask;
                buffers[(index << shift) + place] = flit;
                continue;
            }
            in_vc.front = flit;
            if !in_vc.active {
                // A head takes a cycle for RC, unless that was done upstream.
                self.heads.push(self.now + u64::from(!in_vc.lookahead), index as u32);
            } else if out_vcs[in_vc.out_vc as usize].credits > 0 {
                request_switch::<V>(in_ports, ready, index);
            }
        }
    }

    /// Looks up where the packets at the front of input VCs go, and asks for output VCs.
    fn route<const V: usize>(&mut self, heads: &[u32]) {
        let (port_shift, routes) = (self.port_shift, &mut self.slab.routes[..]);
        let (in_vcs, in_ports) = (&mut self.in_vcs[..], &mut self.in_ports[..]);
        let (routers, waiting) = (&self.routers[..], &mut self.waiting[..]);
        for &index in heads {
            let index = index as usize;
            let in_vc = &mut in_vcs[index];
            let route = &mut routes[(in_vc.front >> 1) as usize];
            let port = index / V;
            let number = port >> port_shift;
            let hop = self.tables.hop_of(route.column, number);
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

/// Marks an input VC, which has a flit, an output VC and a credit, as ready for the switch.
#[inline]
fn request_switch<const V: usize>(in_ports: &mut [InPort], ready: &mut [u64], index: usize) {
    let port = index / V;
    in_ports[port].ready |= 1 << (index % V);
    ready[port / PORTS] |= 1 << (port % PORTS);
}
