//! The second phase of a cycle: routers give output VCs to heads and the switch to flits.
//!
//! Here is what both allocators share; [`in_turn`](super::in_turn) and [`islip`](super::islip) say who gets
//! what. What changes from flit to flit is written without branches, which the processor could not
//! foresee.

use super::super::spec::Allocator;
use super::packets::Packets;
use super::routers::Routers;
use super::state::{Block, InVc, NOBODY, NONE, PORTS, Route};
use super::wheel::{List, Wheel};
use crate::engine::Cycle;

impl Routers {
    /// A cycle of all routers, block by block in this order.
    pub(super) fn allocate<const V: usize>(
        &mut self,
        blocks: &mut [Block<V>],
        order: impl Iterator<Item = usize> + Clone,
    ) {
        match self.allocator {
            Allocator::OneRequest => self.serve_in_turn(blocks, order),
            Allocator::Islip => {
                for number in order {
                    if blocks[number].ready | blocks[number].waiting != 0 {
                        self.islip(blocks, number);
                    }
                }
            }
        }
    }
}

/// Inputs and outputs of a block that have sent in this cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub inputs: u64,
    pub outputs: u64,
}

/// Effects in later cycles.
pub(super) struct Outbox<'a> {
    pub now: Cycle,
    pub flits: &'a mut Wheel<u32>,
    pub credits: &'a mut [Wheel<u32>; 2],
    pub ejection_credits: bool,
    /// VCs that have sent a tail, for [`end_packets`](Routers::end_packets).
    pub ended: &'a mut List<u32>,
}

impl<const V: usize> Block<V> {
    /// Sends the front flit of the VC for which an input has asked; `number` is the block's.
    #[inline(always)]
    pub fn traverse(&mut self, number: usize, input: usize, out: usize, outbox: &mut Outbox) {
        let (input, out) = (input % PORTS, out % PORTS);
        let in_port = &mut self.in_ports[input];
        let vc = usize::from(in_port.asks) % V;
        in_port.next_vc = vc as u8 + 1;
        let credit_at = outbox.now + u64::from(in_port.credit_delay);
        outbox.credits[usize::from(in_port.from_source)].push_if(
            true,
            credit_at,
            in_port.upstream + vc as u32,
        );

        let in_vc = &mut self.in_vcs[input][vc];
        *in_vc = InVc { len: in_vc.len - 1, left: in_vc.left - 1, ..*in_vc };
        let (is_tail, is_empty) = (in_vc.left == 0, in_vc.len == 0);
        let held = usize::from(in_vc.held) % V;
        let port = &mut self.out_ports[out];
        port.flits += 1;
        let at = outbox.now + u64::from(port.delay);
        outbox.flits.push_if(port.endpoint == NONE, at, port.downstream.wrapping_add(held as u32));
        let out_vc = &mut self.out_vcs[out][held];
        out_vc.credits -= port.counts_credits;
        let is_last = out_vc.credits == 0;
        port.empty &= !(u32::from(port.counts_credits) << held);
        port.credit &= !(u32::from(is_last) << held);
        in_port.able &= !(u32::from(is_last | is_tail) << vc);
        in_port.filled &= !(u32::from(is_empty) << vc);
        self.ready &= !(u64::from(in_port.ready() == 0) << input);
        outbox.ended.push_if(is_tail, ((number * PORTS + input) * V + vc) as u32);
        if outbox.ejection_credits {
            let (credit, at) = ((number * PORTS + out) * V + held, u64::from(port.credit_return));
            outbox.credits[0].push_if(at > 0, outbox.now + at, credit as u32);
        }
    }

    /// A packet whose tail has been sent gives back its output VC.
    #[inline(always)]
    pub fn end_packet(
        &mut self,
        index: usize,
        now: Cycle,
        packets: &mut Packets,
        routes: &[Route],
        heads: &mut Wheel<u32>,
        tails: &mut Wheel<(u32, u8)>,
    ) {
        let (input, vc) = (index / V % PORTS, index % V);
        let in_vc = &self.in_vcs[input][vc];
        let (out, held) = (usize::from(in_vc.out) % PORTS, usize::from(in_vc.held) % V);
        let head_at = now + 1 + u64::from(self.in_ports[input].routing_delay);
        heads.push_if(in_vc.len > 0, head_at, index as u32);
        let port = &mut self.out_ports[out];
        port.free |= 1 << held;
        self.out_vcs[out][held].owner = NOBODY;
        let (arrives, at) = (port.endpoint != NONE, now + u64::from(port.delay));
        let packet = packets.pop(index);
        tails.push_if(arrives, at, (packet, routes[packet as usize].hops));
        if self.parked_inputs[out] != 0 {
            self.unpark(out);
        }
    }
}

impl Routers {
    /// Packets whose tails have been sent give back their output VCs.
    pub(super) fn end_packets<const V: usize>(&mut self, blocks: &mut [Block<V>]) {
        for &index in self.ended.events() {
            blocks[index as usize / (PORTS * V)].end_packet(
                index as usize,
                self.now,
                &mut self.packets,
                &self.routes,
                &mut self.heads,
                &mut self.tails,
            );
        }
        self.ended.clear();
    }
}
