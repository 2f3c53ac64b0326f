//! A network interface card: rings of descriptors, bursts of data, a MAC, interrupts after some frames
//! or some time; and the wire behind it.
//!
//! It knows of no addresses and of no contents. Its owner carries out the [`Action`]s that come of what it is told:
//! accesses of its user's memory, each with its place in a frame, and changes of its interrupt lines.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::time::{Ps, ps};
use crate::machine::spec::NicSpec;

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

/// A frame: its bytes, without those that all frames have, and its user's number for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardFrame {
    pub bytes: u32,
    /// Number that the user has given the frame.
    pub tag: u32,
}

/// Accesses of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads the descriptor of a frame to be sent.
    Descriptor,
    /// Reads data of that frame.
    Data,
    /// Writes data of a frame that has come.
    Write,
    /// Writes that all of it is there.
    Received,
    /// Writes that a frame was sent.
    Sent,
}

impl Step {
    /// Whether it writes memory.
    pub const fn is_write(self) -> bool {
        matches!(self, Step::Write | Step::Received | Step::Sent)
    }
}

/// An event to come in a card.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A frame is on the wire.
    Sent,
    /// A frame has come.
    Receives(CardFrame),
    /// The time after the last frame is over, if that was number `after`.
    Timer { line: u8, after: u64 },
}

/// A task of a card for its owner; they are done in order.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Plan an event of this card.
    Plan(Ps, Event),
    /// Access the user's memory: `bytes` bytes of a frame, or of its descriptor, from `offset` on.
    Access { step: Step, frame: CardFrame, offset: u32, bytes: u32 },
    /// A frame will be at the other end of the network.
    AtPeer(Ps, CardFrame),
    /// An interrupt line changes.
    Interrupt { line: u8, asserted: bool },
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// Frames in memory since the last interrupt.
    frames: u32,
    /// All frames whose end the card has seen.
    ends: u64,
    /// The time after the last one is over: frames that reach memory now interrupt at once.
    is_late: bool,
    asserted: bool,
}

/// The state of a card that has nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    lines: [Line; 2],
    interrupts: u64,
}

impl State {
    /// Whether no card has counted so far.
    pub fn is_out_of_bounds(&self) -> bool {
        let is_beyond = |line: &Line| line.ends >= 1 << 40 || line.frames >= 1 << 30;
        self.interrupts >= 1 << 40 || self.lines.iter().any(is_beyond)
    }

    /// The interrupt lines that are asserted.
    pub fn asserted(&self) -> impl Iterator<Item = u8> {
        (0..).zip(&self.lines).filter(|(_, line)| line.asserted).map(|(number, _)| number)
    }
}

/// The network between a card and the other end, a switch away.
#[derive(Clone, Debug)]
pub struct Wire {
    spec: NicSpec,
    /// Time at which the other end may send its next frame.
    peer_free: Ps,
}

impl Wire {
    /// A network without frames.
    pub fn new(spec: &NicSpec) -> Wire {
        Wire { spec: spec.clone(), peer_free: 0 }
    }

    /// Time of a frame on the network.
    pub fn time(&self, bytes: u32) -> Ps {
        // Ethernet frames have at least 46 bytes of data.
        ps(f64::from((bytes.max(46) + self.spec.frame_bytes) * 8) / self.spec.gbps)
    }

    /// From the last bit of a frame at the card to its last bit at the other end: the switch takes it
    /// whole.
    fn beyond(&self, bytes: u32) -> Ps {
        ps(2.0 * self.spec.mac_ns + self.spec.switch_ns) + self.time(bytes)
    }

    /// The other end sends a frame, not before `at`. When it is at the card.
    pub fn peer_sends(&mut self, at: Ps, bytes: u32) -> Ps {
        self.peer_free = at.max(self.peer_free) + self.time(bytes);
        self.peer_free + self.beyond(bytes)
    }
}

