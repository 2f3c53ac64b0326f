//! Remote memory at rack scale: the client library and the daemon of rackmem.
//!
//! | module | contents |
//! |---|---|
//! | [`client`] | contexts, queue pairs, local buffers: the safe face for programs in Rust |
//! | [`capi`] | the same for C: the functions of `include/rackmem/runtime.h` |
//! | [`daemon`] | the daemon of a node: driver and remote memory controller |
//! | [`rack`] | a rack on this host, as a directory |
//! | [`rack_file`] | `rack.toml`: the nodes of a rack over several hosts |
//! | [`held_context`] | contexts of runs, which go with the last of their processes |
//! | [`key_file`] | files with the private key of a node |
//! | [`control`] | questions to a daemon |
//! | `direct` | one operation on mapped segments, without packets |
//! | `shm` | shared memory: segments, queues, rings, line locks, sleeping |
//! | [`trust`] | the user whose directory is used |
//! | `links` | links of a node or process to others, in shared memory and over TCP |
//! | `patience` | timeouts of waits for a daemon |
//! | `protocol`, `transport` | messages over the sockets, and their transport |

pub mod capi;
pub mod client;
pub mod control;
pub mod daemon;
mod direct;
pub mod error;
pub mod held_context;
pub mod key_file;
mod links;
mod patience;
pub mod protocol;
pub mod rack;
pub mod rack_file;
pub mod shm;
pub mod size;
pub mod status;
pub mod transport;
pub mod trust;

pub use error::{Error, Result};
pub use rackmem_abi::{LINE_BYTES, MAX_WQ_SIZE, Op, Status};
