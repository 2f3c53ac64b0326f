//! Locks between nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rackmem::client::{self, Acquired};

use super::errors::{Kind, raise};
use super::part::Part;
use super::wait::Deadline;

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

    fn note(&self, acquired: Acquired) {
        self.found_dead.store(acquired == Acquired::FromTheDead, Ordering::Relaxed);
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
        let late = "timed out: another participant holds the lock";
        let deadline = Deadline::after(timeout)?;
        let acquired = self.part.interrupted(py, deadline, late, client::Lock::acquire)?;
        self.note(acquired.map_err(failure)?);
        Ok(())
    }

    /// Acquires the lock unless another participant holds it. Returns whether it did.
    fn try_acquire(&self, py: Python<'_>) -> PyResult<bool> {
        let outcome = self.part.detached(py, client::Lock::try_acquire)?;
        Ok(outcome.map_err(failure)?.map(|acquired| self.note(acquired)).is_some())
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
