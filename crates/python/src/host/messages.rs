//! Messages between nodes.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rackmem::client::Messaging;

use super::errors::{Kind, raise};
use super::given::{Lent, Use};
use super::part::{Held, Part};
use super::wait::{Deadline, Ended, interrupted};

/// This node's end of messages between the nodes of a context. Messages have any size and arrive in the order of each
/// sender. Made by `ctx.messages(offset)`.
#[pyclass(frozen, module = "rackmem")]
pub struct Messages(Arc<Part<Messaging>>);

/// A message that failed, or was not there in time.
fn failure(what: &str, error: &rackmem::Error) -> PyErr {
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

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        work: impl FnOnce(&mut Messaging) -> rackmem::Result<T> + Send,
    ) -> PyResult<Ended<rackmem::Result<T>>> {
        drop(self.0.lock(py)?);
        let part = &self.0;
        let ended = interrupted(py, deadline, || {
            let held: Option<Held<'_, _>> = part.lock_detached();
            held.map(|mut messaging| work(&mut messaging)).transpose()
        })?;
        Ok(match ended {
            Ended::TimedOut => Ended::TimedOut,
            Ended::Result(Err(error)) => Ended::Result(Err(error)),
            Ended::Result(Ok(Some(value))) => Ended::Result(Ok(value)),
            Ended::Result(Ok(None)) => {
                return Err(raise(Kind::Closed, "this end of messages was closed meanwhile"));
            }
        })
    }

    /// Work in which an interruption leaves half a message behind: then the end is closed.
    fn whole<T: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        what: &str,
        work: impl FnOnce(&mut Messaging) -> rackmem::Result<T> + Send,
    ) -> PyResult<T> {
        let ended = self.call(py, deadline, work);
        match ended {
            Ok(Ended::Result(result)) => result.map_err(|error| failure(what, &error)),
            Ok(Ended::TimedOut) => {
                self.close(py);
                let text = format!(
                    "{what}: timed out in the middle; this end of messages is closed, as others cannot follow"
                );
                Err(raise(Kind::Timeout, text))
            }
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
        let ended =
            self.call(py, Deadline::after(timeout)?, |messaging| messaging.wait_message(nid))?;
        let what = nid
            .map_or("a message of any node".to_owned(), |nid| format!("a message of node {nid}"));
        match ended {
            Ended::Result(result) => result.map_err(|error| failure(&what, &error)),
            Ended::TimedOut => Err(raise(Kind::Timeout, format!("timed out: {what} has not come"))),
        }
    }

    fn take<'py>(&self, py: Python<'py>, nid: u16, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = vec![0; length];
        if length > 0 {
            let deadline = Deadline::after(None)?;
            self.whole(py, deadline, "receiving", |messaging| messaging.receive(nid, &mut bytes))?;
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
        data: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let deadline = Deadline::after(timeout)?;
        let lent = Lent::new(data, Use::Source)?;
        // SAFETY: the buffer is lent until the end of this function.
        let bytes = unsafe { lent.bytes() };
        self.whole(py, deadline, &format!("sending to node {node}"), |messaging| {
            messaging.send(node, bytes)
        })
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
        out: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let lent = Lent::new(out, Use::Target)?;
        let (node, length) = self.arrival(py, Some(node), timeout)?;
        if length > lent.len() {
            let room = lent.len();
            let text = format!(
                "the message of node {node} has {length} bytes, and the buffer {room}: it waits for a larger one"
            );
            return Err(raise(Kind::Range, text));
        }
        if length > 0 {
            // SAFETY: the buffer is lent until the end of this function, and writable.
            let bytes = unsafe { lent.bytes_mut() };
            let deadline = Deadline::after(None)?;
            self.whole(py, deadline, "receiving", |messaging| messaging.receive(node, bytes))?;
        }
        Ok(length)
    }

    /// Frees this end. What was not received is lost.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.take()));
    }
}
