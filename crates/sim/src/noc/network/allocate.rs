//! The third phase of a cycle: routers give output VCs to heads and the switch to flits.
//!
//! A router without look-ahead serves the switch first and VCs after it, so that a head needs a cycle
//! for each. A router with look-ahead is speculative: heads that have just got a VC compete for the
//! inputs and outputs that the others have left.

use super::state::{Flit, InPort, InVc, NONE, OutPort, OutVc, Route, rotate, rotate64};
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
    fn allocate_router(&mut self, router: usize) -> bool {
        let (ports, vcs, shift) = (self.ports, self.vcs, self.buffer_shift);
        let base = router * ports;
        let (first, end) = (base * vcs, (base + ports) * vcs);
        let pairs = base * ports..(base + ports) * ports;
        let mut part = Part {
            now: self.now,
            ports,
            vcs,
            shift,
            lookahead: self.lookahead[router],
            first_vc: first,
            in_ports: &mut self.in_ports[base..base + ports],
            out_ports: &mut self.out_ports[base..base + ports],
            in_vcs: &mut self.in_vcs[first..end],
            out_vcs: &mut self.out_vcs[first..end],
            buffers: &self.buffers[first << shift..end << shift],
            ready: &mut self.ready[pairs.clone()],
            waiting: &mut self.waiting[pairs],
            flits_by_output: &mut self.stats.flits_by_output[base..base + ports],
            ready_outputs: self.ready_outputs[router],
            waiting_outputs: self.waiting_outputs[router],
            taken_inputs: 0,
            taken_outputs: 0,
        };
        let mut outbox = Outbox {
            flits: &mut self.flits,
            credits: &mut self.credits,
            heads: &mut self.heads,
            tails: &mut self.tails,
        };
        let mut room =
            Room { slots: &mut self.slots, routes: &self.slab.routes, vnets: self.vnets };
        if part.ready_outputs != 0 {
            part.allocate_switch(&mut outbox);
        }
        if part.waiting_outputs != 0 && part.allocate_vcs(&mut room) && part.lookahead {
            part.allocate_switch(&mut outbox);
        }
        let (ready, waiting) = (part.ready_outputs, part.waiting_outputs);
        self.ready_outputs[router] = ready;
        self.waiting_outputs[router] = waiting;
        ready | waiting != 0
    }
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

/// The arrays' part that belongs to one router, so that indices are short and checked once.
struct Part<'a> {
    now: Cycle,
    ports: usize,
    vcs: usize,
    shift: u32,
    lookahead: bool,
    /// Number of its first VC among all.
    first_vc: usize,
    in_ports: &'a mut [InPort],
    out_ports: &'a mut [OutPort],
    in_vcs: &'a mut [InVc],
    out_vcs: &'a mut [OutVc],
    buffers: &'a [Flit],
    ready: &'a mut [u32],
    waiting: &'a mut [u32],
    flits_by_output: &'a mut [u64],
    ready_outputs: u64,
    waiting_outputs: u64,
    /// Inputs and outputs that have sent in this cycle.
    taken_inputs: u64,
    taken_outputs: u64,
}

impl Part<'_> {
    /// Every output grants to an input, every input accepts an output: iSLIP with one iteration.
    #[inline(always)]
    fn allocate_switch(&mut self, outbox: &mut Outbox) {
        let mut granted = 0u64;
        for out in Bits(self.ready_outputs & !self.taken_outputs) {
            let port = &self.out_ports[out];
            let requests = port.ready & !self.taken_inputs;
            if requests != 0 {
                let input = rotate64(requests, port.next_input);
                self.in_ports[input].grants |= 1 << out;
                granted |= 1 << input;
            }
        }
        for input in Bits(granted) {
            let port = &mut self.in_ports[input];
            let out = rotate64(std::mem::take(&mut port.grants), port.next_output);
            port.next_output = after(out, self.ports);
            self.out_ports[out].next_input = after(input, self.ports);
            self.taken_inputs |= 1 << input;
            self.taken_outputs |= 1 << out;
            self.traverse(input, out, outbox);
        }
    }

    /// Sends the front flit of one of the ready VCs of this input to this output.
    #[inline(always)]
    fn traverse(&mut self, input: usize, out: usize, outbox: &mut Outbox) {
        let request = &mut self.ready[out * self.ports + input];
        let in_port = &mut self.in_ports[input];
        let Some(vc) = rotate(*request, in_port.next_vc) else { return };
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
                let routing = if self.lookahead { 1 } else { 2 };
                outbox.heads.push(self.now + routing, (self.first_vc + index) as u32);
            }
        }
        if !ready {
            *request &= !(1 << vc);
            if *request == 0 {
                port.ready &= !(1 << input);
                if port.ready == 0 {
                    self.ready_outputs &= !(1 << out);
                }
            }
        }
    }

    /// Gives free output VCs to waiting heads; whether any got one that has a credit.
    #[inline(always)]
    fn allocate_vcs(&mut self, room: &mut Room) -> bool {
        let mut any = false;
        for out in Bits(self.waiting_outputs) {
            let port = &self.out_ports[out];
            if port.free == 0 {
                continue;
            }
            // Those from the pointer on come first, then the others.
            let start = rotate64(port.waiting, port.next_waiting);
            let mut inputs = port.waiting;
            let mut input = start;
            while inputs != 0 {
                inputs &= !(1 << input);
                any |= self.allocate_vcs_to(out, input, room);
                if inputs != 0 {
                    input = rotate64(inputs, input as u8);
                }
            }
            if self.out_ports[out].waiting == 0 {
                self.waiting_outputs &= !(1 << out);
            }
        }
        any
    }

    /// Gives free VCs of an output to the waiting heads of an input.
    #[inline(always)]
    fn allocate_vcs_to(&mut self, out: usize, input: usize, room: &mut Room) -> bool {
        let request = &mut self.waiting[out * self.ports + input];
        let port = &mut self.out_ports[out];
        let mut any = false;
        for vc in Bits((*request).into()) {
            let index = input * self.vcs + vc;
            let in_vc = &mut self.in_vcs[index];
            let Some(out_vc) = port.choose_vc(in_vc.allowed) else { continue };
            if port.endpoint != NONE {
                let flit = self.buffers[(index << self.shift) + usize::from(in_vc.head)];
                if !room.reserve(port.endpoint, flit >> 1) {
                    continue;
                }
            }
            port.next_vc = out_vc + 1;
            port.next_waiting = after(input, self.ports);
            port.free &= !(1 << out_vc);
            *request &= !(1 << vc);
            let held = out * self.vcs + usize::from(out_vc);
            self.out_vcs[held].owner = (self.first_vc + index) as u32;
            in_vc.active = true;
            in_vc.out_vc = (self.first_vc + held) as u32;
            if port.credit & 1 << out_vc != 0 {
                self.ready[out * self.ports + input] |= 1 << vc;
                port.ready |= 1 << input;
                self.ready_outputs |= 1 << out;
                any = true;
            }
        }
        if *request == 0 {
            port.waiting &= !(1 << input);
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

/// The port after this one, round robin.
#[inline]
fn after(port: usize, ports: usize) -> u8 {
    if port + 1 < ports { port as u8 + 1 } else { 0 }
}
