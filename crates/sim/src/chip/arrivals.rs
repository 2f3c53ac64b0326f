//! Delivery of arrived messages to the parts, as far as they have room.

use std::collections::VecDeque;

use super::Chip;
use super::layout::Part;
use super::message::{Letter, VNET_REQUEST, VNETS};
use super::wires::Event;
use crate::engine::Cycle;

/// Requests to a home that have not come through the network on chip, and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    pub(super) letters: VecDeque<u32>,
    network_first: bool,
    /// Cycle in which it will be looked at again.
    next_look: Cycle,
}

impl Chip {
    /// Takes messages that have arrived at the endpoints, as far as the parts have room.
    #[inline]
    pub(super) fn deliver(&mut self) {
        for word in 0..self.wires.net.arrived_words().len() {
            let mut left = self.wires.net.arrived_words()[word];
            while left != 0 {
                let endpoint = (word * 64) as u16 + left.trailing_zeros() as u16;
                left &= left - 1;
                for vnet in 0..VNETS as u8 {
                    self.deliver_from(endpoint, vnet);
                }
            }
        }
    }

    fn deliver_from(&mut self, endpoint: u16, vnet: u8) {
        while let Some(packet) = self.wires.net.peek(endpoint, vnet) {
            let to = self.wires.letters.get(packet.tag).to;
            if let (Part::Home(n), VNET_REQUEST) = (to, vnet)
                && !self.inboxes[usize::from(n)].letters.is_empty()
            {
                return self.admit(n);
            }
            let tag = packet.tag;
            if !self.has_room(self.wires.letters.get(tag)) {
                return;
            }
            let Some(taken) = self.wires.net.take_timed(endpoint, vnet) else { return };
            // All flits of a packet that has waited for room have come.
            if taken.arrived == self.wires.now {
                self.wires.ahead = u64::from(taken.packet.flits) - 1;
            }
            self.arrive(tag);
            self.wires.ahead = 0;
        }
    }

    /// A letter that has not come through the network.
    #[inline]
    pub(super) fn arrive_locally(&mut self, tag: u32) {
        let letter = self.wires.letters.get(tag);
        match (letter.to, letter.payload.vnet()) {
            (Part::Home(n), VNET_REQUEST) => {
                self.inboxes[usize::from(n)].letters.push_back(tag);
                self.admit(n);
            }
            (Part::Integrated(_) | Part::Memory(_), _)
                if !self.has_room(self.wires.letters.get(tag)) =>
            {
                self.wires.wheel.at(self.wires.now + 1, Event::Arrive(tag));
            }
            _ => self.arrive(tag),
        }
    }

    /// Lets requests into a home as long as it has room, from its own tile and from the network in
    /// turn.
    #[inline]
    pub(super) fn admit(&mut self, home: u16) {
        let n = usize::from(home);
        let endpoint = self.wires.layout.endpoint(Part::Home(home));
        while self.homes[n].has_room() {
            let network = self.wires.net.peek(endpoint, VNET_REQUEST).map(|packet| packet.tag);
            let inbox = &mut self.inboxes[n];
            let (tag, from_network) = match (inbox.letters.front(), network) {
                (None, None) => return,
                (Some(_), Some(tag)) if inbox.network_first => (tag, true),
                (None, Some(tag)) => (tag, true),
                (Some(&tag), _) => (tag, false),
            };
            inbox.network_first = !from_network;
            if from_network {
                self.wires.net.take(endpoint, VNET_REQUEST);
            } else {
                inbox.letters.pop_front();
            }
            self.arrive(tag);
        }
        let inbox = &mut self.inboxes[n];
        if !inbox.letters.is_empty() && inbox.next_look <= self.wires.now {
            inbox.next_look = self.wires.now + 1;
            self.wires.wheel.at(inbox.next_look, Event::Admit(home));
        }
    }

    fn has_room(&self, letter: &Letter) -> bool {
        match (letter.to, letter.payload.vnet()) {
            (Part::Home(n), VNET_REQUEST) => self.homes[usize::from(n)].has_room(),
            (Part::Home(_) | Part::Tile(_), _) => true,
            (Part::Memory(n), _) => self.memories[usize::from(n)].has_room(&letter.payload),
            _ => self.ni.has_room(letter, &self.tiles, self.wires.now),
        }
    }

    fn arrive(&mut self, tag: u32) {
        let letter = self.wires.letters.take(tag);
        self.wires.trace.arrived(letter.trace, self.wires.now);
        let Chip { wires, tiles, .. } = self;
        match letter.to {
            Part::Tile(n) => tiles[usize::from(n)].receive(letter.payload, wires),
            Part::Home(n) => {
                self.homes[usize::from(n)].receive(letter, wires);
                self.tell_refreshed(n);
            }
            Part::Memory(n) => self.memories[usize::from(n)].receive(letter.payload, wires),
            to => {
                self.ni.receive(to, letter.payload, tiles, wires);
                self.tell_outdated();
            }
        }
    }
}
