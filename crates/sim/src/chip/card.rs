//! The network interface card beside the module of a node, for the node that has borrowed it (DEOI §III): registers
//! that a driver programs, rings of descriptors and buffers in the driver's memory, and what is at the other end of
//! its wire.
//!
//! The card itself is [`Nic`]. Here is what its accesses mean: descriptors and data have contents.
//!
//! | register | bytes | stored | loaded |
//! |---|---|---|---|
//! | [`SEND_TAIL`] | 4 | descriptors of frames to be sent, so far | |
//! | [`SEND_STATUS`] | 4 | takes the interrupt back | frames that were sent, so far |
//! | [`RECEIVE_STATUS`] | 4 | takes the interrupt back | frames that are in memory, so far |
//! | [`RECEIVE_TAIL`] | 4 | buffers that frames may fill, so far | |
//! | [`SEND_RING`], [`RECEIVE_RING`] | 8 | address of the descriptors, as the card sees it | |
//! | [`BUFFERS`] | 8 | address of the receive ring's buffers, [`BUFFER_BYTES`] each | |
//! | [`ENTRIES`] | 4 | descriptors of either ring | |
//! | [`MTU`] | 4 | | bytes of the longest frame, `nic.mtu` |
//!
//! A descriptor is a line: address of the frame (a multiple of 64), its bytes (1 to `nic.mtu`: the card cuts longer
//! frames, which drivers refuse), and a word that the card makes 1 when the frame was sent. Of a received one the card
//! writes the bytes, then 1.
//!
//! The other end answers a frame, after `nic.peer_ns`, with as many copies of it as its first four bytes say, of which
//! 4096 may be on their way.

use std::collections::VecDeque;

use rackmem_abi::LINE_BYTES;
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::interconnect::nic::{self, Action, CardFrame, Nic, Step};
use crate::interconnect::nic::{
    RECEIVE_STATUS, RECEIVE_TAIL, RECEIVED, SEND_STATUS, SEND_TAIL, SENT,
};
use crate::interconnect::time::{Ps, ps};
use crate::machine::spec::NicSpec;

/// Register: address of the descriptors of frames to be sent.
pub const SEND_RING: u64 = 32;
/// Register: address of the descriptors of frames that have come.
pub const RECEIVE_RING: u64 = 40;
/// Register: address of the buffers for them.
pub const BUFFERS: u64 = 48;
/// Register: descriptors of a ring.
pub const ENTRIES: u64 = 56;
/// Register: bytes of the longest frame.
pub const MTU: u64 = 64;

/// Bytes of addresses that a card's registers take.
pub const REGISTERS_BYTES: u64 = 1 << 16;

/// Bytes from one receive buffer to the next.
pub const BUFFER_BYTES: u64 = 2048;

/// Frames on their way from the other end, at most.
const MOST_INCOMING: usize = 4096;

/// Bytes of a descriptor in a ring.
const DESCRIPTOR_BYTES: u64 = 64;

/// An access of the card to its user's memory.
#[derive(Clone, Copy, Debug)]
pub struct CardAccess {
    step: Step,
    frame: CardFrame,
    offset: u32,
    /// Bytes that move.
    pub bytes: u32,
    /// Its address, as the card sees it.
    pub address: u64,
    /// What it writes; `None`: it reads.
    pub write: Option<Block>,
}

/// A task of the card for its module.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Plan an event.
    Plan(Ps, Event),
    /// Access the user's memory.
    Access(CardAccess),
    /// Drive an interrupt line.
    Interrupt { line: u8, asserted: bool },
}

/// An event to come.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// One of the card's own.
    Nic(nic::Event),
    /// A frame is at the other end.
    AtPeer(CardFrame),
}

/// A card with the contents of its rings.
#[derive(Clone, Debug)]
pub struct Card {
    nic: Nic,
    mtu: u32,
    peer: Ps,
    send_ring: u64,
    receive_ring: u64,
    buffers: u64,
    entries: u32,
    /// Descriptors that it was told of and has asked for; their frames that have left, and that were sent.
    told: u32,
    asked: u32,
    left: u32,
    sent: u32,
    /// Buffers that it was given, frames for which it took one, and those that are in memory.
    given: u32,
    come: u32,
    received: u32,
    /// Frames that came and found no buffer.
    dropped: u64,
    /// Addresses and contents of frames to be sent, oldest first: those fetched, and those that leave.
    outgoing: VecDeque<(u64, Vec<u8>)>,
    /// Contents of frames on their way to the other end.
    on_wire: VecDeque<Vec<u8>>,
    /// Contents of frames on their way from there, and in the card.
    incoming: VecDeque<Vec<u8>>,
    stored: VecDeque<Vec<u8>>,
}

