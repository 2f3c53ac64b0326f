//! Queue pairs with two sides (TSM §4.2, transport channel QPair): the send queue (SQ), receive queue (RQ)
//! and completion queue (CQ) of one end of a connection.
//!
//! The n-th message of one side goes into the n-th buffer that the other one posted. Each side therefore
//! counts alone, and a buffer's place in the RQ is free again once its message was taken: rings of `depth`
//! places never overflow, without credits.
//!
//! [`Queues`] has a step for each thing that can happen to a descriptor. A carrier that takes time for a
//! message, such as the model's channel, calls the steps itself; it learns at the receiver whether a buffer
//! is posted. Where the sender sees the receives of its peer, in shared memory or by messages, a carrier is
//! a [`Shared`], and [`Queues::progress`] does all that can be done. No step allocates.
//!
//! # Decisions
//!
//! | question | decision |
//! |---|---|
//! | no receive is posted | the message waits, and a full SQ refuses: back-pressure |
//! | the message is too long | both descriptors complete with [`Status::TooLong`]; nothing is stored |
//! | the CQ is full | it cannot be: the place of a descriptor is free when its completion was taken |
//! | order | completions of a queue come in the order of its descriptors |
//! | the peer dies, is silent or closes | arrived messages complete, then all else with [`Status::Lost`] or [`Status::Closed`] |

use alloc::collections::VecDeque;

/// A piece of registered memory, and the identifier of its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// First byte, counted as the connection's registered memory is.
    pub offset: u64,
    /// Bytes of the message, or that there is room for.
    pub size_bytes: u64,
    /// Comes back with the completion.
    pub id: u64,
}

impl Descriptor {
    /// Whether it lies in registered memory: so many bytes from `base` on.
    #[inline]
    pub fn is_inside(&self, base: u64, registered_bytes: u64) -> bool {
        let end = self.offset.wrapping_sub(base).checked_add(self.size_bytes);
        self.offset >= base && end.is_some_and(|end| end <= registered_bytes)
    }

    /// Whether a message of so many bytes fits.
    #[inline]
    pub const fn takes(&self, length_bytes: u64) -> bool {
        length_bytes <= self.size_bytes
    }
}

/// The queue of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A descriptor of the SQ.
    Send,
    /// A descriptor of the RQ.
    Receive,
}

/// The end of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The message is in the receiver's buffer, on this host or another one.
    Done,
    /// The message did not fit into the buffer that was posted for it.
    TooLong,
    /// The peer has closed the connection.
    Closed,
    /// The peer has died, or does not keep to the protocol.
    Lost,
}

impl Status {
    /// The end of a message, and of the buffer that it meets.
    #[inline]
    pub const fn of(is_too_long: bool) -> Status {
        if is_too_long { Status::TooLong } else { Status::Done }
    }
}

/// An entry of the CQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// The queue of the descriptor.
    pub kind: Kind,
    /// The id of the descriptor.
    pub id: u64,
    /// Bytes of the message; of one that did not fit, too.
    pub length_bytes: u64,
    /// The end of the descriptor.
    pub status: Status,
}

/// A message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// Its bytes.
    pub length_bytes: u64,
    /// Whether it did not fit.
    pub is_too_long: bool,
}

/// A carrier by which both ends see the same state.
pub trait Shared {
    /// Puts the n-th receive descriptor where the peer sees it.
    fn publish(&mut self, number: u64, buffer: Descriptor);
    /// The peer's n-th receive descriptor, if it was posted: offset and size in its memory.
    fn posted(&mut self, number: u64) -> Option<Descriptor>;
    /// Stores the n-th message, of registered memory here, into that buffer, and says so; `false` if there was
    /// room on the way for a part of it only: then it is called again, until all of the message has left.
    fn deliver(&mut self, number: u64, message: Descriptor, buffer: Descriptor) -> bool;
    /// Number of messages that have reached the peer for certain. Until then their memory is not to be touched.
    fn delivered(&mut self) -> u64;
    /// Says of the n-th message that it does not fit.
    fn refuse(&mut self, number: u64, length_bytes: u64);
    /// The n-th message of the peer, if it has come.
    fn arrived(&mut self, number: u64) -> Option<Arrival>;
    /// Puts the n-th message, which has come, into its buffer, if it is not there yet.
    fn collect(&mut self, number: u64, arrival: Arrival, buffer: Descriptor);
}

