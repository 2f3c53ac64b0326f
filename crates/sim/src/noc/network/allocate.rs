//! The third phase of a cycle: routers give output VCs to heads and the switch to flits.
//!
//! A router without look-ahead serves the switch first and VCs after it, so that a head needs a cycle
//! for each. A router with look-ahead is speculative: heads that have just got a VC compete for the
//! inputs and outputs that the others have left.

use super::source::{rotate, rotate64};
use super::state::NONE;
use super::{Bits, Network};

impl Network {
    pub(super) fn allocate(&mut self) {
        for word in 0..self.active.len() {
            for bit in Bits(self.active[word]) {
                let router = word * 64 + bit;
                let mut taken = Taken { inputs: 0, outputs: 0 };
                self.allocate_switch(router, &mut taken);
                if self.waiting_outputs[router] != 0 {
                    let granted = self.allocate_vcs(router);
                    if granted && self.lookahead[router] {
                        self.allocate_switch(router, &mut taken);
                    }
                }
                if self.ready_outputs[router] | self.waiting_outputs[router] == 0 {
                    self.active[word] &= !(1 << bit);
                }
            }
        }
    }

    /// Every output grants to an input, every input accepts an output: iSLIP with one iteration.
    fn allocate_switch(&mut self, router: usize, taken: &mut Taken) {
        let base = router * self.ports;
        let mut granted = 0u64;
        for out in Bits(self.ready_outputs[router] & !taken.outputs) {
            let port = &self.out_ports[base + out];
            let requests = port.ready & !taken.inputs;
            if requests != 0 {
                let input = rotate64(requests, port.next_input);
                self.grants[input] |= 1 << out;
                granted |= 1 << input;
            }
        }
        for input in Bits(granted) {
            let offers = std::mem::take(&mut self.grants[input]);
            let out = rotate64(offers, self.next_output[base + input]);
            self.next_output[base + input] = self.after(out);
            self.out_ports[base + out].next_input = self.after(input);
            taken.inputs |= 1 << input;
            taken.outputs |= 1 << out;
            self.traverse(base, router, input, out);
        }
    }

    /// The port after this one, round robin.
    #[inline]
    fn after(&self, port: usize) -> u8 {
        if port + 1 < self.ports { port as u8 + 1 } else { 0 }
    }

    /// Sends the front flit of one of the ready VCs of this input to this output.
    #[inline]
    fn traverse(&mut self, base: usize, router: usize, input: usize, out: usize) {
        let request = (base + out) * self.ports + input;
        let first = (base + input) * self.vcs;
        let Some(vc) = rotate(self.ready[request], self.next_in_vc[base + input]) else { return };
        self.next_in_vc[base + input] = vc + 1;
        let index = first + usize::from(vc);
        let in_vc = &mut self.in_vcs[index];
        let flit = self.buffers[(index << self.buffer_shift) + usize::from(in_vc.head)];
        in_vc.head = (in_vc.head + 1) & ((1u32 << self.buffer_shift) - 1) as u8;
        in_vc.len -= 1;
        let more = in_vc.len > 0;
        let tail = flit & 1 != 0;
        self.credits.push(self.now + u64::from(in_vc.credit_delay), in_vc.upstream);
        self.stats.flits_by_output[base + out] += 1;

        let port = &mut self.out_ports[base + out];
        let out_vc = &mut self.out_vcs[in_vc.out_vc as usize];
        let at = self.now + u64::from(port.delay);
        let mut ready = more && !tail;
        if port.endpoint == NONE {
            out_vc.credits -= 1;
            if out_vc.credits == 0 {
                port.credit &= !(1 << out_vc.vc);
                ready = false;
            }
            self.flits.push(at, (port.downstream + u32::from(out_vc.vc), flit));
        } else if tail {
            self.tails.push(at, flit >> 1);
        }
        if tail {
            in_vc.active = false;
            out_vc.owner = NONE;
            port.free |= 1 << out_vc.vc;
            if more {
                let routing = if self.lookahead[router] { 1 } else { 2 };
                self.heads.push(self.now + routing, index as u32);
            }
        }
        if !ready {
            self.ready[request] &= !(1 << vc);
            if self.ready[request] == 0 {
                port.ready &= !(1 << input);
                if port.ready == 0 {
                    self.ready_outputs[router] &= !(1 << out);
                }
            }
        }
    }

    /// Gives free output VCs to waiting heads; whether any got one that has a credit.
    fn allocate_vcs(&mut self, router: usize) -> bool {
        let mut any = false;
        for out in Bits(self.waiting_outputs[router]) {
            let output = router * self.ports + out;
            let port = &self.out_ports[output];
            if port.free == 0 {
                continue;
            }
            let (waiting, from) = (port.waiting, port.next_waiting);
            let later = waiting >> from << from;
            for inputs in [later, waiting & !later] {
                for input in Bits(inputs) {
                    any |= self.allocate_vcs_to(output, input);
                }
            }
            if self.out_ports[output].waiting == 0 {
                self.waiting_outputs[router] &= !(1 << out);
            }
        }
        any
    }

    /// Gives free VCs of an output to the waiting heads of an input.
    fn allocate_vcs_to(&mut self, output: usize, input: usize) -> bool {
        let request = output * self.ports + input;
        let first = (output - output % self.ports + input) * self.vcs;
        let mut any = false;
        for vc in Bits(self.waiting[request].into()) {
            let index = first + vc;
            let port = &mut self.out_ports[output];
            let free = self.in_vcs[index].allowed & port.free;
            // A VC that can go on at once is worth more than one that has to wait for a credit.
            let best = if free & port.credit != 0 { free & port.credit } else { free };
            let Some(out_vc) = rotate(best, port.next_vc) else { continue };
            if port.endpoint != NONE && !self.reserve_delivery(output, index) {
                continue;
            }
            let port = &mut self.out_ports[output];
            port.next_vc = out_vc + 1;
            port.next_waiting = if input + 1 < self.ports { input as u8 + 1 } else { 0 };
            port.free &= !(1 << out_vc);
            let credit = port.credit & 1 << out_vc != 0;
            self.waiting[request] &= !(1 << vc);
            if self.waiting[request] == 0 {
                port.waiting &= !(1 << input);
            }
            let held = output * self.vcs + usize::from(out_vc);
            self.out_vcs[held].owner = index as u32;
            self.in_vcs[index].active = true;
            self.in_vcs[index].out_vc = held as u32;
            if credit {
                self.request_switch(index);
                any = true;
            }
        }
        any
    }

    /// Reserves a place in the delivery queue for the packet at the front of this input VC.
    fn reserve_delivery(&mut self, output: usize, index: usize) -> bool {
        let in_vc = &self.in_vcs[index];
        let flit = self.buffers[(index << self.buffer_shift) + usize::from(in_vc.head)];
        let vnet = usize::from(self.slab.routes[(flit >> 1) as usize].vnet);
        let slots = &mut self.slots[self.out_ports[output].endpoint as usize * self.vnets + vnet];
        if *slots == 0 {
            return false;
        }
        *slots -= 1;
        true
    }
}

/// Inputs and outputs that the switch has been given for, in this cycle.
struct Taken {
    inputs: u64,
    outputs: u64,
}
