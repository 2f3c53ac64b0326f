//! Barriers of nodes.

use std::sync::Arc;

use pyo3::prelude::*;
use rackmem::client;

use super::errors::{Kind, raise};
use super::part::Part;
use super::wait::{Deadline, Ended, interrupted};

/// This node's end of a barrier, used again and again. Made by `ctx.barrier(offset)`.
#[pyclass(frozen, module = "rackmem")]
pub struct Barrier(Arc<Part<client::Barrier>>);

impl Barrier {
    pub fn new(part: Arc<Part<client::Barrier>>) -> Barrier {
        Barrier(part)
    }

    /// Others may have passed, or wait for this node still: it cannot take part again.
    fn breaks(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.take()));
    }
}

#[pymethods]
impl Barrier {
    /// Bytes of every member's segment that a barrier of `members` nodes takes.
    #[staticmethod]
    fn area_bytes(members: u16) -> u64 {
        client::Barrier::area_bytes(members)
    }

    /// Waits until all members have arrived, for `timeout` seconds at most. After a wait that failed, timed out or was
    /// interrupted the barrier is closed.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let deadline = Deadline::after(timeout)?;
        drop(self.0.lock(py)?);
        let part = &self.0;
        let ended = interrupted(py, deadline, || {
            part.lock_detached().map(|mut barrier| barrier.wait()).transpose()
        });
        let error = match ended {
            Ok(Ended::Result(Ok(Some(())))) => return Ok(()),
            Ok(Ended::Result(Ok(None))) => raise(Kind::Closed, "this barrier was closed meanwhile"),
            Ok(Ended::Result(Err(error))) => {
                let text = format!("a member did not arrive: {error}; the barrier is closed");
                raise(Kind::of_errno(error.errno()), text)
            }
            Ok(Ended::TimedOut) => {
                raise(Kind::Timeout, "timed out: a member has not arrived; the barrier is closed")
            }
            Err(error) => error,
        };
        self.breaks(py);
        Err(error)
    }
}
