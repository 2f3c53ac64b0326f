//! The one pipeline of a private cache, in which core and network interface share an access per cycle (CINI §3).

use super::WORD_BYTES;
use crate::engine::Cycle;

/// The cache's accesses of a word or so, one in each cycle. The core comes first, as it waits for what it asks for;
/// packets that arrive and packets that leave take turns.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Bytes of an access.
    bytes_per_cycle: u32,
    /// Bytes of a flit, which come in a cycle.
    link_bytes: u32,
    /// Cycle in which the latest packet that has arrived has been written.
    incoming_until: Cycle,
    /// Cycle in which the latest packet that leaves has been read.
    outgoing_until: Cycle,
}

impl Port {
    /// A port at rest; sizes in bytes.
    pub fn new(bytes_per_cycle: u32, link_bytes: u32) -> Port {
        Port { bytes_per_cycle, link_bytes, incoming_until: 0, outgoing_until: 0 }
    }

    /// An access of the core: what others have begun takes a cycle more.
    #[inline]
    pub fn core(&mut self, now: Cycle) {
        for until in [&mut self.incoming_until, &mut self.outgoing_until] {
            *until += Cycle::from(*until > now);
        }
    }

    /// Whether another packet may arrive.
    pub fn may_arrive(&self, now: Cycle) -> bool {
        self.incoming_until <= now
    }

    /// A packet with so many bytes of data, whose last flit has come now. Its words are written as they come. Returns
    /// the cycle in which the last one is.
    pub fn arrive(&mut self, bytes: u32, now: Cycle) -> Cycle {
        let flits = bytes.div_ceil(self.link_bytes).max(1);
        let first = (now + 1).saturating_sub(flits.into()).max(self.incoming_until);
        let cycles = self.cycles(bytes);
        let shared = self.outgoing_until.saturating_sub(first).min(cycles);
        self.outgoing_until += shared;
        self.incoming_until = (first + cycles + shared).max(now + 1);
        self.incoming_until - 1
    }

    /// Cycle from which on another packet may leave.
    pub fn leaves_from(&self) -> Cycle {
        self.outgoing_until
    }

    /// A packet with so many bytes of data leaves.
    pub fn leave(&mut self, bytes: u32, now: Cycle) {
        let first = self.outgoing_until.max(now);
        let cycles = self.cycles(bytes);
        let shared = self.incoming_until.saturating_sub(first).min(cycles);
        self.incoming_until += shared;
        self.outgoing_until = first + cycles + shared;
    }

    /// One access is to a tag, for a packet without data, or to a word: arguments and items have 8 bytes here, and 4 on
    /// the prototype.
    fn cycles(&self, bytes: u32) -> Cycle {
        let is_word = bytes <= WORD_BYTES;
        if is_word { 1 } else { bytes.div_ceil(self.bytes_per_cycle).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u32 = 64;

    fn port() -> Port {
        Port::new(4, WORD_BYTES)
    }

    #[test]
    fn a_word_passes_at_once_and_a_line_takes_an_access_for_each_word() {
        let mut port = port();
        assert_eq!(port.arrive(WORD_BYTES, 100), 100);
        assert_eq!(port.arrive(0, 101), 101);
        port.leave(LINE, 200);
        assert_eq!(port.leaves_from(), 216);
        // Eight flits have come, of which each is two words: the last words are written eight cycles later.
        assert_eq!(port.arrive(LINE, 300), 308);
        assert!(!port.may_arrive(308) && port.may_arrive(309));
    }

    #[test]
    fn all_of_them_share_one_access_per_cycle() {
        let mut port = port();
        port.leave(LINE, 100);
        // Of eight cycles until the line has been read, each second one is for what arrives.
        assert_eq!(port.arrive(16, 108), 114);
        assert_eq!(port.leaves_from(), 120);
        port.core(110);
        assert_eq!((port.leaves_from(), port.incoming_until), (121, 116));
        port.core(118);
        assert_eq!((port.leaves_from(), port.incoming_until), (122, 116));
        port.core(130);
        assert_eq!(port.leaves_from(), 122);
    }
}
