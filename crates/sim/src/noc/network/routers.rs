//! Routers, and the links between them.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::super::routing::Tables;
use super::super::spec::Allocator;
use super::super::topology::{Axis, Port, Topology};
use super::crossing::{Crossing, Inward, Outward};
use super::packets::Packets;
use super::state::{Blocks, Route, RouterState, with_blocks};
use super::wheel::{List, Wheel};
use super::{LinkLoad, in_turn, islip};
use crate::engine::Cycle;

/// All routers, with the packets that have left their sources.
pub(super) struct Routers {
    /// The cycle that is simulated.
    pub now: Cycle,
    /// Whether a router has work, without what the ends have for it.
    pub has_work: bool,
    pub topology: Arc<Topology>,
    pub tables: Arc<Tables>,
    pub allocator: Allocator,
    /// By port, the router that it belongs to.
    pub router_of: Vec<u16>,
    /// VCs that are served one after the other, as masks.
    pub classes: Vec<u32>,
    pub buffer_flits: u8,
    pub ejection_credits: bool,
    pub vnets: usize,
    pub axes: Vec<Axis>,

    pub states: Vec<RouterState>,
    pub blocks: Blocks,
    /// Places for VCs at a port: see [`Blocks`].
    pub stride: usize,
    pub packets: Packets,
    /// By packet.
    pub routes: Vec<Route>,
    pub round: in_turn::Round,
    /// Input VCs that have sent a tail in this step.
    pub ended: List<u32>,
    /// iSLIP: by output VC, the input VC that it serves first, counted in the block.
    pub vc_pointers: Vec<u16>,
    /// iSLIP: by input VC, the output VC that it accepts first, counted in the block.
    pub accept_pointers: Vec<u16>,
    /// iSLIP: requests of a block for VCs, empty between two blocks.
    pub requests: Vec<islip::Request>,
    pub board: islip::Board,

    /// Input VCs that get a flit.
    pub flits: Wheel<u32>,
    /// Output VCs that get a credit: those of routers, and those of sources.
    pub credits: [Wheel<u32>; 2],
    /// Head flits that come to the front and are ready for VC allocation in that cycle.
    pub heads: Wheel<u32>,
    /// Packets whose tail reaches the endpoint, with the links between routers that they have crossed.
    pub tails: Wheel<(u32, u8)>,

    /// By endpoint, the output that leads to it.
    pub exits: Vec<u32>,
    /// Places that delivery queues have left, less packets on their way out. Those of links come first: they never
    /// fill.
    pub slots: Vec<u32>,
    pub directory_turns_at_edge: u64,
}

impl Routers {
    /// Simulates a cycle, and gives what reaches the ends in the next one.
    pub fn tick(&mut self, now: Cycle, crossing: &mut Crossing) {
        self.tick_in_order(now, crossing, |blocks| 0..blocks);
    }

    /// Simulates a cycle in which so many blocks are visited in an order.
    pub fn tick_in_order<I: Iterator<Item = usize> + Clone>(
        &mut self,
        now: Cycle,
        crossing: &mut Crossing,
        order: impl Fn(usize) -> I,
    ) {
        self.now = now;
        let mut blocks = mem::replace(&mut self.blocks, Blocks::Few(Vec::new()));
        with_blocks!(&mut blocks, blocks => {
            self.arrive(blocks, &mut crossing.inward);
            let order = order(blocks.len());
            self.allocate(blocks, order);
        });
        self.has_work = blocks.have_work();
        self.blocks = blocks;
        self.hand_out(now + 1, &mut crossing.outward);
    }

    /// Gives what reaches the ends in a cycle.
    pub fn hand_out(&mut self, cycle: Cycle, outward: &mut Outward) {
        debug_assert!(outward.is_empty(), "{outward:?} is late in cycle {cycle}");
        outward.cycle = cycle;
        self.credits[1].drain(cycle, &mut outward.credits);
        self.tails.drain(cycle, &mut outward.tails);
    }

    /// Whether a head waits for the place of a packet that has been taken.
    pub fn would_wake(&self, inward: &Inward) -> bool {
        let waits = |&(endpoint, _): &(u16, u32)| {
            self.blocks.is_waited_for(self.exits[usize::from(endpoint)] as usize)
        };
        inward.taken.iter().any(waits)
    }

    /// Whether something arrives in a cycle.
    #[inline]
    pub fn has_arrivals(&self, now: Cycle) -> bool {
        let wheels = [&self.flits, &self.credits[0], &self.credits[1], &self.heads];
        wheels.iter().any(|wheel| !wheel.events(now).is_empty())
            || !self.tails.events(now).is_empty()
    }

    /// The next cycle in which something arrives.
    pub fn next_arrival(&self, now: Cycle) -> Option<Cycle> {
        self.flits.cycles(now).find(|&at| self.has_arrivals(at))
    }

    /// Whether a credit arrives in one of these cycles.
    pub fn has_credit(&self, cycles: Range<Cycle>) -> bool {
        let is_due = |at| self.credits.iter().any(|wheel| !wheel.events(at).is_empty());
        self.flits.cycles(cycles.start).take_while(|&at| at < cycles.end).any(is_due)
    }

    pub fn port_index(&self, port: Port) -> usize {
        self.states[port.router].first as usize + port.port
    }

    /// Flits on each link between routers, with its place on the floor plan.
    pub fn link_loads(&self) -> impl Iterator<Item = LinkLoad> + '_ {
        self.topology.links.iter().map(|link| {
            let place = |router: usize| {
                let router = self.topology.routers[router];
                (router.x, router.y)
            };
            LinkLoad {
                from: place(link.from.router),
                to: place(link.to.router),
                flits: self.blocks.out_port(self.port_index(link.from)).flits,
            }
        })
    }
}
