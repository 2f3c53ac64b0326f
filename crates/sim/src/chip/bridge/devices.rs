//! Devices of the bridge: registers that cores load from and store to, the card beside the module, and the part of the
//! window where they are.

use rackmem_rmc::amt::{Amt, Target};

use super::{Body, Bridge, Event, write_of};
use crate::block::{BLOCK_BYTES, Block};
use crate::chip::card::{CardAccess, REGISTERS_BYTES, Task};
use crate::chip::device_port;
use crate::chip::pairs;
use crate::chip::wires::{self, Wires};
use crate::engine::Cycle;
use crate::interconnect::card::interrupt;
use crate::interconnect::packet::{Channel, Packet, Trip};
use crate::interconnect::time::Ps;
use crate::machine::Machine;
use crate::window::packet::{Asker, Packet as Access};

impl Bridge {
    /// A core asks for a register, or stores to it.
    pub(super) fn ask_device(&mut self, access: device_port::Access, now: Cycle) {
        let device_port::Access { core, address, size, store, at } = access;
        let found = self.devices.lookup(address, size.into());
        let Target { destination, address } = found.expect("only what a slot has is mapped");
        self.asked_at[usize::from(core)] = at;
        let (asker, tag) = (Asker::Core(self.nid), u32::from(core));
        let offset = (address % BLOCK_BYTES) as usize;
        let packet = |channel, body| Packet {
            trip: Trip::begin(self.clock.at(now)),
            body,
            ..Packet::new(channel, self.nid, destination, tag, size.into())
        };
        let at = self.clock.at(now) + self.root_ps;
        let is_own = destination == self.nid;
        let mut leave = |packet: Packet<Body>| match packet.channel {
            Channel::WriteAddress if is_own => {}
            _ if is_own => self.agenda.at(at, Event::Home(packet)),
            _ => self.agenda.at(at, Event::Leave(packet)),
        };
        match store {
            None => leave(packet(
                Channel::ReadAddress,
                Some(Access::Read { asker, tag, address, lines: 1 }),
            )),
            Some(value) => {
                let block = Block::write(offset, &value.to_le_bytes()[..usize::from(size)]);
                let body = write_of(address, block, (asker, tag));
                leave(packet(Channel::WriteAddress, None));
                leave(packet(Channel::WriteData, body));
            }
        }
    }

    pub(super) fn is_register(&self, packet: &Packet<Body>) -> bool {
        let asker = match packet.body {
            Some(Access::Read { asker, .. }) => Some(asker),
            Some(Access::Write { asker, .. }) => asker.map(|(asker, _)| asker),
            _ => None,
        };
        matches!(asker, Some(Asker::Core(_)))
    }

    /// An access to a register of the card takes effect; it is answered after a while.
    pub(super) fn register(&mut self, now: Ps, packet: Packet<Body>, wires: &mut Wires) {
        let (channel, body) = match packet.body {
            Some(Access::Read { asker, tag, address, .. }) => {
                let value = self.card.load(address - self.memory_bytes);
                let bytes = &value.to_le_bytes()[..packet.bytes.min(8) as usize];
                let block = Block::write((address % BLOCK_BYTES) as usize, bytes);
                (Channel::ReadData, Access::Data { asker, tag, index: 0, block })
            }
            Some(Access::Write { address, block, asker: Some((asker, tag)), .. }) => {
                let word = block.words[(address % BLOCK_BYTES / 8) as usize];
                match (address - self.memory_bytes).checked_sub(REGISTERS_BYTES) {
                    Some(own) => {
                        self.with_pairs(now, wires, |pairs, event| pairs.store(own, word, event));
                    }
                    None => self.card.store(now, address - self.memory_bytes, word),
                }
                self.run_card(now);
                (Channel::WriteResponse, Access::Written { asker, tag })
            }
            other => panic!("a register got {other:?}"),
        };
        let (source, destination) = (packet.destination, packet.source);
        let packet = Packet { channel, source, destination, body: Some(body), ..packet };
        self.agenda.at(now + self.register_ps, Event::Served(packet));
    }

    /// A register has been read or stored to.
    pub(super) fn answer_core(&mut self, core: u16, value: u64, wires: &mut Wires) {
        self.register_accesses += 1;
        self.register_cycles += wires.now - self.asked_at[usize::from(core)];
        wires.wheel.at(wires.now + 1, wires::Event::Loaded(core, value));
    }

    /// Does what the card wants done.
    pub(super) fn run_card(&mut self, now: Ps) {
        loop {
            self.card.act(&mut self.tasks);
            let Some(task) = self.tasks.pop_front() else { return };
            match task {
                Task::Plan(at, event) => self.agenda.at(at, Event::Card(event)),
                Task::Access(access) => self.card_access(now, access),
                Task::Interrupt { line, asserted } => {
                    self.imt.drive(line, asserted);
                    while let Some(change) = self.imt.take() {
                        self.module.send(now, interrupt(self.nid, change));
                    }
                }
            }
        }
    }

    /// The card reads or writes its user's memory, by addresses of the window.
    fn card_access(&mut self, now: Ps, access: CardAccess) {
        let tag = self.moving.put(access);
        let Ok(Target { destination, address }) = self.devices.lookup(access.address, BLOCK_BYTES)
        else {
            self.module.control.unmapped += 1;
            return self.card_finished(now, tag, Block::ZERO);
        };
        let asker = Asker::Engine(self.nid);
        let packet = |channel, body| Packet {
            trip: Trip::begin(now),
            body,
            ..Packet::new(channel, self.nid, destination, tag, access.bytes)
        };
        match access.write {
            None => {
                let body = Some(Access::Read { asker, tag, address, lines: 1 });
                self.module.send(now, packet(Channel::ReadAddress, body));
            }
            Some(block) => {
                let body = write_of(address, block, (asker, tag));
                self.module.send(now, packet(Channel::WriteAddress, None));
                self.module.send(now, packet(Channel::WriteData, body));
            }
        }
    }

    pub(super) fn card_finished(&mut self, now: Ps, tag: u32, line: Block) {
        let access = self.moving.take(tag);
        self.card.finished(now, &access, line);
        self.run_card(now);
    }
}

/// The part of the window for devices: other nodes' and, behind them, this node's queue pairs. The node before this one
/// uses this node's card, so that each has one user: it may reach all of that node's memory, as there is no table of
/// what it may.
pub(super) fn devices(nid: u16, nodes: u16, machine: &Machine) -> Amt {
    let memory_bytes = machine.memory.size_bytes;
    let first = device_base(machine);
    let own = Target { destination: nid, address: memory_bytes + REGISTERS_BYTES };
    let mut amt = Amt::new(3, first, REGISTERS_BYTES + memory_bytes + pairs::REGISTERS_BYTES);
    let card = Target { destination: (nid + 1) % nodes, address: memory_bytes };
    let user = Target { destination: (nid + nodes - 1) % nodes, address: 0 };
    let slots = [(REGISTERS_BYTES, card), (memory_bytes, user), (pairs::REGISTERS_BYTES, own)];
    for (bytes, of) in slots {
        amt.borrow(bytes, BLOCK_BYTES, of).expect("a window as long as all");
    }
    amt
}

/// Physical address of the registers of the neighbour's card; what the card of this node reaches follows them.
pub fn device_base(machine: &Machine) -> u64 {
    machine.memory.size_bytes + machine.window.lent_bytes
}
