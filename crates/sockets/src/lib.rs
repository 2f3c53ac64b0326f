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
//! The queues are those of [`rackmem_rmc::two_sided`]. It also says what happens without a receive, to a message that
//! is too long, and to what was posted when the peer is gone.
//!
//! Isolation: every connection has queues and buffers of its own. Offsets that the other side writes are
//! loaded once and checked, so a hostile peer can garble its own messages and no more. A send is complete when the
//! message is in the receiver's buffer, wherever that is.
//!
//! | module | what it is |
//! |---|---|
//! | [`board`] | the state of the queues that both sides see |
//! | `ends` | one end, by which its queues see the other one |
//! | [`link`], `core` | two processes: their connections, and whether the peer is there |
//! | `carrier` | the carrier between them: `memory` on one host, a `wire` over a network |
//! | `window` | a process's memory for all of its connections |
//! | [`listener`] | listeners for processes that want a link |
//! | [`pair`] | one end of a connection |
//! | [`stream`] | bytes without message boundaries, for programs that know sockets |
//! | [`proxy`] | sockets of unmodified programs, each carried over a connection of its own |
//!
//! # Decisions
//!
//! - *The sender's thread is the adapter.* On one host it takes the descriptor that the receiver posted, stores the
//!   message straight into that buffer, and reports it. Between hosts each store into the peer's window is a frame,
//!   which the peer carries out in its own window, checked against the receives that were posted there. Loads are from
//!   a second window, which stands for the peer's.
//! - *Credits.* On one host there are none: the n-th message goes into the n-th buffer, and a buffer's place in the
//!   ring is posted again only after its message was taken, so stamps alone say what is what. Between hosts posted
//!   receives travel, several together; they travel at once if the peer has none left, or has said that it waits for
//!   one.
//! - *When a send is complete.* When the message is in the receiver's buffer. Between hosts the receiver's side says so
//!   to those that posted a descriptor. Streams do not ask; they end in order by themselves.
//! - *Many connections, one carrier.* All connections of two processes share a TCP connection. A message leaves only
//!   when its receive was posted, so the reader of the connection always has a place for its bytes, and no connection
//!   waits for another one's RQ. Longer messages leave in parts of 128 KiB. While the network takes nothing more, sends
//!   wait in their SQs.
//! - *The reader of the connection.* A thread of the link. While threads of the program wait and poll, they read, and
//!   it naps: then nobody has to be woken for a message.
//! - *Rights to connect over a network.* Processes that prove themselves ([`rackmem_fabric::net`]), by a secret or by
//!   the key of a node with the right `context`, over loopback too. Without a proof no port is opened, unless
//!   `--insecure` is given.
//! - *The peer's end.* A thread watches the socket, over which both sides send a keep-alive each second. The end of the
//!   socket, or [`SILENCE`](rackmem_fabric::net::SILENCE) without a sign of life, is the peer's end, on one host as
//!   between hosts.
//! - *Sockets of unmodified programs.* [`proxy`] is a process where the clients are and one beside the server, with two
//!   threads for each connection in each. The end of a direction is a message without bytes. An end without one is a
//!   reset, which the kernel sends by itself if the proxy is killed (`SO_LINGER` 0 until both directions have ended).

pub mod board;
mod carrier;
mod core;
mod ends;
pub mod link;
pub mod listener;
mod memory;
pub mod pair;
pub mod proxy;
pub mod stream;
mod window;
mod wire;

#[cfg(fuzzing)]
pub use wire::fuzz;

pub use board::{DEPTH, INLINE_BYTES};
pub use link::Link;
pub use listener::Listener;

pub use pair::QPair;
pub use rackmem_fabric::net::access::Access;
pub use rackmem_rmc::two_sided::{Completion, Descriptor, Kind, Status};
pub use stream::QStream;
pub use window::{MAX_CONNECTIONS, MAX_REGISTERED_BYTES, Terms};
