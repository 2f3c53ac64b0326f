//! Packets of a lane: headers of fixed size, each followed by the bytes that it announces.
//!
//! Requests are carried out, and answered, in the order in which they come. All numbers are little
//! endian.
//!
//! ```text
//! byte          0    1        4         8                16               24
//! request       op   0 0 0    tag       length           address
//! answer        st.  0 0 0    tag       length           0
//! ```
//!
//! After a write's header come `length` bytes, after the answer to a read as well.

use super::MAX_REQUEST_BYTES;

/// Size of either header.
pub const HEADER_BYTES: usize = 24;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The bytes.
    Read = 1,
    /// Replace the bytes.
    Write = 2,
    /// Replace the bytes by zeros.
    Discard = 3,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Done = 0,
    /// Some of the bytes are outside of the lease; nothing was done.
    OutOfRange = 1,
    /// The lender could not.
    Failed = 2,
}

/// Header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation of the request.
    pub op: Op,
    /// Chosen by the borrower; comes back with the answer.
    pub tag: u32,
    /// Number of bytes.
    pub length: u64,
    /// First byte, as the lender counts.
    pub address: u64,
}

/// Header of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Result of the request.
    pub status: Status,
    /// Tag of the request.
    pub tag: u32,
    /// Bytes that follow.
    pub length: u64,
}

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

type Header = [u8; HEADER_BYTES];

fn encode(code: u8, tag: u32, length: u64, address: u64) -> Header {
    let mut header = [0; HEADER_BYTES];
    header[0] = code;
    header[4..8].copy_from_slice(&tag.to_le_bytes());
    header[8..16].copy_from_slice(&length.to_le_bytes());
    header[16..].copy_from_slice(&address.to_le_bytes());
    header
}

/// Code, tag, length, address.
fn decode(header: &Header) -> Result<(u8, u32, u64, u64), Malformed> {
    let number = |at: usize| {
        u64::from_le_bytes(*header[at..].first_chunk().expect("the header has a word there"))
    };
    let tag = number(0) >> 32;
    match &header[1..4] {
        [0, 0, 0] => Ok((header[0], tag as u32, number(8), number(16))),
        _ => Err(Malformed),
    }
}

impl Request {
    /// The header's bytes.
    pub fn encode(&self) -> Header {
        encode(self.op as u8, self.tag, self.length, self.address)
    }

    /// A request, with a length that a lane allows.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(header: &Header) -> Result<Request, Malformed> {
        let (code, tag, length, address) = decode(header)?;
        let op = match code {
            1 => Op::Read,
            2 => Op::Write,
            3 => Op::Discard,
            _ => return Err(Malformed),
        };
        if op != Op::Discard && length > MAX_REQUEST_BYTES as u64 {
            return Err(Malformed);
        }
        Ok(Request { op, tag, length, address })
    }

    /// Offset of its bytes in a lease of `size_bytes` that begins at `base`; `None`: not all of them are in it.
    pub fn offset_in(&self, base: u64, size_bytes: u64) -> Option<u64> {
        let offset = self.address.checked_sub(base)?;
        let end = offset.checked_add(self.length)?;
        (end <= size_bytes).then_some(offset)
    }
}

impl Answer {
    /// The header's bytes.
    pub fn encode(&self) -> Header {
        encode(self.status as u8, self.tag, self.length, 0)
    }

    /// An answer.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(header: &Header) -> Result<Answer, Malformed> {
        let (code, tag, length, address) = decode(header)?;
        let status = match code {
            0 => Status::Done,
            1 => Status::OutOfRange,
            2 => Status::Failed,
            _ => return Err(Malformed),
        };
        if address != 0 || length > MAX_REQUEST_BYTES as u64 {
            return Err(Malformed);
        }
        Ok(Answer { status, tag, length })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_not(bytes: [u8; HEADER_BYTES]) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
            if let Ok(answer) = Answer::decode(&bytes) {
                prop_assert_eq!(answer.encode(), bytes);
            }
        }

        #[test]
        fn headers_come_out_as_they_went_in(tag: u32, length in 0..=1_u64 << 20, address: u64) {
            for op in [Op::Read, Op::Write, Op::Discard] {
                let request = Request { op, tag, length, address };
                prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
            let answer = Answer { status: Status::OutOfRange, tag, length };
            prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }

        #[test]
        fn what_is_not_wholly_inside_is_outside(
            address: u64, length: u64, base: u64, size_bytes in 0..u64::MAX / 2,
        ) {
            let request = Request { op: Op::Discard, tag: 0, length, address };
            let (wide, base) = (|n: u64| u128::from(n), base / 2);
            let inside = address >= base
                && wide(address) + wide(length) <= wide(base) + wide(size_bytes);
            prop_assert_eq!(request.offset_in(base, size_bytes).is_some(), inside);
        }
    }
}
