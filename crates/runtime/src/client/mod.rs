//! The interface of Rust programs: contexts, queue pairs, messages and synchronisation.
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
//!
//! # Synchronisation
//!
//! Counters, queues and locks are the event responses of the cache-integrated network interface, in inline C on the
//! operations of `include/rackmem/access.h`. A single step of the hardware takes several operations here, and a
//! process may die in between. Three rules keep that harmless:
//!
//! - *One word decides.* Everything else that is written is a hint, such as a lock's flag or a queue's head and tail.
//!   So each step is one fetch-and-add or one compare-and-swap.
//! - *A state names the process that is at work.* Others can then finish or undo the steps of a dead process. A mark
//!   in the participant's own segment distinguishes it from a process that came back at the same node.
//! - *Sums instead of turns.* A counter is reloaded after it has fired. Additions in between are read modulo its reset
//!   value (`counter.h`), so no participant waits for the reload.
//!
//! The lock is the paper's multiple-reader queue for one token: one word with its holder, and a table of requests in
//! place of the ring. Where the home's segment is mapped, atomic instructions change the word (`rackmem_map`). A taken
//! lock is then tried again for some microseconds before a request is made, because handing a lock over costs more than
//! a critical section of a few nanoseconds.

mod barrier;
mod buffer;
mod context;
mod copier;
mod counter;
mod counter_barrier;
mod engine;
mod far;
pub mod ffi;
mod foreign;
mod in_flight;
mod interrupt;
mod lock;
mod membership;
mod messaging;
mod mixed;
mod options;
mod queue;
mod queue_pair;
mod registered;
mod rings;
mod two_sided;

pub use barrier::Barrier;
pub(crate) use buffer::buffer_bytes;
pub use buffer::{LocalBuffer, OwnSegment};
pub use context::Context;
pub use copier::Copier;
pub use counter::{Counter, Notify};
pub use counter_barrier::CounterBarrier;
pub use foreign::Address;
pub use in_flight::Started;
pub use interrupt::{Question, interruptible};
pub use lock::{Acquired, Lock};
pub use messaging::Messaging;
pub use options::OpenOptions;
pub use queue::{MrQueue, Queue};
pub(crate) use queue_pair::RawQueuePair;
pub use queue_pair::{QueuePair, Scope};
pub use two_sided::{Completion, Descriptor, Kind, MessageStatus};
