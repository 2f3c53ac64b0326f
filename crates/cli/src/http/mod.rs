//! Pages over HTTP for this host: `/metrics` of daemons and lenders, the live page of `rackmem top`.
//!
//! # Decisions
//!
//! - *Loopback only.* HTTP proves nothing about who asks, so every local user may read the pages, and nobody else: an
//!   [`Endpoint`] is an address of the loopback network. A reverse proxy adds TLS and users where more are wanted.
//! - *Names of others.* A browser that was led here by another name (DNS rebinding) sends that name as `Host`, and is
//!   refused.
//! - *Strangers cost little.* One thread serves all connections without blocking on any. There is a bound on their
//!   number, on the bytes of a request and on the time of each; when there are too many, the oldest that has not
//!   asked gives way. A connection carries one request.
//! - *Parsing* is `httparse`'s. The servers that exist bring a runtime or a pool of threads, and leave open how long a
//!   request may be and how long a client may take; what remains beside the parser is small.

mod connection;
mod endpoint;
mod request;
mod server;

pub use endpoint::Endpoint;
pub use request::Response;
pub use server::Server;
