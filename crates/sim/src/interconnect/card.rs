//! The card of a node without contents: what software has written and may read of its rings, and the places of its
//! accesses.
//!
//! The card is a master on the on-chip interconnect of its node. If another node has borrowed it, rings
//! and buffers are in that node's memory, and the card reaches them as its node reaches any borrowed
//! memory: by addresses of the window, through the table (DEOI §III).

use std::collections::VecDeque;

use super::nic::{self, Action, CardFrame, Nic, RECEIVE_STATUS, RECEIVED, SEND_STATUS, SEND_TAIL};
use super::nic::{SENT, Step};
use super::packet::{Access, Channel, Master, Packet};
use super::platform::{Event, Platform, Upcall};
use crate::machine::spec::NicSpec;

/// A card, its rings and its user.
#[derive(Debug)]
pub struct Card {
    /// The card itself.
    pub nic: Nic,
    /// The node whose memory has rings and buffers, and whose core is interrupted.
    pub user: u16,
    /// Address of that memory for the card.
    base: u64,
    next_buffer: u64,
    /// Descriptors of frames to be sent.
    ring: VecDeque<CardFrame>,
    /// Those of them that the card has not been told of.
    untold: u32,
    /// Frames that are in the user's memory, and that software has not taken.
    pub received: VecDeque<CardFrame>,
    /// Frames that have been sent, and whose descriptors software has not taken back.
    pub sent: u32,
}

impl Card {
    /// A card for a node, whose memory it finds at `base`.
    pub fn new(spec: &NicSpec, user: u16, base: u64) -> Card {
        Card {
            nic: Nic::new(spec),
            user,
            base,
            next_buffer: 0,
            ring: VecDeque::new(),
            untold: 0,
            received: VecDeque::new(),
            sent: 0,
        }
    }

    /// Software has written a descriptor; the card sees it when it is told.
    pub fn post(&mut self, frame: CardFrame) {
        self.ring.push_back(frame);
        self.untold += 1;
    }
}

impl Platform {
    fn card(&mut self, node: u16) -> &mut Card {
        self.nodes[usize::from(node)].card.as_mut().expect("a node with a card")
    }

    pub(super) fn card_told(&mut self, node: u16, register: u64) {
        let now = self.now();
        let card = self.card(node);
        match register {
            SEND_TAIL => {
                let more = std::mem::take(&mut card.untold);
                card.nic.tell(now, more);
            }
            SEND_STATUS => card.nic.acknowledge(now, SENT),
            RECEIVE_STATUS => card.nic.acknowledge(now, RECEIVED),
            _ => {}
        }
        self.card_acts(node);
    }

    pub(super) fn card_event(&mut self, node: u16, event: nic::Event) {
        let now = self.now();
        self.card(node).nic.happen(now, event);
        self.card_acts(node);
    }

    /// An access of the card is done.
    pub(super) fn card_finished(&mut self, step: Step, access: &Access) {
        let now = self.now();
        let card = self.card(access.node);
        let mut described = CardFrame::default();
        match step {
            Step::Descriptor => described = card.ring.pop_front().unwrap_or_default(),
            Step::Sent => card.sent += 1,
            _ => {}
        }
        card.nic.finished(now, step, access.bytes, described);
        self.card_acts(access.node);
    }

    /// Does what the card wants done.
    fn card_acts(&mut self, node: u16) {
        while let Some(action) = self.card(node).nic.next_action() {
            match action {
                Action::Plan(at, event) => self.agenda.at(at, Event::Card { node, event }),
                Action::AtPeer(at, CardFrame { bytes, tag }) => {
                    self.agenda.at(at, Event::AtPeer { bytes, tag });
                }
                Action::Access { step, frame, bytes, .. } => {
                    let now = self.now();
                    let card = self.card(node);
                    if step == Step::Received {
                        card.received.push_back(frame);
                    }
                    // Buffers are pages apart: rows of the memory, not of interest for what is measured.
                    let address = card.base + card.next_buffer % (1 << 20);
                    card.next_buffer += u64::from(bytes);
                    let master = Master::Nic(step);
                    self.access(Access::new(master, node, step.is_write(), address, bytes, now));
                }
                Action::Interrupt { line, asserted } => self.drive(node, line, asserted),
            }
        }
    }

    /// A device of a node drives its interrupt line.
    pub fn drive(&mut self, node: u16, line: u8, asserted: bool) {
        let user = self.nodes[usize::from(node)].card.as_ref().map_or(node, |card| card.user);
        if user == node {
            self.upcalls.push_back(Upcall::Interrupt { node, line, asserted });
            return;
        }
        self.nodes[usize::from(node)].imt.drive(line, asserted);
        while let Some(change) = self.nodes[usize::from(node)].imt.take() {
            self.send(node, interrupt(node, change));
        }
    }
}

/// The packet that tells another node of a change of a line.
pub fn interrupt<B: Default>(node: u16, change: rackmem_rmc::imt::Change) -> Packet<B> {
    let tag = u32::from(change.line) << 1 | u32::from(change.asserted);
    Packet::new(Channel::Interrupt, node, change.destination, tag, 0)
}
