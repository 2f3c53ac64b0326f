//! The routing layer (DEOI §III) and Thunder's switch (TSM §4.2): which packet goes to which link next, and
//! what becomes of those that come.

use super::lane::Frame;
use super::node::Held;
use super::packet::{Access, CHANNELS, Channel, Layer, Packet, VCS};
use super::platform::{Event, Platform, Upcall};
use super::time::{Ps, ps};

const ALL: [Channel; CHANNELS] = [
    Channel::ReadAddress,
    Channel::ReadData,
    Channel::WriteAddress,
    Channel::WriteData,
    Channel::WriteResponse,
    Channel::Interrupt,
    Channel::Message,
    Channel::MessageResponse,
];

impl Platform {
    /// The order in which virtual channels are served.
    fn order(&self) -> [usize; VCS] {
        if self.extension.interrupts_first { [0, 1, 2] } else { [1, 2, 0] }
    }

    /// The transaction layer of the asking node makes packets of an access.
    pub(super) fn request(&mut self, id: u32) {
        let Access { node, home, is_write, bytes, .. } = *self.accesses.get(id);
        let packet =
            |channel, bytes| Packet { channel, source: node, destination: home, tag: id, bytes };
        if is_write {
            self.send(node, packet(Channel::WriteAddress, bytes));
            self.send(node, packet(Channel::WriteData, bytes));
        } else {
            self.send(node, packet(Channel::ReadAddress, bytes));
        }
    }

    /// The transaction layer of the home makes a packet of the answer.
    pub(super) fn respond(&mut self, id: u32) {
        let now = self.now() + self.times.oci.cycles(self.extension.oci_cycles);
        let access = self.accesses.get_mut(id);
        access.layers[Layer::Memory as usize] += now - access.mark;
        access.mark = now;
        let Access { node, home, is_write, bytes, .. } = *access;
        let channel = if is_write { Channel::WriteResponse } else { Channel::ReadData };
        self.send_at(
            now,
            home,
            Packet { channel, source: home, destination: node, tag: id, bytes },
        );
        let served = &mut self.nodes[usize::from(home)];
        served.served -= 1;
        if let Some(Held { port, packet }) = served.held.pop_front() {
            self.unpack(home, port, packet);
        }
    }

    /// Gives a packet to the transaction layer of a node.
    pub fn send(&mut self, node: u16, packet: Packet) {
        self.send_at(self.now(), node, packet);
    }

    fn send_at(&mut self, at: Ps, node: u16, packet: Packet) {
        let place = usize::from(node);
        let bytes = self.lanes.packet_bytes(&packet);
        // More slots than can be compared at once take cycles of their own.
        let slots = u32::from(self.extension.amt_slots);
        let rounds = slots.div_ceil(self.extension.amt_slots_per_cycle.max(1).into());
        let more = if packet.channel.has_address() { rounds - 1 } else { 0 };
        if let Some(at) = self.nodes[place].transactions.pack(at, packet, bytes) {
            let at = at + self.lanes.clock.cycles(more);
            self.agenda.at(at, Event::Packed { node, packet });
        }
    }

    /// Accounts the time of the access that a packet belongs to, if its time depends on this packet.
    fn charge(&mut self, packet: &Packet, layer: Layer) {
        let now = self.now();
        if packet.channel.is_timed() {
            self.accesses.get_mut(packet.tag).charge(layer, now);
        }
    }

    /// The side of the access, master or slave, at whose transaction layer the packet is.
    fn side(&self, node: u16, packet: &Packet) -> Layer {
        match packet.channel {
            Channel::Interrupt
            | Channel::WriteAddress
            | Channel::Message
            | Channel::MessageResponse => Layer::Master,
            _ if self.accesses.get(packet.tag).node == node => Layer::Master,
            _ => Layer::Slave,
        }
    }

    /// A packet is in its FIFO.
    pub(super) fn packed(&mut self, node: u16, packet: Packet) {
        let layer = self.side(node, &packet);
        self.charge(&packet, layer);
        let place = &mut self.nodes[usize::from(node)];
        place.transactions.outgoing[packet.channel.index()].fifo.push_back(packet);
        match place.routes[usize::from(packet.destination)] {
            Some(port) => self.serve(node, port),
            None => self.drop_unroutable(node, packet.channel),
        }
    }

