//! A link to a node of another host: the packets of both lanes on one TCP connection, or on what else carries bytes.
//!
//! A packet travels as it is: its header says how long its payload is, so there is no other framing.
//!
//! # Decisions
//!
//! - *No credits on the wire.* A node has at most [`MAX_REQUESTS`] requests without a reply at each peer, and at most
//!   [`MAX_AWAITED_BYTES`] of operands and results. So a reply always finds room in the memory of the node that sends
//!   it, and a node never stops reading: neither lane can hold up the other. A peer that asks for more is none of ours,
//!   and the link ends.
//! - *The order of staging is that of sending.* The owner stages replies before requests in each turn, and requests
//!   only while few bytes are staged.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use rackmem_abi::{HEADER_BYTES, Header, MAX_UNIT_BYTES, Status};
use rackmem_rmc::{Sink, Source};

use crate::carrier::Carrier;
use crate::link::request;
use crate::stream::Stream;
use crate::{Lane, Link, payload_bytes};

/// Unit of a link over TCP: a system call for each packet would cost far more than a copy of it.
pub const UNIT_BYTES: usize = MAX_UNIT_BYTES;

/// Requests without a reply.
pub const MAX_REQUESTS: usize = 1024;

/// Bytes of operands and results of requests without a reply: more than the sockets of both hosts hold, so that data
/// always flow.
pub const MAX_AWAITED_BYTES: usize = 1 << 20;

/// Bytes that are staged before a request has to wait.
const MAX_STAGED_BYTES: usize = 256 << 10;

/// Bytes that leave in the midst of a turn: the peer takes them in while more are staged, in memory that is cached.
const LEAVE_BYTES: usize = 128 << 10;

/// A packet that has come: the words of its header, and its payload's place in the input.
#[derive(Clone, Copy, Debug)]
struct Frame {
    words: [u64; 2],
    at: usize,
    payload_bytes: usize,
}

/// One end of a link over TCP.
pub type TcpLink = PacketLink<Stream>;

/// One end of a link.
#[derive(Debug)]
pub struct PacketLink<C> {
    stream: C,
    /// End of the packets in the input that were found.
    parsed: usize,
    requests: VecDeque<Frame>,
    replies: VecDeque<Frame>,
    /// Requests without a reply, and bytes of their results.
    outstanding: usize,
    awaited_bytes: usize,
    /// Bytes that were staged since the last were sent.
    fresh_bytes: usize,
}

impl<C: Carrier> PacketLink<C> {
    /// The link over a stream, which begins with its first packet.
    pub fn new(stream: C) -> PacketLink<C> {
        let mut link = PacketLink {
            stream,
            parsed: 0,
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            outstanding: 0,
            awaited_bytes: 0,
            fresh_bytes: 0,
        };
        link.parse();
        link
    }

    /// The link's carrier.
    pub fn carrier(&self) -> &C {
        &self.stream
    }

    /// Finds the packets that are whole.
    fn parse(&mut self) {
        while let Some(head) = self.stream.input()[self.parsed..].first_chunk::<HEADER_BYTES>() {
            let (words, _) = head.as_chunks::<8>();
            let words = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
            let (header, status) = match Header::parse(words, UNIT_BYTES) {
                Ok(parsed) => parsed,
                Err(error) => {
                    return self.stream.lose(&format!("the peer sent no packet: {error}"));
                }
            };
            let payload_bytes = payload_bytes(&header, status);
            let at = self.parsed + HEADER_BYTES;
            if self.stream.input().len() < at + payload_bytes {
                return;
            }
            self.parsed = at + payload_bytes;
            let frame = Frame { words, at, payload_bytes };
            match status {
                None => self.requests.push_back(frame),
                Some(_) => self.replies.push_back(frame),
            }
        }
    }

    fn lane(&self, lane: Lane) -> &VecDeque<Frame> {
        match lane {
            Lane::Request => &self.requests,
            Lane::Reply => &self.replies,
        }
    }
}

