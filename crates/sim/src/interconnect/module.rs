//! The module of a node (DEOI §III; TSM §4.2): transaction layer, routing layer and ends of links, with their time.
//!
//! It knows of no memory and of no cores. Its owner gives it packets ([`Module::send`]) and events, and carries out the
//! [`Action`]s that come of them. A packet has a body where nodes have contents.

use std::collections::VecDeque;

use super::lane::{self, Counts, End, Frame};
use super::packet::{Layer, Packet};
use super::time::{Ps, ps};
use super::transaction::{self, Transactions};
use crate::engine::Random;
use crate::machine::spec::{ExtensionSpec, LinkTopology};

/// An event to come in a module.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<B = ()> {
    /// A packet is seen by routing.
    Packed { packet: Packet<B> },
    /// A link may have something to send.
    Serve { port: u8 },
    /// A frame arrives at an end.
    Arrive { port: u8, frame: Frame<B> },
    /// The timer of a virtual channel.
    Timer { port: u8, vc: u8 },
    /// A packet has passed the link layer.
    Deliver { port: u8, packet: Packet<B>, physical: Ps },
    /// A packet is on the on-chip interconnect.
    Unpacked { port: u8, packet: Packet<B> },
}

/// A task of a module for its owner; they are done in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action<B = ()> {
    /// Plan an event of this module.
    Plan(Ps, Event<B>),
    /// Plan the arrival of a frame at an end of another node's module.
    Frame { at: Ps, node: u16, port: u8, frame: Frame<B> },
    /// A packet for this node has come. Parts of messages keep their room at the link until [`Module::consume`].
    Arrived { port: u8, packet: Packet<B> },
    /// A packet had no way to go: it was dropped.
    Dropped { packet: Packet<B> },
    /// The FIFO for messages has room again.
    Room,
}

/// Counters of a module for its control centre (TSM §4.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// Packets for which the routing table has no entry: dropped.
    pub unroutable: u64,
    /// Accesses that the address mapping table has no slot for.
    pub unmapped: u64,
    /// Packets passed on for other nodes.
    pub forwarded: u64,
    /// Packets that found their link busy, or the other end without room.
    pub congested: u64,
}

/// A packet that waits; it came from this link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<B> {
    pub port: u8,
    pub packet: Packet<B>,
}

/// Times and limits of all modules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub lanes: lane::Times,
    pub patience: Ps,
    /// Cycles of the lane's clock for slots of the address mapping table beyond those compared at once.
    pub lookup: Ps,
    pub slave_transactions: u32,
    pub interrupts_first: bool,
}

/// Transaction layer, routing layer and links of a node.
#[derive(Clone, Debug)]
pub struct Module<B = ()> {
    pub(super) number: u16,
    pub(super) spec: Spec,
    pub(super) now: Ps,
    /// The transaction layer: FIFOs of the channels, both ways.
    pub transactions: Transactions<B>,
    /// Ends of its links.
    pub ends: Vec<End<B>>,
    /// The routing table: the link towards each node.
    pub routes: Vec<Option<u8>>,
    /// Packets for other nodes, by the link that they wait for.
    pub(super) forward: Vec<VecDeque<Held<B>>>,
    /// Requests of other nodes that are served.
    pub(super) served: u32,
    /// Requests of other nodes that wait for that.
    pub(super) held: VecDeque<Held<B>>,
    /// Counters.
    pub control: Control,
    /// Addresses of writes that have left for a link, less data that have: data follow their address.
    pub(super) addresses_ahead: u64,
    pub(super) actions: VecDeque<Action<B>>,
}

impl Spec {
    fn new(spec: &ExtensionSpec) -> Spec {
        let lanes = lane::Times::new(spec);
        // More slots than can be compared at once take cycles of their own.
        let slots = u32::from(spec.amt_slots);
        let rounds = slots.div_ceil(spec.amt_slots_per_cycle.max(1).into());
        Spec {
            lanes,
            patience: ps(spec.link_timeout_ns),
            lookup: lanes.clock.cycles(rounds - 1),
            slave_transactions: spec.slave_transactions,
            interrupts_first: spec.interrupts_first,
        }
    }
}

impl<B: Copy + Default> Module<B> {
    /// The module of node `number` of so many. `seed` decides which frames are lost or damaged.
    pub fn new(spec: &ExtensionSpec, seed: u64, number: u16, nodes: u16) -> Module<B> {
        let neighbours: Vec<u16> = (0..nodes)
            .filter(|&other| match spec.topology {
                LinkTopology::Full => other != number,
                LinkTopology::Chain => other.abs_diff(number) == 1,
            })
            .collect();
        let end = |&peer: &u16| {
            let stream = u64::from(number) << 16 | u64::from(peer) | 1 << 40;
            let its_port = towards(spec.topology, peer, number).unwrap_or_default();
            End::new(spec, (peer, its_port), Random::new(seed, stream))
        };
        let times = transaction::Times::new(spec, lane::Times::new(spec).clock);
        Module {
            number,
            spec: Spec::new(spec),
            now: 0,
            transactions: Transactions::new(spec, times),
            ends: neighbours.iter().map(end).collect(),
            routes: (0..nodes).map(|to| towards(spec.topology, number, to)).collect(),
            forward: vec![VecDeque::new(); neighbours.len()],
            served: 0,
            held: VecDeque::new(),
            control: Control::default(),
            addresses_ahead: 0,
            actions: VecDeque::new(),
        }
    }

