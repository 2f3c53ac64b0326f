//! The pipelines of the network interfaces of Manycore NI behind their frontends (§4.1): RGP and RCP backends, RRPPs,
//! and the ports of the network router.

use std::collections::VecDeque;

use rackmem_abi::{Packet, Status};
use rackmem_rmc::{Bounds, ContextTable};

use super::front::CONTEXT;
use super::layout::{BLOCK_BYTES, Layout, Part, SEGMENT_LINE};
use super::message::{Letter, NetPacket, Payload, VNET_NETWORK, header};
use super::ni::Timer;
use super::probe::{Mark, ReadId};
use super::rmc::Rmc;
use super::rrpp::Rrpp;
use super::wires::{Event, Wires};
use crate::coherence::Message;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::Placement;

/// A backend sends the next line.
const UNROLL: u8 = 0;
/// A port, or a tile, looks whether the network has room again.
const PUMP: u8 = 1;

/// A backend will send the next line.
pub(super) const fn unroll(part: Part) -> Event {
    Event::Ni(Timer { part, what: UNROLL, index: 0 })
}

/// A part will look whether the network has room.
pub(super) const fn pump(part: Part) -> Event {
    Event::Ni(Timer { part, what: PUMP, index: 0 })
}

#[derive(Clone, Debug)]
pub struct Backends {
    placement: Placement,
    segment_bytes: u64,
    /// RGPs and RCPs, or their backends.
    rmcs: Vec<Rmc>,
    /// RRPPs by number: one per network interface at the edge.
    rrpps: Vec<Rrpp>,
    ports: Vec<Port>,
    /// Cycle in which a tile's stores will ask for the network again, by tile.
    tile_pumps: Vec<Cycle>,
}

/// A port of the network router: replies that wait to cross the chip, and whose turn it is to send.
#[derive(Clone, Debug, Default)]
struct Port {
    replies: VecDeque<NetPacket>,
    rrpp_first: bool,
    /// Cycle in which it will be looked at again.
    next_pump: Cycle,
}

impl Backends {
    /// Those of the chip of node `nid`.
    pub fn new(nid: u16, machine: &Machine, layout: &Layout) -> Backends {
        let engines = if layout.engines_in_tiles() { layout.tiles } else { layout.units };
        let mut contexts = ContextTable::new();
        let segment_bytes = machine.workload.footprint_bytes;
        let bounds = Bounds { size_bytes: segment_bytes };
        contexts.install(CONTEXT, bounds).expect("the first context");
        let rrpp = |n| Rrpp::new(n, nid, machine, contexts.clone());
        Backends {
            placement: machine.ni.placement,
            segment_bytes,
            rmcs: (0..engines).map(|n| Rmc::new(n, engines, nid, machine)).collect(),
            rrpps: (0..layout.units).map(rrpp).collect(),
            ports: vec![Port::default(); usize::from(layout.units)],
            tile_pumps: vec![0; usize::from(layout.tiles)],
        }
    }

    /// Size of the node's segment of its only context, at most.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Notifications that have come from other nodes.
    pub fn notifications(&self) -> u64 {
        self.rrpps.iter().map(Rrpp::notifications).sum()
    }

    /// Goes on from so many.
    pub fn restore_notifications(&mut self, count: u64) {
        // Only their sum is ever asked for.
        self.rrpps[0].restore_notifications(count);
    }

    /// The end of requests for a context, unless this node has a segment of it.
    pub fn status(&self, ctx_id: u16) -> Option<Status> {
        self.rrpps[0].status(ctx_id)
    }

    /// Opens or closes the node's segment of a context.
    pub fn set_context(&mut self, ctx_id: u16, bounds: Result<Bounds, Status>) {
        self.rrpps.iter_mut().for_each(|rrpp| rrpp.set_context(ctx_id, bounds));
    }

    /// The part that a packet of another node is for.
    pub fn entry(&self, payload: &Payload, layout: &Layout) -> Part {
        let Payload::Net(NetPacket { packet, engine, .. }) = payload else {
            panic!("a chip with queue pairs got {payload:?}");
        };
        match packet {
            Packet::Request(request) => {
                let line = SEGMENT_LINE + request.header.offset / BLOCK_BYTES;
                Part::Rrpp(layout.rrpp_of(line))
            }
            Packet::Reply(_) if layout.engines_in_tiles() => {
                Part::Port(layout.unit_of_tile(*engine))
            }
            Packet::Reply(_) => Part::Engine(*engine),
        }
    }

    /// Whether a message may come in: an RCP in a tile makes replies wait in the network.
    pub fn has_room(&self, letter: &Letter) -> bool {
        match (letter.to, letter.payload.vnet()) {
            (Part::Engine(n), VNET_NETWORK) => {
                self.placement != Placement::PerTile || self.rmcs[usize::from(n)].has_room()
            }
            _ => true,
        }
    }

    /// Takes a message for a backend, an RRPP or a port.
    pub fn receive(&mut self, to: Part, payload: Payload, wires: &mut Wires) {
        match to {
            Part::Engine(n) => self.engine_receives(n, payload, wires),
            Part::Rrpp(n) => self.rrpp_receives(n, payload, wires),
            Part::Port(n) => self.port_receives(n, payload, wires),
            other => panic!("{other} is no part of the interfaces' pipelines"),
        }
    }

