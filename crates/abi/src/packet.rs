use crate::{LINE_BYTES, MAX_NODES, MAX_OFFSET, MAX_TID, Op, Status};

/// Size of the header of every packet: two 8-byte little-endian words.
pub const HEADER_BYTES: usize = 16;

/// Largest packet of the papers: a header and one line (soNUMA §6, link layer).
pub const PACKET_BYTES: usize = HEADER_BYTES + LINE_BYTES;

/// Largest unit of a link: most bytes of a segment that one packet covers. The papers' unit is a line; where a packet
/// costs far more than a line of it, wider ones pay.
pub const MAX_UNIT_BYTES: usize = 32 << 10;

/// Header of a packet: routing (`dst_nid`, `src_nid`) and protocol fields (soNUMA §6).
///
/// | word | bits | field |
/// |---|---|---|
/// | 0 | 0..12 | dst_nid, which routes the packet |
/// | 0 | 12..24 | src_nid, to which the reply goes |
/// | 0 | 24..27 | operation |
/// | 0 | 27 | 1 = reply |
/// | 0 | 28..32 | status (replies) |
/// | 0 | 32..48 | ctx_id |
/// | 0 | 48..64 | length: bytes of the segment that the request covers |
/// | 1 | 0..40 | offset in the segment, bytes |
/// | 1 | 40..64 | tid, opaque to the destination |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Header {
    /// Number of the destination node.
    pub dst_nid: u16,
    /// Number of the source node.
    pub src_nid: u16,
    /// Operation; a reply repeats the request's.
    pub op: Op,
    /// Context whose segment is meant.
    pub ctx_id: u16,
    /// Bytes of the segment that the request covers: within one block of the link's unit.
    pub length: u16,
    /// Offset in the segment; a reply repeats the request's.
    pub offset: u64,
    /// Transfer identifier of the source; a reply repeats the request's.
    pub tid: u32,
}

/// A request: header and operands (write: the bytes; atomics: 8 or 16 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// Destination, operation and range in the segment.
    pub header: Header,
    /// The first [`Request::payload_bytes`] bytes count.
    pub payload: [u8; LINE_BYTES],
}

impl Request {
    /// Bytes of the payload that travel, 0 to 64: the operands.
    #[inline]
    pub const fn payload_bytes(&self) -> usize {
        self.header.request_bytes()
    }
}

/// The one reply to a request: its header turned round, a status, and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reply {
    /// The request's header with source and destination swapped.
    pub header: Header,
    /// Outcome at the destination.
    pub status: Status,
    /// The first [`Reply::payload_bytes`] bytes count.
    pub payload: [u8; LINE_BYTES],
}

impl Reply {
    /// Bytes of the payload that travel, 0 to 64: none with an error.
    #[inline]
    pub const fn payload_bytes(&self) -> usize {
        self.header.reply_bytes(self.status)
    }
}

/// The unit of the fabric: a request or a reply (soNUMA §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Packet {
    /// On the request lane.
    Request(Request),
    /// On the reply lane.
    Reply(Reply),
}

/// Errors of [`Packet::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Fewer bytes than the header says.
    Truncated,
    /// More bytes than the header says.
    TooLong,
    /// The operation code is free.
    Operation,
    /// The status code is free, or a request carries one.
    Status,
    /// A length over the unit, across units, or not the operation's.
    Length,
}

impl core::fmt::Display for ParseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ParseError::Truncated => "packet shorter than its header says",
            ParseError::TooLong => "packet longer than its header says",
            ParseError::Operation => "unknown operation code",
            ParseError::Status => "unknown status code",
            ParseError::Length => "length does not fit the operation and unit",
        })
    }
}

impl core::error::Error for ParseError {}

impl Header {
    /// Whether offset and length suit the operation and stay within one block of `unit_bytes`, a power of two from a
    /// line to [`MAX_UNIT_BYTES`].
    #[inline]
    pub const fn is_well_formed(&self, unit_bytes: usize) -> bool {
        let within = (self.offset as usize % unit_bytes) + self.length as usize <= unit_bytes;
        let atomic = !self.op.is_atomic() || (self.length == 8 && self.offset % 8 == 0);
        let empty = !matches!(self.op, Op::Nop | Op::Notify) || self.length == 0;
        within && atomic && empty
    }

    /// The bytes of the header of a request, or of a reply with a status.
    #[inline]
    pub const fn emit(&self, status: Option<Status>) -> [u64; 2] {
        let nid_mask = MAX_NODES as u64 - 1;
        let (is_reply, status) = match status {
            Some(status) => (true, status),
            None => (false, Status::Ok),
        };
        [
            (self.dst_nid as u64 & nid_mask)
                | (self.src_nid as u64 & nid_mask) << 12
                | (self.op as u64) << 24
                | (is_reply as u64) << 27
                | (status as u64) << 28
                | (self.ctx_id as u64) << 32
                | (self.length as u64) << 48,
            (self.offset & MAX_OFFSET) | ((self.tid & MAX_TID) as u64) << 40,
        ]
    }

