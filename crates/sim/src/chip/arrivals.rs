//! Delivery of arrived messages to the parts, as far as they have room.

use std::collections::VecDeque;

use rackmem_abi::Packet;

use super::Chip;
use super::layout::Part;
use super::message::{Letter, NetPacket, Payload, VNET_NETWORK, VNET_REQUEST, VNETS};
use super::wires::Event;
use crate::coherence::Message;
use crate::engine::Cycle;
use crate::machine::spec::Placement;

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
            self.wires.net.take(endpoint, vnet);
            self.arrive(tag);
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
            (Part::Integrated(_), _) if !self.has_room(self.wires.letters.get(tag)) => {
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
            (Part::Engine(n), VNET_NETWORK) => {
                self.wires.layout.placement != Placement::PerTile
                    || self.rmcs[usize::from(n)].has_room()
            }
            (Part::Memory(n), _) => self.memories[usize::from(n)].has_room(&letter.payload),
            (Part::Integrated(n), _) => self.tiles[usize::from(n)].has_room(&letter.payload),
            (Part::Dma, _) => match (&self.dma, &letter.payload) {
                (Some(dma), Payload::Scratchpad(packet)) => dma.has_room(packet),
                _ => true,
            },
            _ => true,
        }
    }

    fn arrive(&mut self, tag: u32) {
        let letter = self.wires.letters.take(tag);
        self.wires.trace.arrived(letter.trace, self.wires.now);
        let Chip { wires, .. } = self;
        match letter.to {
            Part::Tile(n) => self.tiles[usize::from(n)].receive(letter.payload, wires),
            Part::NiCache(n) => match &mut self.node_rmc {
                Some(rmc) => rmc.receive(letter.payload, wires),
                None => self.ni_caches[usize::from(n)].receive(letter.payload, wires),
            },
            Part::Home(n) => {
                self.homes[usize::from(n)].receive(letter, wires);
                self.tell_refreshed();
            }
            Part::Memory(n) => self.memories[usize::from(n)].receive(letter.payload, wires),
            Part::Engine(n) => self.engine_receives(n, letter.payload),
            Part::Rrpp(n) => self.rrpp_receives(n, letter.payload),
            Part::Port(n) => self.port_receives(n, letter.payload),
            Part::Integrated(n) => {
                // Whatever arrives is an access to the cache, and passes its pipeline first.
                let tile = &self.tiles[usize::from(n)];
                let at = wires.now + tile.integrated_latency(&letter.payload);
                let tag = wires.letters.put(letter);
                wires.wheel.at(at, Event::Accessed(tag));
            }
            Part::Window => {
                if let Some(window) = &mut self.window {
                    window.receive(letter.payload, wires);
                }
            }
            Part::Dma => {
                if let (Some(dma), Payload::Scratchpad(packet)) = (&mut self.dma, letter.payload) {
                    dma.arrive(&packet, wires);
                }
            }
        }
    }

    fn engine_receives(&mut self, number: u16, payload: Payload) {
        let Chip { wires, rmcs, tiles, window, .. } = self;
        if window.is_some() {
            let Payload::Coherence { line, .. } = payload else { return };
            return tiles[usize::from(number)].taken(line, wires);
        }
        let rmc = &mut rmcs[usize::from(number)];
        match payload {
            Payload::Work { qp, slot, work } => rmc.accept(qp, slot, work, wires),
            Payload::Net(NetPacket { packet: Packet::Reply(reply), served, .. }) => {
                match wires.layout.placement {
                    Placement::Numa => tiles[usize::from(number)].core.loaded(&reply, wires),
                    Placement::PerTile => rmc.reply(reply, wires),
                    _ => {
                        if let Some(read) = rmc.read_of(reply.header.tid) {
                            wires.probe.back(read, served, wires.now);
                        }
                        rmc.reply(reply, wires);
                    }
                }
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rmc.response(line, response, wires);
            }
            other => panic!("rmc[{number}] got {other:?}"),
        }
    }

    fn rrpp_receives(&mut self, number: u16, payload: Payload) {
        if let (
            Some(window),
            Payload::Coherence { line, message: Message::Response(response), .. },
        ) = (&mut self.window, &payload)
        {
            return window.response(*line, *response, &mut self.wires);
        }
        let rrpp = &mut self.rrpps[usize::from(number)];
        match payload {
            Payload::Net(NetPacket { packet: Packet::Request(request), engine, .. }) => {
                rrpp.receive(request, engine, &mut self.wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rrpp.response(line, response, &mut self.wires);
            }
            other => panic!("rrpp[{number}] got {other:?}"),
        }
    }
}
