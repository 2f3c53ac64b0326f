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
mod copier;
mod counter;
mod counter_barrier;
mod engine;
pub mod ffi;
mod foreign;
mod lock;
mod messaging;
mod options;
mod queue;
mod queue_pair;

pub use barrier::Barrier;
pub use buffer::LocalBuffer;
pub use context::Context;
pub use copier::Copier;
pub use counter::{Counter, Notify};
pub use counter_barrier::CounterBarrier;
pub use foreign::Address;
pub use lock::{Acquired, Lock};
pub use messaging::Messaging;
pub use options::OpenOptions;
pub use queue::{MrQueue, Queue};
pub(crate) use queue_pair::RawQueuePair;
pub use queue_pair::{QueuePair, Scope};
