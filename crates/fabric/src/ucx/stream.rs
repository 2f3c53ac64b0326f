//! The bytes of a link as messages of UCX.

use std::ffi::c_void;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use super::inbox::{self, Inbox};
use super::sys::{self, OnDone, Posted, RequestParam};
use super::{Address, UcxError, Worker};
use crate::carrier::Carrier;

/// Calls of UCX in a turn.
const MAX_CALLS: u32 = 16;

/// Time for which the end of a link waits for UCX to give up what was under way.
const CLOSING: Duration = Duration::from_millis(200);

/// Time between two looks whether it has left.
const CLOSING_PAUSE: Duration = Duration::from_micros(50);

/// One end of a link.
pub struct UcxStream {
    worker: Worker,
    endpoint: *mut c_void,
    /// The connection of the handshake: the sign of life.
    socket: OwnedFd,
    /// Bytes that the owner has staged.
    out: Vec<u8>,
    /// Messages that were sent.
    sent: u64,
    lost: Option<String>,
}

// SAFETY: the endpoint is the worker's, and goes where that goes.
unsafe impl Send for UcxStream {}

impl UcxStream {
    /// The way to the worker at an address of the daemon at the other end of a connection.
    ///
    /// # Errors
    /// UCX finds no way.
    pub fn new(
        mut worker: Worker,
        address: &Address,
        socket: OwnedFd,
    ) -> Result<UcxStream, UcxError> {
        let endpoint = worker.endpoint(address)?;
        Ok(UcxStream { worker, endpoint, socket, out: Vec::new(), sent: 0, lost: None })
    }

    /// See [`Worker::efd`].
    pub fn efd(&self) -> BorrowedFd<'_> {
        self.worker.efd()
    }

    /// Ends the link if a callback has found that it must.
    fn look_for_failure(&mut self) {
        if let Some(why) = self.worker.inbox_mut().failed.take() {
            self.lose(&why);
        }
    }
}

impl Carrier for UcxStream {
    #[inline]
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    #[inline]
    fn staged_bytes(&self) -> usize {
        self.out.len() + self.worker.inbox().leaving_bytes
    }

    fn transmit(&mut self) -> bool {
        if self.lost.is_some() {
            self.out = Vec::new();
            return false;
        }
        if self.out.is_empty() {
            return false;
        }
        let spare = self.worker.inbox_mut().spare.pop().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.out, spare);
        inbox::send(self.worker.inbox, self.endpoint, self.sent, bytes);
        self.sent += 1;
        self.look_for_failure();
        true
    }

    fn receive(&mut self) -> bool {
        if self.lost.is_some() {
            return false;
        }
        let calls = (0..MAX_CALLS).take_while(|_| self.worker.progress()).count();
        self.look_for_failure();
        calls > 0
    }

    #[inline]
    fn input(&self) -> &[u8] {
        &self.worker.inbox().input
    }

    fn take(&mut self, bytes: usize) {
        self.worker.inbox_mut().input.drain(..bytes);
    }

    fn may_have_more(&self) -> bool {
        self.lost.is_none() && !self.worker.arm()
    }

    fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn lose(&mut self, why: &str) {
        if self.lost.is_none() {
            self.lost = Some(why.to_owned());
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl AsFd for UcxStream {
    /// The connection whose end is that of the link.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for UcxStream {
    fn drop(&mut self) {
        let ucp = self.worker.engine.ucp;
        let param = RequestParam {
            attributes: sys::FLAGS_FIELD,
            flags: sys::CLOSE_BY_FORCE,
            request: null_mut(),
            on_done: OnDone { none: 0 },
            datatype: 0,
            user_data: null_mut(),
            others: [0; 4],
        };
        // SAFETY: the endpoint was not closed before.
        let request = unsafe { (ucp.ucp_ep_close_nbx)(self.endpoint, &param) };
        let deadline = Instant::now() + CLOSING;
        let is_closing = matches!(Posted::of(request), Posted::Pending);
        // SAFETY: the request is freed below only.
        let status = || unsafe { (ucp.ucp_request_check_status)(request) };
        let is_under_way =
            |inbox: &Inbox| inbox.pending > 0 || (is_closing && status() == sys::IN_PROGRESS);
        while is_under_way(self.worker.inbox()) && Instant::now() < deadline {
            if !self.worker.progress() {
                std::thread::sleep(CLOSING_PAUSE);
            }
        }
        if is_closing {
            // SAFETY: nobody looks at it any more.
            unsafe { (ucp.ucp_request_free)(request) };
        }
    }
}

impl fmt::Debug for UcxStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UcxStream").field("sent", &self.sent).field("lost", &self.lost).finish()
    }
}
