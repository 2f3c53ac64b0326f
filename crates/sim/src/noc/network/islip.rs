//! [`Allocator::Islip`](super::Allocator::Islip): separable allocation with one iteration.
//!
//! Both allocations see the router as it is at the start of the cycle. Every VC with a flit and a
//! credit asks for its output, so an input may ask for several; every output grants to one input;
//! every input accepts one of its grants. A head asks for every free VC that it may use; every output
//! VC grants to one head; every head accepts one of its grants. Round-robin pointers move on accepted
//! grants alone (McKeown, 1999).
//!
//! In a router that speculates, a head that asks for a VC asks for the switch too. If it then has no VC
//! or no credit, the switch's grant is lost.

use super::Bits;
use super::allocate::{Outbox, Taken};
use super::packets::{Line, Packets};
use super::routers::Routers;
use super::state::{Block, NONE, PORTS, first_from};

/// A head that asks for VCs of an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Its input VC, counted in the block.
    index: u16,
    /// Its output, counted in the block.
    out: u8,
    /// Free VCs that it may use.
    asks: u32,
    /// Those that are granted.
    granted: u32,
    /// The request before it for the same output, counted from 1; 0 if there is none.
    before: u16,
}

/// What the inputs and outputs of a block tell each other in a cycle. It is not cleared between two
/// cycles: a word tells which entries are of this one.
#[derive(Clone, Debug)]
pub(super) struct Board {
    /// By output: the inputs that ask for it.
    asking: [u64; PORTS],
    /// By input: the outputs that grant to it.
    granted: [u64; PORTS],
    /// By input: the output that it has accepted.
    accepted: [u8; PORTS],
    /// By output: the last request for its VCs, counted from 1.
    last: [u16; PORTS],
}

impl Default for Board {
    fn default() -> Board {
        let words = [0; PORTS];
        Board { asking: words, granted: words, accepted: [0; PORTS], last: [0; PORTS] }
    }
}

/// What a cycle needs besides the state of routers.
struct Scratch<'a, const V: usize> {
    /// Requests of this cycle for VCs; empty in between, with room for all that there can be.
    requests: &'a mut Vec<Request>,
    /// By output VC: the input VC that it serves first, counted in the block.
    pointers: &'a mut [[u16; V]; PORTS],
    /// By input VC: the output VC that it accepts first, counted in the block.
    accept_pointers: &'a mut [u16],
    /// What inputs and outputs tell each other.
    board: &'a mut Board,
    packets: &'a mut Packets,
    slots: &'a mut [u32],
    /// Number of the first VC of the block.
    first_vc: usize,
}

/// All bits if this one of a word is set, else none.
#[inline]
fn mask_of(word: u64, bit: usize) -> u64 {
    (word >> (bit % 64) & 1).wrapping_neg()
}

impl Routers {
    /// A cycle of a block.
    pub(super) fn islip<const V: usize>(&mut self, blocks: &mut [Block<V>], number: usize) {
        let mut outbox = Outbox {
            now: self.now,
            flits: &mut self.flits,
            credits: &mut self.credits,
            ejection_credits: self.ejection_credits,
            ended: &mut self.ended,
        };
        let mut scratch = Scratch {
            requests: &mut self.requests,
            pointers: &mut self.vc_pointers.as_chunks_mut().0.as_chunks_mut().0[number],
            accept_pointers: &mut self.accept_pointers[number * PORTS * V..][..PORTS * V],
            board: &mut self.board,
            packets: &mut self.packets,
            slots: &mut self.slots,
            first_vc: number * PORTS * V,
        };
        let block = &mut blocks[number];
        let speculative = block.waiting & block.speculative;
        let mut taken = Taken::default();
        for class in &self.classes {
            block.match_switch(*class, speculative, &mut taken, &mut scratch);
        }
        if block.waiting != 0 {
            block.request_vcs(&mut scratch);
            block.accept_vcs(&mut scratch);
        }
        for input in Bits(taken.inputs) {
            if block.ready_vc(input) {
                let out = usize::from(scratch.board.accepted[input % PORTS]);
                block.traverse(number, input, out, &mut outbox);
            }
        }
        self.end_packets(blocks);
    }
}

impl<const V: usize> Block<V> {
    /// Whether the VC that has got the switch can use it: a head that speculates may have no VC.
    fn ready_vc(&self, input: usize) -> bool {
        let port = &self.in_ports[input % PORTS];
        port.ready() >> (port.asks % 32) & 1 != 0
    }