/// A message that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InFlight {
    number: u64,
    message: Descriptor,
    status: Status,
}

/// The queues of one end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queues {
    depth: usize,
    sends: VecDeque<Descriptor>,
    in_flight: VecDeque<InFlight>,
    receives: VecDeque<Descriptor>,
    completions: VecDeque<Completion>,
    /// Completions in the CQ, by queue: their places are not free yet.
    untaken: [usize; 2],
    posted: u64,
    sent: u64,
    received: u64,
    end: Option<Status>,
}

impl Queues {
    /// Empty queues of `depth` places each; the CQ has twice as many.
    pub fn new(depth: usize) -> Queues {
        Queues {
            depth,
            sends: VecDeque::with_capacity(depth),
            in_flight: VecDeque::with_capacity(depth),
            receives: VecDeque::with_capacity(depth),
            completions: VecDeque::with_capacity(2 * depth),
            untaken: [0; 2],
            posted: 0,
            sent: 0,
            received: 0,
            end: None,
        }
    }

    /// Whether a send may be posted.
    #[inline]
    pub fn has_send_room(&self) -> bool {
        let taken = self.sends.len() + self.in_flight.len();
        taken + self.untaken[Kind::Send as usize] < self.depth
    }

    /// Whether a receive may be posted.
    #[inline]
    pub fn has_receive_room(&self) -> bool {
        self.receives.len() + self.untaken[Kind::Receive as usize] < self.depth
    }

    /// The status that ended the connection, if it has ended.
    #[inline]
    pub fn end(&self) -> Option<Status> {
        self.end
    }

    /// Number of the next message, if it could be sent now, before any other.
    #[inline]
    pub fn next_send(&self) -> Option<u64> {
        (self.sends.is_empty() && self.end.is_none()).then_some(self.sent)
    }

    /// The message that [`Queues::next_send`] numbered was sent by itself, without a completion.
    #[inline]
    pub fn count_send(&mut self) {
        debug_assert!(self.sends.is_empty());
        self.sent += 1;
    }

    /// Posts a send; `false` without room.
    #[inline]
    pub fn post_send(&mut self, message: Descriptor) -> bool {
        if !self.has_send_room() {
            return false;
        }
        match self.end {
            None => self.sends.push_back(message),
            Some(status) => self.complete(Kind::Send, message, 0, status),
        }
        true
    }

    /// Posts a receive, whose number `publish` gets, unless the connection has ended; `false` without room.
    #[inline]
    pub fn post_receive(
        &mut self,
        buffer: Descriptor,
        publish: impl FnOnce(u64, Descriptor),
    ) -> bool {
        if !self.has_receive_room() {
            return false;
        }
        match self.end {
            None => {
                publish(self.posted, buffer);
                self.posted += 1;
                self.receives.push_back(buffer);
            }
            Some(status) => self.complete(Kind::Receive, buffer, 0, status),
        }
        true
    }

    /// The oldest send that has not left.
    #[inline]
    pub fn waiting_send(&self) -> Option<Descriptor> {
        self.sends.front().copied()
    }

    /// Buffers that wait for messages, in their order.
    pub fn receives(&self) -> impl Iterator<Item = Descriptor> {
        self.receives.iter().copied()
    }

    /// The buffer of the next message.
    #[inline]
    pub fn waiting_receive(&self) -> Option<Descriptor> {
        self.receives.front().copied()
    }

