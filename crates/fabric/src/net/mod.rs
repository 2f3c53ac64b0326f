//! Connections between borrowers, lenders and the monitor.
//!
//! All of them carry frames (`frame`) of JSON, over a Unix socket or TCP. The end that connects is a [`link::Link`];
//! the other end is a peer of a [`hub::Hub`], or another `Link` where each peer has a thread of its own. Over TCP both
//! ends prove themselves first (`proof`), and agree on keys by which everything behind is encrypted (`greet`).
//! `listener` serves the clients of other protocols. `access` decides which peers may connect, and `stranger` limits
//! those that have not proved anything yet.

use std::time::Duration;

pub mod access;
pub mod greet;
pub mod hub;
pub mod link;
pub mod listener;
pub mod proof;
pub mod socket;

pub use crate::{frame, names, path, stranger};

/// Interval of keep-alives.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// A partner that must speak, or a network, is given up after so much silence.
pub const SILENCE: Duration = Duration::from_secs(3);
