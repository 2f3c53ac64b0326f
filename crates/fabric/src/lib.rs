//! Links between nodes on different hosts.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Link`] | what a daemon sends packets by, whatever carries them |
//! | [`socket`] | TCP sockets whose silence ends in time |
//! | [`stream`] | bytes on a connection, sealed or not, staged and written in turns |
//! | [`keys`], [`credentials`] | keys of nodes and their text; what a node proves itself by |
//! | [`rights`] | what a node may do on the others |
//! | [`greeting`] | the handshake: who is there, and the keys of the connection |
//! | [`guest`] | the way of a process to a link of its own |
//! | [`tcp`] | packets of the rack's protocol on a stream |
//!
//! # Decisions
//!
//! - *Noise, by an existing library.* One shared secret, or a key for each node, gives both ends the proof that the
//!   other has it, and makes keys that are gone with the connection.
//! - *A handshake is run even without encryption*: `cleartext` drops the seal, not the proof.

pub mod credentials;
pub mod greeting;
pub mod guest;
pub mod keys;
mod link;
pub mod rights;
mod seal;
pub mod socket;
pub mod stream;
pub mod tcp;

pub use link::{Lane, Link, payload_bytes};
pub use seal::Seal;
