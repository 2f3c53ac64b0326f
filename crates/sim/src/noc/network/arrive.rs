//! The first phase of a cycle: flits and credits under way arrive.

use super::crossing::{Entering, Inward};
use super::routers::Routers;
use super::state::{Block, InVc, NOBODY, PORTS, add_credit};

impl Routers {
    /// Flits enter buffers, credits are counted, heads are routed.
    pub(super) fn arrive<const V: usize>(&mut self, blocks: &mut [Block<V>], inward: &mut Inward) {
        self.enter(blocks, inward);
        self.credits_arrive(blocks);
        self.flits_arrive(blocks);
        self.route(blocks);
    }

    /// Packets and flits of the ends are on their way, places of packets that were taken are free.
    fn enter<const V: usize>(&mut self, blocks: &mut [Block<V>], inward: &mut Inward) {
        for &Entering { vc, packet, route } in &inward.packets {
            let index = packet as usize;
            if index >= self.routes.len() {
                self.routes.resize(index + 1, route);
            }
            self.routes[index] = route;
            self.packets.push(vc as usize, packet);
        }
        inward.packets.clear();
        self.flits.append(inward.arrive_at, inward.flits.events());
        inward.flits.clear();
        for &(endpoint, queue) in &inward.taken {
            let exit = self.exits[usize::from(endpoint)] as usize;
            self.slots[self.vnets + queue as usize] += 1;
            blocks[exit / PORTS].unpark(exit % PORTS);
        }
        inward.taken.clear();
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

    fn flits_arrive<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        for &index in self.flits.events(self.now) {
            let (number, input, vc) = parts::<V>(index);
            let block = &mut blocks[number];
            let (in_vc, in_port) = (&mut block.in_vcs[input][vc], &mut block.in_ports[input]);
            debug_assert!(in_vc.len < self.buffer_flits, "a flit came without a credit");
            let at = self.now + u64::from(in_port.routing_delay);
            self.heads.push_if(in_vc.awaits_head(), at, index);
            *in_vc = InVc { len: in_vc.len + 1, ..*in_vc };
            in_port.filled |= 1 << vc;
            block.request_switch(input);
        }
        self.flits.clear(self.now);
    }

    /// Looks up where the packets at the front of input VCs go, and asks for output VCs.
    fn route<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        let routes = &mut self.routes[..];
        for &index in self.heads.events(self.now) {
            let (number, input, vc) = parts::<V>(index);
            let line = &mut self.packets.lines[index as usize];
            let route = &mut routes[line.front as usize];
            let port = number * PORTS + input;
            let at = usize::from(self.router_of[port]);
            let router = &self.states[at];
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
            let turns = self.axes[port].turns_into(self.axes[out]);
            self.directory_turns_at_edge += u64::from(router.edge & route.from_directory & turns);
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
}

/// Block, port in it, and VC.
#[inline]
fn parts<const V: usize>(index: u32) -> (usize, usize, usize) {
    let index = index as usize;
    (index / (PORTS * V), index / V % PORTS, index % V)
}
