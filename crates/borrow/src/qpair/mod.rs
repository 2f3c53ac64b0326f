//! Queue pairs: user-level connections between processes (TSM §2.3, §2.4: transport channel QPair).
//!
//! Each end has a send queue (SQ), a receive queue (RQ) and a completion queue (CQ). A descriptor is an
//! address in the memory that was registered for the connection, a size, and an identifier that comes back
//! with its completion. On one host registered memory is mapped at the peer before anything is sent, so a message
//! goes by plain stores straight into the buffer that its receiver posted: nobody enters the kernel, nothing is
//! copied twice, and there is no address to translate. Messages of up to [`INLINE_BYTES`] travel in the queue
//! itself, which is always in the caches: the place of the paper's on-chip memory. Between hosts all connections of
//! two processes travel on one TCP connection, and the same queues stand at both of its ends.
//!
//! What the paper leaves open, decided here:
//!
//! | question | decision |
//! |---|---|
//! | no receive is posted | the send waits in its SQ, and a full SQ refuses: back pressure |
//! | the message is longer than the buffer | both sides' descriptors complete with [`Status::TooLong`]; nothing is stored |
//! | the CQ is full | it cannot be: a descriptor's place is free again when its completion was taken |
//! | the peer dies, is silent or closes | what has arrived is completed, then all else with [`Status::Lost`] or [`Status::Closed`] |
//!
//! Isolation: every connection has queues and buffers of its own. Offsets that the other side writes are
//! loaded once and checked, so a hostile peer can garble its own messages and no more. A send is complete when the
//! message is in the receiver's buffer, wherever that is.
//!
//! | module | what it is |
//! |---|---|
//! | [`queues`] | the three queues, as a state machine without memory or time |
//! | [`board`] | what both sides see of them |
//! | `ends` | what the queues of one end see of the other one |
//! | [`link`], `core` | two processes: which connections there are, and whether the peer is |
//! | `carrier` | what is between them: `memory` on one host, a `wire` over a network |
//! | `window` | a process's memory for all of its connections |
//! | [`listener`] | where processes come that want a link |
//! | [`pair`] | one end of a connection |
//! | [`stream`] | bytes without message boundaries, for programs that know sockets |
//! | [`proxy`] | sockets of unmodified programs, each carried over a connection of its own |

pub mod board;
mod carrier;
mod core;
mod ends;
pub mod link;
pub mod listener;
mod memory;
pub mod pair;
pub mod proxy;
pub mod queues;
pub mod stream;
mod window;
pub(crate) mod wire;

pub use board::{DEPTH, INLINE_BYTES};
pub use link::Link;
pub use listener::Listener;

pub use crate::net::access::Access;
pub use pair::QPair;
pub use queues::{Completion, Descriptor, Kind, Status};
pub use stream::QStream;
pub use window::{MAX_CONNECTIONS, MAX_REGISTERED_BYTES, Terms};