    /// Pairs inputs with outputs, for VCs of a class.
    #[inline(always)]
    fn match_switch(
        &mut self,
        class: u32,
        speculative: u64,
        taken: &mut Taken,
        scratch: &mut Scratch<'_, V>,
    ) {
        let (board, lines) = (&mut *scratch.board, &scratch.packets.lines[scratch.first_vc..]);
        let mut asked = 0u64;
        for input in Bits((self.ready | speculative) & !taken.inputs) {
            let mut vcs = self.in_ports[input % PORTS].ready() & class;
            if speculative >> (input % 64) & 1 != 0 {
                vcs |= self.speculative_vcs(input, lines) & class;
            }
            for vc in Bits(vcs.into()) {
                let out = usize::from(self.in_vcs[input % PORTS][vc % V].out) % PORTS;
                let free = !(taken.outputs >> out) & 1;
                let before = board.asking[out] & mask_of(asked, out);
                board.asking[out] = before | free << (input % 64);
                asked |= free << out;
            }
        }
        let mut inputs = 0u64;
        for out in Bits(asked) {
            let asking = board.asking[out % PORTS];
            let input = first_from(asking, self.out_ports[out % PORTS].next_input) % PORTS;
            let before = board.granted[input] & mask_of(inputs, input);
            board.granted[input] = before | 1 << (out % 64);
            inputs |= 1 << input;
        }
        for input in Bits(inputs) {
            let granted = board.granted[input % PORTS];
            let out = first_from(granted, self.in_ports[input % PORTS].next_out);
            let speculates = speculative >> (input % 64) & 1 != 0;
            self.accept_output(input, out, class, speculates.then_some(lines));
            board.accepted[input % PORTS] = out as u8;
            taken.outputs |= 1 << (out % 64);
        }
        taken.inputs |= inputs;
    }

    /// Heads of an input that ask for a VC and may get one with a credit.
    fn speculative_vcs(&self, input: usize, lines: &[Line]) -> u32 {
        let waiting = Bits(self.in_ports[input % PORTS].waiting.into());
        waiting.fold(0, |vcs, vc| {
            let in_vc = &self.in_vcs[input % PORTS][vc % V];
            let line = &lines[input * V + vc];
            let port = &self.out_ports[usize::from(in_vc.out) % PORTS];
            vcs | u32::from(line.allowed & port.free & port.credit != 0) << (vc % 32)
        })
    }

    /// An input takes an output for the next of its VCs that asks for it; those that do not speculate
    /// come first; `lines` are there if the router speculates.
    #[inline(always)]
    fn accept_output(&mut self, input: usize, out: usize, class: u32, lines: Option<&[Line]>) {
        let port = &self.in_ports[input % PORTS];
        let next = |vcs: u32| {
            let later = vcs & u32::MAX.checked_shl(port.next_vc.into()).unwrap_or(0);
            let mut in_turn = Bits(later.into()).chain(Bits((vcs & !later).into()));
            in_turn.find(|&vc| usize::from(self.in_vcs[input % PORTS][vc % V].out) == out)
        };
        let ready = port.ready() & class;
        let found = match lines {
            // The only one that can have asked.
            None if ready.is_power_of_two() => Some(ready.trailing_zeros() as usize),
            None => next(ready),
            Some(lines) => next(ready).or_else(|| next(self.speculative_vcs(input, lines) & class)),
        };
        let Some(vc) = found else { return };
        let port = &mut self.in_ports[input % PORTS];
        port.asks = vc as u8;
        port.next_vc = vc as u8 + 1;
        port.next_out = (out as u8 + 1) & 63;
        self.out_ports[out % PORTS].next_input = (input as u8 + 1) & 63;
    }

    /// Collects the requests of all heads and lets output VCs grant. Heads that find no free VC, or no
    /// place at the endpoint, are parked.
    #[inline(always)]
    fn request_vcs(&mut self, scratch: &mut Scratch<'_, V>) {
        // Outputs for which a head asks, and those with several.
        let (mut once, mut often) = (0u64, 0u64);
        let last = &mut scratch.board.last;
        for input in Bits(self.waiting) {
            for vc in Bits(self.in_ports[input % PORTS].waiting.into()) {
                let line = &scratch.packets.lines[scratch.first_vc + input * V + vc];
                let out = usize::from(self.in_vcs[input % PORTS][vc % V].out) % PORTS;
                let port = &self.out_ports[out % PORTS];
                let asks = line.allowed & port.free;
                if asks == 0
                    || scratch.slots[port.first_slot as usize + usize::from(line.vnet)] == 0
                {
                    self.park(input, vc, out);
                    self.rest(input);
                    continue;
                }
                let index = (input * V + vc) as u16;
                let before = last[out] & mask_of(once, out) as u16;
                let request = Request { index, out: out as u8, asks, granted: asks, before };
                scratch.requests.push(request);
                last[out] = scratch.requests.len() as u16;
                often |= once & 1 << out;
                once |= 1 << out;
            }
        }
        for out in Bits(often) {
            self.grant_vcs(out % PORTS, scratch.board.last[out % PORTS], scratch);
        }
    }