    /// Something of a backend or a port is due.
    #[inline]
    pub fn happen(&mut self, timer: Timer, wires: &mut Wires) {
        match (timer.part, timer.what) {
            (Part::Engine(n), UNROLL) => self.rmcs[usize::from(n)].unroll(wires),
            (Part::Engine(n), _) => self.pump_tile(n, wires),
            (Part::Port(n), _) => self.pump_port(n, wires),
            (other, _) => panic!("{other} is no part of the interfaces' pipelines"),
        }
    }

    fn engine_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        let rmc = &mut self.rmcs[usize::from(number)];
        match payload {
            Payload::Work { qp, slot, work } => rmc.accept(qp, slot, work, wires),
            Payload::Net(packet @ NetPacket { packet: Packet::Reply(reply), served, .. }) => {
                // In a tile the reply has come through a port, which has noted it.
                if wires.layout.engines_in_tiles() {
                    return rmc.reply(reply, wires.now, wires);
                }
                if let Some(read) = rmc.read_of(reply.header.tid) {
                    wires.probe.back(read, served, wires.now);
                }
                rmc.reply(reply, wires.now + wires.flits_between(&packet) - 1, wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rmc.response(line, response, wires);
            }
            other => panic!("rmc[{number}] got {other:?}"),
        }
    }

    fn rrpp_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        let rrpp = &mut self.rrpps[usize::from(number)];
        match payload {
            Payload::Net(packet @ NetPacket { packet: Packet::Request(request), engine, .. }) => {
                let tail_at = wires.now + wires.flits_between(&packet) - 1;
                rrpp.receive(request, engine, tail_at, wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rrpp.response(line, response, wires);
            }
            other => panic!("rrpp[{number}] got {other:?}"),
        }
    }

    #[inline]
    fn port_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        let Payload::Net(packet) = payload else { panic!("port[{number}] got {payload:?}") };
        let read = self.read_of(&packet);
        match packet.packet {
            Packet::Request(_) => {
                if let Some(read) = read {
                    wires.probe.mark(read, Mark::Out, wires.leaves_at(0, &packet));
                }
                wires.depart(packet);
            }
            Packet::Reply(_) => {
                if let Some(read) = read {
                    wires.probe.back(read, packet.served, wires.now);
                }
                self.ports[usize::from(number)].replies.push_back(packet);
                self.pump_port(number, wires);
            }
        }
    }

    /// The chip's own operation that a packet belongs to.
    fn read_of(&self, packet: &NetPacket) -> Option<ReadId> {
        if self.placement == Placement::Numa {
            return Some(ReadId { core: packet.engine, slot: 0 });
        }
        self.rmcs.get(usize::from(packet.engine))?.read_of(header(&packet.packet).tid)
    }

    /// Sends what waits at a port, as long as the network takes it: requests of the RRPP to homes in turn with those of
    /// the RCP or, if that is in a tile, with replies to it.
    #[inline]
    fn pump_port(&mut self, number: u16, wires: &mut Wires) {
        let n = usize::from(number);
        let Backends { rmcs, rrpps, ports, .. } = self;
        let (port, rrpp) = (&mut ports[n], &mut rrpps[n]);
        let mut rmc = if wires.layout.engines_in_tiles() { None } else { rmcs.get_mut(n) };
        loop {
            let sent = match (port.rrpp_first, &mut rmc) {
                (true, None) => rrpp.access(wires) || port.reply(number, wires),
                (false, None) => port.reply(number, wires) || rrpp.access(wires),
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
        pump_again(wanted, &mut port.next_pump, Part::Port(number), wires);
    }

    /// The same for the stores of an RCP in a tile.
    fn pump_tile(&mut self, number: u16, wires: &mut Wires) {
        let rmc = &mut self.rmcs[usize::from(number)];
        while rmc.store(wires) {}
        let next = &mut self.tile_pumps[usize::from(number)];
        pump_again(rmc.wants_port(), next, Part::Engine(number), wires);
    }

    /// Names the parts that have something under way.
    pub fn under_way(&self) -> Vec<String> {
        let rrpps = self.rrpps.iter().enumerate().map(|(n, rrpp)| {
            let (waiting, accesses) = rrpp.under_way();
            (waiting + accesses, format!("rrpp[{n}]: {waiting} requests, {accesses} accesses"))
        });
        let rmcs =
            self.rmcs.iter().enumerate().map(|(n, rmc)| {
                (rmc.under_way(), format!("rmc[{n}]: {} transfers", rmc.in_flight()))
            });
        let ports = self.ports.iter().enumerate().map(|(n, port)| {
            (port.replies.len(), format!("port[{n}]: {} replies", port.replies.len()))
        });
        let all = rrpps.chain(rmcs).chain(ports);
        all.filter(|&(count, _)| count > 0).map(|(_, text)| text).collect()
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        self.rrpps.iter().for_each(|rrpp| rrpp.write_stats(stats));
        self.rmcs.iter().for_each(|rmc| rmc.write_stats(stats));
    }
}

impl Port {
    /// Sends the next reply across the chip if the network has room; whether it was sent.
    fn reply(&mut self, number: u16, wires: &mut Wires) -> bool {
        if !wires.port_has_room(Part::Port(number), VNET_NETWORK) {
            return false;
        }
        let Some(packet) = self.replies.pop_front() else { return false };
        wires.send(Part::Port(number), Part::Engine(packet.engine), Payload::Net(packet));
        true
    }
}

/// Looks at a port again in the cycle in which something will want it, unless it is looked at before.
#[inline]
fn pump_again(wanted: Option<Cycle>, next_pump: &mut Cycle, part: Part, wires: &mut Wires) {
    let Some(wanted) = wanted else { return };
    wires.happen_by(next_pump, wanted.max(wires.now + 1), pump(part));
}