/// A card: its buffers and its two interrupt lines.
#[derive(Clone, Debug)]
pub struct Nic {
    spec: NicSpec,
    /// The network that it is at.
    pub wire: Wire,
    now: Ps,
    /// Descriptors that it was told of and has not fetched.
    told: u32,
    is_fetching: bool,
    fetched: Option<CardFrame>,
    reading: Option<Moving>,
    buffered: VecDeque<CardFrame>,
    is_sending: bool,
    arrived: VecDeque<CardFrame>,
    writing: Option<Moving>,
    lines: [Line; 2],
    /// Times that an interrupt line was asserted.
    pub interrupts: u64,
    actions: VecDeque<Action>,
}

impl Nic {
    /// A card with nothing to do.
    pub fn new(spec: &NicSpec) -> Nic {
        Nic {
            spec: spec.clone(),
            wire: Wire::new(spec),
            now: 0,
            told: 0,
            is_fetching: false,
            fetched: None,
            reading: None,
            buffered: VecDeque::new(),
            is_sending: false,
            arrived: VecDeque::new(),
            writing: None,
            lines: [Line::default(); 2],
            interrupts: 0,
            actions: VecDeque::new(),
        }
    }

    /// Its state; it has nothing to do.
    pub fn state(&self) -> State {
        State { lines: self.lines, interrupts: self.interrupts }
    }

    /// Goes on from a state.
    pub fn restore(&mut self, state: &State) {
        State { lines: self.lines, interrupts: self.interrupts } = state.clone();
    }

    /// The next thing for its owner to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Software has written so many descriptors more.
    pub fn tell(&mut self, now: Ps, more: u32) {
        self.now = now;
        self.told += more;
        self.fetch();
    }

    /// Software has read the status of a line and takes the interrupt back.
    pub fn acknowledge(&mut self, now: Ps, line: u8) {
        self.now = now;
        let state = &mut self.lines[usize::from(line)];
        if !state.asserted {
            return;
        }
        state.asserted = false;
        let (frames, after) = (state.frames, state.ends);
        self.actions.push_back(Action::Interrupt { line, asserted: false });
        if frames >= self.spec.coalesce_frames {
            self.interrupt(line);
        } else if frames > 0 {
            self.plan(self.spec.coalesce_ns, Event::Timer { line, after });
        }
    }

    /// An event's time has come.
    pub fn happen(&mut self, now: Ps, event: Event) {
        self.now = now;
        match event {
            Event::Sent => self.sent(),
            Event::Receives(frame) => {
                self.arrived.push_back(frame);
                self.ends(RECEIVED);
                self.store();
            }
            Event::Timer { line, after } => self.timer(line, after),
        }
    }

    /// An access is done: of a descriptor, with the frame that it describes.
    pub fn finished(&mut self, now: Ps, step: Step, bytes: u32, described: CardFrame) {
        self.now = now;
        match step {
            Step::Descriptor => {
                self.is_fetching = false;
                self.fetched = Some(described);
                self.read();
            }
            Step::Data => {
                if let Some(frame) = arrived(&mut self.reading, bytes) {
                    self.buffered.push_back(frame);
                    self.transmit();
                }
                self.read();
            }
            Step::Write => {
                if let Some(frame) = arrived(&mut self.writing, bytes) {
                    self.access_descriptor(Step::Received, frame);
                }
                self.store();
            }
            Step::Received => self.in_memory(RECEIVED),
            Step::Sent => self.in_memory(SENT),
        }
    }

    fn plan(&mut self, delay_ns: f64, event: Event) {
        self.actions.push_back(Action::Plan(self.now + ps(delay_ns), event));
    }

    fn access_descriptor(&mut self, step: Step, frame: CardFrame) {
        let bytes = self.spec.descriptor_bytes;
        self.actions.push_back(Action::Access { step, frame, offset: 0, bytes });
    }

    /// Fetches the next descriptor, if there is one and room for its frame.
    fn fetch(&mut self) {
        if self.is_fetching || self.fetched.is_some() || self.told == 0 {
            return;
        }
        self.told -= 1;
        self.is_fetching = true;
        self.access_descriptor(Step::Descriptor, CardFrame::default());
    }

