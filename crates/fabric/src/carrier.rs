//! Carriers of a link's bytes.

use crate::stream::Stream;

/// Bytes in both directions, in their order. They are staged in memory; a turn of the owner sends all of them at once,
/// and takes in what has come.
pub trait Carrier {
    /// The buffer that the next [`Carrier::transmit`] sends.
    fn out(&mut self) -> &mut Vec<u8>;

    /// Bytes that have not left yet.
    fn staged_bytes(&self) -> usize;

    /// Has what is staged leave, as far as there is room. Returns whether anything left.
    fn transmit(&mut self) -> bool;

    /// Takes in what has come. Returns whether anything has.
    fn receive(&mut self) -> bool;

    /// Bytes that have come and were not taken.
    fn input(&self) -> &[u8];

    /// Forgets the first bytes of the input.
    fn take(&mut self, bytes: usize);

    /// Whether the owner must not sleep, as there may be more to take in.
    fn may_have_more(&self) -> bool;

    /// Reason for the end, if it has ended.
    fn lost(&self) -> Option<&str>;

    /// Ends it, for a reason; the peer and whoever watches the connection learn of it.
    fn lose(&mut self, why: &str);
}

impl Carrier for Stream {
    #[inline]
    fn out(&mut self) -> &mut Vec<u8> {
        Stream::out(self)
    }

    #[inline]
    fn staged_bytes(&self) -> usize {
        Stream::staged_bytes(self)
    }

    fn transmit(&mut self) -> bool {
        Stream::transmit(self)
    }

    fn receive(&mut self) -> bool {
        Stream::receive(self)
    }

    #[inline]
    fn input(&self) -> &[u8] {
        Stream::input(self)
    }

    fn take(&mut self, bytes: usize) {
        Stream::take(self, bytes);
    }

    #[inline]
    fn may_have_more(&self) -> bool {
        Stream::may_have_more(self)
    }

    fn lost(&self) -> Option<&str> {
        Stream::lost(self)
    }

    fn lose(&mut self, why: &str) {
        Stream::lose(self, why);
    }
}
