//! One end of a link: both halves, and the headers of frames.

use super::{Ack, Receiver, Sender, Verdict};

/// Kinds of frames, as coded on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Carries a payload.
    Data = 1,
    /// Only an acknowledgement.
    Ack = 2,
    /// Asks for an acknowledgement.
    Probe = 3,
}

/// All of a frame but its payload; [`wire`](super::wire) has the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Data, acknowledgement or probe.
    pub kind: Kind,
    /// Sequence number of a frame with a payload; else 0.
    pub sequence: u32,
    /// Acknowledgement of the other direction.
    pub ack: Ack,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Frames that leave here.
    pub sender: Sender,
    /// Frames that arrive here.
    pub receiver: Receiver,
}

impl Port {
    /// An end with a window of `window` frames, and room for `room` frames of the peer.
    ///
    /// # Panics
    /// As [`Sender::new`] and [`Receiver::new`].
    pub const fn new(window: u32, room: u32) -> Self {
        Self::starting_at(window, room, 0)
    }

    /// The same, whose first frames in both directions have this number.
    pub const fn starting_at(window: u32, room: u32, first: u32) -> Self {
        Self { sender: Sender::new(window, first), receiver: Receiver::new(room, first) }
    }

    /// The number of a new frame, whose payload the owner puts at [`Sender::place`]; `None` if the
    /// window is full.
    #[inline]
    pub const fn push(&mut self) -> Option<u32> {
        self.sender.push()
    }

    /// Whether [`Port::poll`] would have something to send.
    #[inline]
    pub const fn is_ready(&self) -> bool {
        self.sender.is_ready() || self.sender.has_probe() || self.receiver.owes()
    }

    /// The frame that goes onto the wire now, if any: data if they may, else a probe, else an
    /// acknowledgement that is owed. Every frame carries an acknowledgement.
    #[inline]
    pub const fn poll(&mut self) -> Option<Header> {
        let (kind, sequence) = match self.sender.take() {
            Some(sequence) => (Kind::Data, sequence),
            None if self.sender.take_probe() => (Kind::Probe, 0),
            None if self.receiver.owes() => (Kind::Ack, 0),
            None => return None,
        };
        Some(Header { kind, sequence, ack: self.receiver.take_ack() })
    }

    /// Takes the header of a frame that arrived undamaged. Returns the verdict on its data, if it carried
    /// any. [`Sender::base`] says which of the owner's frames are acknowledged.
    #[inline]
    pub const fn receive(&mut self, header: &Header) -> Option<Verdict> {
        self.sender.acknowledge(header.ack);
        match header.kind {
            Kind::Data => Some(self.receiver.receive(header.sequence)),
            Kind::Probe => {
                self.receiver.probed();
                None
            }
            Kind::Ack => None,
        }
    }

    /// A frame arrived whose check failed.
    #[inline]
    pub const fn damaged(&mut self) {
        self.receiver.damaged();
    }

    /// An accepted frame has left the owner's buffer.
    #[inline]
    pub const fn consume(&mut self) {
        self.receiver.consume();
    }

    /// Asks the peer for an acknowledgement, with a frame of its own.
    #[inline]
    pub const fn probe(&mut self) {
        self.sender.probe();
    }

    /// The owner's timer has run out; see [`Sender::is_waiting`].
    #[inline]
    pub const fn timeout(&mut self) {
        self.sender.timeout();
    }
}
