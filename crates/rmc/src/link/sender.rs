//! The sending half: the frames in flight, and the next one to send.

use super::{Ack, MAX_WINDOW, distance, reaches};

/// The frames of one direction, by sequence number: `base <= next <= high <= end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// The oldest frame without acknowledgement.
    base: u32,
    /// The frame that goes onto the wire next.
    next: u32,
    /// The first frame that was never sent.
    high: u32,
    /// The number of the next frame to be pushed.
    end: u32,
    /// The first frame for which the peer has not promised room.
    limit: u32,
    window: u32,
    /// The peer is to be asked for an acknowledgement.
    probe: bool,
}

impl Sender {
    /// A sender whose first frame is `first`, with a window of `window` frames. It has no credit until the
    /// first acknowledgement arrives.
    ///
    /// # Panics
    /// Unless the window is a power of two (so that frames keep their places in the owner's ring when
    /// sequence numbers wrap) up to [`MAX_WINDOW`].
    pub const fn new(window: u32, first: u32) -> Self {
        assert!(
            window.is_power_of_two() && window <= MAX_WINDOW,
            "the window is a power of two up to 65536 frames"
        );
        Self {
            base: first,
            next: first,
            high: first,
            end: first,
            limit: first,
            window,
            probe: false,
        }
    }

    /// The number of a new frame, unless the window is full.
    #[inline]
    pub const fn push(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let sequence = self.end;
        self.end = sequence.wrapping_add(1);
        Some(sequence)
    }

    /// Whether [`Sender::push`] would have no place for a frame.
    #[inline]
    pub const fn is_full(&self) -> bool {
        distance(self.base, self.end) == self.window
    }

    /// Whether a frame waits that the peer has room for.
    #[inline]
    pub const fn is_ready(&self) -> bool {
        self.next != self.end && distance(self.base, self.next) < distance(self.base, self.limit)
    }

    /// Whether a frame that is pushed now could go onto the wire as soon as those before it have gone.
    #[inline]
    pub const fn has_credit(&self) -> bool {
        !self.is_full() && distance(self.base, self.end) < distance(self.base, self.limit)
    }

    /// The frame that goes onto the wire now, if one may.
    #[inline]
    pub const fn take(&mut self) -> Option<u32> {
        if !self.is_ready() {
            return None;
        }
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        if self.high == sequence {
            self.high = self.next;
        }
        Some(sequence)
    }

    /// The peer is to be asked for an acknowledgement.
    #[inline]
    pub(super) const fn probe(&mut self) {
        self.probe = true;
    }

    /// Whether the peer is to be asked for an acknowledgement; asking once is enough.
    #[inline]
    pub(super) const fn take_probe(&mut self) -> bool {
        core::mem::replace(&mut self.probe, false)
    }

    /// Whether a probe waits to be sent.
    #[inline]
    pub(super) const fn has_probe(&self) -> bool {
        self.probe
    }

    /// Takes an acknowledgement. Returns the number of frames it completes; their payloads are not needed
    /// any more. An impossible one (for frames never sent, or of more room than any receiver has) changes
    /// nothing, and neither does an old one.
    #[inline]
    pub const fn acknowledge(&mut self, ack: Ack) -> u32 {
        let done = distance(self.base, ack.expected);
        if done > distance(self.base, self.high) || distance(ack.expected, ack.limit) > MAX_WINDOW {
            return 0;
        }
        self.base = ack.expected;
        if !reaches(self.next, self.base) {
            self.next = self.base;
        }
        if reaches(ack.limit, self.limit) {
            self.limit = ack.limit;
        }
        if ack.again {
            self.next = self.base;
        }
        done
    }

    /// Nothing was heard for long: sends again all that is not acknowledged, or asks for an
    /// acknowledgement if no room is known at the peer.
    #[inline]
    pub const fn timeout(&mut self) {
        if self.base != self.high {
            self.next = self.base;
        } else if self.base == self.limit {
            self.probe = true;
        }
    }

    /// Whether only the peer can make this sender go on, so that a timer should run: frames without
    /// acknowledgement, or without room at the peer.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.base != self.end && !self.is_ready()
    }

    /// Frames that were sent and are not acknowledged.
    #[inline]
    pub const fn in_flight(&self) -> u32 {
        distance(self.base, self.high)
    }

    /// Frames whose payloads the owner has to keep: in flight, or never sent.
    #[inline]
    pub const fn kept(&self) -> u32 {
        distance(self.base, self.end)
    }

    /// The oldest frame without acknowledgement.
    #[inline]
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// The place of a frame in a ring of as many places as the window has frames.
    #[inline]
    pub const fn place(&self, sequence: u32) -> usize {
        (sequence & (self.window - 1)) as usize
    }
}