impl<C: Carrier> Link for PacketLink<C> {
    fn unit_bytes(&self) -> usize {
        UNIT_BYTES
    }

    #[inline]
    fn can_send_request(&self, payload_bytes: usize, result_bytes: usize) -> bool {
        let awaited = self.awaited_bytes + payload_bytes + result_bytes;
        self.stream.staged_bytes() < MAX_STAGED_BYTES
            && self.outstanding < MAX_REQUESTS
            && (awaited <= MAX_AWAITED_BYTES || self.awaited_bytes == 0)
    }

    #[inline]
    fn send<E>(
        &mut self,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let payload_bytes = payload_bytes(header, status);
        let result_bytes = header.reply_bytes(Status::Ok);
        if status.is_none() && !self.can_send_request(payload_bytes, result_bytes) {
            return None;
        }
        let out = self.stream.out();
        let at = out.len();
        out.reserve(HEADER_BYTES + payload_bytes);
        for word in header.emit(status) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        if payload_bytes > 0 {
            // SAFETY: the room was reserved behind the header.
            let room = unsafe { out.as_mut_ptr().add(at + HEADER_BYTES) };
            // SAFETY: as above; nobody else has it.
            if let Err(error) = fill(unsafe { Sink::from_raw(room, payload_bytes) }) {
                out.truncate(at);
                return Some(Err(error));
            }
            // SAFETY: these bytes were just filled.
            unsafe { out.set_len(at + HEADER_BYTES + payload_bytes) };
        }
        if status.is_none() {
            self.outstanding += 1;
            self.awaited_bytes += payload_bytes + result_bytes;
        }
        self.fresh_bytes += HEADER_BYTES + payload_bytes;
        if self.fresh_bytes >= LEAVE_BYTES {
            self.transmit();
        }
        Some(Ok(()))
    }

    /// No credits: see the module.
    fn can_send_reply(&self, _payload_bytes: usize) -> bool {
        true
    }

    fn transmit(&mut self) -> bool {
        self.fresh_bytes = 0;
        self.stream.transmit()
    }

    fn receive(&mut self) -> bool {
        if !self.requests.is_empty() || !self.replies.is_empty() {
            return false;
        }
        self.stream.take(self.parsed);
        self.parsed = 0;
        let came = self.stream.receive();
        self.parse();
        came
    }

    fn lost(&self) -> Option<&str> {
        self.stream.lost()
    }

    fn lose(&mut self, why: &str) {
        self.stream.lose(why);
    }

    fn has_staged(&self) -> bool {
        self.stream.staged_bytes() > 0
    }

    fn has_work(&self) -> bool {
        !self.requests.is_empty() || !self.replies.is_empty() || self.stream.may_have_more()
    }

    #[inline]
    fn front(&mut self, lane: Lane) -> Option<[u64; 2]> {
        self.lane(lane).front().map(|frame| frame.words)
    }

    #[inline]
    fn payload(&self, lane: Lane) -> Source<'_> {
        match self.lane(lane).front() {
            Some(frame) => {
                Source::new(&self.stream.input()[frame.at..frame.at + frame.payload_bytes])
            }
            None => Source::new(&[]),
        }
    }

    #[inline]
    fn take(&mut self, lane: Lane) {
        match lane {
            Lane::Request => {
                // A peer keeps to the limits, so the replies do, too.
                if self.requests.pop_front().is_some()
                    && self.stream.staged_bytes() > MAX_STAGED_BYTES + 2 * MAX_AWAITED_BYTES
                {
                    self.stream.lose("the peer asks for more than it takes in");
                }
            }
            Lane::Reply => {
                let frame = self.replies.pop_front();
                let Some(header) = frame.and_then(|frame| request(frame.words)) else { return };
                self.outstanding = self.outstanding.saturating_sub(1);
                let bytes = header.request_bytes() + header.reply_bytes(Status::Ok);
                self.awaited_bytes = self.awaited_bytes.saturating_sub(bytes);
            }
        }
    }
}

impl<C: AsFd> AsFd for PacketLink<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
