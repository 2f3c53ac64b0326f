use std::ffi::{c_int, c_void};

use super::foreign::{Address, Foreign, check, check_told};
use super::{Context, QueuePair, ffi};
use crate::error::Result;

unsafe extern "C" {
    fn rackmem_inline_lock_size() -> usize;
    fn rackmem_inline_lock_bytes(participants: u32) -> usize;
    fn rackmem_inline_lock_open(
        l: *mut c_void,
        ctx: *mut c_void,
        qp: *mut ffi::Qp,
        home: Address,
        participants: u32,
        flag_offset: u64,
    ) -> c_int;
    fn rackmem_inline_lock_acquire(l: *mut c_void) -> c_int;
    fn rackmem_inline_lock_try_acquire(l: *mut c_void) -> c_int;
    fn rackmem_inline_lock_release(l: *mut c_void) -> c_int;
}

/// State in which its new holder found a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// Released by its last holder.
    InOrder,
    /// Its last holder died with it: the data that it guards may be half changed.
    FromTheDead,
}

/// A lock for any threads of any nodes (CINI §5.3).
pub struct Lock(Foreign);

impl Lock {
    /// Bytes of the home's segment that a lock takes; 0 if there can be no such lock.
    pub fn area_bytes(participants: u32) -> u64 {
        // SAFETY: a pure function.
        unsafe { rackmem_inline_lock_bytes(participants) as u64 }
    }

    /// Joins the lock at `home` as one of at most `participants`, of which each open counts.
    /// `flag_offset` is of 16 zeroed bytes of the own segment.
    ///
    /// # Errors
    /// A number makes no sense, or the lock has all its participants.
    pub fn open(
        context: &Context,
        qp: QueuePair,
        home: Address,
        participants: u32,
        flag_offset: u64,
    ) -> Result<Lock> {
        // SAFETY: a pure function.
        let mut this = Foreign::new(context, qp, unsafe { rackmem_inline_lock_size() });
        let (l, ctx, qp) = (this.as_ptr(), this.context_ptr(), this.qp.as_ffi());
        // SAFETY: all three live as long as the lock.
        check_told(unsafe {
            rackmem_inline_lock_open(l, ctx, qp, home, participants, flag_offset)
        })?;
        Ok(Lock(this))
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// This participant has it already, its home is lost, or the wait was interrupted ([`super::interruptible`]).
    pub fn acquire(&mut self) -> Result<Acquired> {
        // SAFETY: the lock is open.
        acquired(unsafe { rackmem_inline_lock_acquire(self.0.as_ptr()) })
    }

    /// Acquires the lock unless another participant holds it; `None` if so.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn try_acquire(&mut self) -> Result<Option<Acquired>> {
        // SAFETY: the lock is open.
        match unsafe { rackmem_inline_lock_try_acquire(self.0.as_ptr()) } {
            code if code == -libc::EBUSY => Ok(None),
            code => acquired(code).map(Some),
        }
    }

    /// Releases the lock, to the next waiter if there is one.
    ///
    /// # Errors
    /// This participant does not have it, or its home is lost.
    pub fn release(&mut self) -> Result<()> {
        // SAFETY: the lock is open.
        check(unsafe { rackmem_inline_lock_release(self.0.as_ptr()) })
    }
}

fn acquired(code: c_int) -> Result<Acquired> {
    match code {
        code if code == -libc::EOWNERDEAD => Ok(Acquired::FromTheDead),
        code => check(code).map(|()| Acquired::InOrder),
    }
}
