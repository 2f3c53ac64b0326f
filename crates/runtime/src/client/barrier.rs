use std::ffi::{c_int, c_void};

use super::foreign::{Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_barrier_size() -> usize;
    fn rackmem_inline_barrier_bytes(nodes: c_int) -> usize;
    fn rackmem_inline_barrier_open(
        b: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        area_offset: u64,
        members: *const u16,
        count: c_int,
    ) -> c_int;
    fn rackmem_inline_barrier_wait(b: *mut c_void) -> c_int;
}

/// A barrier between any nodes of a context, used again and again (soNUMA §5.3).
pub struct Barrier(Foreign);

impl Barrier {
    /// Bytes of every member's segment that a barrier of that many nodes takes.
    pub fn area_bytes(members: u16) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_barrier_bytes(members.into()) as u64 }
    }

    /// Opens this node's end; all `members` (none: all nodes) name the same nodes and offset. The
    /// area starts zeroed and is used for nothing else.
    ///
    /// # Errors
    /// This node is no member, or the area does not fit.
    pub fn open(
        context: &Context,
        qp: QueuePair,
        area_offset: u64,
        members: &[u16],
    ) -> Result<Barrier> {
        // SAFETY: a pure function.
        let mut this = Foreign::new(context, qp, unsafe { rackmem_inline_barrier_size() });
        let (b, ctx, qp) = (this.as_ptr(), this.context_ptr(), this.qp.as_ffi());
        let (list, count) = (members.as_ptr(), members.len() as c_int);
        // SAFETY: context and queue pair live as long as the barrier, the list for the call.
        check_told(unsafe { rackmem_inline_barrier_open(b, ctx, qp, area_offset, list, count) })?;
        Ok(Barrier(this))
    }

    /// Waits until all members have arrived.
    ///
    /// # Errors
    /// A member is lost.
    pub fn wait(&mut self) -> Result<()> {
        // SAFETY: the barrier is open.
        check(unsafe { rackmem_inline_barrier_wait(self.0.as_ptr()) })
    }
}
