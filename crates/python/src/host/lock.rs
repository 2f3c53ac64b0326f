//! Locks between nodes.
//!
//! # Decisions
//!
//! - *A waiter tries again and again* and does not enter the table of requests. A request cannot be taken back, so a
//!   lock would go to a waiter whose time is over or whose program was interrupted. Waiters in C and Rust come first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rackmem::client::{self, Acquired};

use super::errors::{Kind, raise};
use super::part::Part;
use super::wait::Deadline;

/// Between two attempts: the first, and the longest.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// An end of a lock between any processes of any nodes, held in a `with` block. Made by `ctx.lock(...)`.
#[pyclass(frozen, module = "rackmem")]
pub struct Lock {
    part: Arc<Part<client::Lock>>,
    found_dead: AtomicBool,
}

fn failure(error: rackmem::Error) -> PyErr {
    match error.errno() {
        libc::EDEADLK => raise(
            Kind::Rack,
            "this end holds the lock already: release it first, or make another end",
        ),
        libc::EPERM => raise(Kind::Rack, "this end does not hold the lock: acquire it first"),
        errno => raise(Kind::of_errno(errno), format!("the lock: {error}")),
    }
}

impl Lock {
    pub fn new(part: Arc<Part<client::Lock>>) -> Lock {
        Lock { part, found_dead: AtomicBool::new(false) }
    }
}

#[pymethods]
impl Lock {
    /// Bytes of the home's segment that a lock takes; 0 if there can be no such lock.
    #[staticmethod]
    fn area_bytes(participants: u32) -> u64 {
        client::Lock::area_bytes(participants)
    }

    /// Acquires the lock, for which it waits for `timeout` seconds at most (None: without end).
    #[pyo3(signature = (timeout = None))]
    fn acquire(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let deadline = Deadline::after(timeout)?;
        let mut nap = NAPS.0;
        while !self.try_acquire(py)? {
            if deadline.has_passed() {
                return Err(raise(Kind::Timeout, "timed out: another participant holds the lock"));
            }
            py.detach(|| std::thread::sleep(nap.min(deadline.left())));
            py.check_signals()?;
            nap = (nap * 2).min(NAPS.1);
        }
        Ok(())
    }

    /// Acquires the lock unless another participant holds it. Returns whether it did.
    fn try_acquire(&self, py: Python<'_>) -> PyResult<bool> {
        let outcome = self.part.detached(py, client::Lock::try_acquire)?;
        let acquired = outcome.map_err(failure)?;
        if let Some(acquired) = acquired {
            self.found_dead.store(acquired == Acquired::FromTheDead, Ordering::Relaxed);
        }
        Ok(acquired.is_some())
    }

    /// Whether the last holder before this one died with the lock: what it guards may be half changed.
    #[getter]
    fn holder_died(&self) -> bool {
        self.found_dead.load(Ordering::Relaxed)
    }

    /// Releases the lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.part.detached(py, client::Lock::release)?.map_err(failure)
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().acquire(slf.py(), None)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }
}
