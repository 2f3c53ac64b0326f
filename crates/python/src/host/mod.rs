//! The runtime of hosts: contexts, queue pairs, messages, locks, barriers and borrowed memory.
//!
//! | module | contents |
//! |---|---|
//! | `context` | [`Context`]: membership, and what is made from it |
//! | `queue_pair`, `pair`, `operation` | operations: the Python class, the pair with its slots, an operation in flight |
//! | `given` | buffers of Python that are given to operations |
//! | `memory` | memory of rackmem as buffers of Python |
//! | `messages`, `lock`, `barrier` | those between nodes |
//! | `lease` | borrowed memory |
//! | `wait`, `part`, `errors` | waits that signals end, what a context closes, exceptions |
//!
//! # Decisions
//!
//! - *Nothing blocks with Python's lock held.* Waits release it, and take it every 50 ms to run handlers of signals. An
//!   operation that completes when it is posted keeps it: releasing costs more than 64 bytes do.
//! - *An operation in flight has its buffer exported* until it completes, whatever becomes of the objects of Python. A
//!   pair that is closed waits for its operations; if they do not complete, it and their buffers are never freed.
//! - *A view keeps the mapping, not the membership.* After `close` arrays over a segment still have memory under them.

mod barrier;
mod context;
mod errors;
mod given;
mod lease;
mod lock;
mod memory;
mod messages;
mod operation;
mod pair;
mod part;
mod queue_pair;
mod wait;

use pyo3::prelude::*;

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<barrier::Barrier>()?;
    module.add_class::<context::Context>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<lock::Lock>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<messages::Messages>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<queue_pair::QueuePair>()
}
