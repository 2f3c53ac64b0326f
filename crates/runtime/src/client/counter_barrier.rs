use std::ffi::{c_int, c_void};

use super::foreign::{Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_counter_barrier_size() -> usize;
    fn rackmem_inline_counter_barrier_bytes(nodes: c_int, threads: c_int) -> usize;
    fn rackmem_inline_counter_barrier_open(
        b: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        area_offset: u64,
        threads: c_int,
        thread: c_int,
    ) -> c_int;
    fn rackmem_inline_counter_barrier_wait(b: *mut c_void) -> c_int;
}

/// A barrier of several threads of all nodes (CINI §5.3). Among one thread of each of a few nodes,
/// [`super::Barrier`] is faster and easier.
pub struct CounterBarrier(Foreign);

impl CounterBarrier {
    /// Bytes of every node's segment that a barrier of `threads` threads a node takes.
    pub fn area_bytes(nodes: u16, threads: u16) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_counter_barrier_bytes(nodes.into(), threads.into()) as u64 }
    }

    /// Opens it as thread `thread` of this node's `threads`. Nobody may wait before all have opened,
    /// nor leave before all have passed.
    ///
    /// # Errors
    /// A number makes no sense, or the area does not fit.
    pub fn open(
        context: &Context,
        qp: QueuePair,
        area_offset: u64,
        threads: u16,
        thread: u16,
    ) -> Result<CounterBarrier> {
        // SAFETY: a pure function.
        let size = unsafe { rackmem_inline_counter_barrier_size() };
        let mut this = Foreign::new(context, qp, size);
        let (b, ctx, qp) = (this.as_ptr(), this.context_ptr(), this.qp.as_ffi());
        let (threads, thread) = (threads.into(), thread.into());
        // SAFETY: all three live as long as the barrier.
        check_told(unsafe {
            rackmem_inline_counter_barrier_open(b, ctx, qp, area_offset, threads, thread)
        })?;
        Ok(CounterBarrier(this))
    }

    /// Waits until all have arrived.
    ///
    /// # Errors
    /// A node is lost.
    pub fn wait(&mut self) -> Result<()> {
        // SAFETY: the barrier is open.
        check(unsafe { rackmem_inline_counter_barrier_wait(self.0.as_ptr()) })
    }
}
