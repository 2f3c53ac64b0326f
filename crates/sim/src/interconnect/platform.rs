//! Nodes and the links between them, event by event.

use std::collections::VecDeque;

use rackmem_rmc::amt::{Amt, SlotId, Target};
use rackmem_rmc::imt::Imt;

use super::lane;
use super::memory::Memory;
use super::module::{self, Action, Module};
use super::nic;
use super::node::{CARD_BASE, CARD_BYTES, Call, Core, Node};
use super::packet::{Access, Channel, Layer, Master, Packet};
use super::time::{Ps, ps};
use super::transaction;
use crate::engine::{Agenda, Slab};
use crate::machine::Machine;
use crate::machine::spec::{ExtensionSpec, SocSpec};

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// One of a node's module.
    Module { node: u16, event: module::Event },
    /// An access is at the on-chip interconnect of its home.
    Home { access: u32 },
    /// Memory wants to be looked at.
    Memory { node: u16 },
    /// Memory or a device has done an access.
    Served { access: u32 },
    /// An access is done where it was asked for.
    Finished { access: u32 },
    /// A core has done its operation.
    Core { node: u16, core: u16 },
    /// An access leaves a core.
    Leave { access: u32 },
    /// One of a node's card.
    Card { node: u16, event: nic::Event },
    /// A frame is at the other end of the network.
    AtPeer { bytes: u32, tag: u32 },
    /// Something that a workload has planned.
    Later { call: Call },
}

/// An event that a workload is notified of.
#[derive(Clone, Copy, Debug)]
pub enum Upcall {
    /// A core has come to a call.
    Called {
        /// Number of the node that the core is in.
        node: u16,
        /// Number of the core in that node.
        core: u16,
        /// The place in the software that the core has come to.
        call: Call,
    },
    /// An interrupt line has changed.
    Interrupt {
        /// The node that is interrupted.
        node: u16,
        /// Number of the interrupt line at that node.
        line: u8,
        /// Whether it is asserted now.
        asserted: bool,
    },
    /// A frame is at the other end of the network.
    AtPeer {
        /// Bytes of its IP packet.
        bytes: u32,
        /// Number that the workload has given the frame.
        tag: u32,
    },
    /// The time has come for something that the workload planned.
    Later {
        /// As it was planned.
        call: Call,
    },
    /// An access of a core is done.
    Loaded {
        /// Number of the core that waited for it.
        core: u16,
        /// The access, with its start and the time of each layer.
        access: Access,
    },
    /// A read or write of the queue pair channel is done.
    Qpair {
        /// Number of the operation, as the channel gave it.
        operation: u32,
        /// The access, with its start and the time of each layer.
        access: Access,
    },
    /// The FIFO for messages of a node has room again.
    Room {
        /// Number of the node whose FIFO it is.
        node: u16,
    },
    /// A packet of a queue pair has come; it keeps its room at the link until it is taken.
    Message {
        /// Number of the node that the packet has come to.
        node: u16,
        /// The link that it came from.
        port: u8,
        /// The part of the message: its tag, its source and its bytes.
        packet: Packet,
    },
}

/// All nodes with their links, and the events to come.
#[derive(Debug)]
pub struct Platform {
    pub(super) agenda: Agenda<Event>,
    pub(super) extension: ExtensionSpec,
    pub(super) soc: SocSpec,
    /// Nodes by number: `extension.nodes` of them.
    pub nodes: Vec<Node>,
    pub(super) accesses: Slab<Access>,
    pub(super) times: transaction::Times,
    pub(super) upcalls: VecDeque<Upcall>,
    pub(super) done: Vec<(u32, Ps)>,
    /// Events handled since the start.
    pub events: u64,
}

impl Platform {
    /// As a machine has it.
    pub fn new(machine: &Machine) -> Platform {
        let spec = &machine.extension;
        let times = transaction::Times::new(spec, lane::Times::new(spec).clock);
        let nodes = (0..spec.nodes).map(|node| build(machine, node)).collect();
        let mut platform = Platform {
            agenda: Agenda::default(),
            extension: spec.clone(),
            soc: machine.soc.clone(),
            nodes,
            accesses: Slab::default(),
            times,
            upcalls: VecDeque::new(),
            done: Vec::new(),
            events: 0,
        };
        for node in 0..spec.nodes {
            platform.nodes[usize::from(node)].module.start(0);
            platform.act(node);
        }
        platform
    }

