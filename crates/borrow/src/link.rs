//! A reliable link over datagrams: messages arrive exactly once and in order, however the wire loses, delays, reorders,
//! doubles or damages datagrams, and no message arrives for which there is no room (Thunder's data-link layer, TSM
//! §4.2; DEOI §III).
//!
//! | part | what it is |
//! |---|---|
//! | [`Fabric`] | carriers of datagrams: [`UdpFabric`], and wires in memory for tests |
//! | [`FaultyFabric`] | any of them with faults, all from one seed |
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
//! *Strangers* get no link, and no datagram of theirs into one: a connector over UDP proves that it knows the
//! secret, and each datagram carries a tag that only the peer can make ([`handshake`], `seal`). Payloads are not
//! encrypted.
//!
//! *A peer that is silent* for [`Settings::dead_after`] is lost, and so is one whose host says that
//! nobody listens; every call then fails with [`Error::PeerLost`](crate::Error::PeerLost). Ends that have nothing
//! to say send an acknowledgement now and then, so silence means something.

mod channel;
mod end;
mod fabric;
mod faulty;
pub mod handshake;
mod listener;
mod seal;
mod stream;
mod udp;

pub use end::{CHANNELS, LinkEnd, Settings, Stats};
pub use fabric::{Fabric, MemoryFabric};
pub use faulty::{Faults, FaultyFabric};
pub use listener::LinkListener;
pub use stream::LinkStream;
pub use udp::UdpFabric;
