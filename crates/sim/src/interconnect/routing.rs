//! The routing layer (DEOI §III) and Thunder's switch (TSM §4.2): which packet goes to which link next, and
//! what becomes of those that come.

use super::lane::Frame;
use super::module::{Action, Event, Held, Module};
use super::packet::{CHANNELS, Channel, Layer, Packet, VCS};
use super::time::Ps;

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

impl<B: Copy + Default> Module<B> {
    /// Accounts the time of the access that a packet belongs to, if its time depends on this packet.
    fn charge(&self, packet: &mut Packet<B>, layer: Layer) {
        if packet.channel.is_timed() {
            packet.trip.charge(layer, self.now);
        }
    }

    /// A packet is in its FIFO.
    pub(super) fn packed(&mut self, mut packet: Packet<B>) {
        let layer = packet.channel.side(true);
        self.charge(&mut packet, layer);
        self.transactions.outgoing[packet.channel.index()].fifo.push_back(packet);
        match self.routes[usize::from(packet.destination)] {
            Some(port) => self.serve(port),
            None => self.drop_unroutable(packet.channel),
        }
    }

    /// Drops the packet at the head of a FIFO if it has no way to go, and those behind it likewise.
    fn drop_unroutable(&mut self, channel: Channel) {
        let Some(&packet) = self.transactions.outgoing[channel.index()].fifo.front() else {
            return;
        };
        let waits = channel == Channel::WriteData && self.addresses_ahead == 0;
        if waits || self.routes[usize::from(packet.destination)].is_some() {
            return;
        }
        self.control.unroutable += 1;
        self.left(channel, None);
        self.actions.push_back(Action::Dropped { packet });
    }

    /// The first packet of a channel has left its FIFO, for a link: another one may have waited for its room, or be
    /// at the head now.
    fn left(&mut self, channel: Channel, link: Option<u8>) {
        match channel {
            Channel::WriteAddress => self.addresses_ahead += 1,
            Channel::WriteData => self.addresses_ahead -= 1,
            _ => {}
        }
        match self.transactions.leave(channel.index()) {
            Some(packet) => self.send(self.now, packet),
            None if channel == Channel::Message => self.actions.push_back(Action::Room),
            None => {}
        }
        self.drop_unroutable(channel);
        if channel == Channel::WriteAddress {
            self.drop_unroutable(Channel::WriteData);
        }
        let head = self.transactions.outgoing[channel.index()].fifo.front();
        let next = head.and_then(|packet| self.routes[usize::from(packet.destination)]);
        if let Some(other) = next.filter(|_| next != link) {
            self.look_soon(other);
        }
    }

    /// Has a link look for packets: one for it was behind a packet for another link.
    pub(super) fn look_soon(&mut self, port: u8) {
        let end = &mut self.ends[usize::from(port)];
        if end.look_at.is_none() {
            end.look_at = Some(self.now);
            self.plan(self.now, Event::Serve { port });
        }
    }

    /// A link sends the next frame, if it can take one now.
    pub(super) fn serve(&mut self, port: u8) {
        let now = self.now;
        let end = &mut self.ends[usize::from(port)];
        let order = end.order(self.spec.interrupts_first);
        let free = end.wire_free;
        if free > now {
            if end.look_at.is_none() {
                end.look_at = Some(free);
                self.plan(free, Event::Serve { port });
            }
            return;
        }
        self.feed(port, order);
        let times = self.spec.lanes;
        let end = &mut self.ends[usize::from(port)];
        let Some((frame, arrives)) = end.send(now, order, &times) else { return };
        let ((peer, its_port), free) = (end.peer, end.wire_free);
        end.look_at = Some(free);
        self.plan(free, Event::Serve { port });
        if let Some(at) = arrives {
            self.actions.push_back(Action::Frame { at, node: peer, port: its_port, frame });
        }
        self.watch(port, frame.vc);
    }

    /// Gives the link the next packet for it, unless it has something to send again.
    fn feed(&mut self, port: u8, order: [usize; VCS]) {
        for vc in order {
            let end = &self.ends[usize::from(port)];
            if end.ports[vc].sender.is_ready() {
                return;
            }
            let Some(from) = self.waiting(port, vc) else { continue };
            if !self.ends[usize::from(port)].accepts(vc) {
                self.control.congested += 1;
                self.watch(port, vc as u8);
                continue;
            }
            let end = &mut self.ends[usize::from(port)];
            end.passed_on[vc] = from.is_none();
            let mut packet = match from {
                Some(channel) => {
                    end.turns[vc] = channel.index() + 1;
                    let packet = self.transactions.outgoing[channel.index()].fifo[0];
                    self.left(channel, Some(port));
                    packet
                }
                None => self.pass_on(port, vc),
            };
            self.charge(&mut packet, Layer::Routing);
            self.ends[usize::from(port)].push(packet);
            return;
        }
    }

