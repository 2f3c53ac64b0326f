//! A network interface card: rings of descriptors, bursts of data, a MAC, interrupts after some frames
//! or some time.
//!
//! The card is a master on the on-chip interconnect of its node. If another node has borrowed it, rings
//! and buffers are in that node's memory, and the card reaches them as its node reaches any borrowed
//! memory: by addresses of the window, through the table (DEOI §III).

use std::collections::VecDeque;

use super::packet::{Access, Channel, Master, Packet};
use super::platform::{Event, Platform, Upcall};
use super::time::{Ps, ps};

/// Register: number of descriptors of frames to be sent.
pub const SEND_TAIL: u64 = 0;
/// Register: frames that have been sent; written, it takes the interrupt back.
pub const SEND_STATUS: u64 = 8;
/// Register: frames that have come; written, it takes the interrupt back.
pub const RECEIVE_STATUS: u64 = 16;
/// Register: number of descriptors of empty buffers.
pub const RECEIVE_TAIL: u64 = 24;

/// Interrupt lines: frames have been sent, frames have come.
pub const SENT: u8 = 0;
/// See [`SENT`].
pub const RECEIVED: u8 = 1;

/// A frame: its bytes, without those that all frames have, and the workload's number for it.
#[derive(Clone, Copy, Debug)]
pub struct CardFrame {
    pub bytes: u32,
    /// Number that the workload has given the frame.
    pub tag: u32,
}

/// A frame whose data are on their way.
#[derive(Clone, Copy, Debug)]
struct Moving {
    frame: CardFrame,
    asked: u32,
    answered: u32,
    under_way: u32,
}

/// An interrupt line and the frames that it tells of.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Frames in memory since the last interrupt.
    frames: u32,
    /// All frames whose end the card has seen.
    ends: u64,
    /// The time after the last one was over before it was in memory.
    is_late: bool,
    asserted: bool,
}

/// A card: its rings, its buffers and its two interrupt lines.
#[derive(Debug, Default)]
pub struct Nic {
    /// The node whose memory has rings and buffers, and whose core is interrupted.
    pub user: u16,
    /// Address of that memory for the card.
    base: u64,
    next_buffer: u64,
    /// Descriptors of frames to be sent.
    ring: VecDeque<CardFrame>,
    told: usize,
    fetching: Option<CardFrame>,
    fetched: Option<CardFrame>,
    reading: Option<Moving>,
    buffered: VecDeque<CardFrame>,
    is_sending: bool,
    arrived: VecDeque<CardFrame>,
    writing: Option<Moving>,
    /// Frames that are in the user's memory, and that software has not taken.
    pub received: VecDeque<CardFrame>,
    /// Frames that have been sent, and whose descriptors software has not taken back.
    pub sent: u32,
    lines: [Line; 2],
    /// Times that an interrupt line was asserted.
    pub interrupts: u64,
}

impl Nic {
    /// A card for a node, whose memory it finds at `base`.
    pub fn new(user: u16, base: u64) -> Nic {
        Nic { user, base, ..Nic::default() }
    }

    /// Software has written a descriptor; the card sees it when it is told.
    pub fn post(&mut self, frame: CardFrame) {
        self.ring.push_back(frame);
    }
}

impl Platform {
    fn card(&mut self, node: u16) -> &mut Nic {
        self.nodes[usize::from(node)].nic.as_mut().expect("a node with a card")
    }

    pub(super) fn card_told(&mut self, node: u16, register: u64) {
        match register {
            SEND_TAIL => {
                let card = self.card(node);
                card.told = card.ring.len();
                self.card_fetch(node);
            }
            SEND_STATUS => self.card_acknowledged(node, SENT),
            RECEIVE_STATUS => self.card_acknowledged(node, RECEIVED),
            _ => {}
        }
    }

    fn card_access(&mut self, node: u16, master: Master, is_write: bool, bytes: u32) {
        let now = self.now();
        let card = self.card(node);
        // Buffers are pages apart: rows of the memory, not of interest for what is measured.
        let address = card.base + card.next_buffer % (1 << 20);
        card.next_buffer += u64::from(bytes);
        self.access(Access::new(master, node, is_write, address, bytes, now));
    }

