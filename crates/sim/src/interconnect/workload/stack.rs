//! Driver and network stack of a node that uses a card, its own or its neighbour's: what is common to all
//! experiments with one.
//!
//! The driver is that of the card that the paper used, Linux' for the AXI Ethernet: a register write for
//! each packet that is sent; for each interrupt a read of the status, the write that takes it back, and
//! for received frames a write that gives buffers back.

use rackmem_rmc::amt::Target;

use crate::interconnect::card::Card;
use crate::interconnect::nic::{
    self, CardFrame, RECEIVE_STATUS, RECEIVE_TAIL, RECEIVED, SEND_STATUS, SEND_TAIL, SENT,
};
use crate::interconnect::node::{CARD_BASE, CARD_BYTES, Op};
use crate::interconnect::platform::{Event, Platform, Upcall};
use crate::interconnect::time::{Ps, ps};
use crate::machine::Machine;
use crate::machine::spec::{NicSpec, Place, SocSpec};

/// The node that uses the card.
pub const USER: u16 = 0;

/// The core that is interrupted.
const INTERRUPTED: u16 = 0;

/// Bit of a frame's tag: an acknowledgement without data.
pub const ACK: u32 = 1 << 31;

/// Memory of rings and buffers.
const BUFFERS_BYTES: u64 = 1 << 20;

/// Handler: the status of sent frames has been read.
const SENT_READ: u8 = 100;
/// Handler: and taken back.
const SENT_DONE: u8 = 101;
/// Handler: the status of received frames has been read.
const RECEIVED_READ: u8 = 102;
/// Handler: and taken back.
const RECEIVED_DONE: u8 = 103;

/// Meaning of an event to a workload.
#[derive(Debug)]
pub enum Told {
    /// Descriptors of sent frames are free.
    Sent,
    /// These frames have gone through the stack.
    Received(Vec<CardFrame>),
    /// Another event, as it came.
    Other(Upcall),
}

/// Driver and network stack of [`USER`], as times of their steps.
#[derive(Debug)]
pub struct Stack {
    pub nic: NicSpec,
    soc: SocSpec,
    place: Place,
    /// The node that has the card.
    pub card: u16,
    /// Address of its registers for the user.
    registers: u64,
    /// Frames that were taken from the card and go through the stack.
    taken: Vec<CardFrame>,
    reclaimed: u32,
    /// Descriptors of the send ring in use.
    pub in_ring: u32,
    handling: [bool; 2],
    /// The level of each line, as the user knows it.
    asserted: [bool; 2],
}

impl Stack {
    pub fn new(machine: &Machine) -> Stack {
        let place = machine.experiment.place;
        Stack {
            nic: machine.nic.clone(),
            soc: machine.soc.clone(),
            place,
            card: if place == Place::Remote { USER + 1 } else { USER },
            registers: CARD_BASE,
            taken: Vec::new(),
            reclaimed: 0,
            in_ring: 0,
            handling: [false; 2],
            asserted: [false; 2],
        }
    }

