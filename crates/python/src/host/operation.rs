//! An operation in flight, as Python sees it.

use std::sync::Arc;

use pyo3::prelude::*;
use rackmem::Op;

use super::errors::{Kind, raise};
use super::given::Given;
use super::pair::{Flight, Pair, Request, Rest};
use super::part::Part;
use super::wait::Deadline;
use crate::LOOK;

/// An operation that was started: `result()` waits for it, and so does `await` in asyncio. Its buffer is its own until
/// then.
#[pyclass(frozen, module = "rackmem")]
pub struct Operation {
    pair: Arc<Part<Pair>>,
    flight: Arc<Flight>,
    nodes: u16,
}

impl Operation {
    /// Posts an operation. Waits, without Python's lock, while the queue is full.
    pub fn begin(
        py: Python<'_>,
        pair: &Arc<Part<Pair>>,
        request: Request,
        buffer: Option<Given>,
    ) -> PyResult<Operation> {
        let flight = Flight::new(request, buffer);
        let mut rest = Rest::of(&request);
        let mut held = pair.lock(py)?;
        let nodes = held.nodes;
        let mut is_posted = held.is_quick(&request) && held.post(&flight, &mut rest);
        drop(held);
        let mut outcome = Ok(());
        while !is_posted && outcome.is_ok() {
            outcome = pair
                .detached(py, |pair| {
                    is_posted = pair.post(&flight, &mut rest);
                    if !is_posted {
                        pair.wait(LOOK);
                    }
                })
                .and_then(|()| py.check_signals());
        }
        // Nothing more will be posted.
        flight.land(Ok(()));
        outcome?;
        Ok(Operation { pair: pair.clone(), flight, nodes })
    }

    /// Waits for it. Returns an atomic's earlier value.
    pub fn wait(&self, py: Python<'_>, deadline: Deadline) -> PyResult<u64> {
        loop {
            if let Some(outcome) = self.flight.outcome(self.nodes) {
                return outcome;
            }
            if deadline.has_passed() {
                let text = "the operation has not completed yet: it goes on, and result() can be called again";
                return Err(raise(Kind::Timeout, text));
            }
            self.pair.detached(py, |pair| pair.wait(deadline.left()))?;
            py.check_signals()?;
        }
    }

    fn has_value(&self) -> bool {
        matches!(self.flight.request.op, Op::FetchAdd | Op::CompareSwap)
    }
}

#[pymethods]
impl Operation {
    /// Waits until it has completed, for `timeout` seconds at most (None: without end). Returns the earlier value of an
    /// atomic, else None; raises what went wrong. WaitTimeout: it goes on.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<u64>> {
        let value = self.wait(py, Deadline::after(timeout)?)?;
        Ok(self.has_value().then_some(value))
    }

    /// Whether it has completed. Does not wait.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.flight.is_done() {
            self.pair.lock(py)?.poll();
        }
        Ok(self.flight.is_done())
    }

    fn __await__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("rackmem.awaiting")?.getattr("until_done")?.call1((slf,))
    }

    fn __repr__(&self) -> String {
        let Request { op, nid, offset, .. } = self.flight.request;
        let state = if self.flight.is_done() { "done" } else { "in flight" };
        format!("<rackmem.Operation {op:?} at {offset} of node {nid}: {state}>")
    }
}
