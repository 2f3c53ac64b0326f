//! Frames of the peer, carried out here: the stores that the peer makes itself where it reaches this memory.

use std::sync::atomic::Ordering;

use rackmem_rmc::two_sided::Arrival;

use super::Wire;
use super::frame::{Frame, Kind};
use super::reader::{Over, Sink};
use crate::core::Core;

/// Carries out frames. Every number of the peer is checked against the receives that were posted here.
pub(super) struct Apply<'a> {
    core: &'a Core,
    wire: &'a Wire,
    /// The last message of a connection that the peer wants confirmed.
    delivered: Option<Frame>,
}

impl<'a> Apply<'a> {
    pub(super) fn new(core: &'a Core, wire: &'a Wire) -> Apply<'a> {
        Apply { core, wire, delivered: None }
    }

    /// Offset and size of the buffer that was posted for this message.
    fn buffer(&self, frame: &Frame) -> Result<(u64, u64), Over> {
        let board = self.core.own().board(frame.connection);
        let posted = board.posted(frame.life, frame.number).filter(|&(offset, size_bytes)| {
            let end = offset.checked_add(size_bytes);
            let is_new = board.arrived(frame.life, frame.number).is_none();
            is_new && end.is_some_and(|end| end <= self.core.terms().registered_bytes as u64)
        });
        posted.ok_or(Over::Nonsense)
    }

    /// Checks that a message, or its part, lies in its buffer; returns the buffer's offset.
    fn checked(&self, frame: &Frame) -> Result<u64, Over> {
        let (offset, size_bytes) = self.buffer(frame)?;
        let end = frame.value.checked_add(u64::from(frame.length));
        if end.is_some_and(|end| end <= size_bytes) { Ok(offset) } else { Err(Over::Nonsense) }
    }

    fn arrive(&mut self, frame: &Frame, arrival: Arrival, inline: &[u8]) {
        let own = self.core.own();
        own.board(frame.connection).arrive(frame.life, frame.number, arrival, inline);
        own.head(frame.connection).bed.wake();
        if frame.confirm {
            let same = |old: &Frame| old.connection == frame.connection && old.life == frame.life;
            if !self.delivered.as_ref().is_some_and(same) {
                self.confirm();
            }
            self.delivered = Some(Frame { kind: Kind::Delivered, ..*frame });
        }
    }

    /// Confirms the last delivery; at once, because its waiter does nothing else.
    pub(super) fn confirm(&mut self) {
        if let Some(Frame { connection, life, number, .. }) = self.delivered.take() {
            self.wire.say(Frame { number, ..Frame::new(Kind::Delivered, connection, life) });
        }
    }
}

impl Sink for Apply<'_> {
    fn place(&mut self, frame: &Frame) -> Result<*mut u8, Over> {
        if frame.connection >= self.core.terms().connections {
            return Err(Over::Nonsense);
        }
        let at = self.checked(frame)? + frame.value;
        // SAFETY: the buffer lies in the registered memory, and all bytes of the frame in the buffer.
        Ok(unsafe { self.core.own().registered(frame.connection).add(at as usize) })
    }

    fn take(&mut self, frame: &Frame, inline: &[u8]) -> Result<(), Over> {
        let Frame { connection, life, number, value, .. } = *frame;
        if connection >= self.core.terms().connections {
            return Err(Over::Nonsense);
        }
        let (own, peer) = (self.core.own().head(connection), self.core.peer().head(connection));
        match frame.kind {
            Kind::Alive | Kind::Part => {}
            Kind::Open if self.core.opened(connection, life) => {}
            Kind::Open => return Err(Over::Nonsense),
            Kind::Close => {
                peer.closed_life.store(life, Ordering::Release);
                own.bed.shake();
            }
            Kind::Receive => {
                self.core.peer().board(connection).publish(life, number, 0, value);
                own.wake_for_receive();
            }
            Kind::Want => {
                peer.want_receive(true);
                self.wire.flush();
            }
            Kind::Message => {
                self.checked(frame)?;
                let length_bytes = value + u64::from(frame.length);
                self.arrive(frame, Arrival { length_bytes, is_too_long: false }, inline);
            }
            Kind::TooLong => {
                self.buffer(frame)?;
                self.arrive(frame, Arrival { length_bytes: value, is_too_long: true }, &[]);
            }
            Kind::Delivered => {
                peer.set_delivered(life, number);
                own.bed.wake();
            }
        }
        Ok(())
    }
}
