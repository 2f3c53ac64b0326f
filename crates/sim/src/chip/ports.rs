//! The ports of the network router, and the turns of the parts that send through them.

use std::collections::VecDeque;

use rackmem_abi::Packet;

use super::Chip;
use super::layout::Part;
use super::message::{NetPacket, Payload, VNET_NETWORK};
use super::probe::{Mark, ReadId};
use super::wires::Event;
use crate::engine::Cycle;
use crate::machine::spec::Placement;

/// A port of the network router: replies that wait to cross the chip, and whose turn it is to send
/// requests to homes.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    pub(super) replies: VecDeque<NetPacket>,
    rrpp_first: bool,
    /// Cycle in which it will be looked at again.
    next_pump: Cycle,
}

impl Chip {
    #[inline]
    pub(super) fn port_receives(&mut self, number: u16, payload: Payload) {
        let Payload::Net(packet) = payload else { panic!("port[{number}] got {payload:?}") };
        let read = self.read_of(&packet);
        match packet.packet {
            Packet::Request(_) => {
                if let Some(read) = read {
                    self.wires.probe.mark(read, Mark::Out, self.wires.now);
                }
                self.wires.depart(packet);
            }
            Packet::Reply(_) => {
                if let Some(read) = read {
                    self.wires.probe.back(read, packet.served, self.wires.now);
                }
                self.ports[usize::from(number)].replies.push_back(packet);
                self.pump_port(number);
            }
        }
    }

    /// The chip's own operation that a packet belongs to.
    fn read_of(&self, packet: &NetPacket) -> Option<ReadId> {
        if self.wires.layout.placement == Placement::Numa {
            return Some(ReadId { core: packet.engine, slot: 0 });
        }
        let tid = match &packet.packet {
            Packet::Request(request) => request.header.tid,
            Packet::Reply(reply) => reply.header.tid,
        };
        self.rmcs.get(usize::from(packet.engine))?.read_of(tid)
    }

    /// Sends what waits at a port, as long as the network takes it: replies that cross the chip;
    /// requests of RRPP and RCP to homes, in turn.
    #[inline]
    pub(super) fn pump_port(&mut self, number: u16) {
        let n = usize::from(number);
        let Chip { wires, rmcs, rrpps, ports, .. } = self;
        let (port, rrpp) = (&mut ports[n], &mut rrpps[n]);
        while wires.queued(Part::Port(number), VNET_NETWORK) < rrpp.port_packets() {
            let Some(packet) = port.replies.pop_front() else { break };
            wires.send(Part::Port(number), Part::Engine(packet.engine), Payload::Net(packet));
        }
        let mut rmc = if wires.layout.engines_in_tiles() { None } else { rmcs.get_mut(n) };
        while rrpp.port_has_room(wires) {
            let sent = match (port.rrpp_first, &mut rmc) {
                (_, None) => rrpp.access(wires),
                (true, Some(rmc)) => rrpp.access(wires) || rmc.store(wires),
                (false, Some(rmc)) => rmc.store(wires) || rrpp.access(wires),
            };
            if !sent {
                break;
            }
            port.rrpp_first = !port.rrpp_first;
        }
        let stores = rmc.and_then(|rmc| rmc.wants_port());
        let replies = (!port.replies.is_empty()).then_some(wires.now);
        let wanted = [rrpp.wants_port(), stores, replies].into_iter().flatten().min();
        let Some(wanted) = wanted else { return };
        let next = wanted.max(wires.now + 1);
        if port.next_pump <= wires.now || port.next_pump > next {
            port.next_pump = next;
            wires.wheel.at(next, Event::Pump(Part::Port(number)));
        }
    }

    /// The same for the stores of an RCP in a tile.
    pub(super) fn pump_tile(&mut self, number: u16) {
        let Chip { wires, rmcs, tile_pumps, .. } = self;
        let rmc = &mut rmcs[usize::from(number)];
        while rmc.port_has_room(wires) && rmc.store(wires) {}
        let Some(wanted) = rmc.wants_port() else { return };
        let next = wanted.max(wires.now + 1);
        let pump = &mut tile_pumps[usize::from(number)];
        if *pump <= wires.now || *pump > next {
            *pump = next;
            wires.wheel.at(next, Event::Pump(Part::Engine(number)));
        }
    }
}