    /// The place of the next packet of a virtual channel for a link: in the FIFO of a channel, or (`None`)
    /// among those of other nodes. Both take turns, and so do the channels.
    fn waiting(&self, port: u8, vc: usize) -> Option<Option<Channel>> {
        let end = &self.ends[usize::from(port)];
        let ours = (0..CHANNELS).map(|n| ALL[(end.turns[vc] + n) % CHANNELS]).find(|channel| {
            channel.vc() == vc
                && (*channel != Channel::WriteData || self.addresses_ahead > 0)
                && self.transactions.outgoing[channel.index()].fifo.front().is_some_and(|packet| {
                    self.routes[usize::from(packet.destination)] == Some(port)
                })
        });
        let others = || self.forward[usize::from(port)].iter().any(|h| h.packet.channel.vc() == vc);
        match ours {
            Some(_) if end.passed_on[vc] || !others() => ours.map(Some),
            _ => others().then_some(None),
        }
    }

    /// The first packet of another node for a link, on a virtual channel; its room is free then.
    fn pass_on(&mut self, port: u8, vc: usize) -> Packet<B> {
        let queue = &mut self.forward[usize::from(port)];
        let at = queue.iter().position(|held| held.packet.channel.vc() == vc).unwrap_or_default();
        let held = queue.remove(at).expect("a packet that waits");
        self.control.forwarded += 1;
        self.consume_at(held.port, &held.packet);
        held.packet
    }

    /// A packet that came from a link leaves its buffer there.
    pub fn consume(&mut self, now: Ps, port: u8, packet: &Packet<B>) {
        self.now = now;
        self.consume_at(port, packet);
    }

    fn consume_at(&mut self, port: u8, packet: &Packet<B>) {
        self.ends[usize::from(port)].consume(packet.channel.vc(), self.now);
        self.serve(port);
    }

    pub(super) fn arrive(&mut self, port: u8, frame: Frame<B>) {
        let now = self.now;
        let end = &mut self.ends[usize::from(port)];
        if end.receive(&frame, now) {
            let at = now + self.spec.lanes.receive_ps;
            let Frame { packet, physical, .. } = frame;
            self.plan(at, Event::Deliver { port, packet, physical });
        }
        self.serve(port);
    }

    /// Starts the timer of a virtual channel that waits for the other end.
    fn watch(&mut self, port: u8, vc: u8) {
        let now = self.now;
        let end = &mut self.ends[usize::from(port)];
        let channel = usize::from(vc);
        if end.waits(channel) && !end.timer_runs[channel] {
            end.timer_runs[channel] = true;
            end.heard[channel] = end.heard[channel].max(now);
            let at = now + self.spec.patience;
            self.plan(at, Event::Timer { port, vc });
        }
    }

    pub(super) fn timer(&mut self, port: u8, vc: u8) {
        let now = self.now;
        let patience = self.spec.patience;
        let end = &mut self.ends[usize::from(port)];
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
        let next = at.max(now + 1).max(end.heard[channel] + patience);
        self.plan(next, Event::Timer { port, vc });
        self.serve(port);
    }

    /// A packet has passed the link layer.
    pub(super) fn deliver(&mut self, port: u8, mut packet: Packet<B>, physical: Ps) {
        let now = self.now;
        if packet.channel.is_timed() {
            packet.trip.layers[Layer::Physical as usize] += physical;
            packet.trip.mark += physical;
            packet.trip.charge(Layer::Link, now);
        }
        if packet.destination != self.number {
            match self.routes[usize::from(packet.destination)] {
                Some(out) => {
                    self.forward[usize::from(out)].push_back(Held { port, packet });
                    self.serve(out);
                }
                None => {
                    self.control.unroutable += 1;
                    self.consume_at(port, &packet);
                    self.actions.push_back(Action::Dropped { packet });
                }
            }
            return;
        }
        if packet.channel.is_request() && self.served >= self.spec.slave_transactions {
            self.held.push_back(Held { port, packet });
            return;
        }
        self.unpack(port, packet);
    }

    /// A packet crosses to the on-chip interconnect.
    pub(super) fn unpack(&mut self, port: u8, packet: Packet<B>) {
        let now = self.now;
        let bytes = self.spec.lanes.packet_bytes(&packet);
        self.served += u32::from(packet.channel.is_request());
        let at = self.transactions.unpack(now, packet.channel.index(), bytes);
        self.plan(at, Event::Unpacked { port, packet });
    }

    /// A packet is on the on-chip interconnect.
    pub(super) fn unpacked(&mut self, port: u8, mut packet: Packet<B>) {
        let layer = packet.channel.side(false);
        self.charge(&mut packet, layer);
        if packet.channel != Channel::Message {
            self.consume_at(port, &packet);
        }
        self.actions.push_back(Action::Arrived { port, packet });
    }
}
