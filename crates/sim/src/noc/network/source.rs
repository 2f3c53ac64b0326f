//! Endpoints send, each at most one flit.

use super::super::spec::Allocator;
use super::Bits;
use super::crossing::Entering;
use super::ends::Ends;
use crate::engine::Cycle;

impl Ends {
    pub(super) fn inject(&mut self, now: Cycle) {
        self.crossing.inward.arrive_at = now + self.injection_delay;
        for word in 0..self.active_sources.len() {
            for bit in Bits(self.active_sources[word]) {
                let endpoint = word * 64 + bit;
                // Without a credit it rests until one arrives.
                if !self.inject_flit(endpoint, now) || self.pending[endpoint] == 0 {
                    self.active_sources[word] &= !(1 << bit);
                }
            }
        }
    }

    /// Sends a flit of the next source queue that can send one, if there is any.
    fn inject_flit(&mut self, endpoint: usize, now: Cycle) -> bool {
        (0..self.classes.len()).any(|class| self.inject_of(endpoint, self.classes[class], now))
    }

    /// Sends a flit of one of these virtual networks, in turn.
    fn inject_of(&mut self, endpoint: usize, vnets: u32, now: Cycle) -> bool {
        let pending = self.pending[endpoint] & vnets;
        let later = pending & (u32::MAX << self.next_vnet[endpoint]);
        for vnets in [later, pending & !later] {
            for vnet in Bits(vnets.into()) {
                if self.inject_from(endpoint, vnet, now) {
                    self.next_vnet[endpoint] =
                        if vnet + 1 < self.vnets { vnet as u8 + 1 } else { 0 };
                    return true;
                }
            }
        }
        false
    }

    fn inject_from(&mut self, endpoint: usize, lane: usize, now: Cycle) -> bool {
        let queue = endpoint * self.vnets + lane;
        let starts = self.sending[queue].flits_left == 0;
        if starts && !self.start_packet(endpoint, queue, now) {
            return false;
        }
        let sending = &mut self.sending[queue];
        let vc = endpoint * self.stride + usize::from(sending.vc);
        let out_vc = &mut self.vcs[vc];
        if out_vc.credits == 0 {
            return false;
        }
        out_vc.credits -= 1;
        let port = &mut self.ports[endpoint];
        port.empty &= !(1 << sending.vc);
        if out_vc.credits == 0 {
            port.credit &= !(1 << sending.vc);
        }
        sending.flits_left -= 1;
        let tail = sending.flits_left == 0;
        let vnet = usize::from(sending.vnet);
        let in_vc = self.entrances[endpoint] + u32::from(sending.vc);
        self.crossing.inward.flits.push_if(true, in_vc);
        if tail && self.sources[queue].len == 0 {
            self.pending[endpoint] &= !(1 << lane);
        }
        self.counts[vnet].flits_injected += 1;
        true
    }

    /// Takes the next packet of a source queue, if there is a VC with a credit for it.
    fn start_packet(&mut self, endpoint: usize, queue: usize, now: Cycle) -> bool {
        let id = self.sources[queue].first;
        let route = self.slab.routes[id as usize];
        let vnet = route.vnet;
        let allowed = self.tables.at_source(vnet.into(), route.hash);
        let port = &mut self.ports[endpoint];
        let chosen = match self.allocator {
            Allocator::OneRequest => {
                let vcs = allowed & port.credit & port.free;
                (vcs != 0).then(|| port.best_of(vcs) as u8)
            }
            Allocator::Islip => port.next_of(allowed & port.credit),
        };
        let Some(vc) = chosen else { return false };
        port.next_vc = vc + 1;
        self.slab.pop(&mut self.sources[queue]);
        let entry = &mut self.slab.entries[id as usize];
        entry.injected = now;
        let entrance = self.entrances[endpoint] + u32::from(vc);
        self.crossing.inward.packets.push(Entering { vc: entrance, packet: id, route });
        let sending = &mut self.sending[queue];
        sending.flits_left = entry.packet.flits;
        sending.vc = vc;
        sending.vnet = vnet;
        true
    }
}
