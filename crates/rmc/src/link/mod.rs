//! A reliable link between two neighbours: every frame arrives exactly once and in order, whatever
//! the wire loses or damages, and never where there is no room for it (Thunder's data-link layer,
//! TSM §4.2; DEOI §III leaves it to a stock core).
//!
//! | part | contents |
//! |---|---|
//! | [`Sender`] | the frames in flight: window, credits of the peer, going back |
//! | [`Receiver`] | the next frame expected, and the room for more |
//! | [`Port`] | both halves of one end: makes headers, and takes the peer's |
//! | [`wire`] | a frame as bytes, with a CRC |
//!
//! These are pure state machines over plain structs: no thread, clock, socket, buffer or
//! allocation. Payloads stay with the owner, in a ring with a place for each frame of the window: frame
//! `sequence` is at `sequence % window`, from [`Port::push`] until it is acknowledged. The owner
//! also keeps the frames that the receiver has accepted, in order, and calls [`Port::consume`] when one
//! of these leaves.
//!
//! The protocol is *go-back-N*. The receiver takes frames in order only. When one is missing or damaged, it
//! asks once to have all sent again from there, and drops the frames in between. *Credits* are sums
//! that only grow: the peer may send up to frame [`Ack::limit`], so a lost acknowledgement is made good by
//! any later one. The owner's timer recovers frames that the peer cannot miss (the last one, an
//! acknowledgement): [`Port::timeout`] sends again, or asks for an acknowledgement if nothing is in flight.
//! The timer may strike early or late, which costs time only.
//!
//! The wire may lose frames, but must keep the order of the others. Both ends have to start anew together.

mod port;
mod receiver;
mod sender;
pub mod wire;

pub use port::{Header, Kind, Port};
pub use receiver::{Receiver, Verdict};
pub use sender::Sender;

/// Most frames that may be under way in one direction, and most that a receiver may have room for.
/// It is far below half of the sequence numbers, so that old and new are distinct.
pub const MAX_WINDOW: u32 = 1 << 16;

/// Acknowledgement and credit of one direction, in every frame of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ack {
    /// All frames before this one have arrived.
    pub expected: u32,
    /// There is room for all frames before this one.
    pub limit: u32,
    /// Frame `expected` is missing: send again from there.
    pub again: bool,
}

/// Frames from `from` to `to`; sequence numbers wrap.
const fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from)
}

/// Whether `a` is at or after `b`, of two numbers less than half of all apart.
const fn reaches(a: u32, b: u32) -> bool {
    distance(b, a) < 1 << 31
}
