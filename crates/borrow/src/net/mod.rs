//! Connections between borrowers, lenders and the monitor.
//!
//! All of them carry frames (`frame`) of JSON, over a Unix socket or TCP; what connects is a
//! [`link::Link`], what is connected to is the peers of a [`hub::Hub`], or another `Link` where each peer has
//! a thread of its own. Over TCP both ends prove
//! first that they know the same secret (`secret`), if there is one. `listener` is for the clients of others'
//! protocols.

pub mod frame;
pub mod hub;
pub mod link;
pub mod listener;
pub mod secret;
pub mod socket;
