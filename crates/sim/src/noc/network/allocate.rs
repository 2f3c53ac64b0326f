//! The third phase of a cycle: routers give output VCs to heads and the switch to flits.
//!
//! A router without look-ahead serves the switch first and VCs after it, so that a head needs a cycle
//! for each. A router with look-ahead is speculative: heads that have just got a VC compete for the
//! inputs and outputs that the others have left.

use super::state::{
    Flit, InPort, InVc, NONE, OutPort, OutVc, Route, RouterState, rotate, rotate64,
};
use super::wheel::Wheel;
use super::{Bits, Network};
use crate::engine::Cycle;

impl Network {
    pub(super) fn allocate(&mut self) {
        for word in 0..self.active.len() {
            for bit in Bits(self.active[word]) {
                if !self.allocate_router(word * 64 + bit) {
                    self.active[word] &= !(1 << bit);
                }
            }
        }
    }

    /// A router's cycle; whether it still has something to allocate.
    pub(super) fn allocate_router(&mut self, router: usize) -> bool {
        let (ports, vcs, shift) = (self.ports, self.vcs, self.buffer_shift);
        let base = router * ports;
        let (first, end) = (base * vcs, (base + ports) * vcs);
        let mut part = Part {
            now: self.now,
            vcs,
            shift,
            first_vc: first,
            router: &mut self.routers[router],
            in_ports: &mut self.in_ports[base..base + ports],
            out_ports: &mut self.out_ports[base..base + ports],
            in_vcs: &mut self.in_vcs[first..end],
            out_vcs: &mut self.out_vcs[first..end],
            buffers: &self.buffers[first << shift..end << shift],
            flits_by_output: &mut self.stats.flits_by_output[base..base + ports],
        };
        let mut outbox = Outbox {
            flits: &mut self.flits,
            credits: &mut self.credits,
            heads: &mut self.heads,
            tails: &mut self.tails,
        };
        let mut taken = Taken { inputs: 0, outputs: 0 };
        if part.router.ready != 0 {
            part.allocate_switch(&mut taken, &mut outbox);
        }
        if part.router.waiting != 0 {
            let mut room =
                Room { slots: &mut self.slots, routes: &self.slab.routes, vnets: self.vnets };
            if part.allocate_vcs(&mut room) && part.router.lookahead {
                part.allocate_switch(&mut taken, &mut outbox);
            }
        }
        part.router.ready | part.router.waiting != 0
    }
}

/// Inputs and outputs that have sent in this cycle.
struct Taken {
    inputs: u64,
    outputs: u64,
}

/// Where effects in later cycles go.
struct Outbox<'a> {
    flits: &'a mut Wheel<(u32, Flit)>,
    credits: &'a mut Wheel<u32>,
    heads: &'a mut Wheel<u32>,
    tails: &'a mut Wheel<u32>,
}

/// The room that delivery queues have.
struct Room<'a> {
    slots: &'a mut [u32],
    routes: &'a [Route],
    vnets: usize,
}

/// The arrays' part that belongs to one router, so that indices are short.
struct Part<'a> {
    now: Cycle,
    vcs: usize,
    shift: u32,
    /// Number of its first VC among all.
    first_vc: usize,
    router: &'a mut RouterState,
    in_ports: &'a mut [InPort],
    out_ports: &'a mut [OutPort],
    in_vcs: &'a mut [InVc],
    out_vcs: &'a mut [OutVc],
    buffers: &'a [Flit],
    flits_by_output: &'a mut [u64],
}

