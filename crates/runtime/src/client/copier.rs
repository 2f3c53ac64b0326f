use std::ffi::{c_int, c_void};

use super::foreign::{Address, Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_copier_size() -> usize;
    fn rackmem_inline_copier_open(c: *mut c_void, ctx: *mut c_void, qp: *mut ffi::Qp) -> c_int;
    fn rackmem_inline_copy(
        c: *mut c_void,
        to: Address,
        from: Address,
        bytes: u64,
        acknowledged: Address,
    ) -> c_int;
    fn rackmem_inline_copier_flush(c: *mut c_void) -> c_int;
}

/// Copies between any two places of the rack, acknowledged to counters (CINI §3.3, §3.4).
pub struct Copier(Foreign);

impl Copier {
    /// Opens a copier on a queue pair of its own.
    ///
    /// # Errors
    /// There is no memory.
    pub fn open(context: &Context, qp: QueuePair) -> Result<Copier> {
        // SAFETY: a pure function.
        let mut this = Foreign::new(context, qp, unsafe { rackmem_inline_copier_size() });
        let (c, ctx, qp) = (this.as_ptr(), this.context_ptr(), this.qp.as_ffi());
        // SAFETY: all three live as long as the copier.
        check_told(unsafe { rackmem_inline_copier_open(c, ctx, qp) })?;
        Ok(Copier(this))
    }

    /// Starts a copy; the counter gets the bytes that are in place added, part by part.
    ///
    /// # Errors
    /// An address is invalid, or the ranges overlap. [`Copier::flush`] reports later errors.
    pub fn copy(
        &mut self,
        to: Address,
        from: Address,
        bytes: u64,
        acknowledged: Option<Address>,
    ) -> Result<()> {
        let acknowledged = acknowledged.unwrap_or(Address::NOWHERE);
        // SAFETY: the copier is open.
        check_told(unsafe { rackmem_inline_copy(self.0.as_ptr(), to, from, bytes, acknowledged) })
    }

    /// Waits until all is in place and acknowledged.
    ///
    /// # Errors
    /// The first since the last time.
    pub fn flush(&mut self) -> Result<()> {
        // SAFETY: the copier is open.
        check(unsafe { rackmem_inline_copier_flush(self.0.as_ptr()) })
    }
}
