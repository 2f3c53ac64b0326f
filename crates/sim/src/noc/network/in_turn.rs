//! [`Allocator::OneRequest`](super::Allocator::OneRequest): an input asks for one of its VCs.
//!
//! A router that does not speculate serves the switch first and VCs after it, so that a head needs a cycle
//! for each; in one that does, heads that have just got a VC compete for the inputs and outputs that the
//! others have left.
//!
//! Packets that end, and heads that ask for VCs, are listed and served in one loop for all routers: how many
//! a router has is a branch that the processor could not foresee.

use std::hint::select_unpredictable;

use super::Bits;
use super::allocate::{Outbox, Taken};
use super::routers::Routers;
use super::state::{Block, NONE, PORTS, first_from};
use super::wheel::List;

/// The steps of a cycle. Words are by block.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Inputs and outputs that have sent.
    taken: Vec<Taken>,
    /// Inputs that have just got a VC with a credit.
    fresh: Vec<u64>,
    /// Input VCs with a head that asks for a VC, in the order in which they are served.
    heads: List<u32>,
    /// Packets that get an input VC of the next router.
    moved: List<(u32, u32)>,
}

impl Round {
    /// For so many blocks, whose ports have so many VCs.
    pub fn new(blocks: usize, vcs: usize) -> Round {
        Round {
            taken: vec![Taken::default(); blocks],
            fresh: vec![0; blocks],
            heads: List::new(blocks * PORTS * vcs),
            moved: List::new(blocks * PORTS * vcs),
        }
    }
}

impl Routers {
    pub(super) fn serve_in_turn<const V: usize>(
        &mut self,
        blocks: &mut [Block<V>],
        order: impl Iterator<Item = usize> + Clone,
    ) {
        for number in order.clone() {
            self.round.taken[number] = Taken::default();
            self.round.fresh[number] = blocks[number].ready;
        }
        self.allocate_switch(blocks, order.clone());
        self.collect_heads(blocks, order.clone());
        if !self.round.heads.events().is_empty() {
            self.round.fresh.fill(0);
            self.give_vcs(blocks);
            self.allocate_switch(blocks, order);
        }
    }

    /// Inputs that are fresh ask for one of their ready VCs, every output grants to one of those that ask.
    fn allocate_switch<const V: usize>(
        &mut self,
        blocks: &mut [Block<V>],
        order: impl Iterator<Item = usize> + Clone,
    ) {
        let mut outbox = Outbox {
            now: self.now,
            flits: &mut self.flits,
            credits: &mut self.credits,
            ejection_credits: self.ejection_credits,
            ended: &mut self.ended,
        };
        for class in &self.classes {
            for number in order.clone() {
                let (taken, fresh) = (&mut self.round.taken[number], self.round.fresh[number]);
                if fresh & !taken.inputs != 0 {
                    let block = &mut blocks[number];
                    let asked = block.ask(fresh & !taken.inputs, *class, taken.outputs);
                    taken.inputs |= block.grant(number, asked, &mut outbox);
                    taken.outputs |= asked;
                }
            }
        }
        self.end_packets(blocks);
    }

    /// Lists the waiting heads, router by router: those that have waited longest come first, so that none waits
    /// for ever. Of those that came together, inputs from the router's pointer on come first, which moves on in
    /// every cycle.
    fn collect_heads<const V: usize>(
        &mut self,
        blocks: &[Block<V>],
        order: impl Iterator<Item = usize>,
    ) {
        let heads = &mut self.round.heads;
        heads.clear();
        for number in order {
            let block = &blocks[number];
            let mut left = block.waiting;
            while left != 0 {
                let first = number * PORTS + left.trailing_zeros() as usize;
                let router = &mut self.states[usize::from(self.router_of[first])];
                let inputs = left & router.ports;
                left &= !inputs;
                let from = u32::from(router.next_waiting);
                let in_turn = inputs.rotate_right(from);
                router.next_waiting = ((in_turn.trailing_zeros() + from + 1) & 63) as u8;
                let listed = heads.events().len();
                for nth in Bits(in_turn) {
                    let input = (nth + from as usize) % PORTS;
                    for vc in Bits(block.in_ports[input].waiting.into()) {
                        heads.push_if(true, ((number * PORTS + input) * V + vc) as u32);
                    }
                }
                let (lines, now) = (&self.packets.lines, self.now as u32);
                let since = |&head: &u32| lines[head as usize].waits_since;
                heads.events_mut()[listed..].sort_by_key(|head| !now.wrapping_sub(since(head)));
            }
        }
    }

