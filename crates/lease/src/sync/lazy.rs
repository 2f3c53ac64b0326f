//! Large arrays of atomics that occupy memory only where they were written.

// Loom's atomics are more than their bytes; `sync` has arrays of those.
#![cfg_attr(loom, allow(dead_code))]

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Address space of the process, zero.
///
/// # Errors
/// The error of the kernel.
pub fn reserve(length: usize, protection: ProtFlags) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let base = rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, flags)?;
        // Neither matters to what is right: large pages would undo the laziness, dumps would be huge.
        let _ = rustix::mm::madvise(base, length, Advice::LinuxNoHugepage);
        let _ = rustix::mm::madvise(base, length, Advice::LinuxDontDump);
        Ok(NonNull::new(base.cast()).expect("mmap never returns null"))
    }
}

/// Types whose zero bytes are a value, and which may be written while they are shared.
///
/// # Safety
/// Both hold.
pub unsafe trait Zeroable: Sync {}
// SAFETY: atomics; zero is a value of each.
unsafe impl Zeroable for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroable for AtomicU64 {}
// SAFETY: as above; null is a pointer.
unsafe impl<T> Zeroable for AtomicPtr<T> {}

/// A slice of memory that is zero, and not there, until it is written.
#[derive(Debug)]
pub struct Lazy<T: Zeroable> {
    base: NonNull<T>,
    len: usize,
}

// SAFETY: shared references give out nothing but shared references to `T: Sync`.
unsafe impl<T: Zeroable> Send for Lazy<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroable> Sync for Lazy<T> {}

impl<T: Zeroable> Lazy<T> {
    /// `len` zeros.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(len: usize) -> io::Result<Lazy<T>> {
        let base = reserve((len * size_of::<T>()).max(1), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Lazy { base: base.cast(), len })
    }
}

impl<T: Zeroable> Deref for Lazy<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory was mapped by `new`, zero is a value of `T`, and it lives as `self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for Lazy<T> {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `new`, and borrows of `self` have ended.
        let _ = unsafe {
            rustix::mm::munmap(self.base.as_ptr().cast(), (self.len * size_of::<T>()).max(1))
        };
    }
}
