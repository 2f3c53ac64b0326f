//! Contexts.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rackmem::client::{self, Address, Context as Membership, OpenOptions};
use rackmem::protocol::Progress;
use rackmem::rack::Rack;

use super::barrier::Barrier;
use super::errors::of_set_up;
use super::lock::Lock;
use super::memory::Memory;
use super::messages::Messages;
use super::pair::Pair;
use super::part::{Close, Part};
use super::queue_pair::QueuePair;
use super::wait::{Closing, Deadline, interrupted};

/// Entries of the queue pairs of barriers and locks.
const ENTRIES: u32 = 64;

/// Membership in a context of a rack: this node's segment, and the way to those of the others.
///
/// Without arguments rack, context, node, segment size and progress are what `rackmem run` gives its processes, or the
/// environment variables RACKMEM_RACK, _CONTEXT, _NODE, _CONTEXT_SIZE and _PROGRESS; else rack `default`, context 0,
/// node 0, no segment, `inline`. With `wait` it waits until all nodes have joined, for `timeout` seconds at most.
#[pyclass(frozen, module = "rackmem")]
pub struct Context {
    membership: Part<Membership>,
    /// What was made from it: it goes first.
    parts: Mutex<Vec<Weak<dyn Close>>>,
}

fn options(
    rack: Option<&str>,
    context: Option<u16>,
    node: Option<u16>,
    segment_bytes: Option<u64>,
    progress: Option<&str>,
) -> PyResult<OpenOptions> {
    let mut options = OpenOptions::from_env().map_err(of_set_up)?;
    if let Some(name) = rack {
        options = options.rack(Rack::named(Some(name)).map_err(of_set_up)?);
    }
    if let Some(ctx_id) = context {
        options = options.context(ctx_id);
    }
    if let Some(nid) = node {
        options = options.node(nid);
    }
    if let Some(bytes) = segment_bytes {
        options = options.segment_bytes(bytes);
    }
    if let Some(name) = progress {
        let known = Progress::from_name(name);
        let unknown =
            || PyValueError::new_err(format!("progress='{name}': 'inline', 'daemon' or 'packet'"));
        options = options.progress(known.ok_or_else(unknown)?);
    }
    Ok(options)
}

/// The text of a wait for nodes that was too long.
const NOT_JOINED: &str = "timed out: the other nodes have not joined the context";

impl Context {
    /// The membership, for the length of a call.
    fn membership(&self, py: Python<'_>) -> PyResult<Membership> {
        Ok(self.membership.lock(py)?.clone())
    }

    /// Ends waits when the context is closed.
    fn closing(&self) -> Closing {
        Some(("context", self.membership.closing()))
    }

