use std::ffi::{c_int, c_void};

use super::foreign::{Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_messaging_size() -> usize;
    fn rackmem_inline_messaging_bytes(nodes: c_int) -> usize;
    fn rackmem_inline_messaging_open(
        m: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        area_offset: u64,
    ) -> c_int;
    fn rackmem_inline_set_threshold(m: *mut c_void, bytes: usize);
    fn rackmem_inline_send(m: *mut c_void, nid: c_int, data: *const u8, length: usize) -> c_int;
    fn rackmem_inline_recv(
        m: *mut c_void,
        nid: c_int,
        buffer: *mut u8,
        capacity: usize,
        length: *mut usize,
    ) -> c_int;
    fn rackmem_inline_try_recv(
        m: *mut c_void,
        nid: c_int,
        buffer: *mut u8,
        capacity: usize,
        length: *mut usize,
    ) -> c_int;
    fn rackmem_inline_recv_any(
        m: *mut c_void,
        nid: *mut c_int,
        buffer: *mut u8,
        capacity: usize,
        length: *mut usize,
    ) -> c_int;
}

/// Send and receive between the nodes of a context (soNUMA §5.3).
///
/// Messages have any size and arrive in the order of each sender. Small ones are pushed into the
/// receiver's segment, large ones pulled from the sender's.
///
/// A send blocks while the receiver's ring is full; two nodes that both send more than that and
/// never receive block each other for ever.
pub struct Messaging(Foreign);

impl Messaging {
    /// Bytes of every node's segment that messaging takes.
    pub fn area_bytes(nodes: u16) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_messaging_bytes(nodes.into()) as u64 }
    }

    /// Opens this node's endpoint in the area at `area_offset` of every segment, which starts
    /// zeroed and is used for nothing else.
    ///
    /// # Errors
    /// The offset is no multiple of 64, or the area leaves the segment.
    pub fn open(context: &Context, qp: QueuePair, area_offset: u64) -> Result<Messaging> {
        // SAFETY: a pure function.
        let mut this = Foreign::new(context, qp, unsafe { rackmem_inline_messaging_size() });
        let (m, ctx, qp) = (this.as_ptr(), this.context_ptr(), this.qp.as_ffi());
        // SAFETY: all three live as long as the endpoint.
        check_told(unsafe { rackmem_inline_messaging_open(m, ctx, qp, area_offset) })?;
        Ok(Messaging(this))
    }

    /// Messages of this many bytes and more are pulled: 0 always, `usize::MAX` never.
    pub fn set_threshold(&mut self, bytes: usize) {
        // SAFETY: the endpoint is open.
        unsafe { rackmem_inline_set_threshold(self.0.as_ptr(), bytes) }
    }

    /// Sends a message; returns when `data` may change again.
    ///
    /// # Errors
    /// The node does not exist, is this one, or is lost.
    pub fn send(&mut self, nid: u16, data: &[u8]) -> Result<()> {
        // SAFETY: the endpoint is open; the slice is valid for its length.
        check(unsafe {
            rackmem_inline_send(self.0.as_ptr(), nid.into(), data.as_ptr(), data.len())
        })
    }

    /// Receives the next message of node `nid` and returns its length.
    ///
    /// # Errors
    /// The node is lost; or the message is larger than `buffer` (`EMSGSIZE`) and stays.
    pub fn receive(&mut self, nid: u16, buffer: &mut [u8]) -> Result<usize> {
        let (to, capacity, mut length) = (buffer.as_mut_ptr(), buffer.len(), 0);
        // SAFETY: the endpoint is open; the slice is valid for its length.
        check(unsafe {
            rackmem_inline_recv(self.0.as_ptr(), nid.into(), to, capacity, &mut length)
        })?;
        Ok(length)
    }

    /// Waits for the next message of node `nid` (`None`: of any). Returns its sender and its length. It stays, to be
    /// received, unless it is empty.
    ///
    /// # Errors
    /// The node is lost; a wait that is interrupted has changed nothing.
    pub fn wait_message(&mut self, nid: Option<u16>) -> Result<(u16, usize)> {
        let (m, to, mut length) = (self.0.as_ptr(), std::ptr::NonNull::dangling().as_ptr(), 0);
        let mut sender = nid.map_or(-1, c_int::from);
        // SAFETY: the endpoint is open; nothing is written to a buffer of no bytes.
        let code = unsafe {
            match nid {
                Some(_) => rackmem_inline_recv(m, sender, to, 0, &mut length),
                None => rackmem_inline_recv_any(m, &mut sender, to, 0, &mut length),
            }
        };
        if code != -libc::EMSGSIZE {
            check(code)?;
        }
        Ok((sender as u16, length))
    }

    /// As [`Messaging::receive`], but `None` if no message has begun to arrive.
    ///
    /// # Errors
    /// As [`Messaging::receive`].
    pub fn try_receive(&mut self, nid: u16, buffer: &mut [u8]) -> Result<Option<usize>> {
        let (to, capacity, mut length) = (buffer.as_mut_ptr(), buffer.len(), 0);
        // SAFETY: the endpoint is open; the slice is valid for its length.
        let code = unsafe {
            rackmem_inline_try_recv(self.0.as_ptr(), nid.into(), to, capacity, &mut length)
        };
        if code == -libc::EAGAIN {
            return Ok(None);
        }
        check(code).map(|()| Some(length))
    }

    /// Receives the next message of any node. Returns the sender's node and the length.
    ///
    /// # Errors
    /// A node is lost, which is reported once; or as [`Messaging::receive`].
    pub fn receive_any(&mut self, buffer: &mut [u8]) -> Result<(u16, usize)> {
        let (to, capacity, mut length, mut nid) = (buffer.as_mut_ptr(), buffer.len(), 0, 0);
        // SAFETY: the endpoint is open; the slice is valid for its length.
        check(unsafe {
            rackmem_inline_recv_any(self.0.as_ptr(), &mut nid, to, capacity, &mut length)
        })?;
        Ok((nid as u16, length))
    }
}