    /// Drops the packet at the head of a FIFO if it has no way to go, and those behind it likewise.
    fn drop_unroutable(&mut self, node: u16, channel: Channel) {
        let place = &mut self.nodes[usize::from(node)];
        let Some(&packet) = place.transactions.outgoing[channel.index()].fifo.front() else {
            return;
        };
        let waits = channel == Channel::WriteData && place.addresses_ahead == 0;
        if waits || place.routes[usize::from(packet.destination)].is_some() {
            return;
        }
        place.control.unroutable += 1;
        self.left(node, channel);
        self.fail(&packet);
    }

    /// The access of a packet that was dropped comes to its end, which its node hears of from the
    /// control centre.
    fn fail(&mut self, packet: &Packet) {
        if packet.channel.is_request() {
            self.accesses.get_mut(packet.tag).failed = true;
            self.agenda.at(self.now(), Event::Finished { access: packet.tag });
        }
    }

    /// The first packet of a channel has left its FIFO: another one may have waited for its room, or be
    /// at the head now.
    fn left(&mut self, node: u16, channel: Channel) {
        let place = &mut self.nodes[usize::from(node)];
        match channel {
            Channel::WriteAddress => place.addresses_ahead += 1,
            Channel::WriteData => place.addresses_ahead -= 1,
            _ => {}
        }
        match place.transactions.leave(channel.index()) {
            Some(packet) => self.send(node, packet),
            None if channel == Channel::Message => self.upcalls.push_back(Upcall::Room { node }),
            None => {}
        }
        self.drop_unroutable(node, channel);
        if channel == Channel::WriteAddress {
            self.drop_unroutable(node, Channel::WriteData);
        }
    }

    /// A link sends the next frame, if it can take one now.
    pub(super) fn serve(&mut self, node: u16, port: u8) {
        let now = self.now();
        let order = self.order();
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        if end.wire_free > now {
            if end.look_at.is_none() {
                end.look_at = Some(end.wire_free);
                self.agenda.at(end.wire_free, Event::Serve { node, port });
            }
            return;
        }
        self.feed(node, port, order);
        let times = self.lanes;
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        let Some((frame, arrives)) = end.send(now, order, &times) else { return };
        let (peer, its_port) = end.peer;
        end.look_at = Some(end.wire_free);
        self.agenda.at(end.wire_free, Event::Serve { node, port });
        if let Some(at) = arrives {
            self.agenda.at(at, Event::Arrive { node: peer, port: its_port, frame });
        }
        self.watch(node, port, frame.vc);
    }

    /// Gives the link the next packet for it, unless it has something to send again.
    fn feed(&mut self, node: u16, port: u8, order: [usize; VCS]) {
        for vc in order {
            let end = &self.nodes[usize::from(node)].ends[usize::from(port)];
            if end.ports[vc].sender.is_ready() {
                return;
            }
            let Some(from) = self.waiting(node, port, vc) else { continue };
            let place = &mut self.nodes[usize::from(node)];
            if !place.ends[usize::from(port)].accepts(vc) {
                place.control.congested += 1;
                self.watch(node, port, vc as u8);
                continue;
            }
            let packet = match from {
                Some(channel) => {
                    place.turn = channel.index() + 1;
                    let packet = place.transactions.outgoing[channel.index()].fifo[0];
                    self.left(node, channel);
                    packet
                }
                None => self.pass_on(node, port, vc),
            };
            self.charge(&packet, Layer::Routing);
            self.nodes[usize::from(node)].ends[usize::from(port)].push(packet);
            return;
        }
    }

    /// The place of the next packet of a virtual channel for a link: in the FIFO of a channel, or (`None`)
    /// among those of other nodes.
    fn waiting(&self, node: u16, port: u8, vc: usize) -> Option<Option<Channel>> {
        let place = &self.nodes[usize::from(node)];
        let ours = (0..CHANNELS).map(|n| ALL[(place.turn + n) % CHANNELS]).find(|channel| {
            channel.vc() == vc
                && (*channel != Channel::WriteData || place.addresses_ahead > 0)
                && place.transactions.outgoing[channel.index()].fifo.front().is_some_and(|packet| {
                    place.routes[usize::from(packet.destination)] == Some(port)
                })
        });
        let others =
            || place.forward[usize::from(port)].iter().any(|h| h.packet.channel.vc() == vc);
        ours.map(Some).or_else(|| others().then_some(None))
    }

    /// The first packet of another node for a link, on a virtual channel; its room is free then.
    fn pass_on(&mut self, node: u16, port: u8, vc: usize) -> Packet {
        let place = &mut self.nodes[usize::from(node)];
        let queue = &mut place.forward[usize::from(port)];
        let at = queue.iter().position(|held| held.packet.channel.vc() == vc).unwrap_or_default();
        let held = queue.remove(at).expect("a packet that waits");
        place.control.forwarded += 1;
        self.consume(node, held.port, &held.packet);
        held.packet
    }

