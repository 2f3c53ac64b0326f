//! Links between nodes on different hosts.
//!
//! | module | what is in it |
//! |---|---|
//! | [`Link`] | what a daemon sends packets by, whatever carries them |
//! | [`socket`] | TCP sockets whose silence ends in time, and waiting for sockets |
//! | [`path`] | sockets that have a name in the file system |
//! | [`stranger`] | limits of peers that have not proved anything yet |
//! | [`stream`] | bytes on a connection, sealed or not, staged and written in turns |
//! | [`keys`], [`credentials`] | keys of nodes and their text; what a node proves itself by |
//! | [`rights`] | what a node may do on the others |
//! | [`greeting`], [`greeter`] | the handshake: who is there, and the keys of the connection; its driver |
//! | [`guest`] | the way of a process to a link of its own |
//! | [`Seal`] | the keys of a connection, and [`Records`] by which owners of a socket seal what they send |
//! | [`Buffer`], [`Inlet`] | bytes that have come and were not taken; those of a socket |
//! | [`frame`] | messages of JSON, each after its length |
//! | [`names`] | text of peers that people read |
//! | [`descriptors`] | descriptors in a process whose program does not know of them |
//! | [`random`] | numbers that nobody can guess |
//! | [`net`] | connections of borrowed memory and lent devices, and who may make them |
//! | [`Address`] | a path or a `HOST:PORT` |
//! | [`mod@error`] | errors of connections |
//! | [`secret_file`] | files with a secret |
//! | [`tcp`] | packets of the rack's protocol on a stream |
//! | [`udp`] | messages in datagrams, sealed, exactly once and in order |
//! | [`ucx`] | packets of the rack's protocol on messages of UCX |
//! | [`Faulty`] | a link with faults, for tests |
//! | [`carrier`] | what carries the bytes of a link |
//!
//! # Decisions
//!
//! - *Noise, by an existing library.* One shared secret, or a key for each node, gives both ends the proof that the
//!   other has it, and makes keys that are gone with the connection.
//! - *A handshake is run even without encryption*: `cleartext` drops the seal, not the proof.

pub mod address;
mod buffer;
pub mod carrier;
pub mod credentials;
pub mod descriptors;
pub mod error;
mod faulty;
pub mod frame;
pub mod greeter;
pub mod greeting;
pub mod guest;
mod inlet;
pub mod keys;
mod link;
pub mod names;
pub mod net;
pub mod path;
pub mod random;
pub mod rights;
mod seal;
pub mod secret_file;
pub mod socket;
pub mod stranger;
pub mod stream;
pub mod tcp;
#[cfg(test)]
mod test_packets;
pub mod ucx;
pub mod udp;

pub use address::Address;
pub use buffer::Buffer;
pub use faulty::{Faults, Faulty};
pub use inlet::{Inlet, Received};
pub use link::{Lane, Link, payload_bytes, reply, request};
pub use seal::{Incoming, MAX_PLAIN_BYTES, Records, Seal, Sealer};
