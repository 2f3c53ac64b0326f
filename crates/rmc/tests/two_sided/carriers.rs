//! Carriers of a connection. Over memory each end sees the actions of the other one at once. Over a network it hears
//! of them some time, in order, and messages come in parts. A channel knows the receives of its own end only: a
//! message for which none is posted waits at the receiver, and its sender learns from the answer what became of it.

use std::collections::VecDeque;

use rackmem_rmc::two_sided::{Arrival, Descriptor, Queues, Shared, Status};

pub const DEPTH: usize = 2;
/// Bytes of a message that leave at once over a network.
const PART: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Memory,
    Network,
    Channel,
}

/// An end's own state, and over a network its copy of the other one's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    receives: [Option<(u64, Descriptor)>; DEPTH],
    arrivals: [Option<(u64, Arrival)>; DEPTH],
    /// Messages in registered memory, each with the buffer that it lies in.
    pub stored: Vec<(u64, Descriptor)>,
    pub is_closed: bool,
    /// The link broke: nothing comes any more.
    pub is_lost: bool,
    /// A place was written while it still held something.
    pub is_overrun: bool,
    known: Known,
    /// Bytes sent of the present outgoing message, and bytes received of the present incoming one.
    parts: [u64; 2],
    /// Frames on their way to this end.
    pub coming: VecDeque<Frame>,
    /// Of a channel: whether a message is under way, and answers on their way to this end.
    is_sending: bool,
    pub answers: VecDeque<Status>,
}

/// An end's knowledge of the other one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    receives: [Option<(u64, Descriptor)>; DEPTH],
    delivered: u64,
    is_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    Receive(u64, Descriptor),
    /// The number, the beginning of the part, the message, its buffer.
    Part(u64, u64, Descriptor, Descriptor),
    TooLong(u64, u64),
    Delivered(u64),
    Close,
    /// A whole message, for whichever buffer is next.
    Message(Descriptor),
}

pub struct Ends<'a> {
    pub own: &'a mut Window,
    pub peer: &'a mut Window,
    pub carrier: Carrier,
}

fn at(number: u64) -> usize {
    number as usize % DEPTH
}

impl Window {
    fn report(&mut self, number: u64, arrival: Arrival) {
        let place = &mut self.arrivals[at(number)];
        // The message that it held before must have been taken: then its buffer was posted again.
        self.is_overrun |= place.is_some_and(|(old, _)| old + DEPTH as u64 != number);
        *place = Some((number, arrival));
    }

    fn store(&mut self, number: u64, message: Descriptor, buffer: Descriptor) {
        self.stored.push((buffer.id, message));
        self.report(number, Arrival { length_bytes: message.size_bytes, is_too_long: false });
    }

    /// Messages of this end that the other one is known to have.
    pub fn delivered(&self) -> u64 {
        self.known.delivered
    }

    /// Sends a frame to this end; on a broken link it goes nowhere.
    pub fn tell(&mut self, frame: Frame) {
        if !self.is_lost {
            self.coming.push_back(frame);
        }
    }

    /// A peer claims that its first message has arrived so.
    pub fn forge(&mut self, arrival: Arrival) {
        self.arrivals[0] = Some((0, arrival));
    }

    /// Takes the next frame; returns the answer to it.
    pub fn hear(&mut self) -> Option<Frame> {
        match self.coming.pop_front()? {
            Frame::Receive(number, buffer) => {
                self.known.receives[at(number)] = Some((number, buffer));
                None
            }
            Frame::Part(number, begins, message, buffer) => {
                let [_, come] = &mut self.parts;
                assert_eq!(*come, begins, "parts come in order, those of one message together");
                *come = begins + PART;
                if *come < message.size_bytes {
                    return None;
                }
                *come = 0;
                self.store(number, message, buffer);
                Some(Frame::Delivered(number + 1))
            }
            Frame::TooLong(number, length_bytes) => {
                self.report(number, Arrival { length_bytes, is_too_long: true });
                Some(Frame::Delivered(number + 1))
            }
            Frame::Delivered(number) => {
                self.known.delivered = number;
                None
            }
            Frame::Close => {
                self.known.is_closed = true;
                None
            }
            Frame::Message(_) => unreachable!("only channels send whole messages"),
        }
    }