    /// Simulated time, in picoseconds.
    pub fn now(&self) -> Ps {
        self.agenda.now()
    }

    /// Lets time go by until the workload has to be told something; `None` if nothing will ever happen
    /// again.
    pub fn next_upcall(&mut self) -> Option<Upcall> {
        loop {
            if let Some(upcall) = self.upcalls.pop_front() {
                return Some(upcall);
            }
            let event = self.agenda.pop()?;
            self.events += 1;
            self.happen(event);
        }
    }

    /// Tells the workload so after some time.
    pub fn later(&mut self, delay: Ps, call: Call) {
        self.agenda.at(self.now() + delay, Event::Later { call });
    }

    /// A node borrows a block of another one's addresses, in the steps of DEOI §III; its address here.
    ///
    /// # Errors
    /// The table or the window is full.
    pub fn borrow(&mut self, node: u16, of: Target, bytes: u64) -> Result<(SlotId, u64), String> {
        let amt = &mut self.nodes[usize::from(node)].amt;
        let id = amt.borrow(bytes, 4096, of).map_err(|refused| refused.to_string())?;
        let base = amt.get(id).map(|slot| slot.base);
        Ok((id, base.ok_or("a slot that was granted is in use")?))
    }

    /// Whether the FIFO of a channel takes another packet.
    pub fn has_room(&self, node: u16, channel: Channel) -> bool {
        self.nodes[usize::from(node)].module.transactions.has_room(channel.index())
    }

    /// Changes the routing table of a node (TSM §4.2, by its control centre).
    pub fn route(&mut self, node: u16, destination: u16, port: Option<u8>) {
        self.nodes[usize::from(node)].module.routes[usize::from(destination)] = port;
    }

    /// Gives a packet to the transaction layer of a node.
    pub fn send(&mut self, node: u16, packet: Packet) {
        let now = self.now();
        self.nodes[usize::from(node)].module.send(now, packet);
        self.act(node);
    }

    /// A part of a message leaves its buffer at the link that it came from.
    pub fn consume(&mut self, node: u16, port: u8, packet: &Packet) {
        let now = self.now();
        self.nodes[usize::from(node)].module.consume(now, port, packet);
        self.act(node);
    }