    /// Fetches the next descriptor, if there is one and room for its frame.
    fn card_fetch(&mut self, node: u16) {
        let descriptor = self.nic.descriptor_bytes;
        let card = self.card(node);
        if card.fetching.is_some() || card.fetched.is_some() || card.told == 0 {
            return;
        }
        card.told -= 1;
        card.fetching = card.ring.pop_front();
        self.card_access(node, Master::NicDescriptor, false, descriptor);
    }

    /// Reads the data of the next frame.
    fn card_read(&mut self, node: u16) {
        let room = self.nic.buffer_frames as usize;
        let card = self.card(node);
        if card.reading.is_none()
            && card.buffered.len() < room
            && let Some(frame) = card.fetched.take()
        {
            card.reading = Some(Moving { frame, asked: 0, answered: 0, under_way: 0 });
            self.card_fetch(node);
        }
        self.card_bursts(node, false);
    }

    /// Asks for bursts of the frame that moves, as many as may be under way.
    fn card_bursts(&mut self, node: u16, is_write: bool) {
        loop {
            let (burst, most) = (self.nic.burst_bytes, self.nic.bursts);
            let card = self.card(node);
            let moving = if is_write { &mut card.writing } else { &mut card.reading };
            let Some(moving) = moving else { return };
            let left = moving.frame.bytes - moving.asked;
            if left == 0 || moving.under_way == most {
                return;
            }
            let bytes = left.min(burst);
            moving.asked += bytes;
            moving.under_way += 1;
            let master = if is_write { Master::NicWrite } else { Master::NicData };
            self.card_access(node, master, is_write, bytes);
        }
    }

    /// An access of the card is done.
    pub(super) fn card_finished(&mut self, access: Access) {
        let node = access.node;
        let descriptor = self.nic.descriptor_bytes;
        match access.master {
            Master::NicDescriptor => {
                let card = self.card(node);
                card.fetched = card.fetching.take();
                self.card_read(node);
            }
            Master::NicData => {
                if let Some(frame) = arrived(&mut self.card(node).reading, access.bytes) {
                    self.card(node).buffered.push_back(frame);
                    self.card_transmit(node);
                }
                self.card_read(node);
            }
            Master::NicWrite => {
                if let Some(frame) = arrived(&mut self.card(node).writing, access.bytes) {
                    self.card(node).received.push_back(frame);
                    self.card_access(node, Master::NicReceived, true, descriptor);
                }
                self.card_store(node);
            }
            Master::NicReceived => self.card_happened(node, RECEIVED),
            Master::NicSent => {
                self.card(node).sent += 1;
                self.card_happened(node, SENT);
            }
            Master::Core(_) | Master::Qpair(_) => {}
        }
    }

    fn card_transmit(&mut self, node: u16) {
        let now = self.now();
        let card = self.card(node);
        if card.is_sending {
            return;
        }
        let Some(&CardFrame { bytes, tag }) = card.buffered.front() else { return };
        card.is_sending = true;
        let wire = self.wire_time(bytes);
        self.agenda.at(now + wire, Event::CardSent { node });
        let at = now + wire + self.beyond(bytes);
        self.agenda.at(at, Event::AtPeer { bytes, tag });
    }

    /// Time of a frame on the network.
    pub(super) fn wire_time(&self, bytes: u32) -> Ps {
        // Ethernet frames have at least 46 bytes of data.
        ps(f64::from((bytes.max(46) + self.nic.frame_bytes) * 8) / self.nic.gbps)
    }

    /// From the last bit of a frame at the card to its last bit at the other end: the switch takes it
    /// whole.
    pub(super) fn beyond(&self, bytes: u32) -> Ps {
        ps(2.0 * self.nic.mac_ns + self.nic.switch_ns) + self.wire_time(bytes)
    }

