//! Packets that have not been delivered, for a watchdog.

use std::fmt;

use super::super::spec::Packet;
use super::Network;
use super::state::{NONE, PORTS};
use crate::engine::Cycle;

/// A packet that has not been delivered, and where it is.
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
    /// The oldest packets that have not been delivered, the oldest first, at most `count`.
    pub fn stuck(&self, now: Cycle, count: usize) -> Vec<Stuck> {
        let waiting = |id: &u32| {
            let entry = &self.slab.entries[*id as usize];
            entry.live && entry.arrived == 0
        };
        let mut ids: Vec<u32> = (0..self.slab.entries.len() as u32).filter(waiting).collect();
        ids.sort_by_key(|&id| (self.slab.entries[id as usize].created, id));
        ids.truncate(count);
        let describe = |id: u32| {
            let entry = &self.slab.entries[id as usize];
            Stuck {
                packet: entry.packet,
                since: entry.created,
                age_cycles: now.saturating_sub(entry.created),
                place: self.place(id),
            }
        };
        ids.into_iter().map(describe).collect()
    }

    fn place(&self, id: u32) -> String {
        let mut places: Vec<String> = Vec::new();
        for (index, in_vc) in self.in_vcs.iter().enumerate() {
            let mask = (1usize << self.buffer_shift) - 1;
            let behind = (1..usize::from(in_vc.len)).map(|i| {
                let place = (usize::from(in_vc.head) + i - 1) & mask;
                self.buffers[(index << self.buffer_shift) + place]
            });
            let front = (in_vc.len > 0).then_some(in_vc.front);
            let count = front.into_iter().chain(behind).filter(|flit| flit >> 1 == id).count();
            if count > 0 {
                places.push(self.buffer_place(index, count));
            }
        }
        match places.is_empty() {
            false => places.join(", "),
            true if self.is_at_source(id) => "in the source queue".to_owned(),
            true => "on a link".to_owned(),
        }
    }

    fn buffer_place(&self, index: usize, flits: usize) -> String {
        let in_vc = &self.in_vcs[index];
        let (port, vc) = (index >> self.vc_shift, index & self.vc_mask());
        let (number, ports) = (port >> self.port_shift, (1 << self.port_shift) - 1);
        let router = self.topology.routers[number];
        let out = usize::from(in_vc.out) & ports;
        let state = match in_vc.active {
            true => {
                let first = (port - port % PORTS) << self.vc_shift;
                let credits = self.out_vcs[first + usize::from(in_vc.out_vc)].credits;
                let held = usize::from(in_vc.out_vc) & self.vc_mask();
                format!("holds VC {held} of output {out} with {credits} credits")
            }
            false => format!("waits for a VC of output {out}"),
        };
        format!(
            "{flits} flits at router {number} ({}, {}) input {} VC {vc}, which {state}",
            router.x,
            router.y,
            port & ports
        )
    }

    fn is_at_source(&self, id: u32) -> bool {
        let packet = self.slab.entries[id as usize].packet;
        let mut next = self.sources[self.queue(packet.src, packet.vnet)].first;
        while next != NONE {
            if next == id {
                return true;
            }
            next = self.slab.entries[next as usize].next;
        }
        false
    }
}