    /// Its first events.
    pub(crate) fn start(&mut self, now: Ps) {
        self.now = now;
        for port in 0..self.ends.len() {
            self.look_soon(port as u8);
        }
    }

    /// An event's time has come.
    pub(crate) fn happen(&mut self, now: Ps, event: Event<B>) {
        self.now = now;
        match event {
            Event::Packed { packet } => self.packed(packet),
            Event::Serve { port } => {
                let end = &mut self.ends[usize::from(port)];
                // It has served meanwhile if it is looked at later.
                if end.look_at.take_if(|at| *at == now).is_some() {
                    self.serve(port);
                }
            }
            Event::Arrive { port, frame } => self.arrive(port, frame),
            Event::Timer { port, vc } => self.timer(port, vc),
            Event::Deliver { port, packet, physical } => self.deliver(port, packet, physical),
            Event::Unpacked { port, packet } => self.unpacked(port, packet),
        }
    }

    /// Gives a packet to the transaction layer.
    pub fn send(&mut self, now: Ps, packet: Packet<B>) {
        let bytes = self.spec.lanes.packet_bytes(&packet);
        let lookup = if packet.channel.has_address() { self.spec.lookup } else { 0 };
        if let Some(at) = self.transactions.pack(now, packet, bytes) {
            self.plan(at + lookup, Event::Packed { packet });
        }
    }

    /// Gives the answer to a request to the transaction layer: another request may be served.
    pub(crate) fn answer(&mut self, now: Ps, at: Ps, mut packet: Packet<B>) {
        self.now = now;
        packet.trip.charge(Layer::Memory, at);
        self.send(at, packet);
        self.served -= 1;
        if let Some(Held { port, packet }) = self.held.pop_front() {
            self.unpack(port, packet);
        }
    }

    /// The next thing for its owner to do.
    pub(crate) fn next_action(&mut self) -> Option<Action<B>> {
        self.actions.pop_front()
    }

    /// Names and values of its counters.
    pub(crate) fn figures(&self, mut put: impl FnMut(String, u64)) {
        let Control { unroutable, unmapped, forwarded, congested } = self.control;
        for (name, value) in [
            ("control.unroutable", unroutable),
            ("control.unmapped", unmapped),
            ("control.forwarded", forwarded),
            ("routing.congested", congested),
            ("transaction.held_back", self.transactions.held_back),
        ] {
            put(name.to_owned(), value);
        }
        for (port, end) in self.ends.iter().enumerate() {
            let Counts { data, control, lost, damaged, dropped, bytes, busy } = end.counts;
            for (name, value) in [
                ("data_frames", data),
                ("control_frames", control),
                ("lost", lost),
                ("damaged", damaged),
                ("dropped", dropped),
                ("bytes", bytes),
                ("busy_ns", busy / 1000),
            ] {
                put(format!("link[{port}].{name}"), value);
            }
        }
    }

    pub(super) fn plan(&mut self, at: Ps, event: Event<B>) {
        self.actions.push_back(Action::Plan(at, event));
    }
}

/// The link of node `from` towards node `to`.
fn towards(topology: LinkTopology, from: u16, to: u16) -> Option<u8> {
    match topology {
        _ if to == from => None,
        LinkTopology::Full if to < from => Some(to as u8),
        LinkTopology::Full => Some(to as u8 - 1),
        // The link to the one before is the first one, except of the first node.
        LinkTopology::Chain if to < from => Some(0),
        LinkTopology::Chain => Some(u8::from(from > 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Agenda;
    use crate::interconnect::packet::Channel;
    use crate::machine::load;

    /// Events of two modules until so many packets have crossed their link.
    fn events(packets: u32) -> u64 {
        let spec = load("thunder-cores", &[]).unwrap().extension;
        let mut modules = [0, 1].map(|number| Module::<()>::new(&spec, 1, number, 2));
        let mut agenda = Agenda::default();
        modules.iter_mut().for_each(|module| module.start(0));
        (0..packets).for_each(|tag| {
            modules[0].send(0, Packet::new(Channel::Message, 0, 1, tag, 1));
            modules[1].send(0, Packet::new(Channel::MessageResponse, 1, 0, tag, 0));
        });
        let (mut happened, mut missing) = (0, 2 * packets);
        loop {
            for (number, module) in modules.iter_mut().enumerate() {
                while let Some(action) = module.next_action() {
                    match action {
                        Action::Plan(at, event) => agenda.at(at, (number, event)),
                        Action::Frame { at, node, port, frame } => {
                            agenda.at(at, (usize::from(node), Event::Arrive { port, frame }));
                        }
                        Action::Arrived { port, packet } => {
                            missing -= 1;
                            if packet.channel == Channel::Message {
                                module.consume(agenda.now(), port, &packet);
                            }
                        }
                        Action::Dropped { packet } => panic!("{packet:?}"),
                        Action::Room => {}
                    }
                }
            }
            if missing == 0 {
                return happened;
            }
            let (number, event) = agenda.pop().expect("packets that have not come");
            happened += 1;
            modules[number].happen(agenda.now(), event);
        }
    }

    /// However long a link is busy, it is looked at once for each frame.
    #[test]
    fn a_busy_link_has_a_bounded_number_of_events_for_each_packet() {
        let (few, many) = (events(500), events(4000));
        assert!(many < 10 * few, "{few} events of 500 packets, {many} of 4000");
    }
}