    /// Reads the data of the next frame.
    fn read(&mut self) {
        if self.reading.is_none()
            && self.buffered.len() < self.spec.buffer_frames as usize
            && let Some(frame) = self.fetched.take()
        {
            self.reading = Some(Moving { frame, asked: 0, answered: 0, under_way: 0 });
            self.fetch();
        }
        self.bursts(Step::Data);
    }

    /// Asks for bursts of the frame that moves, as many as may be under way.
    fn bursts(&mut self, step: Step) {
        let moving = if step.is_write() { &mut self.writing } else { &mut self.reading };
        let Some(moving) = moving else { return };
        while moving.asked < moving.frame.bytes && moving.under_way < self.spec.bursts {
            let (frame, offset) = (moving.frame, moving.asked);
            let bytes = (frame.bytes - offset).min(self.spec.burst_bytes);
            moving.asked += bytes;
            moving.under_way += 1;
            self.actions.push_back(Action::Access { step, frame, offset, bytes });
        }
    }

    fn transmit(&mut self) {
        if self.is_sending {
            return;
        }
        let Some(&frame) = self.buffered.front() else { return };
        self.is_sending = true;
        let end = self.now + self.wire.time(frame.bytes);
        self.actions.push_back(Action::Plan(end, Event::Sent));
        self.actions.push_back(Action::AtPeer(end + self.wire.beyond(frame.bytes), frame));
    }

    fn sent(&mut self) {
        self.is_sending = false;
        let frame = self.buffered.pop_front().unwrap_or_default();
        self.ends(SENT);
        self.access_descriptor(Step::Sent, frame);
        self.transmit();
        self.read();
    }

    fn store(&mut self) {
        if self.writing.is_none()
            && let Some(frame) = self.arrived.pop_front()
        {
            self.writing = Some(Moving { frame, asked: 0, answered: 0, under_way: 0 });
        }
        self.bursts(Step::Write);
    }

    /// The card sees the end of a frame: its time begins anew (PG021: with the last word of a packet).
    fn ends(&mut self, line: u8) {
        let state = &mut self.lines[usize::from(line)];
        state.ends += 1;
        state.is_late = false;
        let after = state.ends;
        self.plan(self.spec.coalesce_ns, Event::Timer { line, after });
    }

    /// All about a frame is in memory.
    fn in_memory(&mut self, line: u8) {
        let state = &mut self.lines[usize::from(line)];
        state.frames += 1;
        if state.frames >= self.spec.coalesce_frames || state.is_late {
            self.interrupt(line);
        }
    }

    /// Some time has passed since frame number `after`.
    fn timer(&mut self, line: u8, after: u64) {
        let state = &mut self.lines[usize::from(line)];
        if state.ends != after {
            return;
        }
        state.is_late = true;
        if state.frames > 0 {
            self.interrupt(line);
        }
    }

    fn interrupt(&mut self, line: u8) {
        let state = &mut self.lines[usize::from(line)];
        if state.asserted {
            return;
        }
        (state.asserted, state.frames) = (true, 0);
        self.interrupts += 1;
        self.actions.push_back(Action::Interrupt { line, asserted: true });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::load;

    /// Frames that reach memory long after the time of the last one is over, one after the other.
    #[test]
    fn frames_that_are_late_interrupt() {
        const FRAMES: u32 = 6;
        let mut spec = load("deoi-cores", &[]).unwrap().nic;
        spec.bursts = 1;
        let mut nic = Nic::new(&spec);
        let frame = CardFrame { bytes: spec.burst_bytes, tag: 0 };
        (0..FRAMES).for_each(|_| nic.happen(0, Event::Receives(frame)));
        let late = ps(spec.coalesce_ns);
        let mut writes = 0;
        let mut told = 0;
        while let Some(action) = nic.next_action() {
            match action {
                Action::Plan(at, event) => nic.happen(at, event),
                Action::Access { step, bytes, .. } => {
                    writes += u32::from(step == Step::Received);
                    nic.finished(late, step, bytes, CardFrame::default());
                }
                Action::Interrupt { asserted: true, .. } => {
                    told = writes;
                    nic.acknowledge(late, RECEIVED);
                }
                _ => {}
            }
        }
        assert_eq!(told, FRAMES, "all frames are in memory, and the last interrupt tells of all");
    }
}
