//! Borrowed memory as a block device (TSM §2.1, virtual block driver): an NBD server in user space, which
//! kernels, virtual machines and tools mount without a driver of ours.
//!
//! Handshake and requests are state machines over bytes ([`negotiate`], [`request`]); a connection moves the
//! bytes, in one of two ways: straight between the socket and the mapping of a lender on this host, or through a
//! lane, with everything that a client has sent asked for ahead. Each client has a thread, so a slow one delays
//! nobody else; the memory that a client can make the server hold is bounded.
//!
//! Not there: resizing, extended headers (64-bit lengths), TLS with pre-shared keys, which rustls does not have.
//!
//! # Decisions
//!
//! - *Copies.* On a mapped lease replies are sent straight from the mapping, and the bytes of a write are received into
//!   it, except for those that came in one piece with their request. By a lane each byte is copied once each way.
//! - *Many requests.* All requests that have arrived are done, or asked for ahead, before anything is sent; one system
//!   call sends all replies. The loops allocate nothing.
//! - *One client at depth 1.* Its thread spins for 50 us before it sleeps, while that pays off, on half of the cores at
//!   most.
//! - *Order.* There is none between requests in flight at the same time, as the protocol has it: a read that is
//!   overtaken by a write to the same range may see it.
//! - *Flush and FUA.* Memory is as safe as it gets when a write is answered. So they are answered at once, and they
//!   hold for all connections (`CAN_MULTI_CONN`).
//! - *Refusals.* A request that is refused gets the protocol's error, and its payload is read and dropped: the
//!   connection goes on. Bytes that are no request end the connection, with one line in the log.
//! - *The lender dies.* Requests fail with EIO, which is said once, and the server stays. While the lender is away
//!   requests wait.
//! - *TLS.* By certificates, under the file names that QEMU and nbdkit use. Bytes between STARTTLS and the handshake of
//!   TLS end the connection, and options that were negotiated before TLS do not count any more.
//! - *The end.* First nothing more is received, then ([`GRACE`] later) nothing is sent either. The socket's name is
//!   removed if it is still this server's.

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
