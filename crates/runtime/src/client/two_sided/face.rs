//! Send and receive of a queue pair in Rust.

use std::time::Duration;

use super::area::AREA_BYTES;
use super::{Address, Completion, Connection, Context, Descriptor, attach, connection, detach};
use crate::client::QueuePair;
use crate::error::{Error, Result};

/// Send and receive, once the queue pair is connected.
///
/// ```no_run
/// use std::time::Duration;
/// use rackmem::client::{Address, Context, Descriptor, OpenOptions, QueuePair};
///
/// let context = Context::open_all(&OpenOptions::from_env()?.segment_bytes(1 << 20))?;
/// let mut qp = context.queue_pair(64)?;
/// let (peer, second) = (1 - context.nid(), Duration::from_secs(1));
/// // The first bytes of both segments belong to the connection.
/// qp.connect(&context, 0, Address::new(peer, 0), 10 * second)?;
/// let buffer = Descriptor { offset: QueuePair::CONNECTION_BYTES, size_bytes: 4096, id: 7 };
/// qp.post_receive(buffer)?;
/// qp.send(b"hello", second)?;
/// let completion = qp.wait(second)?.expect("a message within a second");
/// assert_eq!((completion.id, completion.length_bytes), (7, 5));
/// # Ok::<(), rackmem::Error>(())
/// ```
impl QueuePair {
    /// Bytes of the segments of both nodes that a connection takes, at multiples of 64.
    pub const CONNECTION_BYTES: u64 = AREA_BYTES;

    /// Connects to a queue pair of another node, or of this one, which connects to this one at the same time: its
    /// connection lies at `peer`, that of this one at `offset` of the own segment. Nothing else uses these bytes.
    /// A former connection is closed.
    ///
    /// # Errors
    /// The place leaves a segment or is no multiple of 64; the peer does not connect in time, or is gone.
    pub fn connect(
        &mut self,
        context: &Context,
        offset: u64,
        peer: Address,
        timeout: Duration,
    ) -> Result<()> {
        // SAFETY: the queue pair is this one.
        unsafe { attach(self.as_ffi(), context, offset, peer, timeout) }
    }

    /// Closes the connection. What the peer has posted completes with `Closed`.
    pub fn disconnect(&mut self) {
        // SAFETY: the queue pair is this one.
        unsafe { detach(self.as_ffi()) };
    }

    /// Posts a message, a piece of the own segment that does not change until its completion. `false`: the SQ is full.
    ///
    /// # Errors
    /// It leaves the segment, or the queue pair is not connected.
    pub fn post_send(&mut self, message: Descriptor) -> Result<bool> {
        self.connected()?.post_send(message)
    }

    /// Posts a buffer for the next message, a piece of the own segment. `false`: the RQ is full.
    ///
    /// # Errors
    /// As [`QueuePair::post_send`].
    pub fn post_receive(&mut self, buffer: Descriptor) -> Result<bool> {
        self.connected()?.post_receive(buffer)
    }

    /// Takes the next completion of a send or receive that was posted, if there is one. Messages that wait for a
    /// receive leave in here and in [`QueuePair::wait`].
    ///
    /// # Errors
    /// The queue pair is not connected.
    pub fn poll(&mut self) -> Result<Option<Completion>> {
        Ok(self.connected()?.poll())
    }

    /// Waits for the next completion; `None` after the timeout.
    ///
    /// # Errors
    /// The queue pair is not connected.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Completion>> {
        Ok(self.connected()?.wait(timeout))
    }

    /// Sends a message of any memory, after those that were posted, and without a completion. Waits until its receiver
    /// has posted a buffer; afterwards it is there.
    ///
    /// # Errors
    /// It does not fit into that buffer (`EMSGSIZE`), no buffer is posted in time (`ETIMEDOUT`), the peer is gone
    /// (`EHOSTDOWN`) or has closed the connection (`EPIPE`); the queue pair is not connected.
    pub fn send(&mut self, message: &[u8], timeout: Duration) -> Result<()> {
        self.connected()?.send(message, timeout)
    }

    fn connected(&mut self) -> Result<&mut Connection> {
        let not_connected = || Error::new(libc::ENOTCONN, "the queue pair is not connected");
        // SAFETY: the queue pair is this one.
        unsafe { connection(self.as_ffi()) }.ok_or_else(not_connected)
    }
}
