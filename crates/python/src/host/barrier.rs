//! Barriers of nodes.

use std::sync::Arc;

use pyo3::prelude::*;
use rackmem::client;

use super::errors::{Kind, raise};
use super::part::Part;
use super::wait::Deadline;

/// This node's end of a barrier, used again and again. Made by `ctx.barrier(offset)`.
#[pyclass(frozen, module = "rackmem")]
pub struct Barrier(Arc<Part<client::Barrier>>);

impl Barrier {
    pub fn new(part: Arc<Part<client::Barrier>>) -> Barrier {
        Barrier(part)
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
        let late = "timed out: a member has not arrived; the barrier is closed";
        let claim = self.0.claim_open(py)?;
        let error = match claim.interrupted(py, deadline, late, client::Barrier::wait) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => {
                let text = format!("a member did not arrive: {error}; the barrier is closed");
                raise(Kind::of_errno(error.errno()), text)
            }
            Err(error) => error,
        };
        // Others may have passed, or wait for this node still: it cannot take part again.
        py.detach(|| self.0.shut());
        Err(error)
    }
}
