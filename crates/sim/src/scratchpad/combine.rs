//! The buffer in which remote stores to different words of a line wait for each other (CINI §3.1, "write-combining
//! buffers"): a packet for many stores instead of one for each.

use super::LINE_BYTES;
use super::packet::Packet;
use crate::block::{Words, mask, merge, words_at};

/// Stores that have not left yet: those to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Open {
    line: u64,
    mask: u64,
    words: Words,
}

/// A write-combining buffer of one line. It empties itself when the line is full or a store goes to
/// another one; its owner empties it at fences, and when nothing else wants to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Combiner {
    open: Option<Open>,
}

impl Combiner {
    /// Adds a store within a line. Returns the packets that leave because of it, in order.
    pub fn store(&mut self, address: u64, size: u8, value: u64) -> [Option<Packet>; 2] {
        let line = address - address % u64::from(LINE_BYTES);
        let offset = (address - line) as usize;
        let bytes = mask(offset, size.into());
        let before = match self.open {
            // To a counter or a queue, each store of the same word counts.
            Some(open) if open.line != line || open.mask & bytes != 0 => self.flush(),
            _ => None,
        };
        let open = self.open.get_or_insert(Open { line, mask: 0, words: [0; 8] });
        merge(&mut open.words, &words_at(offset, &value.to_le_bytes()[..size.into()]), bytes);
        open.mask |= bytes;
        let full = if open.mask == !0 { self.flush() } else { None };
        [before, full]
    }

    /// Takes out what waits, if anything does, as a packet.
    pub fn flush(&mut self) -> Option<Packet> {
        let Open { line, mask, words } = self.open.take()?;
        Some(Packet::Write { line, mask, words, ack: 0, is_reply: false })
    }

    /// Whether no store waits to be sent.
    pub const fn is_empty(&self) -> bool {
        self.open.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(line: u64, mask: u64, words: Words) -> Option<Packet> {
        Some(Packet::Write { line, mask, words, ack: 0, is_reply: false })
    }

    #[test]
    fn stores_to_a_line_leave_together() {
        let mut buffer = Combiner::default();
        assert_eq!(buffer.store(0x1000, 8, 1), [None, None]);
        assert_eq!(buffer.store(0x100c, 4, 2), [None, None]);
        let first = write(0x1000, 0xf0ff, [1, 2 << 32, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer.store(0x1000, 8, 3), [first, None], "both have an effect");
        let second = write(0x1000, 0xff, [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer.store(0x1040, 1, 9), [second, None], "another line");
        assert_eq!(buffer.flush(), write(0x1040, 1, [9, 0, 0, 0, 0, 0, 0, 0]));
        assert!(buffer.is_empty());
        for word in 0..7 {
            assert_eq!(buffer.store(word * 8, 8, word), [None, None]);
        }
        let full = write(0, !0, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(buffer.store(56, 8, 7), [None, full]);
        assert!(buffer.is_empty());
    }
}
