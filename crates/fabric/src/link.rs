use rackmem_abi::{Header, MAX_UNIT_BYTES, Status};
use rackmem_rmc::{Sink, Source};

/// One of the two lanes of a link, each of which keeps its order. Replies wait for no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// From the RGP of one node to the RRPP of the other.
    Request,
    /// From that RRPP to the RCP of the first.
    Reply,
}

/// One end of the way to another node.
///
/// Packets go out when they are transmitted and come in when they are received, many at a time: a turn of the owner
/// does both once. Bytes from the other end parse, or are dropped, or end the link.
pub trait Link {
    /// Most bytes of payload that a packet can have.
    fn unit_bytes(&self) -> usize;

    /// Whether there is room for a request with so many bytes of payload, and for its result.
    fn can_send_request(&self, payload_bytes: usize, result_bytes: usize) -> bool;

    /// Whether there is room for a reply with so many bytes of payload.
    fn can_send_reply(&self, payload_bytes: usize) -> bool;

    /// Sends a packet, whose payload, if it has one, `fill` puts in place; `None`: there is no room. A reply has a
    /// status. A link that has ended takes all packets, which vanish.
    ///
    /// # Errors
    /// That of `fill`: nothing was sent.
    fn send<E>(
        &mut self,
        header: &Header,
        status: Option<Status>,
        fill: impl FnOnce(Sink<'_>) -> Result<(), E>,
    ) -> Option<Result<(), E>>;

    /// Has what was sent leave. Returns whether anything did.
    fn transmit(&mut self) -> bool;

    /// Takes in what has come. Returns whether anything has.
    fn receive(&mut self) -> bool;

    /// Reason for the end of the link, if it has ended by itself.
    fn lost(&self) -> Option<&str> {
        None
    }

    /// Ends the link, for a reason.
    fn lose(&mut self, _why: &str) {}

    /// Whether bytes wait to leave.
    fn has_staged(&self) -> bool {
        false
    }

    /// Whether a packet waits or may have come, so that the owner must not sleep.
    fn has_work(&self) -> bool;

    /// The header of the next packet of a lane, as its words, which parse. It stays where it is until it is taken.
    ///
    /// Words, since they travel in registers: a header that is copied waits for the stores of its fields.
    fn front(&mut self, lane: Lane) -> Option<[u64; 2]>;

    /// The next request, which stays where it is until it is taken.
    #[inline]
    fn request(&mut self) -> Option<Header> {
        request(self.front(Lane::Request)?)
    }

    /// The next reply, which stays where it is until it is taken.
    #[inline]
    fn reply(&mut self) -> Option<(Header, Status)> {
        reply(self.front(Lane::Reply)?)
    }

    /// The payload of the next packet of a lane.
    fn payload(&self, lane: Lane) -> Source<'_>;

    /// Takes the next packet off its lane.
    fn take(&mut self, lane: Lane);
}

/// The request with these words.
#[inline]
pub fn request(words: [u64; 2]) -> Option<Header> {
    Header::parse(words, MAX_UNIT_BYTES).ok().map(|(header, _)| header)
}

/// The reply with these words.
#[inline]
pub fn reply(words: [u64; 2]) -> Option<(Header, Status)> {
    Header::parse(words, MAX_UNIT_BYTES).ok().and_then(|(header, status)| Some((header, status?)))
}

/// Bytes of payload that a packet with this header has.
#[inline]
pub fn payload_bytes(header: &Header, status: Option<Status>) -> usize {
    match status {
        Some(status) => header.reply_bytes(status),
        None => header.request_bytes(),
    }
}
