//! Connections between borrowers, lenders and the monitor.
//!
//! All of them carry frames (`frame`) of JSON, over a Unix socket or TCP; what connects is a
//! [`link::Link`], what is connected to is the peers of a [`hub::Hub`], or another `Link` where each peer has
//! a thread of its own. Over TCP both ends prove
//! first that they know the same secret (`secret`). `listener` is for the clients of others' protocols. Who may come
//! to any of them is the matter of `access`; who has come and not proved it yet, of `stranger`.

pub mod access;
pub mod frame;
pub mod hub;
pub mod link;
pub mod listener;
pub mod names;
pub mod path;
pub mod secret;
pub mod socket;
pub mod stranger;