    pub(super) fn card_sent(&mut self, node: u16) {
        let descriptor = self.nic.descriptor_bytes;
        let card = self.card(node);
        card.is_sending = false;
        card.buffered.pop_front();
        self.card_ends(node, SENT);
        self.card_access(node, Master::NicSent, true, descriptor);
        self.card_transmit(node);
        self.card_read(node);
    }

    pub(super) fn card_receives(&mut self, node: u16, frame: CardFrame) {
        self.card(node).arrived.push_back(frame);
        self.card_ends(node, RECEIVED);
        self.card_store(node);
    }

    fn card_store(&mut self, node: u16) {
        let card = self.card(node);
        if card.writing.is_none()
            && let Some(frame) = card.arrived.pop_front()
        {
            card.writing = Some(Moving { frame, asked: 0, answered: 0, under_way: 0 });
        }
        self.card_bursts(node, true);
    }

    /// The card sees the end of a frame: its time begins anew (PG021: with the last word of a packet).
    fn card_ends(&mut self, node: u16, line: u8) {
        let later = self.now() + ps(self.nic.coalesce_ns);
        let state = &mut self.card(node).lines[usize::from(line)];
        state.ends += 1;
        state.is_late = false;
        let after = state.ends;
        self.agenda.at(later, Event::CardTimer { node, line, after });
    }

    /// All about a frame is in memory.
    fn card_happened(&mut self, node: u16, line: u8) {
        let most = self.nic.coalesce_frames;
        let state = &mut self.card(node).lines[usize::from(line)];
        state.frames += 1;
        if state.frames >= most || std::mem::take(&mut state.is_late) {
            self.card_interrupts(node, line);
        }
    }

    /// Some time has passed since frame number `after`.
    pub(super) fn card_timer(&mut self, node: u16, line: u8, after: u64) {
        let state = &mut self.card(node).lines[usize::from(line)];
        if state.ends != after {
            return;
        }
        if state.frames > 0 {
            self.card_interrupts(node, line);
        } else {
            state.is_late = true;
        }
    }

    fn card_interrupts(&mut self, node: u16, line: u8) {
        let card = self.card(node);
        let state = &mut card.lines[usize::from(line)];
        if state.asserted {
            return;
        }
        (state.asserted, state.frames) = (true, 0);
        card.interrupts += 1;
        self.drive(node, line, true);
    }

    /// Software has read the status and takes the interrupt back.
    fn card_acknowledged(&mut self, node: u16, line: u8) {
        let most = self.nic.coalesce_frames;
        let later = self.now() + ps(self.nic.coalesce_ns);
        let state = &mut self.card(node).lines[usize::from(line)];
        if !state.asserted {
            return;
        }
        state.asserted = false;
        let (frames, after) = (state.frames, state.ends);
        self.drive(node, line, false);
        if frames >= most {
            self.card_interrupts(node, line);
        } else if frames > 0 {
            self.agenda.at(later, Event::CardTimer { node, line, after });
        }
    }

    /// A device of a node drives its interrupt line.
    pub fn drive(&mut self, node: u16, line: u8, asserted: bool) {
        let user = self.nodes[usize::from(node)].nic.as_ref().map_or(node, |card| card.user);
        if user == node {
            self.upcalls.push_back(Upcall::Interrupt { node, line, asserted });
            return;
        }
        self.nodes[usize::from(node)].imt.drive(line, asserted);
        while let Some(change) = self.nodes[usize::from(node)].imt.take() {
            let tag = u32::from(change.line) << 1 | u32::from(change.asserted);
            let destination = change.destination;
            let packet = Packet::new(Channel::Interrupt, node, destination, tag, 0);
            self.send(node, packet);
        }
    }
}

/// A burst of the frame that moves has arrived; the frame, if it was the last one.
fn arrived(moving: &mut Option<Moving>, bytes: u32) -> Option<CardFrame> {
    let now = moving.as_mut()?;
    now.answered += bytes;
    now.under_way -= 1;
    if now.answered < now.frame.bytes {
        return None;
    }
    moving.take().map(|moving| moving.frame)
}