    /// Every free VC of an output for which several heads ask grants to one of them; `last` is the last of
    /// their requests.
    fn grant_vcs(&self, out: usize, last: u16, scratch: &mut Scratch<'_, V>) {
        let requests = &mut scratch.requests[..];
        let mut at = last;
        while let Some(request) = requests.get_mut(usize::from(at).wrapping_sub(1)) {
            request.granted = 0;
            at = request.before;
        }
        for vc in Bits(self.out_ports[out % PORTS].free.into()) {
            let pointer = scratch.pointers[out % PORTS][vc % V];
            let (mut nearest, mut chosen, mut at) = (usize::MAX, usize::MAX, last);
            while let Some(request) = requests.get(usize::from(at).wrapping_sub(1)) {
                let distance = usize::from(request.index.wrapping_sub(pointer)) % (PORTS * V);
                if request.asks >> vc & 1 != 0 && distance < nearest {
                    (nearest, chosen) = (distance, usize::from(at) - 1);
                }
                at = request.before;
            }
            if let Some(request) = requests.get_mut(chosen) {
                request.granted |= 1 << vc;
            }
        }
    }

    /// Heads accept one of the VCs that are granted to them.
    #[inline(always)]
    fn accept_vcs(&mut self, scratch: &mut Scratch<'_, V>) {
        let Scratch { requests, pointers, accept_pointers, packets, slots, first_vc, .. } = scratch;
        for Request { index, out, granted, .. } in requests.drain(..) {
            let (input, vc) = (usize::from(index) / V % PORTS, usize::from(index) % V);
            let out = usize::from(out) % PORTS;
            let line = packets.lines[*first_vc + usize::from(index)];
            let port = &self.out_ports[out % PORTS];
            let slot = &mut slots[port.first_slot as usize + usize::from(line.vnet)];
            if granted == 0 || *slot == 0 {
                continue;
            }
            *slot -= u32::from(port.endpoint != NONE);
            let accept_pointer = &mut accept_pointers[usize::from(index)];
            let pointer = usize::from(*accept_pointer);
            let from = if pointer / V == out { pointer % V } else { 0 };
            let chosen = first_from(granted.into(), from as u8);
            *accept_pointer = (out * V + chosen) as u16 + 1;
            pointers[out % PORTS][chosen % V] = index + 1;
            self.give_vc(input, vc, out, chosen);
            let port = &self.out_ports[out];
            if port.endpoint == NONE {
                packets.push(port.downstream as usize + chosen, line.front);
            }
            self.rest(input);
            let is_ready = self.in_ports[input % PORTS].ready() != 0;
            self.ready |= u64::from(is_ready) << input;
        }
    }

    /// Gives a free output VC to the head of an input VC.
    #[inline(always)]
    fn give_vc(&mut self, input: usize, vc: usize, out: usize, out_vc: usize) {
        let port = &mut self.out_ports[out % PORTS];
        port.free &= !(1 << out_vc);
        let in_port = &mut self.in_ports[input % PORTS];
        in_port.waiting &= !(1 << vc);
        in_port.able |= (port.credit >> out_vc & 1) << vc;
        self.in_vcs[input % PORTS][vc % V].held = out_vc as u8;
        self.out_vcs[out % PORTS][out_vc % V].owner = (input * V + vc) as u16;
    }

    /// Leaves a head alone until something changes at its output.
    fn park(&mut self, input: usize, vc: usize, out: usize) {
        self.in_ports[input % PORTS].waiting &= !(1 << vc);
        self.parked_vcs[input % PORTS] |= 1 << vc;
        self.parked_inputs[out % PORTS] |= 1 << input;
    }

    /// Forgets an input without a head that waits.
    #[inline]
    fn rest(&mut self, input: usize) {
        let rests = self.in_ports[input % PORTS].waiting == 0;
        self.waiting &= !(u64::from(rests) << (input % 64));
    }
}
