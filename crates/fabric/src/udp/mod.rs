//! A reliable link over datagrams: messages arrive exactly once and in order, however the wire loses, delays, reorders,
//! doubles or damages datagrams, and no message arrives for which there is no room (Thunder's data-link layer, TSM
//! §4.2; DEOI §III).
//!
//! | part | what it is |
//! |---|---|
//! | [`Wire`] | carriers of datagrams: [`UdpWire`], and wires in memory for tests |
//! | [`FaultyWire`] | any of them with faults, all from one seed |
//! | [`LinkEnd`] | one end: [`CHANNELS`] virtual channels, each a [`rackmem_rmc::link::Port`] with its buffers |
//! | [`LinkStream`], [`LinkListener`] | ends that find each other over UDP, with a clock |
//!
//! The protocol itself (sequence numbers, acknowledgements, going back, credits, CRC) is that of
//! [`rackmem_rmc::link`], where it is model-checked. Here are buffers, timers and sockets around it.
//!
//! *Virtual channels* share the wire and nothing else: each has its own window and its own room at the
//! peer, and the lower number goes first whenever both have something. So urgent messages (DEOI's
//! interrupts, §III-D) never wait behind data.
//!
//! *Strangers* get no link, and no datagram of theirs into one: a connector proves who it is before a listener
//! remembers anything of it (`handshake`), and each datagram is encrypted, authentic and taken once (`seal`), by keys
//! that end with the link.
//!
//! *A peer that is silent* for [`Settings::dead_after`] is lost, and so is one whose host says that nobody listens;
//! every call then fails with [`Error::PeerLost`](crate::error::Error::PeerLost). Ends that have nothing to say send an
//! acknowledgement now and then, so silence means something.
//!
//! # Decisions
//!
//! - *No cleartext.* Noise has no messages that are authentic and readable: these would need a second cipher.

mod channel;
mod end;
mod faulty;
mod handshake;
mod listener;
mod seal;
mod socket;
mod stream;
mod wire;

pub use end::{CHANNELS, LinkEnd, Settings, Stats};
pub use faulty::{Faults, FaultyWire};
pub use listener::LinkListener;
pub use socket::UdpWire;
pub use stream::LinkStream;
pub use wire::{MemoryWire, Wire};