    /// The header in these words, and the status if it is that of a reply.
    ///
    /// # Errors
    /// [`ParseError`] for everything that [`Header::emit`] cannot have written on a link of this unit.
    #[inline]
    pub const fn parse(
        words: [u64; 2],
        unit_bytes: usize,
    ) -> Result<(Header, Option<Status>), ParseError> {
        let [w0, w1] = words;
        let Some(op) = Op::from_code((w0 >> 24) as u8 & 7) else {
            return Err(ParseError::Operation);
        };
        let Some(status) = Status::from_code((w0 >> 28) as u8 & 15) else {
            return Err(ParseError::Status);
        };
        let is_reply = w0 >> 27 & 1 != 0;
        if !is_reply && !matches!(status, Status::Ok) {
            return Err(ParseError::Status);
        }
        let header = Header {
            dst_nid: (w0 & 0xfff) as u16,
            src_nid: (w0 >> 12 & 0xfff) as u16,
            op,
            ctx_id: (w0 >> 32) as u16,
            length: (w0 >> 48) as u16,
            offset: w1 & MAX_OFFSET,
            tid: (w1 >> 40) as u32,
        };
        if !header.is_well_formed(unit_bytes) {
            return Err(ParseError::Length);
        }
        Ok((header, if is_reply { Some(status) } else { None }))
    }

    /// Bytes of payload that travel with a request: the operands.
    #[inline]
    pub const fn request_bytes(&self) -> usize {
        self.op.operand_bytes(self.length as usize)
    }

    /// Bytes of payload that travel with a reply: the result, none with an error.
    #[inline]
    pub const fn reply_bytes(&self, status: Status) -> usize {
        match status {
            Status::Ok => self.op.result_bytes(self.length as usize),
            _ => 0,
        }
    }
}

impl Request {
    /// Writes the packet and returns how many bytes it takes.
    #[inline]
    pub fn emit(&self, out: &mut [u8; PACKET_BYTES]) -> usize {
        emit(self.header.emit(None), &self.payload, self.payload_bytes(), out)
    }
}

impl Reply {
    /// Writes the packet and returns how many bytes it takes.
    #[inline]
    pub fn emit(&self, out: &mut [u8; PACKET_BYTES]) -> usize {
        emit(self.header.emit(Some(self.status)), &self.payload, self.payload_bytes(), out)
    }
}

#[inline]
fn emit(
    words: [u64; 2],
    payload: &[u8; LINE_BYTES],
    payload_bytes: usize,
    out: &mut [u8; PACKET_BYTES],
) -> usize {
    out[..8].copy_from_slice(&words[0].to_le_bytes());
    out[8..HEADER_BYTES].copy_from_slice(&words[1].to_le_bytes());
    if payload_bytes == LINE_BYTES {
        // The common case, without a loop over a length.
        out[HEADER_BYTES..].copy_from_slice(payload);
    } else {
        out[HEADER_BYTES..HEADER_BYTES + payload_bytes].copy_from_slice(&payload[..payload_bytes]);
    }
    HEADER_BYTES + payload_bytes
}

impl Packet {
    /// Writes the packet and returns how many bytes it takes.
    #[inline]
    pub fn emit(&self, out: &mut [u8; PACKET_BYTES]) -> usize {
        match self {
            Packet::Request(request) => request.emit(out),
            Packet::Reply(reply) => reply.emit(out),
        }
    }

    /// Parses a packet of at most a line; `bytes` holds it and nothing more.
    ///
    /// # Errors
    /// [`ParseError`] for everything that [`Packet::emit`] cannot have written.
    pub fn parse(bytes: &[u8]) -> Result<Packet, ParseError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(ParseError::Truncated);
        };
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let (header, status) = Header::parse([word(0), word(8)], LINE_BYTES)?;
        let mut payload = [0; LINE_BYTES];
        let packet = match status {
            Some(status) => Packet::Reply(Reply { header, status, payload }),
            None => Packet::Request(Request { header, payload }),
        };
        let expected = packet.payload_bytes();
        match rest.len() {
            n if n < expected => return Err(ParseError::Truncated),
            n if n > expected => return Err(ParseError::TooLong),
            _ => payload[..expected].copy_from_slice(rest),
        }
        Ok(packet.with_payload(payload))
    }

    const fn payload_bytes(&self) -> usize {
        match self {
            Packet::Request(r) => r.payload_bytes(),
            Packet::Reply(r) => r.payload_bytes(),
        }
    }

    const fn with_payload(mut self, bytes: [u8; LINE_BYTES]) -> Packet {
        match &mut self {
            Packet::Request(r) => r.payload = bytes,
            Packet::Reply(r) => r.payload = bytes,
        }
        self
    }
}
