//! SQ, RQ and CQ of one end, as a state machine: the state shared with the other end is a trait.
//!
//! The n-th message of one side goes into the n-th buffer that the other one posted. Each side therefore
//! counts alone, and a buffer's place in the RQ is free again once its message was taken: rings of `depth`
//! places never overflow, without credits.

use std::collections::VecDeque;

/// A piece of registered memory, and the identifier of its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// First byte in the connection's registered memory.
    pub offset: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// Comes back with the completion.
    pub id: u64,
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

/// State that both ends see.
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
struct UnderWay {
    number: u64,
    message: Descriptor,
    status: Status,
}

/// The queues of one end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queues {
    depth: usize,
    sends: VecDeque<Descriptor>,
    under_way: VecDeque<UnderWay>,
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
            under_way: VecDeque::with_capacity(depth),
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
        let taken = self.sends.len() + self.under_way.len();
        taken + self.untaken[Kind::Send as usize] < self.depth
    }

    /// Whether a receive may be posted.
    #[inline]
    pub fn has_receive_room(&self) -> bool {
        self.receives.len() + self.untaken[Kind::Receive as usize] < self.depth
    }

    /// The status that ended the connection, if it has ended.
    pub fn end(&self) -> Option<Status> {
        self.end
    }

    /// Sends that wait for a buffer.
    pub fn waiting_sends(&self) -> usize {
        self.sends.len()
    }

    /// Receives that wait for a message.
    pub fn waiting_receives(&self) -> usize {
        self.receives.len()
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

    /// Posts a receive; `false` without room.
    pub fn post_receive(&mut self, buffer: Descriptor, shared: &mut impl Shared) -> bool {
        if !self.has_receive_room() {
            return false;
        }
        match self.end {
            None => {
                shared.publish(self.posted, buffer);
                self.posted += 1;
                self.receives.push_back(buffer);
            }
            Some(status) => self.complete(Kind::Receive, buffer, 0, status),
        }
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
        while let Some(&message) = self.sends.front() {
            let Some(buffer) = shared.posted(self.sent) else { break };
            has_sent = true;
            let fits = message.size_bytes <= buffer.size_bytes;
            match fits {
                true if !shared.deliver(self.sent, message, buffer) => break,
                true => {}
                false => shared.refuse(self.sent, message.size_bytes),
            }
            let status = if fits { Status::Done } else { Status::TooLong };
            self.under_way.push_back(UnderWay { number: self.sent, message, status });
            self.sent += 1;
            self.sends.pop_front();
        }
        has_sent
    }

    /// Completes messages that have reached the peer.
    fn take_deliveries(&mut self, shared: &mut impl Shared) {
        if self.under_way.is_empty() {
            return;
        }
        let delivered = shared.delivered();
        while let Some(&UnderWay { number, message, status }) = self.under_way.front() {
            if number >= delivered {
                return;
            }
            self.under_way.pop_front();
            self.complete(Kind::Send, message, message.size_bytes, status);
        }
    }

    fn take_arrivals(&mut self, shared: &mut impl Shared) {
        if self.end.is_some() {
            return;
        }
        while let Some(&buffer) = self.receives.front() {
            let Some(arrival) = shared.arrived(self.received) else { break };
            let Arrival { length_bytes, is_too_long } = arrival;
            if !is_too_long && length_bytes > buffer.size_bytes {
                // A peer that says what cannot be is no peer any more.
                return self.conclude(Status::Lost);
            }
            if !is_too_long {
                shared.collect(self.received, arrival, buffer);
            }
            self.received += 1;
            self.receives.pop_front();
            let status = if is_too_long { Status::TooLong } else { Status::Done };
            self.complete(Kind::Receive, buffer, length_bytes, status);
        }
    }

    /// The peer is gone: completes messages that had arrived, then everything else.
    pub fn finish(&mut self, status: Status, shared: &mut impl Shared) {
        if self.end.is_none() {
            self.take_arrivals(shared);
        }
        if self.end.is_none() {
            self.take_deliveries(shared);
            self.conclude(status);
        }
    }

    fn conclude(&mut self, status: Status) {
        self.end = Some(status);
        while let Some(UnderWay { message, .. }) = self.under_way.pop_front() {
            self.complete(Kind::Send, message, 0, status);
        }
        while let Some(message) = self.sends.pop_front() {
            self.complete(Kind::Send, message, 0, status);
        }
        while let Some(buffer) = self.receives.pop_front() {
            self.complete(Kind::Receive, buffer, 0, status);
        }
    }

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
    pub fn completed(&self) -> usize {
        self.completions.len()
    }
}
