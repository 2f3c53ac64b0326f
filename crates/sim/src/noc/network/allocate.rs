//! The third phase of a cycle: routers give output VCs to heads and the switch to flits.
//!
//! Here is what both allocators share, and [`Allocator::OneRequest`]: a router that does not speculate
//! serves the switch first and VCs after it, so that a head needs a cycle for each; in one that does,
//! heads that have just got a VC compete for the inputs and outputs that the others have left. The
//! other allocator is in [`islip`](super::islip).
//!
//! Routers are served a block at a time: as many as have 64 ports, so that a set of ports is a word,
//! and one loop goes over all requests of the block. Requests never meet those of another router.

use super::super::spec::Allocator;
use super::islip::{Board, Request};
use super::state::{
    Flit, InPort, InVc, NOBODY, NONE, OutPort, OutVc, PORTS, Route, RouterState, first_from,
};
use super::wheel::Wheel;
use super::{Bits, Class, Network, with_vcs};
use crate::engine::Cycle;

impl Network {
    /// A cycle of these blocks of routers.
    pub(super) fn allocate(&mut self, blocks: impl Iterator<Item = usize>) {
        for block in blocks {
            if self.ready[block] | self.waiting[block] != 0 {
                with_vcs!(self, allocate_block(block));
            }
        }
    }

    /// A cycle of the routers of a block, with a port every `V` VCs.
    fn allocate_block<const V: usize>(&mut self, number: usize) {
        let (port_shift, buffer_shift) = (self.port_shift, self.buffer_shift);
        let vcs = number * PORTS * V..(number + 1) * PORTS * V;
        let mut block: Block<'_, V> = Block {
            now: self.now,
            buffer_mask: ((1u32 << buffer_shift) - 1) as u8,
            buffer_shift,
            first_vc: vcs.start,
            ready: self.ready[number],
            waiting: self.waiting[number],
            in_ports: &mut self.in_ports.as_chunks_mut().0[number],
            out_ports: &mut self.out_ports.as_chunks_mut().0[number],
            parked_vcs: &mut self.parked.vcs.as_chunks_mut().0[number],
            parked_inputs: &mut self.parked.inputs.as_chunks_mut().0[number],
            in_vcs: &mut self.in_vcs.as_chunks_mut().0.as_chunks_mut().0[number],
            out_vcs: &mut self.out_vcs.as_chunks_mut().0.as_chunks_mut().0[number],
            buffers: &self.buffers[vcs.start << buffer_shift..vcs.end << buffer_shift],
        };
        let mut outbox = Outbox {
            flits: &mut self.flits,
            credits: &mut self.credits,
            heads: &mut self.heads,
            tails: &mut self.tails,
        };
        let mut room =
            Room { slots: &mut self.slots, routes: &self.slab.routes, vnets: self.vnets };
        let first = (number * PORTS) >> port_shift;
        let routers = &mut self.routers[first..];
        match self.allocator {
            Allocator::OneRequest => {
                block.serve_in_turn(&self.classes, routers, port_shift, &mut room, &mut outbox);
            }
            Allocator::Islip => {
                let mut scratch = Scratch {
                    requests: &mut self.requests,
                    pointers: &mut self.vc_pointers.as_chunks_mut().0.as_chunks_mut().0[number],
                    speculative: self.speculative[number],
                    board: &mut self.board,
                };
                block.islip(&self.classes, &mut scratch, &mut room, &mut outbox);
            }
        }
        (self.ready[number], self.waiting[number]) = (block.ready, block.waiting);
    }
}

/// What iSLIP needs besides.
pub(super) struct Scratch<'a, const V: usize> {
    /// Requests of this cycle for VCs; empty in between, with room for all that there can be.
    pub requests: &'a mut Vec<Request>,
    /// By output VC: the input VC that it serves first, counted in the block.
    pub pointers: &'a mut [[u16; V]; PORTS],
    /// Inputs of routers that speculate.
    pub speculative: u64,
    /// What inputs and outputs tell each other.
    pub board: &'a mut Board,
}

/// Inputs and outputs that have sent in this cycle.
#[derive(Default)]
pub(super) struct Taken {
    pub inputs: u64,
    pub outputs: u64,
}

/// Effects in later cycles.
pub(super) struct Outbox<'a> {
    flits: &'a mut Wheel<(u32, Flit)>,
    credits: &'a mut Wheel<u32>,
    heads: &'a mut Wheel<u32>,
    tails: &'a mut Wheel<u32>,
}

/// The room that delivery queues have.
pub(super) struct Room<'a> {
    slots: &'a mut [u32],
    routes: &'a [Route],
    vnets: usize,
}