    /// A packet that came from a link leaves its buffer there.
    pub fn consume(&mut self, node: u16, port: u8, packet: &Packet) {
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        end.ports[packet.channel.vc()].consume();
        self.serve(node, port);
    }

    pub(super) fn arrive(&mut self, node: u16, port: u8, frame: Frame) {
        let now = self.now();
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        if end.receive(&frame, now) {
            let at = now + self.lanes.receive_ps;
            let Frame { packet, physical, .. } = frame;
            self.agenda.at(at, Event::Deliver { node, port, packet, physical });
        }
        self.serve(node, port);
    }

    /// Starts the timer of a virtual channel that waits for the other end.
    fn watch(&mut self, node: u16, port: u8, vc: u8) {
        let now = self.now();
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        let channel = usize::from(vc);
        if end.waits(channel) && !end.timer_runs[channel] {
            end.timer_runs[channel] = true;
            end.heard[channel] = end.heard[channel].max(now);
            let at = now + ps(self.extension.link_timeout_ns);
            self.agenda.at(at, Event::Timer { node, port, vc });
        }
    }

    pub(super) fn timer(&mut self, node: u16, port: u8, vc: u8) {
        let now = self.now();
        let patience = ps(self.extension.link_timeout_ns);
        let end = &mut self.nodes[usize::from(node)].ends[usize::from(port)];
        let channel = usize::from(vc);
        if !end.waits(channel) {
            end.timer_runs[channel] = false;
            return;
        }
        let at = end.heard[channel] + patience;
        if at <= now {
            end.heard[channel] = now;
            end.ports[channel].timeout();
        }
        self.agenda.at(
            at.max(now + 1).max(end.heard[channel] + patience),
            Event::Timer { node, port, vc },
        );
        self.serve(node, port);
    }

    /// A packet has passed the link layer.
    pub(super) fn deliver(&mut self, node: u16, port: u8, packet: Packet, physical: Ps) {
        let now = self.now();
        if packet.channel.is_timed() {
            let access = self.accesses.get_mut(packet.tag);
            access.layers[Layer::Physical as usize] += physical;
            access.mark += physical;
            access.charge(Layer::Link, now);
        }
        let place = &mut self.nodes[usize::from(node)];
        if packet.destination != node {
            match place.routes[usize::from(packet.destination)] {
                Some(out) => {
                    place.forward[usize::from(out)].push_back(Held { port, packet });
                    self.serve(node, out);
                }
                None => {
                    place.control.unroutable += 1;
                    self.consume(node, port, &packet);
                    self.fail(&packet);
                }
            }
            return;
        }
        if packet.channel.is_request() && place.served >= self.extension.slave_transactions {
            place.held.push_back(Held { port, packet });
            return;
        }
        self.unpack(node, port, packet);
    }

    /// A packet crosses to the on-chip interconnect.
    fn unpack(&mut self, node: u16, port: u8, packet: Packet) {
        let now = self.now();
        let bytes = self.lanes.packet_bytes(&packet);
        let place = &mut self.nodes[usize::from(node)];
        place.served += u32::from(packet.channel.is_request());
        let at = place.transactions.unpack(now, packet.channel.index(), bytes);
        self.agenda.at(at, Event::Unpacked { node, port, packet });
    }

    /// A packet is on the on-chip interconnect.
    pub(super) fn unpacked(&mut self, node: u16, port: u8, packet: Packet) {
        let layer = self.side(node, &packet);
        self.charge(&packet, layer);
        if packet.channel == Channel::Message {
            self.upcalls.push_back(Upcall::Message { node, port, packet });
            return;
        }
        self.consume(node, port, &packet);
        let now = self.now();
        match packet.channel {
            // The access follows with its data.
            Channel::WriteAddress => {}
            Channel::ReadAddress | Channel::WriteData => {
                let at = now + self.times.oci.cycles(self.extension.oci_cycles);
                self.agenda.at(at, Event::Home { access: packet.tag });
            }
            Channel::ReadData | Channel::WriteResponse => {
                self.agenda.at(now, Event::Finished { access: packet.tag });
            }
            Channel::Interrupt => self.upcalls.push_back(Upcall::Interrupt {
                node,
                line: (packet.tag >> 1) as u8,
                asserted: packet.tag & 1 != 0,
            }),
            Channel::Message | Channel::MessageResponse => {
                self.upcalls.push_back(Upcall::Message { node, port, packet });
            }
        }
    }
}
