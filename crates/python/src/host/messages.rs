//! Messages between nodes.

use std::fmt::Display;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rackmem::client::Messaging;

use super::errors::{Kind, raise};
use super::given::{Source, Target};
use super::part::Part;
use super::wait::Deadline;

/// This node's end of messages between the nodes of a context. Messages have any size and arrive in the order of each
/// sender. Made by `ctx.messages(offset)`.
#[pyclass(frozen, module = "rackmem")]
pub struct Messages(Arc<Part<Messaging>>);

/// A message that failed, or was not there in time.
fn failure(what: impl Display, error: &rackmem::Error) -> PyErr {
    let kind = Kind::of_errno(error.errno());
    let remedy = match error.errno() {
        libc::EHOSTDOWN => ", see `rackmem status`",
        libc::EINVAL => ": a node cannot send to itself or receive from itself",
        libc::ENXIO => ": ctx.nodes is their number",
        _ => "",
    };
    raise(kind, format!("{what}: {error}{remedy}"))
}

impl Messages {
    pub fn new(part: Arc<Part<Messaging>>) -> Messages {
        Messages(part)
    }

    /// Work in which an interruption leaves half a message behind: then the end is closed.
    fn whole<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        what: impl Display,
        work: impl FnOnce(&mut Messaging) -> rackmem::Result<T> + Send,
    ) -> PyResult<T> {
        let late = format_args!(
            "{what}: timed out in the middle; this end of messages is closed, as others cannot follow"
        );
        match self.0.claim_open(py)?.interrupted(py, deadline, late, work) {
            Ok(result) => result.map_err(|error| failure(what, &error)),
            Err(error) => {
                self.close(py);
                Err(error)
            }
        }
    }

    /// Waits for the next message of a node, or of any. Returns its sender and length.
    fn arrival(
        &self,
        py: Python<'_>,
        nid: Option<u16>,
        timeout: Option<f64>,
    ) -> PyResult<(u16, usize)> {
        let from = nid.map_or("any node".to_owned(), |nid| format!("node {nid}"));
        let late = format_args!("timed out: a message of {from} has not come");
        let wait = |messaging: &mut Messaging| messaging.wait_message(nid);
        let arrival = self.0.interrupted(py, Deadline::after(timeout)?, late, wait)?;
        arrival.map_err(|error| failure(format_args!("a message of {from}"), &error))
    }

    fn take<'py>(&self, py: Python<'py>, nid: u16, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = vec![0; length];
        if length > 0 {
            let receive = |messaging: &mut Messaging| messaging.receive(nid, &mut bytes);
            self.whole(py, Deadline::NEVER, "receiving", receive)?;
        }
        Ok(PyBytes::new(py, &bytes))
    }
}

#[pymethods]
impl Messages {
    /// Bytes of every node's segment that messages between `nodes` nodes take.
    #[staticmethod]
    fn area_bytes(nodes: u16) -> u64 {
        Messaging::area_bytes(nodes)
    }

    /// Sends the bytes of `data` to node `node`; returns when they may change again. Waits while the receiver's ring is
    /// full. If `timeout` seconds pass meanwhile, half a message may be there: this end is closed.
    #[pyo3(signature = (node, data, timeout = None))]
    fn send(
        &self,
        py: Python<'_>,
        node: u16,
        data: Source<'_>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        // SAFETY: the buffer is lent until the end of this function.
        let bytes = unsafe { data.bytes() };
        let (deadline, what) = (Deadline::after(timeout)?, format_args!("sending to node {node}"));
        self.whole(py, deadline, what, |messaging| messaging.send(node, bytes))
    }

    /// Receives the next message of node `node`, for which it waits for `timeout` seconds at most.
    #[pyo3(signature = (node, timeout = None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        node: u16,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (node, length) = self.arrival(py, Some(node), timeout)?;
        self.take(py, node, length)
    }

    /// Receives the next message of any node. Returns its sender and its bytes. A node that is lost is reported once.
    #[pyo3(signature = (timeout = None))]
    fn receive_any<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<(u16, Bound<'py, PyBytes>)> {
        let (node, length) = self.arrival(py, None, timeout)?;
        Ok((node, self.take(py, node, length)?))
    }

    /// Receives the next message of node `node` into `out`. Returns its length. A message that is longer stays.
    #[pyo3(signature = (node, out, timeout = None))]
    fn receive_into(
        &self,
        py: Python<'_>,
        node: u16,
        mut out: Target<'_>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let room = out.0.len();
        let (node, length) = self.arrival(py, Some(node), timeout)?;
        if length > room {
            let text = format!(
                "the message of node {node} has {length} bytes, and the buffer {room}: it waits for a larger one"
            );
            return Err(raise(Kind::Range, text));
        }
        if length > 0 {
            // SAFETY: the buffer is lent until the end of this function, and writable.
            let bytes = unsafe { out.bytes() };
            let receive = |messaging: &mut Messaging| messaging.receive(node, bytes);
            self.whole(py, Deadline::NEVER, "receiving", receive)?;
        }
        Ok(length)
    }

    /// Frees this end. What was not received is lost.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.shut());
    }
}
