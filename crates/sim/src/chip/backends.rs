//! The pipelines of the network interfaces of Manycore NI behind their frontends (§4.1): RGP and RCP backends, RRPPs,
//! and the ports of the network router.

use std::collections::VecDeque;

use rackmem_abi::{Packet, Reply, Status};
use rackmem_rmc::{Bounds, ContextTable};

use super::front::CONTEXT;
use super::layout::{Layout, Part};
use super::link::Link;
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
/// A link has a packet that can leave.
const LINK: u8 = 2;

/// A backend will send the next line.
pub(super) const fn unroll(part: Part) -> Event {
    Event::Ni(Timer { part, what: UNROLL, index: 0 })
}

/// A part will look whether the network has room.
pub(super) const fn pump(part: Part) -> Event {
    Event::Ni(Timer { part, what: PUMP, index: 0 })
}

/// A port will look at its link.
const fn look(port: u16) -> Event {
    Event::Ni(Timer { part: Part::Port(port), what: LINK, index: 0 })
}

#[derive(Clone, Debug)]
pub struct Backends {
    placement: Placement,
    segment_bytes: u64,
    /// RGPs and RCPs, or their backends.
    rmcs: Vec<Rmc>,
    /// RRPPs by number: one per network interface at the edge.
    rrpps: Vec<Rrpp>,
    lane_credits: u32,
    ports: Vec<Port>,
    /// Cycle in which a tile's stores will ask for the network again, by tile.
    tile_pumps: Vec<Cycle>,
}

/// A port of the network router: the link to its like in other nodes, replies that wait to cross the chip, and whose
/// turn it is to send.
#[derive(Clone, Debug)]
struct Port {
    link: Link,
    /// The first cycle in which the wire from the link to the interfaces behind it takes another packet. It is as wide
    /// as links on the chip, and takes a flit a cycle.
    wire_free_at: Cycle,
    /// Cycle in which its link will be looked at again.
    next_look: Cycle,
    /// Its link is looked at when all that happens in this cycle has happened.
    is_touched: bool,
    replies: VecDeque<NetPacket>,
    rrpp_first: bool,
    /// Cycle in which it will be looked at again.
    next_pump: Cycle,
}