/// The arrays' part that belongs to the routers of a block.
pub(super) struct Block<'a, const V: usize> {
    pub now: Cycle,
    pub buffer_shift: u32,
    pub buffer_mask: u8,
    /// Number of its first VC among all.
    pub first_vc: usize,
    /// Inputs with a VC that is ready for the switch.
    pub ready: u64,
    /// Inputs with a head that waits for a VC.
    pub waiting: u64,
    pub in_ports: &'a mut [InPort; PORTS],
    pub out_ports: &'a mut [OutPort; PORTS],
    pub parked_vcs: &'a mut [u32; PORTS],
    pub parked_inputs: &'a mut [u64; PORTS],
    pub in_vcs: &'a mut [[InVc; V]; PORTS],
    pub out_vcs: &'a mut [[OutVc; V]; PORTS],
    pub buffers: &'a [Flit],
}

impl<const V: usize> Block<'_, V> {
    /// A cycle in which an input asks for one of its VCs.
    #[inline(always)]
    fn serve_in_turn(
        &mut self,
        classes: &[Class],
        routers: &mut [RouterState],
        port_shift: u32,
        room: &mut Room,
        outbox: &mut Outbox,
    ) {
        let mut taken = Taken::default();
        for class in classes {
            let inputs = self.ready & !taken.inputs;
            self.allocate_switch(inputs, class.vcs, &mut taken, outbox);
        }
        if self.waiting == 0 {
            return;
        }
        let fresh = self.allocate_vcs(routers, port_shift, room);
        for class in classes {
            let inputs = fresh & !taken.inputs;
            if inputs != 0 {
                self.allocate_switch(inputs, class.vcs, &mut taken, outbox);
            }
        }
    }

    /// Each of these inputs asks for one of its ready VCs of a class, every output grants to one of the
    /// inputs that ask.
    #[inline(always)]
    fn allocate_switch(&mut self, inputs: u64, vcs: u32, taken: &mut Taken, outbox: &mut Outbox) {
        // By output: the inputs that ask for it, and which outputs anybody asks for.
        let (mut asking, mut asked) = ([0u64; PORTS], 0u64);
        for input in Bits(inputs) {
            let port = &mut self.in_ports[input % PORTS];
            let ready = u64::from(port.ready & vcs);
            if ready == 0 {
                continue;
            }
            let vc = first_from(ready, port.next_vc);
            let out = u32::from(self.in_vcs[input % PORTS][vc % V].out);
            let free = !(taken.outputs >> (out % 64)) & 1;
            port.asks = vc as u8;
            asking[out as usize % PORTS] |= free << (input % 64);
            asked |= free << (out % 64);
        }
        taken.outputs |= asked;
        for out in Bits(asked) {
            let port = &mut self.out_ports[out % PORTS];
            let input = first_from(asking[out % PORTS], port.next_input);
            port.next_input = (input as u8 + 1) & 63;
            taken.inputs |= 1 << input;
            self.traverse(input, out, outbox);
        }
    }

    /// Sends the front flit of the VC for which this input has asked. What changes from flit to
    /// flit is written without branches, which the processor could not foresee.
    #[inline(always)]
    pub fn traverse(&mut self, input: usize, out: usize, outbox: &mut Outbox) {
        let in_port = &mut self.in_ports[input % PORTS];
        let vc = in_port.asks;
        in_port.next_vc = vc + 1;
        let in_vc = &mut self.in_vcs[input % PORTS][usize::from(vc) % V];
        let index = input * V + usize::from(vc);
        let flit = in_vc.front;
        in_vc.len -= 1;
        let more = in_vc.len > 0;
        in_vc.front = self.buffers[(index << self.buffer_shift) + usize::from(in_vc.head)];
        in_vc.head = in_vc.head.wrapping_add(u8::from(more)) & self.buffer_mask;
        let credit_at = self.now + u64::from(in_port.credit_delay);
        outbox.credits.push(credit_at, in_port.upstream + u32::from(vc));

        let port = &mut self.out_ports[out % PORTS];
        port.flits += 1;
        let held_vc = usize::from(in_vc.out_vc) % V;
        let out_vc = &mut self.out_vcs[out % PORTS][held_vc];
        let (at, bit) = (self.now + u64::from(port.delay), 1u32 << (held_vc % 32));
        let (tail, is_link) = (flit & 1 != 0, port.endpoint == NONE);
        if is_link | (port.credit_return > 0) {
            out_vc.credits -= 1;
            port.empty &= !bit;
            port.credit &= !(u32::from(out_vc.credits == 0) << (held_vc % 32));
            if is_link {
                outbox.flits.push(at, (port.downstream + held_vc as u32, flit));
            } else {
                let credit = self.first_vc + out * V + held_vc;
                outbox.credits.push(self.now + u64::from(port.credit_return), credit as u32);
            }
        }
        let ready = more & (out_vc.credits > 0) & !tail;
        in_port.ready &= !(u32::from(!ready) << (vc % 32));
        self.ready &= !(u64::from(in_port.ready == 0) << (input % 64));
        if !tail {
            return;
        }
        in_vc.active = false;
        out_vc.owner = NOBODY;
        port.free |= bit;
        let head_at = self.now + 1 + u64::from(in_port.routing_delay);
        outbox.heads.push_if(more, head_at, (self.first_vc + index) as u32);
        outbox.tails.push_if(!is_link, at, flit >> 1);
        if self.parked_inputs[out % PORTS] != 0 {
            self.unpark(out);
        }
    }

    /// Lets heads that wait for an output try again.
    fn unpark(&mut self, out: usize) {
        let inputs = std::mem::take(&mut self.parked_inputs[out % PORTS]);
        self.waiting |= inputs;
        for input in Bits(inputs) {
            self.in_ports[input % PORTS].waiting |=
                std::mem::take(&mut self.parked_vcs[input % PORTS]);
        }
    }

    /// Gives free output VCs to waiting heads; the inputs that may send at once.
    #[inline(always)]
    fn allocate_vcs(
        &mut self,
        routers: &mut [RouterState],
        port_shift: u32,
        room: &mut Room,
    ) -> u64 {
        let ports = u64::MAX >> (PORTS as u32 - (1 << port_shift));
        let (mut left, mut fresh) = (self.waiting, 0);
        while left != 0 {
            let number = left.trailing_zeros() >> port_shift;
            let inputs = left & ports << (number << port_shift);
            left &= !inputs;
            let router = &mut routers[number as usize];
            let granted = self.allocate_vcs_of(inputs, router, room);
            fresh |= if router.speculates { granted } else { 0 };
        }
        fresh
    }

    /// The same for one router: inputs from its pointer on come first, then the others. The pointer
    /// moves on in every cycle.
    #[inline(always)]
    fn allocate_vcs_of(&mut self, inputs: u64, router: &mut RouterState, room: &mut Room) -> u64 {
        let from = u32::from(router.next_waiting);
        let mut left = inputs.rotate_right(from);
        router.next_waiting = ((left.trailing_zeros() + from + 1) & 63) as u8;
        let mut granted = 0;
        while left != 0 {
            let input = (left.trailing_zeros() + from) as usize % PORTS;
            left &= left - 1;
            let ready = self.allocate_vcs_to(input, room);
            granted |= u64::from(ready) << input;
            self.waiting &= !(u64::from(self.in_ports[input].waiting == 0) << input);
        }
        self.ready |= granted;
        granted
    }

    /// Gives free output VCs to the waiting heads of an input; whether any got one with a credit.
    #[inline(always)]
    fn allocate_vcs_to(&mut self, input: usize, room: &mut Room) -> bool {
        let in_port = &mut self.in_ports[input % PORTS];
        let before = in_port.ready;
        for vc in Bits(in_port.waiting.into()) {
            let index = input * V + vc;
            let in_vc = &mut self.in_vcs[input % PORTS][vc % V];
            let out = usize::from(in_vc.out) % PORTS;
            let port = &mut self.out_ports[out];
            let chosen = port
                .choose_vc(in_vc.allowed)
                .filter(|_| port.endpoint == NONE || room.reserve(port.endpoint, in_vc.front >> 1));
            let Some(out_vc) = chosen else {
                in_port.waiting &= !(1 << vc);
                self.parked_vcs[input % PORTS] |= 1 << vc;
                self.parked_inputs[out] |= 1 << input;
                continue;
            };
            port.next_vc = out_vc + 1;
            port.free &= !(1 << out_vc);
            in_port.waiting &= !(1 << vc);
            in_port.ready |= (port.credit >> out_vc & 1) << vc;
            self.out_vcs[out][usize::from(out_vc) % V].owner = index as u16;
            in_vc.active = true;
            in_vc.out_vc = (out * V + usize::from(out_vc)) as u16;
        }
        in_port.ready != before
    }
}

impl Room<'_> {
    /// Whether the delivery queue of a packet's virtual network has a place.
    pub fn has(&self, endpoint: u32, packet: u32) -> bool {
        let vnet = usize::from(self.routes[packet as usize].vnet);
        self.slots[endpoint as usize * self.vnets + vnet] > 0
    }

    /// Reserves a place there.
    pub fn reserve(&mut self, endpoint: u32, packet: u32) -> bool {
        let vnet = usize::from(self.routes[packet as usize].vnet);
        let slots = &mut self.slots[endpoint as usize * self.vnets + vnet];
        if *slots == 0 {
            return false;
        }
        *slots -= 1;
        true
    }
}