/// The state of a card that has nothing to do: it has sent all frames that it was told of, and all that came are in
/// memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub nic: nic::State,
    send_ring: u64,
    receive_ring: u64,
    buffers: u64,
    entries: u32,
    sent: u32,
    given: u32,
    received: u32,
    dropped: u64,
}

impl State {
    /// Whether no card has counted so far.
    pub fn is_out_of_bounds(&self) -> bool {
        self.nic.is_out_of_bounds() || self.dropped >= 1 << 40
    }

    /// Whether a driver has programmed it.
    pub fn is_used(&self) -> bool {
        *self != State { entries: 1, ..State::default() }
    }
}

impl Card {
    pub fn new(spec: &NicSpec) -> Card {
        Card {
            nic: Nic::new(spec),
            mtu: spec.mtu,
            peer: ps(spec.peer_ns),
            send_ring: 0,
            receive_ring: 0,
            buffers: 0,
            entries: 1,
            told: 0,
            asked: 0,
            left: 0,
            sent: 0,
            given: 0,
            come: 0,
            received: 0,
            dropped: 0,
            outgoing: VecDeque::new(),
            on_wire: VecDeque::new(),
            incoming: VecDeque::new(),
            stored: VecDeque::new(),
        }
    }

    /// Its state; it has nothing to do.
    pub fn state(&self) -> State {
        let Card { send_ring, receive_ring, buffers, entries, .. } = *self;
        let Card { sent, given, received, dropped, .. } = *self;
        let nic = self.nic.state();
        State { nic, send_ring, receive_ring, buffers, entries, sent, given, received, dropped }
    }

    /// Goes on from a state.
    pub fn restore(&mut self, state: &State) {
        let State { sent, received, .. } = *state;
        self.nic.restore(&state.nic);
        (self.send_ring, self.receive_ring) = (state.send_ring, state.receive_ring);
        (self.buffers, self.entries) = (state.buffers, state.entries.max(1));
        (self.told, self.asked, self.left, self.sent) = (sent, sent, sent, sent);
        (self.given, self.come, self.received) = (state.given, received, received);
        self.dropped = state.dropped;
    }

    /// Times that an interrupt line was asserted, and frames that found no buffer.
    pub fn counts(&self) -> (u64, u64) {
        (self.nic.interrupts, self.dropped)
    }

    /// A register is stored to.
    pub fn store(&mut self, now: Ps, register: u64, value: u64) {
        match register {
            SEND_TAIL => {
                let more = (value as u32).wrapping_sub(self.told);
                self.told = value as u32;
                self.nic.tell(now, more);
            }
            SEND_STATUS => self.nic.acknowledge(now, SENT),
            RECEIVE_STATUS => self.nic.acknowledge(now, RECEIVED),
            RECEIVE_TAIL => self.given = value as u32,
            SEND_RING => self.send_ring = value,
            RECEIVE_RING => self.receive_ring = value,
            BUFFERS => self.buffers = value,
            ENTRIES => self.entries = (value as u32).max(1),
            _ => {}
        }
    }

    /// The value of a register.
    pub fn load(&self, register: u64) -> u64 {
        match register {
            SEND_STATUS => self.sent.into(),
            RECEIVE_STATUS => self.received.into(),
            MTU => self.mtu.into(),
            _ => 0,
        }
    }

    /// An event's time has come.
    pub fn happen(&mut self, now: Ps, event: Event, tasks: &mut VecDeque<Task>) {
        match event {
            Event::AtPeer(frame) => self.at_peer(now, frame, tasks),
            Event::Nic(nic::Event::Receives(frame)) => self.receives(now, frame),
            Event::Nic(event) => self.nic.happen(now, event),
        }
    }

    /// A frame comes over the wire: it takes the next buffer.
    fn receives(&mut self, now: Ps, frame: CardFrame) {
        let Some(bytes) = self.incoming.pop_front() else { return };
        if self.come == self.given {
            self.dropped += 1;
            return;
        }
        self.stored.push_back(bytes);
        let frame = CardFrame { tag: self.come, ..frame };
        self.come = self.come.wrapping_add(1);
        self.nic.happen(now, nic::Event::Receives(frame));
    }

    /// The other end has a frame, and answers.
    fn at_peer(&mut self, now: Ps, frame: CardFrame, tasks: &mut VecDeque<Task>) {
        let bytes = self.on_wire.pop_front().unwrap_or_default();
        let copies = bytes.first_chunk().map_or(0, |first| u32::from_le_bytes(*first));
        let room = MOST_INCOMING.saturating_sub(self.incoming.len());
        for _ in 0..room.min(copies as usize) {
            let at = self.nic.wire.peer_sends(now + self.peer, frame.bytes);
            tasks.push_back(Task::Plan(at, Event::Nic(nic::Event::Receives(frame))));
            self.incoming.push_back(bytes.clone());
        }
    }

