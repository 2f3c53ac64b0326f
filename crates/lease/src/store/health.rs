//! Whether a lease's memory is still there: a word that all users of the lease share.
//!
//! The memory of a lender on this host ends in a page with this word ([`trailer`]); the lender sets it when it ends the
//! lease. For a lender elsewhere it is a page of the borrower's own. Both are shared with children of fork: all of
//! them know of an end that one process has noticed.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use once_cell::race::OnceBox;
use rackmem::shm::mapping::PAGE_BYTES;
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};

/// Bytes behind the memory of a lease on this host: the page with the word.
pub const TRAILER_BYTES: usize = PAGE_BYTES;

/// The lease is over. Zero, as new memory has it: the lease's memory is there.
const OVER: u32 = 1;

/// The word in the trailer of a lease's memory that is mapped here.
///
/// # Safety
/// `memory` is the first of `size_bytes` + [`TRAILER_BYTES`] mapped bytes, which stay mapped.
pub unsafe fn trailer<'m>(memory: *mut u8, size_bytes: usize) -> &'m AtomicU32 {
    // SAFETY: by the condition; pages begin at multiples of any word's size, and all users of the word use it so.
    unsafe { &*memory.add(size_bytes).cast::<AtomicU32>() }
}

/// Ends a lease: every process that reads the word from now on finds it over.
pub fn revoke(word: &AtomicU32) {
    word.store(OVER, Ordering::Release);
}

/// A page with a word.
#[derive(Debug)]
struct Word(NonNull<AtomicU32>);

// SAFETY: a shared page with an atomic in it.
unsafe impl Send for Word {}
// SAFETY: as above.
unsafe impl Sync for Word {}

impl Word {
    fn map(memory: Option<(BorrowedFd<'_>, u64)>) -> io::Result<Word> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let page = unsafe {
            let at = std::ptr::null_mut();
            match memory {
                Some((fd, offset)) => {
                    rustix::mm::mmap(at, PAGE_BYTES, protection, MapFlags::SHARED, fd, offset)?
                }
                None => rustix::mm::mmap_anonymous(at, PAGE_BYTES, protection, MapFlags::SHARED)?,
            }
        };
        Ok(Word(NonNull::new(page.cast()).expect("mmap never returns null")))
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: mapped by `map`, and unmapped when `self` is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // SAFETY: exactly this page was mapped by `map`, and borrows of `self` have ended.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// Shared by the store of a lease, its lanes, and the keeper of the borrowing.
#[derive(Debug)]
pub struct Health {
    word: Word,
    /// This process has given the lease back; its children may still use it.
    is_closed: AtomicBool,
    /// Reason for the end of the lease, as far as this process knows.
    reason: OnceBox<String>,
    lender: String,
}

impl Health {
    /// Health of a lease whose lender cannot write to the memory of this host. Errors name the lender by `lender`.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(lender: impl Into<String>) -> io::Result<Health> {
        Ok(Health::with(Word::map(None)?, lender.into()))
    }

    /// Health of a lease of `size_bytes` whose memory was handed over, trailer included.
    ///
    /// # Errors
    /// The kernel does not map the trailer.
    pub fn in_memory(
        lender: impl Into<String>,
        memory: BorrowedFd<'_>,
        size_bytes: u64,
    ) -> io::Result<Health> {
        Ok(Health::with(Word::map(Some((memory, size_bytes)))?, lender.into()))
    }

    fn with(word: Word, lender: String) -> Health {
        Health { word, is_closed: AtomicBool::new(false), reason: OnceBox::new(), lender }
    }

    /// The lease is over, for all processes that share it. The first reason counts.
    pub fn end(&self, reason: impl Into<String>) {
        let _ = self.reason.set(Box::new(reason.into()));
        revoke(self.word.get());
    }

    /// This process uses the lease no more.
    pub fn close(&self, reason: impl Into<String>) {
        let _ = self.reason.set(Box::new(reason.into()));
        self.is_closed.store(true, Ordering::Release);
    }

    /// Whether it is over, at least for this process; two loads.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.word.get().load(Ordering::Acquire) != 0 || self.is_closed.load(Ordering::Acquire)
    }

    /// Whether the memory is still there.
    ///
    /// # Errors
    /// [`Error::Lost`].
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_over() { Err(self.error()) } else { Ok(()) }
    }

    /// The lease's end as an error.
    #[cold]
    pub fn error(&self) -> Error {
        let reason = self.reason.get().map_or("it has ended the lease", String::as_str).to_owned();
        Error::Lost { lender: self.lender.clone(), reason }
    }

    /// A lane's failure as an error: the lease may still be there.
    #[cold]
    pub fn broken(&self, reason: impl Into<String>) -> Error {
        match self.check() {
            Err(error) => error,
            Ok(()) => Error::Broken { lender: self.lender.clone(), reason: reason.into() },
        }
    }
}
