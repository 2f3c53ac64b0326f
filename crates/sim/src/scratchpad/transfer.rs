//! Transfers that leave as packets: each has what is in one line of the destination, so packets may
//! arrive in any order (CINI §2.1).

use super::LINE_BYTES;
use super::packet::Packet;
use crate::block::{Words, bytes_of, mask, words_at};

/// Bytes of a packet at most, in order.
pub type Content = [u8; LINE_BYTES as usize];

/// The destination of bytes, and the number that have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Of the first byte.
    pub destination: u64,
    /// Address that acknowledgements go to.
    pub ack: u64,
    pub bytes: u32,
    /// Those that have left.
    pub done: u32,
}

impl Transfer {
    pub const fn is_done(&self) -> bool {
        self.done >= self.bytes
    }

    /// The next packet. `content` gives so many bytes, from the one of this number on.
    ///
    /// # Errors
    /// The error of `content`.
    pub fn next<E>(
        &mut self,
        content: impl FnOnce(u32, u32) -> Result<Content, E>,
        is_reply: bool,
    ) -> Result<Packet, E> {
        let at = self.destination + u64::from(self.done);
        let first = (at % u64::from(LINE_BYTES)) as usize;
        let length = (self.bytes - self.done).min(LINE_BYTES - first as u32);
        let content = content(self.done, length)?;
        self.done += length;
        let length = length as usize;
        Ok(Packet::Write {
            line: at - first as u64,
            mask: mask(first, length),
            words: words_at(first, &content[..length]),
            ack: self.ack,
            is_reply,
        })
    }
}

/// `length` bytes from an address on, of lines that `line` gives by number.
///
/// # Errors
/// The error of `line`.
pub fn gather<E>(
    address: u64,
    length: u32,
    line: impl Fn(u64) -> Result<Words, E>,
) -> Result<Content, E> {
    let mut content = [0; LINE_BYTES as usize];
    let mut done = 0;
    while done < length as usize {
        let at = address + done as u64;
        let from = (at % u64::from(LINE_BYTES)) as usize;
        let piece = (length as usize - done).min(LINE_BYTES as usize - from);
        let bytes = bytes_of(&line(at / u64::from(LINE_BYTES))?);
        content[done..done + piece].copy_from_slice(&bytes[from..from + piece]);
        done += piece;
    }
    Ok(content)
}
