//! Borrowed memory as a block device (TSM §2.1, virtual block driver): an NBD server in user space, which
//! kernels, virtual machines and tools mount without a driver of ours.
//!
//! Handshake and requests are state machines over bytes ([`negotiate`], [`request`]); a connection moves the
//! bytes, in one of two ways: straight between the socket and the mapping of a lender on this host, or through a
//! lane, with everything that a client has sent asked for ahead. Each client has a thread, so a slow one delays
//! nobody else; what a client may make the server hold is bounded.
//!
//! Not there: resizing, extended headers (64-bit lengths), TLS with pre-shared keys, which rustls does not have.

pub mod negotiate;
pub mod request;
pub mod tls;
pub mod wire;

mod connection;
mod export;
#[cfg(fuzzing)]
pub mod fuzz;
mod mapped;
mod piped;
mod region;
mod server;
mod socket;

pub use connection::Tally;
pub use export::{Agreed, Export, MAX_PAYLOAD_BYTES};
pub use negotiate::TlsMode;
pub use server::{Config, GRACE, MAX_CONNECTIONS, Server, Summary};