    /// An access is done; a read with the line that it was of.
    pub fn finished(&mut self, now: Ps, access: &CardAccess, line: Block) {
        let CardAccess { step, frame, offset, bytes, .. } = *access;
        let mut described = CardFrame::default();
        match step {
            Step::Descriptor => {
                let [address, length, ..] = line.words;
                let length = (length as u32).clamp(1, self.mtu);
                described = CardFrame { bytes: length, tag: frame.tag };
                self.outgoing.push_back((address, vec![0; length as usize]));
            }
            Step::Data => {
                let from = offset as usize;
                let place = self.place(frame);
                let content = &mut self.outgoing[place].1;
                let end = content.len().min(from + bytes as usize);
                let data = &line.to_bytes()[in_line(offset)..];
                content[from..end].copy_from_slice(&data[..end - from]);
            }
            Step::Sent => self.sent = self.sent.wrapping_add(1),
            Step::Received => self.received = self.received.wrapping_add(1),
            Step::Write => {}
        }
        self.nic.finished(now, step, bytes, described);
    }

    /// Place of a frame among those that leave.
    fn place(&self, frame: CardFrame) -> usize {
        frame.tag.wrapping_sub(self.left) as usize
    }

    /// Does what the card wants done.
    pub fn act(&mut self, tasks: &mut VecDeque<Task>) {
        while let Some(action) = self.nic.next_action() {
            tasks.push_back(match action {
                Action::Plan(at, event) => Task::Plan(at, Event::Nic(event)),
                Action::AtPeer(at, frame) => {
                    self.on_wire.extend(self.outgoing.pop_front().map(|(_, bytes)| bytes));
                    self.left = self.left.wrapping_add(1);
                    Task::Plan(at, Event::AtPeer(frame))
                }
                Action::Access { step, frame, offset, bytes } => {
                    Task::Access(self.access(step, frame, offset, bytes))
                }
                Action::Interrupt { line, asserted } => Task::Interrupt { line, asserted },
            });
        }
    }

    fn access(&mut self, step: Step, mut frame: CardFrame, offset: u32, bytes: u32) -> CardAccess {
        let entry = |ring: u64, number: u32| {
            ring.wrapping_add(u64::from(number % self.entries) * DESCRIPTOR_BYTES)
        };
        let (address, write) = match step {
            Step::Descriptor => {
                frame.tag = self.asked;
                self.asked = self.asked.wrapping_add(1);
                (entry(self.send_ring, frame.tag), None)
            }
            Step::Data => {
                let begin = self.outgoing[self.place(frame)].0;
                (begin.wrapping_add(offset.into()), None)
            }
            Step::Sent => {
                (entry(self.send_ring, frame.tag), Some(Block::write(16, &1u64.to_le_bytes())))
            }
            Step::Write => {
                let number = u64::from(frame.tag % self.entries);
                let address = self.buffers.wrapping_add(number * BUFFER_BYTES + u64::from(offset));
                let from = offset as usize;
                let content = self.stored.front().map_or(&[][..], |content| &content[from..]);
                (address, Some(Block::write(in_line(offset), &content[..bytes as usize])))
            }
            Step::Received => {
                self.stored.pop_front();
                let mut words = [0; 2 * 8];
                words[..4].copy_from_slice(&frame.bytes.to_le_bytes());
                words[8] = 1;
                (entry(self.receive_ring, frame.tag), Some(Block::write(8, &words)))
            }
        };
        CardAccess { step, frame, offset, bytes, address: address & !63, write }
    }
}

/// Place in its line of a byte of a frame, which begins at a line.
fn in_line(offset: u32) -> usize {
    offset as usize % LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Agenda;
    use crate::machine::load;

    /// Registers, descriptors and frames of ones only: the card reads and writes somewhere, and holds a bounded number
    /// of frames.
    #[test]
    fn a_driver_may_say_anything() {
        let ones = Block::from_bytes(&[0xff; 64]);
        let mut card = Card::new(&load("deoi-cores", &[]).unwrap().nic);
        for register in (0..=MTU).step_by(8) {
            card.store(0, register, u64::MAX);
        }
        let (mut agenda, mut tasks, mut accesses) = (Agenda::default(), VecDeque::new(), 0);
        while accesses < 20_000 {
            card.act(&mut tasks);
            let now = agenda.now();
            match tasks.pop_front() {
                Some(Task::Plan(at, event)) => agenda.at(at, event),
                Some(Task::Access(access)) => {
                    accesses += 1;
                    assert!(card.incoming.len() <= MOST_INCOMING);
                    card.finished(now, &access, ones);
                }
                Some(Task::Interrupt { .. }) => {}
                None => {
                    let event = agenda.pop().expect("there are frames to be sent");
                    card.happen(agenda.now(), event, &mut tasks);
                }
            }
        }
        assert!(card.counts().1 == 0 && card.sent > 100, "{card:?}");
    }
}