    /// A part that the context closes when it is closed.
    fn part<T: Send + 'static>(&self, name: &'static str, inner: T) -> Arc<Part<T>> {
        let part = Arc::new(Part::new(name, inner));
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|known| known.strong_count() != 0);
        let known: Arc<dyn Close> = part.clone();
        parts.push(Arc::downgrade(&known));
        part
    }

    /// Opens a part on a queue pair of its own.
    fn open<T: Send + 'static>(
        &self,
        py: Python<'_>,
        name: &'static str,
        entries: u32,
        open: impl FnOnce(&Membership, client::QueuePair) -> rackmem::Result<T> + Send,
    ) -> PyResult<Arc<Part<T>>> {
        let membership = self.membership(py)?;
        let opened = py.detach(|| open(&membership, membership.queue_pair(entries)?));
        Ok(self.part(name, opened.map_err(of_set_up)?))
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (
        *, rack = None, context = None, node = None, segment_bytes = None, progress = None, read_only = false,
        shared = false, wait = true, timeout = 60.0
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        rack: Option<&str>,
        context: Option<u16>,
        node: Option<u16>,
        segment_bytes: Option<u64>,
        progress: Option<&str>,
        read_only: bool,
        shared: bool,
        wait: bool,
        timeout: Option<f64>,
    ) -> PyResult<Context> {
        let deadline = Deadline::after(timeout)?;
        let options = options(rack, context, node, segment_bytes, progress)?;
        let options = options.read_only(read_only).shared(shared);
        let membership = interrupted(py, deadline, None, NOT_JOINED, || {
            let membership = Membership::open(&options)?;
            let others = if wait { membership.nodes() } else { 0 };
            (0..others).try_for_each(|nid| membership.wait_joined(nid, None))?;
            Ok(membership)
        })?;
        let membership = Part::new("context", membership.map_err(of_set_up)?);
        Ok(Context { membership, parts: Mutex::default() })
    }

    /// Number of this node, from 0.
    #[getter]
    fn node(&self, py: Python<'_>) -> PyResult<u16> {
        Ok(self.membership(py)?.nid())
    }

    /// Nodes that take part: 0 to one less.
    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<u16> {
        Ok(self.membership(py)?.nodes())
    }

    /// The way by which operations progress: inline, daemon or packet.
    #[getter]
    fn progress(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.membership(py)?.progress().name())
    }

    /// This node's segment, which other nodes may change at any time. Read-only if the context is.
    #[getter]
    fn segment(&self, py: Python<'_>) -> PyResult<Memory> {
        let segment = self.membership(py)?.own_segment();
        let (base, length) = (segment.base(), segment.size_bytes() as usize);
        let is_read_only = segment.is_read_only();
        // SAFETY: the segment stays mapped while `segment` lives.
        Ok(unsafe { Memory::new("a segment", base, length, is_read_only, Box::new(segment)) })
    }

    /// Zeroed memory for arrays that operations read and write, rounded up to pages: the daemon has it mapped, so that
    /// progress by daemon and packet is faster than with other arrays.
    fn buffer(&self, py: Python<'_>, nbytes: usize) -> PyResult<Memory> {
        let membership = self.membership(py)?;
        let buffer = py.detach(|| membership.buffer(nbytes)).map_err(of_set_up)?;
        let (base, length) = (buffer.base(), buffer.len());
        // SAFETY: the buffer stays mapped while it lives.
        Ok(unsafe { Memory::new("a local buffer", base, length, false, Box::new(buffer)) })
    }

    /// A queue pair of `entries` entries: a power of two from 2 to 128.
    #[pyo3(signature = (entries = 64))]
    fn queue_pair(&self, py: Python<'_>, entries: u32) -> PyResult<QueuePair> {
        let pair = self.open(py, "queue pair", entries, |membership, pair| {
            Ok(Pair::new(pair, entries as usize, membership.rack_nodes()))
        });
        Ok(QueuePair::new(pair?, entries))
    }

    /// This node's end of messages, in the area of `Messages.area_bytes(nodes)` at `offset` of every segment, which
    /// starts zeroed and is used for nothing else.
    #[pyo3(signature = (offset, entries = 64))]
    fn messages(&self, py: Python<'_>, offset: u64, entries: u32) -> PyResult<Messages> {
        let end = self.open(py, "end of messages", entries, |membership, pair| {
            client::Messaging::open(membership, pair, offset)
        });
        end.map(Messages::new)
    }

    /// This node's end of a barrier of `members` (None: all nodes), which all name the same members and offset, in the
    /// area of `Barrier.area_bytes(members)`, which starts zeroed and is used for nothing else.
    #[pyo3(signature = (offset, members = None))]
    fn barrier(&self, py: Python<'_>, offset: u64, members: Option<Vec<u16>>) -> PyResult<Barrier> {
        let members = members.unwrap_or_default();
        let barrier = self.open(py, "barrier", ENTRIES, |membership, pair| {
            client::Barrier::open(membership, pair, offset, &members)
        });
        barrier.map(Barrier::new)
    }

    /// One of at most `participants` ends of the lock at `offset` of node `node`, which takes
    /// `Lock.area_bytes(participants)` bytes. `flag_offset` is of 16 zeroed bytes of this node's segment.
    fn lock(
        &self,
        py: Python<'_>,
        node: u16,
        offset: u64,
        participants: u32,
        flag_offset: u64,
    ) -> PyResult<Lock> {
        let home = Address::new(node, offset);
        let lock = self.open(py, "lock", ENTRIES, |membership, pair| {
            client::Lock::open(membership, pair, home, participants, flag_offset)
        });
        lock.map(Lock::new)
    }

    /// Waits until `node` has joined, for `timeout` seconds at most.
    #[pyo3(signature = (node, timeout = 60.0))]
    fn wait_joined(&self, py: Python<'_>, node: u16, timeout: Option<f64>) -> PyResult<()> {
        let membership = self.membership(py)?;
        let deadline = Deadline::after(timeout)?;
        interrupted(py, deadline, self.closing(), NOT_JOINED, || {
            membership.wait_joined(node, None)
        })?
        .map_err(of_set_up)
    }

    /// Notifications that this node has received in this context.
    #[getter]
    fn notifications(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.membership(py)?.notifications())
    }

    /// Waits until the count of notifications is not `seen`, for `timeout` seconds at most, and returns it.
    #[pyo3(signature = (seen, timeout = None))]
    fn wait_notify(&self, py: Python<'_>, seen: u64, timeout: Option<f64>) -> PyResult<u64> {
        let membership = self.membership(py)?;
        let (deadline, late) = (Deadline::after(timeout)?, "timed out: no notification has come");
        interrupted(py, deadline, self.closing(), late, || membership.wait_notify(seen, None))?
            .map_err(of_set_up)
    }

    /// Leaves the context, after closing what was made from it. Arrays over its memory can still be used.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let parts =
                std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
            parts.iter().filter_map(Weak::upgrade).for_each(|part| part.close());
            self.membership.shut();
        });
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}