    /// The oldest send that waits has left, and ends so when [`Queues::confirm`] says that it has reached the
    /// peer; `false` if none waits.
    #[inline]
    pub fn leave(&mut self, status: Status) -> bool {
        let Some(message) = self.sends.pop_front() else { return false };
        self.in_flight.push_back(InFlight { number: self.sent, message, status });
        self.sent += 1;
        true
    }

    /// Messages below this number have reached the peer: their sends complete. Returns their number.
    #[inline]
    pub fn confirm(&mut self, delivered: u64) -> usize {
        let before = self.in_flight.len();
        while let Some(&InFlight { number, message, status }) = self.in_flight.front()
            && number < delivered
        {
            self.in_flight.pop_front();
            self.complete(Kind::Send, message, message.size_bytes, status);
        }
        before - self.in_flight.len()
    }

    /// The next message has arrived, in its buffer if it fits: its receive completes; `false` if none waits.
    #[inline]
    pub fn receive(&mut self, Arrival { length_bytes, is_too_long }: Arrival) -> bool {
        let Some(buffer) = self.receives.pop_front() else { return false };
        self.received += 1;
        self.complete(Kind::Receive, buffer, length_bytes, Status::of(is_too_long));
        true
    }

    /// Takes arrivals and sends as far as possible. Returns true if the peer has something new to see.
    pub fn progress(&mut self, shared: &mut impl Shared) -> bool {
        self.take_arrivals(shared);
        if self.end.is_some() {
            return false;
        }
        let has_sent = self.send(shared);
        self.take_deliveries(shared);
        has_sent
    }

    fn send(&mut self, shared: &mut impl Shared) -> bool {
        let mut has_sent = false;
        while let Some(message) = self.waiting_send() {
            let Some(buffer) = shared.posted(self.sent) else { break };
            has_sent = true;
            let is_too_long = !buffer.takes(message.size_bytes);
            match is_too_long {
                false if !shared.deliver(self.sent, message, buffer) => break,
                false => {}
                true => shared.refuse(self.sent, message.size_bytes),
            }
            self.leave(Status::of(is_too_long));
        }
        has_sent
    }

    fn take_deliveries(&mut self, shared: &mut impl Shared) {
        if !self.in_flight.is_empty() {
            self.confirm(shared.delivered());
        }
    }

    fn take_arrivals(&mut self, shared: &mut impl Shared) {
        if self.end.is_some() {
            return;
        }
        while let Some(buffer) = self.waiting_receive() {
            let Some(arrival) = shared.arrived(self.received) else { break };
            if !arrival.is_too_long {
                if !buffer.takes(arrival.length_bytes) {
                    // A peer that says what cannot be is no peer any more.
                    return self.conclude(Status::Lost);
                }
                shared.collect(self.received, arrival, buffer);
            }
            self.receive(arrival);
        }
    }

    /// The peer is gone: completes messages that had arrived, then everything else.
    pub fn finish(&mut self, status: Status, shared: &mut impl Shared) {
        self.take_arrivals(shared);
        if self.end.is_none() {
            self.take_deliveries(shared);
            self.conclude(status);
        }
    }

    #[cold]
    fn conclude(&mut self, status: Status) {
        self.end = Some(status);
        while let Some(InFlight { message, .. }) = self.in_flight.pop_front() {
            self.complete(Kind::Send, message, 0, status);
        }
        while let Some(message) = self.sends.pop_front() {
            self.complete(Kind::Send, message, 0, status);
        }
        while let Some(buffer) = self.receives.pop_front() {
            self.complete(Kind::Receive, buffer, 0, status);
        }
    }

    #[inline]
    fn complete(&mut self, kind: Kind, of: Descriptor, length_bytes: u64, status: Status) {
        self.untaken[kind as usize] += 1;
        self.completions.push_back(Completion { kind, id: of.id, length_bytes, status });
        debug_assert!(self.completions.len() <= 2 * self.depth, "the CQ has room for all");
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn poll(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        self.untaken[completion.kind as usize] -= 1;
        Some(completion)
    }

    /// Completions that wait.
    #[inline]
    pub fn completed(&self) -> usize {
        self.completions.len()
    }
}