impl Part<'_> {
    /// Every input asks for one of its ready VCs, every output grants to one of the inputs that ask.
    #[inline(always)]
    fn allocate_switch(&mut self, taken: &mut Taken, outbox: &mut Outbox) {
        let mut asked = 0u64;
        for input in Bits(self.router.ready & !taken.inputs) {
            let port = &mut self.in_ports[input];
            let Some(vc) = rotate(port.ready, port.next_vc) else { continue };
            let out = self.in_vcs[input * self.vcs + usize::from(vc)].out;
            if taken.outputs & 1 << out == 0 {
                port.asks = vc;
                self.out_ports[usize::from(out)].asked |= 1 << input;
                asked |= 1 << out;
            }
        }
        taken.outputs |= asked;
        for out in Bits(asked) {
            let port = &mut self.out_ports[out];
            let input = rotate64(std::mem::take(&mut port.asked), port.next_input);
            port.next_input = (input as u8 + 1) & 63;
            taken.inputs |= 1 << input;
            self.traverse(input, out, outbox);
        }
    }

    /// Sends the front flit of the VC for which this input has asked.
    #[inline(always)]
    fn traverse(&mut self, input: usize, out: usize, outbox: &mut Outbox) {
        let in_port = &mut self.in_ports[input];
        let vc = in_port.asks;
        in_port.next_vc = vc + 1;
        let index = input * self.vcs + usize::from(vc);
        let in_vc = &mut self.in_vcs[index];
        let flit = self.buffers[(index << self.shift) + usize::from(in_vc.head)];
        in_vc.len -= 1;
        let (more, tail) = (in_vc.len > 0, flit & 1 != 0);
        // An empty ring starts anew, so that few flits need few cache lines.
        let next = (in_vc.head + 1) & ((1u32 << self.shift) - 1) as u8;
        in_vc.head = if more { next } else { 0 };
        outbox.credits.push(self.now + u64::from(in_vc.credit_delay), in_vc.upstream);
        self.flits_by_output[out] += 1;

        let port = &mut self.out_ports[out];
        let out_vc = &mut self.out_vcs[in_vc.out_vc as usize - self.first_vc];
        let (at, bit) = (self.now + u64::from(port.delay), 1u32 << out_vc.vc);
        let mut ready = more && !tail;
        if port.endpoint == NONE {
            out_vc.credits -= 1;
            port.empty &= !bit;
            if out_vc.credits == 0 {
                port.credit &= !bit;
                ready = false;
            }
            outbox.flits.push(at, (port.downstream + u32::from(out_vc.vc), flit));
        } else if tail {
            outbox.tails.push(at, flit >> 1);
        }
        if tail {
            in_vc.active = false;
            out_vc.owner = NONE;
            port.free |= bit;
            if more {
                let routing = if self.router.lookahead { 1 } else { 2 };
                outbox.heads.push(self.now + routing, (self.first_vc + index) as u32);
            }
        }
        if !ready {
            in_port.ready &= !(1 << vc);
            if in_port.ready == 0 {
                self.router.ready &= !(1 << input);
            }
        }
    }

    /// Gives free output VCs to waiting heads; whether any got one that has a credit.
    #[inline(always)]
    fn allocate_vcs(&mut self, room: &mut Room) -> bool {
        let mut any = false;
        let mut inputs = self.router.waiting;
        // Those from the pointer on come first, then the others; it moves on in every cycle.
        let mut input = rotate64(inputs, self.router.next_waiting);
        self.router.next_waiting = (input as u8 + 1) & 63;
        loop {
            inputs &= !(1 << input);
            any |= self.allocate_vcs_of(input, room);
            if inputs == 0 {
                return any;
            }
            input = rotate64(inputs, input as u8);
        }
    }

    /// Gives free output VCs to the waiting heads of an input.
    #[inline(always)]
    fn allocate_vcs_of(&mut self, input: usize, room: &mut Room) -> bool {
        let in_port = &mut self.in_ports[input];
        let mut any = false;
        for vc in Bits(in_port.waiting.into()) {
            let index = input * self.vcs + vc;
            let in_vc = &mut self.in_vcs[index];
            let out = usize::from(in_vc.out);
            let port = &mut self.out_ports[out];
            let Some(out_vc) = port.choose_vc(in_vc.allowed) else { continue };
            if port.endpoint != NONE {
                let flit = self.buffers[(index << self.shift) + usize::from(in_vc.head)];
                if !room.reserve(port.endpoint, flit >> 1) {
                    continue;
                }
            }
            port.next_vc = out_vc + 1;
            port.free &= !(1 << out_vc);
            in_port.waiting &= !(1 << vc);
            let held = out * self.vcs + usize::from(out_vc);
            self.out_vcs[held].owner = (self.first_vc + index) as u32;
            in_vc.active = true;
            in_vc.out_vc = (self.first_vc + held) as u32;
            if port.credit & 1 << out_vc != 0 {
                in_port.ready |= 1 << vc;
                self.router.ready |= 1 << input;
                any = true;
            }
        }
        if in_port.waiting == 0 {
            self.router.waiting &= !(1 << input);
        }
        any
    }
}

impl Room<'_> {
    /// Reserves a place in the delivery queue of a packet's virtual network.
    fn reserve(&mut self, endpoint: u32, packet: u32) -> bool {
        let vnet = usize::from(self.routes[packet as usize].vnet);
        let slots = &mut self.slots[endpoint as usize * self.vnets + vnet];
        if *slots == 0 {
            return false;
        }
        *slots -= 1;
        true
    }
}
