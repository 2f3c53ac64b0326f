//! The remote memory controller (RMC) of one node as pure state machines (soNUMA §4).
//!
//! Three pipelines turn queue entries into request and reply packets and back:
//!
//! | pipeline | from | to | state |
//! |---|---|---|---|
//! | [`rgp`], request generation | work queue entries | requests | transfer being unrolled, per QP |
//! | [`rrpp`], remote request processing | requests | memory accesses, replies | none |
//! | [`rcp`], request completion | replies | local buffers, completion queue entries | none |
//!
//! They share the context table ([`ct`]) and the inflight transaction table ([`itt`]). Each stage
//! of the papers is a function of its own. [`Rmc`] composes them into polling loops; a model that
//! needs time between the stages calls the same functions in the same order.
//!
//! Nothing here has a thread, a clock, a socket or an allocation per operation. Memory and network
//! are the traits [`Memory`] and [`Network`]. Every queue is bounded, and a full one is a value:
//! the pipeline stalls, keeps its place and goes on when it is polled again.
//!
//! [`link`] is the layer below: frames between neighbours, exactly once and in order. [`amt`] and
//! [`imt`] are the tables of nodes that reach others by plain loads, stores and interrupts. [`two_sided`] has
//! the queues of connections that send and receive messages.
//!
//! There is no deadlock (soNUMA §6). The RCP consumes every reply without waiting for anything,
//! because a completion queue has as many entries as its work queue; so reply lanes drain. The RRPP
//! waits for reply lanes only; so it drains the request lanes, and the RGP gets on.
#![no_std]

extern crate alloc;

pub mod amt;
mod bytes;
pub mod controller;
pub mod ct;
pub mod imt;
pub mod itt;
pub mod link;
mod ports;
pub mod qp;
pub mod rcp;
pub mod rgp;
pub mod rrpp;
pub mod two_sided;

pub use bytes::{Sink, Source};
pub use controller::{Rmc, Stats};
pub use ct::{Bounds, ContextTable, MAX_CONTEXTS};
pub use itt::{DEFAULT_ITT_CAPACITY, Itt, MAX_ITT_CAPACITY};
pub use ports::{Full, Memory, Network, Unsent};
pub use qp::{MAX_QPS, QpConfig, QpId, QpStats};
pub use rgp::{Piece, Rights, Unroll, Work};