impl Backends {
    /// Those of the chip of node `nid`, in a rack of `nodes` nodes.
    pub fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> Backends {
        let engines = if layout.engines_in_tiles() { layout.tiles } else { layout.units };
        let mut contexts = ContextTable::new();
        let segment_bytes = machine.workload.footprint_bytes;
        let bounds = Bounds { size_bytes: segment_bytes };
        contexts.install(CONTEXT, bounds).expect("the first context");
        let rrpp = |n| Rrpp::new(n, nid, machine, contexts.clone());
        let credits = machine.link_credits();
        let port = |n| Port {
            link: Link::new(n, nodes, credits, 0),
            wire_free_at: 0,
            next_look: 0,
            is_touched: false,
            replies: VecDeque::new(),
            rrpp_first: false,
            next_pump: 0,
        };
        Backends {
            placement: machine.ni.placement,
            segment_bytes,
            rmcs: (0..engines).map(|n| Rmc::new(n, engines, nid, machine)).collect(),
            rrpps: (0..layout.units).map(rrpp).collect(),
            lane_credits: machine.ni.lane_credits,
            ports: (0..layout.units).map(port).collect(),
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
        match payload {
            Payload::Net(packet) => match packet.packet {
                Packet::Request(_) => Part::Rrpp(layout.unit_of_packet(packet)),
                Packet::Reply(_) => Part::Port(layout.unit_of_packet(packet)),
            },
            Payload::Credit { link, .. } => Part::Port(*link),
            other => panic!("a chip with queue pairs got {other:?}"),
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
        self.send_out(wires);
    }

    /// Something of a backend or a port is due.
    #[inline]
    pub fn happen(&mut self, timer: Timer, wires: &mut Wires) {
        match (timer.part, timer.what) {
            (Part::Engine(n), UNROLL) => self.rmcs[usize::from(n)].unroll(wires),
            (Part::Engine(n), _) => self.pump_tile(n, wires),
            (Part::Port(n), LINK) => self.ports[usize::from(n)].touch(wires),
            (Part::Port(n), _) => self.pump_port(n, wires),
            (other, _) => panic!("{other} is no part of the interfaces' pipelines"),
        }
        self.send_out(wires);
    }

    /// Packets pass the links, after all else that happens in this cycle: packets and credits of other nodes come in an
    /// order among the chip's own events that means nothing.
    pub fn tick(&mut self, wires: &mut Wires) {
        while let Some(n) = self.ports.iter().position(|port| port.is_touched) {
            self.depart(n as u16, wires);
            self.admit(n as u16, wires);
            self.ports[n].is_touched = false;
            self.send_out(wires);
        }
    }

    fn engine_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        let rmc = &mut self.rmcs[usize::from(number)];
        match payload {
            Payload::Work { qp, slot, work } => rmc.accept(qp, slot, work, wires),
            // Into a tile, through a port.
            Payload::Net(NetPacket { packet: Packet::Reply(reply), .. }) => {
                rmc.reply(reply, wires.now, wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                rmc.response(line, response, wires);
            }
            other => panic!("rmc[{number}] got {other:?}"),
        }
    }

    fn rrpp_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        match payload {
            Payload::Net(mut packet) => {
                packet.served.0 = wires.now;
                self.ports[usize::from(number)].arrives(packet, wires);
            }
            Payload::Coherence { line, message: Message::Response(response), .. } => {
                self.rrpps[usize::from(number)].response(line, response, wires);
            }
            other => panic!("rrpp[{number}] got {other:?}"),
        }
    }

    #[inline]
    fn port_receives(&mut self, number: u16, payload: Payload, wires: &mut Wires) {
        match payload {
            // Of an RGP in a tile.
            Payload::Net(packet @ NetPacket { packet: Packet::Request(_), .. }) => {
                wires.depart(packet);
            }
            Payload::Net(packet) => self.ports[usize::from(number)].arrives(packet, wires),
            Payload::Credit { from, lane, .. } => {
                let port = &mut self.ports[usize::from(number)];
                port.link.credit(from, lane);
                port.touch(wires);
            }
            other => panic!("port[{number}] got {other:?}"),
        }
    }

    /// Gives packets that are ready to leave to their links.
    #[inline]
    fn send_out(&mut self, wires: &mut Wires) {
        while let Some((ready_at, packet)) = wires.outbound.pop_front() {
            let number = wires.layout.unit_of_packet(&packet);
            let port = &mut self.ports[usize::from(number)];
            if port.link.put(packet, ready_at, wires.now) {
                port.touch(wires);
            }
        }
    }

    /// Packets leave by a link, as far as there is room at the other end.
    fn depart(&mut self, number: u16, wires: &mut Wires) {
        let n = usize::from(number);
        while let Some((cycle, packet)) = self.ports[n].link.depart(wires) {
            self.departed(cycle, &packet, wires);
        }
        let port = &mut self.ports[n];
        if let Some(next) = port.link.next_departure(wires.now) {
            wires.happen_by(&mut port.next_look, next, look(number));
        }
    }

    /// A packet has left the chip.
    fn departed(&mut self, cycle: Cycle, packet: &NetPacket, wires: &mut Wires) {
        match packet.packet {
            Packet::Request(_) => {
                wires.counts.requests_out += 1;
                if let Some(read) = self.read_of(packet) {
                    wires.probe.mark(read, Mark::Out, cycle);
                }
            }
            Packet::Reply(Reply { header, .. }) => {
                let number = wires.layout.rrpp_of_offset(header.offset);
                if self.rrpps[usize::from(number)].replied() {
                    wires.wheel.at(wires.now + 1, pump(Part::Port(number)));
                }
            }
        }
    }

    /// Takes packets in from a link as far as the pipelines have room.
    fn admit(&mut self, number: u16, wires: &mut Wires) {
        let n = usize::from(number);
        while self.ports[n].link.has_arrivals() && self.ports[n].wire_free_at <= wires.now {
            let replies = match wires.layout.engines_in_tiles() {
                true => self.ports[n].replies.len(),
                false => self.rmcs[n].waiting_replies(),
            };
            let waiting = [self.rrpps[n].waiting(), replies];
            let room = waiting.map(|waiting| self.lane_credits.saturating_sub(waiting as u32));
            let link = &mut self.ports[n].link;
            link.set_room(room);
            let Some(packet) = link.next_arrival(wires) else { return };
            self.ports[n].wire_free_at = wires.now + wires.flits_between(&packet);
            self.take_in(number, packet, wires);
        }
        let port = &mut self.ports[n];
        if port.link.has_arrivals() {
            wires.happen_by(&mut port.next_look, port.wire_free_at, look(number));
        }
    }

    /// The head of a packet is past its link.
    fn take_in(&mut self, number: u16, packet: NetPacket, wires: &mut Wires) {
        let n = usize::from(number);
        let tail_at = wires.now + wires.flits_between(&packet) - 1;
        match packet.packet {
            Packet::Request(request) => {
                let times = [packet.served.0, tail_at];
                self.rrpps[n].receive(request, packet.engine, times, wires);
            }
            Packet::Reply(reply) => {
                if let Some(read) = self.read_of(&packet) {
                    wires.probe.back(read, packet.served, wires.now);
                }
                if wires.layout.engines_in_tiles() {
                    self.ports[n].replies.push_back(packet);
                    self.pump_port(number, wires);
                } else {
                    self.rmcs[n].reply(reply, tail_at, wires);
                }
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
        if port.link.has_arrivals() {
            port.touch(wires);
        }
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
            let (replies, packets) = (port.replies.len(), port.link.waiting());
            (
                replies + packets,
                format!("port[{n}]: {replies} replies, {packets} packets at its link"),
            )
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
    fn touch(&mut self, wires: &mut Wires) {
        self.is_touched = true;
        wires.ni_now = true;
    }

    /// A packet of another node has come.
    fn arrives(&mut self, packet: NetPacket, wires: &mut Wires) {
        self.link.receive(packet, wires.now);
        self.touch(wires);
    }

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
