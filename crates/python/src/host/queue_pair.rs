//! Queue pairs as Python sees them.

use std::sync::Arc;

use pyo3::prelude::*;
use rackmem::Op;

use super::errors::{Kind, raise};
use super::given::{Lent, Use};
use super::operation::Operation;
use super::pair::{Closing, Request, failure};
use super::part::Part;
use super::wait::Deadline;

/// Remote reads, writes and atomics: one at a time, or many in flight. Made by `ctx.queue_pair()`; each thread makes
/// its own, as only one thread at a time uses a pair.
#[pyclass(frozen, module = "rackmem")]
pub struct QueuePair {
    pair: Arc<Part<Closing>>,
    entries: u32,
}

/// The node of an operation.
fn node(number: &Bound<'_, PyAny>) -> PyResult<u16> {
    number.extract::<u16>().map_err(|error| {
        match error.is_instance_of::<pyo3::exceptions::PyOverflowError>(number.py()) {
            true => {
                raise(Kind::Node, format!("no rack has a node {number}: nodes are numbered from 0"))
            }
            false => error,
        }
    })
}

/// The offset of an operation in bytes.
fn offset(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    number.extract::<u64>().map_err(|error| {
        match error.is_instance_of::<pyo3::exceptions::PyOverflowError>(number.py()) {
            true => raise(
                Kind::Range,
                format!("no segment has an offset {number}: offsets are bytes from 0"),
            ),
            false => error,
        }
    })
}

/// An operand of an atomic: 64 bits, with or without a sign.
fn word(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    let signed = number.extract::<i64>().map(i64::cast_unsigned);
    signed.or_else(|_| number.extract::<u64>())
}

impl QueuePair {
    pub fn new(pair: Arc<Part<Closing>>, entries: u32) -> QueuePair {
        QueuePair { pair, entries }
    }

    /// Performs an operation. Returns an atomic's earlier value.
    #[inline]
    fn perform(&self, py: Python<'_>, request: Request, lent: Option<Lent<'_>>) -> PyResult<u64> {
        let mut pair = self.pair.lock(py)?;
        if pair.is_quick(&request) {
            // SAFETY: the buffer is lent until the end of this function, and the operation is over before.
            if let Some(outcome) = unsafe { pair.perform(&request) } {
                return outcome.map_err(|status| failure(&request, status, pair.nodes));
            }
        }
        drop(pair);
        let buffer = lent.map(Lent::keep);
        Operation::begin(py, &self.pair, request, buffer)?.wait(py, Deadline::after(None)?)
    }

    fn begin(
        &self,
        py: Python<'_>,
        request: Request,
        lent: Option<Lent<'_>>,
    ) -> PyResult<Operation> {
        Operation::begin(py, &self.pair, request, lent.map(Lent::keep))
    }
}

/// A read or a write of the whole of a buffer.
#[inline]
fn transfer<'py>(
    op: Op,
    nid: &Bound<'py, PyAny>,
    at: &Bound<'py, PyAny>,
    array: &Bound<'py, PyAny>,
) -> PyResult<(Request, Option<Lent<'py>>)> {
    let used = if op == Op::Read { Use::Target } else { Use::Source };
    let (nid, offset, lent) = (node(nid)?, offset(at)?, Lent::new(array, used)?);
    let (base, length) = (lent.base() as usize, lent.len());
    Ok((Request { op, nid, offset, base, length, operands: [0; 2] }, Some(lent)))
}

fn atomic(
    op: Op,
    nid: &Bound<'_, PyAny>,
    at: &Bound<'_, PyAny>,
    operands: [u64; 2],
) -> PyResult<Request> {
    Ok(Request { op, nid: node(nid)?, offset: offset(at)?, base: 0, length: 8, operands })
}

#[pymethods]
impl QueuePair {
    /// Fills `out` with the bytes at `offset` of the segment of node `node`.
    fn read(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (request, lent) = transfer(Op::Read, node, offset, out)?;
        self.perform(py, request, lent).map(drop)
    }

    /// Writes the bytes of `data` at `offset` of the segment of node `node`.
    fn write(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (request, lent) = transfer(Op::Write, node, offset, data)?;
        self.perform(py, request, lent).map(drop)
    }

    /// Adds to the 8 bytes at `offset` of node `node`, modulo 2**64. Returns their earlier value.
    fn fetch_add(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        addend: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let request = atomic(Op::FetchAdd, node, offset, [word(addend)?, 0])?;
        self.perform(py, request, None)
    }

    /// Replaces the 8 bytes at `offset` of node `node` by `desired` if they are `expected`. Returns their old value.
    fn compare_swap(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        desired: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let request = atomic(Op::CompareSwap, node, offset, [word(expected)?, word(desired)?])?;
        self.perform(py, request, None)
    }

    /// Interrupts node `node`: `ctx.wait_notify` there returns.
    fn notify(&self, py: Python<'_>, node: &Bound<'_, PyAny>) -> PyResult<()> {
        let nid = self::node(node)?;
        let request =
            Request { op: Op::Notify, nid, offset: 0, base: 0, length: 0, operands: [0; 2] };
        self.perform(py, request, None).map(drop)
    }

    /// Starts a read into `out`, which must not be used before it has completed.
    fn read_async(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<Operation> {
        let (request, lent) = transfer(Op::Read, node, offset, out)?;
        self.begin(py, request, lent)
    }

    /// Starts a write of `data`, which must not change before it has completed.
    fn write_async(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<Operation> {
        let (request, lent) = transfer(Op::Write, node, offset, data)?;
        self.begin(py, request, lent)
    }

    /// As fetch_add; `result()` of what it returns is the earlier value.
    fn fetch_add_async(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        addend: &Bound<'_, PyAny>,
    ) -> PyResult<Operation> {
        let request = atomic(Op::FetchAdd, node, offset, [word(addend)?, 0])?;
        self.begin(py, request, None)
    }

    /// As compare_swap; `result()` of what it returns is the earlier value.
    fn compare_swap_async(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        expected: &Bound<'_, PyAny>,
        desired: &Bound<'_, PyAny>,
    ) -> PyResult<Operation> {
        let request = atomic(Op::CompareSwap, node, offset, [word(expected)?, word(desired)?])?;
        self.begin(py, request, None)
    }

    /// Entries of its queues.
    #[getter]
    fn entries(&self) -> u32 {
        self.entries
    }

    /// Entries that are posted and whose completion was not taken.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.pair.lock(py)?.in_flight())
    }

    /// Waits for what is in flight, for two seconds at most, and frees the queues.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.pair.take()));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }
}
