//! A reliable link between two neighbours: every frame arrives exactly once and in order, whatever
//! the wire loses or damages, and never where there is no room for it (Thunder's data-link layer,
//! TSM §4.2; DEOI §III leaves it to a stock core).
//!
//! | part | what it is |
//! |---|---|
//! | [`Sender`] | the frames on their way: a window, what the peer has room for, going back |
//! | [`Receiver`] | the next frame expected, and how many more there is room for |
//! | [`Port`] | both of one end: makes headers, and takes the peer's |
//! | [`wire`] | a frame as bytes, with a CRC |
//!
//! These are pure state machines over plain structs: no thread, clock, socket, buffer or
//! allocation. Payloads stay with the owner, in a ring with a place for each frame of the window: frame
//! `sequence` is at `sequence % window`, from [`Port::push`] until it is acknowledged. The owner
//! also keeps what the receiver has accepted, in order, and says by [`Port::consume`] when one of
//! these leaves.
//!
//! How it works: *go-back-N*. The receiver takes frames in order only. When one is missing or damaged, it
//! asks once to have all sent again from there, and drops what comes in between. *Credits* are sums
//! that only grow: the peer may send up to frame [`Ack::limit`], so a lost acknowledgement is made good by
//! any later one. What nobody will ever ask for (a last frame, an acknowledgement) the owner's timer
//! recovers: [`Port::timeout`] sends again, or asks for an acknowledgement if nothing is under way. It
//! may strike early or late, which costs time only.
//!
//! The wire must keep the order of what it does not lose. Both ends have to start anew together.

mod port;
mod receiver;
mod sender;
pub mod wire;

pub use port::{Header, Kind, Port};
pub use receiver::{Receiver, Verdict};
pub use sender::Sender;

/// Most frames that may be under way in one direction, and most that a receiver may have room for.
/// It is far below half of the sequence numbers, so that old and new are told apart.
pub const MAX_WINDOW: u32 = 1 << 16;

/// What a receiver says with every frame that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ack {
    /// All frames before this one have arrived.
    pub expected: u32,
    /// There is room for all frames before this one.
    pub limit: u32,
    /// Frame `expected` is missing: send again from there.
    pub again: bool,
}

/// How many frames `to` is after `from`; sequence numbers wrap.
const fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from)
}

/// Whether `a` is at or after `b`, of two numbers less than half of all apart.
const fn reaches(a: u32, b: u32) -> bool {
    distance(b, a) < 1 << 31
}
