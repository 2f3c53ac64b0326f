//! The receiving half: the frames that have arrived, and the room for more.

use super::{Ack, MAX_WINDOW, distance, reaches};

/// Fate of a frame with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It is the next one: the owner keeps its payload until it calls [`Receiver::consume`].
    Accept,
    /// It arrived before: dropped, and acknowledged again.
    Duplicate,
    /// A frame before it is missing. It is dropped, and the peer is asked to send again.
    Gap,
    /// The peer sent more frames than it had credits: dropped.
    NoRoom,
}

/// Receive state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    expected: u32,
    limit: u32,
    /// An acknowledgement is due.
    owes: bool,
    /// The next acknowledgement asks the peer to send again.
    again: bool,
    /// The peer has been asked for the frame that is expected now; once is enough.
    asked: bool,
}

impl Receiver {
    /// A receiver with room for `room` frames, of which `first` is the first. It owes the peer the credits.
    ///
    /// # Panics
    /// Unless there is room for 1 to [`MAX_WINDOW`] frames.
    pub const fn new(room: u32, first: u32) -> Self {
        assert!(room > 0 && room <= MAX_WINDOW, "a receiver has room for 1 to 65536 frames");
        Self {
            expected: first,
            limit: first.wrapping_add(room),
            owes: true,
            again: false,
            asked: false,
        }
    }

    /// Takes the number of a frame that arrived undamaged.
    #[inline]
    pub const fn receive(&mut self, sequence: u32) -> Verdict {
        if sequence != self.expected {
            if reaches(sequence, self.expected) {
                self.ask_again();
                return Verdict::Gap;
            }
            self.owes = true;
            return Verdict::Duplicate;
        }
        self.owes = true;
        if self.expected == self.limit {
            return Verdict::NoRoom;
        }
        self.expected = sequence.wrapping_add(1);
        self.asked = false;
        Verdict::Accept
    }

    /// A damaged frame arrived; it may have been the expected one.
    #[inline]
    pub const fn damaged(&mut self) {
        self.ask_again();
    }

    /// The peer asks for an acknowledgement.
    #[inline]
    pub const fn probed(&mut self) {
        self.owes = true;
    }

    /// An accepted frame has left: there is room for another one.
    #[inline]
    pub const fn consume(&mut self) {
        self.limit = self.limit.wrapping_add(1);
        self.owes = true;
    }

    /// Whether an acknowledgement is due: for a frame, for new room, or to a probe.
    #[inline]
    pub const fn owes(&self) -> bool {
        self.owes
    }

    /// Room for more, in frames.
    #[inline]
    pub const fn room(&self) -> u32 {
        distance(self.expected, self.limit)
    }

    /// The next frame that will be accepted.
    #[inline]
    pub const fn expected(&self) -> u32 {
        self.expected
    }

    /// The acknowledgement for the next frame that is sent; afterwards none is owed.
    #[inline]
    pub const fn take_ack(&mut self) -> Ack {
        let ack = Ack { expected: self.expected, limit: self.limit, again: self.again };
        (self.owes, self.again) = (false, false);
        ack
    }

    const fn ask_again(&mut self) {
        if !self.asked {
            (self.asked, self.again, self.owes) = (true, true, true);
        }
    }
}
