//! Borrowed memory for programs that know of it: a slice of bytes.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{PAGE_BYTES, Pager, PagerOptions, Statistics};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::Store;
use rackmem_lease::{self as lease, Borrowed, Wanted};

/// Borrowed memory that is used by load and store; given back when dropped.
///
/// It may be larger than the memory of this host: pages that are not in use are at the lender. Pointer structures may
/// live in it. If the lender is lost, so are its pages, and a thread that touches one gets SIGBUS; with two copies
/// nothing happens.
///
/// ```no_run
/// use rackmem_paging::Region;
/// use rackmem_lease::Wanted;
/// use rackmem_paging::PagerOptions;
///
/// let options = PagerOptions { cache_bytes: 64 << 20, ..PagerOptions::default() };
/// let mut memory = Region::borrow(&Wanted::new(1 << 30), &options)?;
/// memory[1 << 29] = 1;
/// # Ok::<(), rackmem_lease::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    // First, so that the leases outlive it.
    pager: Pager,
    base: NonNull<u8>,
    len: usize,
    borrowed: Option<Borrowed>,
}

// SAFETY: plain memory, which is given out by the usual rules of references.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Borrows memory.
    ///
    /// # Errors
    /// As [`lease::borrow`] and [`Pager::start`].
    pub fn borrow(wanted: &Wanted, options: &PagerOptions) -> Result<Region> {
        let borrowed = lease::borrow(wanted)?;
        let mut region = Region::over(borrowed.store(), wanted.size_bytes as usize, options)?;
        region.borrowed = Some(borrowed);
        Ok(region)
    }

    /// `length` bytes of memory in front of a store.
    ///
    /// # Errors
    /// As [`Pager::start`] and [`Pager::map`].
    pub fn over(store: Arc<dyn Store>, length: usize, options: &PagerOptions) -> Result<Region> {
        let pager = Pager::start(store, options)?;
        let base = pager.map(length)?;
        Ok(Region { pager, base, len: length, borrowed: None })
    }

    /// Makes pages zero: they occupy nothing from now on, neither here nor at the lender. `offset` and `length` are
    /// multiples of [`PAGE_BYTES`], and the last page of the memory is a whole one. Waits for pages that are on their
    /// way.
    ///
    /// # Errors
    /// `EINVAL`: these are not pages of the memory; nothing was discarded.
    pub fn discard(&mut self, offset: usize, length: usize) -> Result<()> {
        // SAFETY: nobody else has a reference.
        unsafe { self.discard_shared(offset, length) }
    }

    /// As [`Region::discard`], for memory that is used by pointers.
    ///
    /// # Safety
    /// No reference to a byte of these pages is alive.
    ///
    /// # Errors
    /// As [`Region::discard`].
    pub unsafe fn discard_shared(&self, offset: usize, length: usize) -> Result<()> {
        let wrong = |what| {
            let text = format!("{length} bytes at {offset:#x} of borrowed memory {what}");
            Error::io(text, std::io::Error::from_raw_os_error(libc::EINVAL))
        };
        if offset % PAGE_BYTES != 0 || length % PAGE_BYTES != 0 {
            return Err(wrong(format!("are not whole pages of {PAGE_BYTES} bytes")));
        }
        let room = self.len.next_multiple_of(PAGE_BYTES).checked_sub(offset);
        if room.is_none_or(|room| length > room) {
            return Err(wrong(format!("are not within its {} bytes", self.len)));
        }
        self.pager.discard(self.base.as_ptr() as usize + offset, length)
    }

    /// The pager behind it.
    pub fn pager(&self) -> &Pager {
        &self.pager
    }

    /// The leases behind it, if it has them.
    pub fn borrowed(&self) -> Option<&Borrowed> {
        self.borrowed.as_ref()
    }

    /// Counters of the pager so far.
    pub fn statistics(&self) -> Statistics {
        self.pager.statistics()
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped by `over`, zero at first, and unmapped by no one before `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}
