//! Packets that nobody has taken yet, for a watchdog.

use std::fmt;

use super::super::spec::Packet;
use super::Network;
use super::ends::Ends;
use super::routers::Routers;
use super::state::{InVc, NONE, PORTS};
use crate::engine::Cycle;

/// A packet that nobody has taken yet, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// As it was handed to [`Network::send`](super::Network::send).
    pub packet: Packet,
    /// Cycle in which it was sent.
    pub since: Cycle,
    /// For how many cycles it has been under way.
    pub age_cycles: u64,
    /// Place of its flits, in words.
    pub place: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { src, dst, vnet, flits, .. } = self.packet;
        write!(
            f,
            "packet of {flits} flits from {src} to {dst} in virtual network {vnet}, sent in cycle {} \
             ({} cycles ago): {}",
            self.since, self.age_cycles, self.place
        )
    }
}

impl Network {
    /// The oldest packets that have not been delivered, the oldest first, then those that have been and not taken; at
    /// most `count`.
    pub fn stuck(&self, now: Cycle, count: usize) -> Vec<Stuck> {
        let entries = &self.ends.slab.entries;
        let entry = |id: u32| &entries[id as usize];
        let mut ids: Vec<u32> = (0..entries.len() as u32).filter(|&id| entry(id).live).collect();
        ids.sort_by_key(|&id| (entry(id).arrived != 0, entry(id).created, id));
        ids.truncate(count);
        let describe = |id: u32| Stuck {
            packet: entry(id).packet,
            since: entry(id).created,
            age_cycles: now.saturating_sub(entry(id).created),
            place: self.place(id),
        };
        ids.into_iter().map(describe).collect()
    }

    fn place(&self, id: u32) -> String {
        if self.ends.slab.entries[id as usize].arrived != 0 {
            return "in the delivery queue".to_owned();
        }
        let places = self.routers().places(id);
        match places.is_empty() {
            false => places.join(", "),
            true if self.ends.is_at_source(id) => "in the source queue".to_owned(),
            true => "on a link".to_owned(),
        }
    }
}

impl Routers {
    /// The buffers that have flits of a packet.
    fn places(&self, id: u32) -> Vec<String> {
        let vcs = 0..self.blocks.len() * PORTS * self.stride;
        let counted = vcs.map(|index| (index, self.flits_of(index, id)));
        let here = counted.filter(|&(_, count)| count > 0);
        here.map(|(index, count)| self.buffer_place(index, count)).collect()
    }

    /// Flits of a packet in the buffer of an input VC.
    fn flits_of(&self, index: usize, id: u32) -> usize {
        let in_vc = self.in_vc(index);
        let mut len = usize::from(in_vc.len);
        for (place, packet) in self.packets.of(index).enumerate() {
            let is_routed = place == 0 && in_vc.left > 0;
            let left = if is_routed { in_vc.left } else { self.routes[packet as usize].flits };
            let here = len.min(usize::from(left));
            if packet == id {
                return here;
            }
            len -= here;
        }
        0
    }

    fn in_vc(&self, index: usize) -> &InVc {
        self.blocks.in_vc(index / self.stride, index % self.stride)
    }

    fn buffer_place(&self, index: usize, flits: usize) -> String {
        let (in_vc, port, vc) = (self.in_vc(index), index / self.stride, index % self.stride);
        let number = usize::from(self.router_of[port]);
        let first = self.states[number].first as usize;
        let router = self.topology.routers[number];
        let held = usize::from(in_vc.held);
        let out = port - port % PORTS + usize::from(in_vc.out);
        let held_vc = self.blocks.out_vc(out, held);
        let out = out - first;
        let state = match usize::from(held_vc.owner) == index % (PORTS * self.stride) {
            true => format!("holds VC {held} of output {out} with {} credits", held_vc.credits),
            false => format!("waits for a VC of output {out}"),
        };
        format!(
            "{flits} flits at router {number} ({}, {}) input {} VC {vc}, which {state}",
            router.x,
            router.y,
            port - first
        )
    }
}

impl Ends {
    fn is_at_source(&self, id: u32) -> bool {
        let packet = self.slab.entries[id as usize].packet;
        let mut next = self.sources[self.source_queue(packet.src, packet.vnet)].first;
        while next != NONE {
            if next == id {
                return true;
            }
            next = self.slab.entries[next as usize].next;
        }
        false
    }
}
