//! Remote memory at rack scale: the client library and the daemon of rackmem.
//!
//! A program joins a context as a node, and reads, writes and atomically updates the memory of the others:
//!
//! ```
//! # use rackmem::{control, daemon, rack::Rack};
//! # use std::time::{Duration, Instant};
//! # let dir = tempfile::tempdir()?;
//! # unsafe { std::env::set_var("RACKMEM_DIR", dir.path()) };
//! # let rack = Rack::named(None)?;
//! # rack.create(2)?;
//! # rack.create_context(0, 0o600)?;
//! # let (spin, share_core) = (Duration::from_micros(20), true);
//! # let (pin_core, rack_file, faults) = (None, None, None);
//! # let of_rack = rack.clone();
//! # let config = daemon::Config { rack: of_rack, nids: vec![0, 1], pin_core, spin, share_core, rack_file, faults };
//! # std::thread::spawn(move || daemon::run(config));
//! # let deadline = Instant::now() + Duration::from_secs(60);
//! # while !control::status(&rack, 0).is_ok_and(|status| status.peers_up.len() == 1) {
//! #     assert!(Instant::now() < deadline, "the daemon does not answer");
//! #     std::thread::sleep(Duration::from_millis(1));
//! # }
//! use rackmem::client::{Context, OpenOptions};
//!
//! // `rackmem run -n 2 -- PROGRAM` starts a process for each node. Here both nodes are in one.
//! let options = OpenOptions::from_env()?.segment_bytes(1 << 20);
//! let home = Context::open(&options.clone().node(0))?;
//! let other = Context::open(&options.node(1))?;
//! # other.wait_joined(0, Some(deadline))?;
//!
//! let mut qp = other.queue_pair(64)?;
//! let number = qp.fetch_add(0, 0, 1)?; // the 8 bytes at offset 0 of node 0
//! qp.write(0, 64, b"hello")?;
//!
//! let mut text = [0; 5];
//! home.read_own(64, &mut text)?;
//! assert_eq!((number, &text), (0, b"hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub use rackmem_abi::{LINE_BYTES, MAX_LENGTH, MAX_WQ_SIZE, Op, Status};