    /// Borrows the card, if it is the neighbour's: its registers for the user, the user's memory for the
    /// card, and its interrupts (DEOI §III).
    pub fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        let mut base = 0;
        if self.place == Place::Remote {
            let card = Target { destination: self.card, address: CARD_BASE };
            self.registers = platform.borrow(USER, card, CARD_BYTES)?.1;
            let memory = Target { destination: USER, address: 0 };
            base = platform.borrow(self.card, memory, BUFFERS_BYTES)?.1;
            let node = &mut platform.nodes[usize::from(self.card)];
            (0..2).for_each(|line| node.imt.map(line, Some(USER)));
        }
        platform.nodes[usize::from(self.card)].card = Some(Card::new(&self.nic, USER, base));
        Ok(())
    }

    /// Data of a full packet.
    pub fn segment(&self) -> u32 {
        self.nic.mtu - self.nic.header_bytes
    }

    /// A system call that copies so many bytes.
    pub fn call(&self, bytes: u32) -> Op {
        Op::Work(ps(self.soc.call_ns + self.soc.copy_ns_per_kb * f64::from(bytes) / 1024.0))
    }

    /// A thread that waited goes on.
    pub fn wake(&self) -> Op {
        Op::Work(ps(self.soc.wake_ns))
    }

    pub fn work(&self, ns: f64) -> Op {
        Op::Work(ps(ns))
    }

    /// A frame has got a descriptor: the store that tells the card.
    pub fn post(&mut self, platform: &mut Platform, frame: CardFrame) -> Op {
        self.in_ring += 1;
        let node = &mut platform.nodes[usize::from(self.card)];
        if let Some(card) = node.card.as_mut() {
            card.post(frame);
        }
        Op::Store(self.registers + SEND_TAIL, 4)
    }

    /// Handles interrupts, and calls of their handlers.
    pub fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> Told {
        match upcall {
            Upcall::Interrupt { line, asserted, .. } => {
                self.asserted[usize::from(line)] = asserted;
                self.handle(platform, line);
            }
            Upcall::Called { call, .. } => match call.what {
                SENT_READ => self.sent_read(platform),
                SENT_DONE => {
                    self.in_ring -= self.reclaimed;
                    self.done(platform, SENT);
                    return Told::Sent;
                }
                RECEIVED_READ => self.received_read(platform),
                RECEIVED_DONE => {
                    self.done(platform, RECEIVED);
                    return Told::Received(std::mem::take(&mut self.taken));
                }
                _ => {}
            },
            _ => {}
        }
        Told::Other(upcall)
    }

    /// A handler has come to its end; if its line is asserted again, it begins again.
    fn done(&mut self, platform: &mut Platform, line: u8) {
        self.handling[usize::from(line)] = false;
        self.handle(platform, line);
    }

    /// Begins a handler, unless it is at work or there is no reason.
    fn handle(&mut self, platform: &mut Platform, line: u8) {
        let number = usize::from(line);
        if !self.asserted[number] || std::mem::replace(&mut self.handling[number], true) {
            return;
        }
        let (register, what) = match line {
            RECEIVED => (RECEIVE_STATUS, RECEIVED_READ),
            _ => (SEND_STATUS, SENT_READ),
        };
        let enter = Op::Work(ps(self.soc.interrupt_ns));
        let load = Op::Load(self.registers + register, 4);
        platform.handler(USER, INTERRUPTED, [enter, load, Op::call(what)]);
    }

    /// Sent frames are taken from the ring.
    fn sent_read(&mut self, platform: &mut Platform) {
        let node = &mut platform.nodes[usize::from(self.card)];
        self.reclaimed = node.card.as_mut().map_or(0, |card| std::mem::take(&mut card.sent));
        let work = self.work(self.nic.reclaim_ns * f64::from(self.reclaimed));
        let back = Op::Store(self.registers + SEND_STATUS, 4);
        platform.handler(USER, INTERRUPTED, [work, back, Op::call(SENT_DONE)]);
    }

    /// Received frames go through the stack.
    fn received_read(&mut self, platform: &mut Platform) {
        let node = &mut platform.nodes[usize::from(self.card)];
        if let Some(card) = node.card.as_mut() {
            self.taken.extend(card.received.drain(..));
        }
        let acks = self.taken.iter().filter(|frame| frame.tag & ACK != 0).count() as f64;
        let data = self.taken.len() as f64 - acks;
        let work = self.work(self.nic.receive_ns * data + self.nic.ack_ns * acks);
        let back = Op::Store(self.registers + RECEIVE_STATUS, 4);
        let buffers = Op::Store(self.registers + RECEIVE_TAIL, 4);
        platform.handler(USER, INTERRUPTED, [work, back, buffers, Op::call(RECEIVED_DONE)]);
    }

    /// Work for the interrupted core, before its threads.
    pub fn urgent(&self, platform: &mut Platform, ops: impl IntoIterator<Item = Op>) {
        platform.handler(USER, INTERRUPTED, ops);
    }

    /// The other end sends a frame, not before `at`.
    pub fn arrive_from_peer(&mut self, platform: &mut Platform, at: Ps, frame: CardFrame) {
        let node = self.card;
        let Some(card) = platform.nodes[usize::from(node)].card.as_mut() else { return };
        let arrives = card.nic.wire.peer_sends(at, frame.bytes);
        platform.agenda.at(arrives, Event::Card { node, event: nic::Event::Receives(frame) });
    }

    /// Time of the other end for a message.
    pub fn peer(&self) -> Ps {
        ps(self.nic.peer_ns)
    }
}
