//! Send and receive of a queue pair that is connected to a queue pair of another node, as by RDMA's reliable
//! connection.
//!
//! Descriptors are pieces of the context's segments. Everything travels by remote writes of the queue pair itself: a
//! receive to the sender's segment, a message straight into the buffer that its receiver posted, then its report to the
//! receiver's segment. So each end polls its own memory only, and messages go wherever operations go: in any way of
//! progress, between hosts, encrypted or not.
//!
//! | module | contents |
//! |---|---|
//! | [`area`] | the layout of what the ends write to each other |
//! | `ends` | one end: the beginning and the close of a connection, and its writes |
//! | `face` | the functions of Rust |
//! | [`c`] | the functions of `include/rackmem/two_sided.h` |
//!
//! # Decisions
//!
//! - *The steps are those of [`Queues`]*, which say what happens without a receive, to a message that is too long, and
//!   to what was posted when the peer is gone. This is a carrier for them.
//! - *Receives travel to the sender*, and at once. A sender that reads them at the receiver would pay a round trip for
//!   each message. Receives that are kept back to travel together could be those that a peer waits for.
//! - *A write is complete before the next one begins.* A message is thus reported after its bytes are there, though
//!   remote writes have no order. Posting a send between hosts takes as long as its writes.
//! - *Short messages travel in their report*, so that they take one write.
//! - *The sender is woken by the write of a receive, the receiver by that of a report*, as by every write to their
//!   segments. No notification is needed.
//! - *A descriptor of the peer is checked by the write that uses it*, which is confined to the peer's segment. A peer
//!   whose buffers lie outside, or whose reports cannot be, counts as lost.

pub mod area;
pub mod c;
mod ends;
mod face;

use std::time::{Duration, Instant};

pub use rackmem_rmc::two_sided::{Completion, Descriptor, Kind, Status as MessageStatus};
use rackmem_rmc::two_sided::{Queues, Shared};

use super::membership::LIVENESS_INTERVAL;
use super::{Address, Context, ffi};
use crate::error::{Error, Result};
use area::DEPTH;
use ends::Ends;

/// Polls in vain between two looks at the clock, after which the peer may be looked at.
const POLLS_BEFORE_CLOCK: u32 = 256;

/// The two-sided part of a queue pair. Dropping it closes the connection.
pub(crate) struct Connection {
    queues: Queues,
    ends: Ends,
    polls: u32,
    /// Time at which the peer was last known to be there.
    looked: Instant,
}

impl Connection {
    /// Connects to the queue pair whose area is at `peer`, and which connects to `offset` of this node.
    fn connect(
        qp: *mut ffi::Qp,
        context: &Context,
        offset: u64,
        peer: Address,
        timeout: Duration,
    ) -> Result<Connection> {
        let ends = Ends::connect(qp, context, offset, peer, deadline_in(timeout))?;
        Ok(Connection { queues: Queues::new(DEPTH), ends, polls: 0, looked: Instant::now() })
    }

    fn check(&self, piece: Descriptor) -> Result<()> {
        let size_bytes = self.ends.context().segment_bytes();
        if piece.is_inside(0, size_bytes) {
            return Ok(());
        }
        let Descriptor { offset, size_bytes: length, .. } = piece;
        let message =
            format!("{length} bytes at offset {offset} leave the segment of {size_bytes} bytes");
        Err(Error::new(libc::ERANGE, message))
    }

    /// Posts a message; `false` if the SQ is full.
    fn post_send(&mut self, message: Descriptor) -> Result<bool> {
        self.check(message)?;
        let is_posted = self.queues.post_send(message);
        self.advance();
        Ok(is_posted)
    }

    /// Posts a buffer for the next message; `false` if the RQ is full.
    fn post_receive(&mut self, buffer: Descriptor) -> Result<bool> {
        self.check(buffer)?;
        Ok(self.queues.post_receive(buffer, |number, buffer| self.ends.publish(number, buffer)))
    }

    /// Sends, receives and completes as far as possible.
    #[inline]
    fn advance(&mut self) {
        // First, as a peer that has closed sends nothing after that.
        let is_closed = self.ends.is_closed_by_peer();
        self.queues.progress(&mut self.ends);
        if is_closed || self.ends.has_failed() {
            self.finish(is_closed);
        }
    }

    #[cold]
    fn finish(&mut self, is_closed: bool) {
        let status = if is_closed { MessageStatus::Closed } else { MessageStatus::Lost };
        self.queues.finish(status, &mut self.ends);
    }

    /// Takes the next completion, if there is one.
    #[inline]
    fn poll(&mut self) -> Option<Completion> {
        if self.queues.completed() == 0 {
            self.advance();
            if self.queues.completed() == 0 {
                self.idle();
            }
        }
        self.queues.poll()
    }