    /// Gives free output VCs to heads; those that find none, or no place at the endpoint, are parked.
    fn give_vcs<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        let moved = &mut self.round.moved;
        moved.clear();
        for &index in self.round.heads.events() {
            let index = index as usize;
            let (number, input, vc) = (index / (PORTS * V), index / V % PORTS, index % V);
            let block = &mut blocks[number];
            let line = &self.packets.lines[index];
            let in_vc = &mut block.in_vcs[input][vc];
            let out = usize::from(in_vc.out) % PORTS;
            let port = &mut block.out_ports[out];
            let is_link = port.endpoint == NONE;
            let free = line.allowed & port.free;
            let slot = &mut self.slots[port.first_slot as usize + usize::from(line.vnet)];
            let given = (free != 0) & (*slot > 0);
            *slot -= u32::from(given & !is_link);
            let out_vc = port.best_of(free);
            port.next_vc = select_unpredictable(given, out_vc as u8 + 1, port.next_vc);
            port.free &= !(u32::from(given) << out_vc);
            in_vc.held = out_vc as u8;
            let owner = &mut block.out_vcs[out][out_vc % V].owner;
            *owner = select_unpredictable(given, (input * V + vc) as u16, *owner);
            let has_credit = given & (port.credit >> out_vc & 1 != 0);
            let in_port = &mut block.in_ports[input];
            in_port.waiting &= !(1 << vc);
            in_port.able |= u32::from(has_credit) << vc;
            block.waiting &= !(u64::from(in_port.waiting == 0) << input);
            block.ready |= u64::from(has_credit) << input;
            self.round.fresh[number] |= u64::from(has_credit) << input & block.speculative;
            block.parked_vcs[input] |= u32::from(!given) << vc;
            block.parked_inputs[out] |= u64::from(!given) << input;
            let next = port.downstream.wrapping_add(out_vc as u32);
            moved.push_if(given & is_link, (next, line.front));
        }
        for &(vc, packet) in moved.events() {
            self.packets.push(vc as usize, packet);
        }
    }
}

impl<const V: usize> Block<V> {
    /// Each of these inputs asks for one of its ready VCs of a class; the outputs that grant.
    #[inline(always)]
    fn ask(&mut self, inputs: u64, class: u32, taken: u64) -> u64 {
        let mut asked = 0;
        for input in Bits(inputs) {
            let input = input % PORTS;
            let port = &mut self.in_ports[input];
            let ready = u64::from(port.ready() & class);
            if ready == 0 {
                continue;
            }
            let vc = first_from(ready, port.next_vc) % V;
            port.asks = vc as u8;
            let out = usize::from(self.in_vcs[input][vc].out) % PORTS;
            self.asking[out] |= 1 << input;
            asked |= 1 << out;
        }
        for out in Bits(asked & taken) {
            self.asking[out % PORTS] = 0;
        }
        asked & !taken
    }

    /// Every output grants to one of the inputs that ask; those that send.
    #[inline(always)]
    fn grant(&mut self, number: usize, asked: u64, outbox: &mut Outbox) -> u64 {
        let mut inputs = 0;
        for out in Bits(asked) {
            let out = out % PORTS;
            let asking = std::mem::take(&mut self.asking[out]);
            let port = &mut self.out_ports[out];
            let input = first_from(asking, port.next_input) % PORTS;
            port.next_input = (input as u8 + 1) & 63;
            inputs |= 1 << input;
            self.traverse(number, input, out, outbox);
        }
        inputs
    }
}