    /// An access begins at a node's on-chip interconnect. Its number.
    pub fn access(&mut self, access: Access) -> u32 {
        let id = self.accesses.put(access);
        self.leave(id);
        id
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Module { node, event } => {
                let now = self.now();
                self.nodes[usize::from(node)].module.happen(now, event);
                self.act(node);
            }
            Event::Leave { access } => self.leave(access),
            Event::Home { access } => self.home(access),
            Event::Memory { node } => self.look(node),
            Event::Served { access } => self.served(access),
            Event::Finished { access } => self.finished(access),
            Event::Core { node, core } => self.core_done(node, core),
            Event::Card { node, event } => self.card_event(node, event),
            Event::AtPeer { bytes, tag } => self.upcalls.push_back(Upcall::AtPeer { bytes, tag }),
            Event::Later { call } => self.upcalls.push_back(Upcall::Later { call }),
        }
    }

    /// Does what a module wants done.
    fn act(&mut self, node: u16) {
        while let Some(action) = self.nodes[usize::from(node)].module.next_action() {
            match action {
                Action::Plan(at, event) => self.agenda.at(at, Event::Module { node, event }),
                Action::Frame { at, node, port, frame } => {
                    let event = module::Event::Arrive { port, frame };
                    self.agenda.at(at, Event::Module { node, event });
                }
                Action::Arrived { port, packet } => self.arrived(node, port, packet),
                Action::Dropped { packet } if packet.channel.is_request() => {
                    // Its node hears of it from the control centre.
                    let access = self.accesses.get_mut(packet.tag);
                    (access.trip, access.failed) = (packet.trip, true);
                    self.agenda.at(self.now(), Event::Finished { access: packet.tag });
                }
                Action::Dropped { .. } => {}
                Action::Room => self.upcalls.push_back(Upcall::Room { node }),
            }
        }
    }

    /// A packet is on the on-chip interconnect of its destination.
    fn arrived(&mut self, node: u16, port: u8, packet: Packet) {
        let now = self.now();
        if packet.channel.is_timed() {
            self.accesses.get_mut(packet.tag).trip = packet.trip;
        }
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

    /// Packets of an access to another node.
    fn request(&mut self, id: u32) {
        let Access { node, home, is_write, bytes, trip, .. } = *self.accesses.get(id);
        let packet = |channel| Packet { trip, ..Packet::new(channel, node, home, id, bytes) };
        if is_write {
            self.send(node, packet(Channel::WriteAddress));
            self.send(node, packet(Channel::WriteData));
        } else {
            self.send(node, packet(Channel::ReadAddress));
        }
    }

    /// A packet of the answer.
    fn respond(&mut self, id: u32) {
        let now = self.now();
        let at = now + self.times.oci.cycles(self.extension.oci_cycles);
        let Access { node, home, is_write, bytes, trip, .. } = *self.accesses.get(id);
        let channel = if is_write { Channel::WriteResponse } else { Channel::ReadData };
        let packet = Packet { trip, ..Packet::new(channel, home, node, id, bytes) };
        self.nodes[usize::from(home)].module.answer(now, at, packet);
        self.act(home);
    }

    /// Routes an access at the on-chip interconnect of the node that asks.
    fn leave(&mut self, id: u32) {
        let now = self.now();
        let decode = self.times.oci.cycles(self.extension.oci_cycles);
        let access = self.accesses.get_mut(id);
        let node = &mut self.nodes[usize::from(access.node)];
        if !node.amt.covers(access.address) {
            access.home = access.node;
            self.agenda.at(now + decode, Event::Home { access: id });
            return;
        }
        match node.amt.lookup(access.address, access.bytes.into()) {
            Ok(Target { destination, address }) => {
                (access.home, access.address) = (destination, address);
                access.trip.charge(Layer::Software, now);
                self.request(id);
            }
            Err(_) => {
                node.module.control.unmapped += 1;
                access.failed = true;
                self.agenda.at(now + decode, Event::Finished { access: id });
            }
        }
    }

    /// An access is at its home.
    fn home(&mut self, id: u32) {
        let now = self.now();
        let Access { home, address, bytes, is_write, .. } = *self.accesses.get(id);
        if (CARD_BASE..CARD_BASE + CARD_BYTES).contains(&address) {
            if is_write {
                self.card_told(home, address - CARD_BASE);
            }
            self.agenda.at(now + ps(self.soc.register_ns), Event::Served { access: id });
            return;
        }
        let memory = &mut self.nodes[usize::from(home)].memory;
        memory.access(now, id, address, bytes, is_write, &mut self.done);
        self.settle(home);
    }

    fn look(&mut self, node: u16) {
        let now = self.now();
        self.nodes[usize::from(node)].memory.go_on(now, &mut self.done);
        self.settle(node);
    }

    /// Plans the ends of accesses that memory knows, and its next command.
    fn settle(&mut self, node: u16) {
        let now = self.now();
        for (access, at) in self.done.drain(..) {
            self.agenda.at(at.max(now), Event::Served { access });
        }
        if let Some(at) = self.nodes[usize::from(node)].memory.look(now) {
            self.agenda.at(at, Event::Memory { node });
        }
    }

    /// Memory or device of the home has answered.
    fn served(&mut self, id: u32) {
        let at = self.now() + self.times.oci.cycles(self.extension.oci_cycles);
        let access = self.accesses.get(id);
        if access.home == access.node {
            self.agenda.at(at, Event::Finished { access: id });
        } else {
            self.respond(id);
        }
    }

    /// An access is done where it was asked for.
    fn finished(&mut self, id: u32) {
        let now = self.now();
        let mut access = self.accesses.take(id);
        let layer = if access.home == access.node { Layer::Memory } else { Layer::Master };
        access.trip.charge(layer, now);
        match access.master {
            Master::Core(core) => {
                let back = ps(self.soc.port_ns / 2.0);
                access.trip.charge(Layer::Software, now + back);
                self.agenda.at(now + back, Event::Core { node: access.node, core });
                self.upcalls.push_back(Upcall::Loaded { core, access });
            }
            Master::Qpair(operation) => {
                self.upcalls.push_back(Upcall::Qpair { operation, access });
            }
            Master::Nic(step) => self.card_finished(step, &access),
        }
    }
}

fn build(machine: &Machine, number: u16) -> Node {
    let spec = &machine.extension;
    Node {
        amt: Amt::new(spec.amt_slots, spec.lva_base_bytes, spec.lva_bytes),
        imt: Imt::default(),
        module: Module::new(spec, machine.seed, number, spec.nodes),
        memory: Memory::new(&machine.dram),
        cores: vec![Core::default(); usize::from(machine.soc.cores)],
        card: None,
    }
}