    /// Notices at times that the peer is gone, for programs that poll and never wait.
    #[inline]
    fn idle(&mut self) {
        self.polls += 1;
        if self.polls >= POLLS_BEFORE_CLOCK {
            self.polls = 0;
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        self.drive_operations();
        if self.looked.elapsed() >= LIVENESS_INTERVAL {
            self.looked = Instant::now();
            if self.ends.context().is_gone(self.ends.peer_nid()) {
                self.lose();
            }
        }
    }

    fn lose(&mut self) {
        // Messages that the peer sent before its end still arrive.
        self.advance();
        self.finish(false);
    }

    /// Operations of the program on the same queue pair go on while this thread waits.
    fn drive_operations(&mut self) {
        let qp = self.ends.qp();
        // SAFETY: the queue pair owns this connection, and its engine takes it.
        unsafe {
            if (*qp).posted != (*qp).reaped
                && let Some(progress) = (*(*qp).engine).progress
            {
                progress(qp);
            }
        }
    }

    /// Waits for the next completion; `None` after the timeout.
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        self.wait_until(timeout, |this| this.queues.completed() > 0);
        self.queues.poll()
    }

    /// Sends a message from any memory, and returns when that may change. Messages that were posted go first.
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<()> {
        let may_leave = |this: &mut Connection| {
            this.queues.end().is_some()
                || this.queues.next_send().is_some_and(|number| this.ends.posted(number).is_some())
        };
        let is_ready = self.wait_until(timeout, may_leave);
        if let Some(status) = self.queues.end() {
            return Err(ended(status));
        }
        let next = self.queues.next_send().filter(|_| is_ready);
        let Some((number, buffer)) =
            next.and_then(|number| Some((number, self.ends.posted(number)?)))
        else {
            let message = "timed out: the peer has posted no receive for the message";
            return Err(Error::new(libc::ETIMEDOUT, message));
        };
        let length_bytes = message.len() as u64;
        let is_too_long = !buffer.takes(length_bytes);
        if is_too_long {
            self.ends.refuse(number, length_bytes);
        } else {
            // SAFETY: the message is the caller's slice.
            unsafe { self.ends.store(number, message.as_ptr(), length_bytes, buffer) };
        }
        self.queues.count_send();
        match (self.ends.has_failed(), is_too_long) {
            (true, _) => {
                self.advance();
                Err(ended(self.queues.end().unwrap_or(MessageStatus::Lost)))
            }
            (false, true) => Err(ended(MessageStatus::TooLong)),
            (false, false) => Ok(()),
        }
    }

    /// Spins, then sleeps, until `is_there`, or the timeout. The end of the connection is there, too.
    fn wait_until(
        &mut self,
        timeout: Duration,
        is_there: impl Fn(&mut Connection) -> bool,
    ) -> bool {
        // SAFETY: the queue pair owns this connection.
        let spin_limit = unsafe { (*self.ends.qp()).spin_limit };
        for _ in 0..=spin_limit {
            self.advance();
            if is_there(self) {
                return true;
            }
            std::hint::spin_loop();
        }
        self.drive_operations();
        let (context, nid) = (self.ends.context().clone(), self.ends.peer_nid());
        let mut ready = || {
            self.advance();
            is_there(self)
        };
        match context.sleep_until(&mut ready, Some(nid), deadline_in(timeout)) {
            Ok(()) => true,
            Err(error) if error.errno() == libc::ETIMEDOUT => false,
            Err(_) => {
                self.lose();
                is_there(self)
            }
        }
    }
}

/// The error of a message with this end.
fn ended(status: MessageStatus) -> Error {
    let (errno, message) = match status {
        MessageStatus::Done => (0, "the message was sent"),
        MessageStatus::TooLong => {
            (libc::EMSGSIZE, "the message does not fit into the buffer that its receiver posted")
        }
        MessageStatus::Closed => (libc::EPIPE, "the peer has closed the connection"),
        MessageStatus::Lost => (
            libc::EHOSTDOWN,
            "the peer of the connection is gone, or does not keep to the protocol",
        ),
    };
    Error::new(errno, message)
}

/// The connection of a queue pair, if it has one.
///
/// # Safety
/// `qp` is a live queue pair, used by this thread alone.
#[inline]
unsafe fn connection<'a>(qp: *mut ffi::Qp) -> Option<&'a mut Connection> {
    // SAFETY: the caller's contract; the pointer is null, or what `attach` has leaked.
    unsafe { (*qp).connection.cast::<Connection>().as_mut() }
}

/// Connects a queue pair; a former connection is closed.
///
/// # Safety
/// As [`connection`].
unsafe fn attach(
    qp: *mut ffi::Qp,
    context: &Context,
    offset: u64,
    peer: Address,
    timeout: Duration,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe {
        detach(qp);
        let connection = Connection::connect(qp, context, offset, peer, timeout)?;
        (*qp).connection = Box::into_raw(Box::new(connection)).cast();
    }
    Ok(())
}

/// Closes the connection of a queue pair, if it has one.
///
/// # Safety
/// As [`connection`].
pub(super) unsafe fn detach(qp: *mut ffi::Qp) {
    // SAFETY: the caller's contract; the pointer is null, or what `attach` has leaked.
    unsafe {
        let connection = std::mem::replace(&mut (*qp).connection, std::ptr::null_mut());
        if !connection.is_null() {
            drop(Box::from_raw(connection.cast::<Connection>()));
        }
    }
}

/// The time after which a wait of so long gives up.
fn deadline_in(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