    /// The channel stores the message that has come, if a receive is posted, and answers it.
    pub fn arrive(&mut self, queues: &mut Queues, peer: &mut Window) {
        let Some(&Frame::Message(message)) = self.coming.front() else { return };
        let Some(buffer) = queues.waiting_receive() else { return };
        self.coming.pop_front();
        let arrival = Arrival {
            length_bytes: message.size_bytes,
            is_too_long: !buffer.takes(message.size_bytes),
        };
        if !arrival.is_too_long {
            self.stored.push((buffer.id, message));
        }
        assert!(queues.receive(arrival));
        peer.answers.push_back(Status::of(arrival.is_too_long));
    }
}

impl Ends<'_> {
    /// How the peer is gone, if it is. What had come before is seen first.
    pub fn gone(&self) -> Option<Status> {
        let is_closed = match self.carrier {
            Carrier::Memory => self.peer.is_closed,
            _ => self.own.known.is_closed,
        };
        match (is_closed, self.own.is_lost) {
            (true, _) => Some(Status::Closed),
            (false, true) => Some(Status::Lost),
            (false, false) => None,
        }
    }

    /// The channel takes the answer to its message, then begins with the next one.
    pub fn drive(&mut self, queues: &mut Queues) {
        if let Some(status) = self.own.answers.pop_front() {
            assert!(self.own.is_sending && queues.leave(status));
            assert_eq!(queues.confirm(u64::MAX), 1);
            self.own.is_sending = false;
        }
        if let Some(message) = queues.waiting_send().filter(|_| !self.own.is_sending) {
            self.peer.tell(Frame::Message(message));
            self.own.is_sending = true;
        }
    }
}

impl Shared for Ends<'_> {
    fn publish(&mut self, number: u64, buffer: Descriptor) {
        let place = &mut self.own.receives[at(number)];
        self.own.is_overrun |= place.is_some_and(|(old, _)| old + DEPTH as u64 != number);
        *place = Some((number, buffer));
        if self.carrier == Carrier::Network {
            self.peer.tell(Frame::Receive(number, buffer));
        }
    }

    fn posted(&mut self, number: u64) -> Option<Descriptor> {
        let receives = match self.carrier {
            Carrier::Memory => &self.peer.receives,
            _ => &self.own.known.receives,
        };
        let (there, buffer) = receives[at(number)]?;
        (there == number).then_some(buffer)
    }

    fn deliver(&mut self, number: u64, message: Descriptor, buffer: Descriptor) -> bool {
        if self.carrier == Carrier::Memory {
            self.peer.store(number, message, buffer);
            return true;
        }
        let [left, _] = &mut self.own.parts;
        self.peer.tell(Frame::Part(number, *left, message, buffer));
        *left += PART;
        let is_all = *left >= message.size_bytes;
        if is_all {
            *left = 0;
        }
        is_all
    }

    fn delivered(&mut self) -> u64 {
        if self.carrier == Carrier::Memory { u64::MAX } else { self.own.known.delivered }
    }

    fn refuse(&mut self, number: u64, length_bytes: u64) {
        match self.carrier {
            Carrier::Memory => {
                self.peer.report(number, Arrival { length_bytes, is_too_long: true })
            }
            _ => self.peer.tell(Frame::TooLong(number, length_bytes)),
        }
    }

    fn arrived(&mut self, number: u64) -> Option<Arrival> {
        let (there, arrival) = self.own.arrivals[at(number)]?;
        (there == number).then_some(arrival)
    }

    fn collect(&mut self, _: u64, _: Arrival, _: Descriptor) {}
}
