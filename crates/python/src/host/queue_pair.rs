//! Queue pairs as Python sees them.

use std::sync::Arc;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rackmem::Op;

use super::errors::{Kind, raise};
use super::given::{Lent, Source, Target};
use super::operation::Operation;
use super::pair::{Pair, Request, failure};
use super::part::Part;
use super::wait::Deadline;

/// Remote reads, writes and atomics: one at a time, or many in flight. Made by `ctx.queue_pair()`; each thread makes
/// its own, as only one thread at a time uses a pair.
#[pyclass(frozen, module = "rackmem")]
pub struct QueuePair {
    pair: Arc<Part<Pair>>,
    entries: u32,
}

/// The node of an operation.
struct Node(u16);

impl<'py> FromPyObject<'_, 'py> for Node {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Node> {
        number.extract().map(Node).map_err(|error| {
            or_overflow(error, Kind::Node, || {
                format!("no rack has a node {}: nodes are numbered from 0", *number)
            })
        })
    }
}

/// The offset of an operation in bytes.
struct Offset(u64);

impl<'py> FromPyObject<'_, 'py> for Offset {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Offset> {
        number.extract().map(Offset).map_err(|error| {
            or_overflow(error, Kind::Range, || {
                format!("no segment has an offset {}: offsets are bytes from 0", *number)
            })
        })
    }
}

/// The error for a number: of this kind and text if it has too many bits, or a sign.
#[cold]
fn or_overflow(error: PyErr, kind: Kind, text: impl FnOnce() -> String) -> PyErr {
    match Python::attach(|py| error.is_instance_of::<PyOverflowError>(py)) {
        true => raise(kind, text()),
        false => error,
    }
}

/// An operand of an atomic: 64 bits, with or without a sign.
struct Word(u64);

impl<'py> FromPyObject<'_, 'py> for Word {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, 'py, PyAny>) -> PyResult<Word> {
        let signed = number.extract::<i64>().map(i64::cast_unsigned);
        signed.or_else(|_| number.extract()).map(Word)
    }
}

/// An operation, and the buffer that it reads or writes.
type Asked<'py> = (Request, Option<Lent<'py>>);

/// A read or a write of the whole of a buffer.
#[inline]
fn transfer(op: Op, Node(nid): Node, Offset(offset): Offset, lent: Lent<'_>) -> Asked<'_> {
    let (base, length) = (lent.base() as usize, lent.len());
    (Request { op, nid, offset, base, length, operands: [0; 2] }, Some(lent))
}

fn fetch_add(Node(nid): Node, Offset(offset): Offset, Word(addend): Word) -> Asked<'static> {
    let operands = [addend, 0];
    (Request { op: Op::FetchAdd, nid, offset, base: 0, length: 8, operands }, None)
}

fn compare_swap(
    Node(nid): Node,
    Offset(offset): Offset,
    Word(expected): Word,
    Word(desired): Word,
) -> Asked<'static> {
    let operands = [expected, desired];
    (Request { op: Op::CompareSwap, nid, offset, base: 0, length: 8, operands }, None)
}

impl QueuePair {
    pub fn new(pair: Arc<Part<Pair>>, entries: u32) -> QueuePair {
        QueuePair { pair, entries }
    }

    /// Performs an operation. Returns an atomic's earlier value.
    #[inline]
    fn perform(&self, py: Python<'_>, (request, lent): Asked<'_>) -> PyResult<u64> {
        let mut pair = self.pair.lock(py)?;
        if pair.is_quick(&request) {
            // SAFETY: the buffer is lent until the end of this function, and the operation is over before.
            if let Some(outcome) = unsafe { pair.perform(&request) } {
                return outcome.map_err(|status| failure(&request, status, pair.nodes));
            }
        }
        drop(pair);
        self.begin(py, (request, lent))?.wait(py, Deadline::NEVER)
    }

    fn begin(&self, py: Python<'_>, (request, lent): Asked<'_>) -> PyResult<Operation> {
        Operation::begin(py, &self.pair, request, lent.map(Lent::keep))
    }
}

#[pymethods]
impl QueuePair {
    /// Fills `out` with the bytes at `offset` of the segment of node `node`.
    fn read(&self, py: Python<'_>, node: Node, offset: Offset, out: Target<'_>) -> PyResult<()> {
        self.perform(py, transfer(Op::Read, node, offset, out.0)).map(drop)
    }

    /// Writes the bytes of `data` at `offset` of the segment of node `node`.
    fn write(&self, py: Python<'_>, node: Node, offset: Offset, data: Source<'_>) -> PyResult<()> {
        self.perform(py, transfer(Op::Write, node, offset, data.0)).map(drop)
    }

    /// Adds to the 8 bytes at `offset` of node `node`, modulo 2**64. Returns their earlier value.
    fn fetch_add(&self, py: Python<'_>, node: Node, offset: Offset, addend: Word) -> PyResult<u64> {
        self.perform(py, fetch_add(node, offset, addend))
    }

    /// Replaces the 8 bytes at `offset` of node `node` by `desired` if they are `expected`. Returns their old value.
    fn compare_swap(
        &self,
        py: Python<'_>,
        node: Node,
        offset: Offset,
        expected: Word,
        desired: Word,
    ) -> PyResult<u64> {
        self.perform(py, compare_swap(node, offset, expected, desired))
    }

    /// Interrupts node `node`: `ctx.wait_notify` there returns.
    fn notify(&self, py: Python<'_>, node: Node) -> PyResult<()> {
        let (op, nid, operands) = (Op::Notify, node.0, [0; 2]);
        let request = Request { op, nid, offset: 0, base: 0, length: 0, operands };
        self.perform(py, (request, None)).map(drop)
    }

    /// Starts a read into `out`, which must not be used before it has completed.
    fn read_async(
        &self,
        py: Python<'_>,
        node: Node,
        offset: Offset,
        out: Target<'_>,
    ) -> PyResult<Operation> {
        self.begin(py, transfer(Op::Read, node, offset, out.0))
    }

    /// Starts a write of `data`, which must not change before it has completed.
    fn write_async(
        &self,
        py: Python<'_>,
        node: Node,
        offset: Offset,
        data: Source<'_>,
    ) -> PyResult<Operation> {
        self.begin(py, transfer(Op::Write, node, offset, data.0))
    }

    /// As fetch_add; `result()` of what it returns is the earlier value.
    fn fetch_add_async(
        &self,
        py: Python<'_>,
        node: Node,
        offset: Offset,
        addend: Word,
    ) -> PyResult<Operation> {
        self.begin(py, fetch_add(node, offset, addend))
    }

    /// As compare_swap; `result()` of what it returns is the earlier value.
    fn compare_swap_async(
        &self,
        py: Python<'_>,
        node: Node,
        offset: Offset,
        expected: Word,
        desired: Word,
    ) -> PyResult<Operation> {
        self.begin(py, compare_swap(node, offset, expected, desired))
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
        py.detach(|| self.pair.shut());
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}
