//! Programs' face of the rack.
//!
//! ```no_run
//! use rackmem::client::{Context, OpenOptions};
//!
//! let context = Context::open(&OpenOptions::from_env()?.segment_bytes(1 << 20))?;
//! let mut qp = context.queue_pair(64)?;
//! let mut value = [0; 8];
//! qp.read(1, 0, &mut value)?; // 8 bytes at offset 0 of node 1
//! # Ok::<(), rackmem::Error>(())
//! ```

mod barrier;
mod buffer;
mod context;
mod engine;
pub mod ffi;
mod messaging;
mod options;
mod queue_pair;

pub use barrier::Barrier;
pub use buffer::LocalBuffer;
pub use context::Context;
pub use messaging::Messaging;
pub use options::OpenOptions;
pub(crate) use queue_pair::RawQueuePair;
pub use queue_pair::{QueuePair, Scope};
