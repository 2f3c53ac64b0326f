//! The borrower's window: addresses that are kept for borrowed memory (DE-06).

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};
use crate::placement::size;
use crate::store::health::TRAILER_BYTES;

/// Reserved addresses. Loads and stores fault where nothing was mapped.
#[derive(Debug)]
pub struct Window {
    base: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: the window is addresses; code that accesses memory through them answers for the races.
unsafe impl Send for Window {}
// SAFETY: as above; mapping into it takes `&self`, but blocks are mapped once, before they are used.
unsafe impl Sync for Window {}

impl Window {
    /// Reserves addresses; no memory.
    ///
    /// # Errors
    /// The address space has no room.
    pub fn reserve(size_bytes: u64) -> Result<Window> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let length = size_bytes as usize;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), flags)
        };
        let base = base
            .map_err(|error| Error::io(format!("no addresses for {}", size(size_bytes)), error))?;
        let base = NonNull::new(base.cast()).expect("mmap never returns null");
        Ok(Window { base, size_bytes: length })
    }

    /// Maps a lease's memory at its block, in place of the present mapping: for threads that read at the same time it
    /// must have the same bytes.
    ///
    /// # Errors
    /// The block is outside of the window, the memory is not as it should be, or the kernel does not map it.
    pub fn map(&self, offset: u64, size_bytes: u64, memory: &OwnedFd) -> Result<()> {
        let end = offset.checked_add(size_bytes);
        if end.is_none_or(|end| end > self.size_bytes as u64) {
            let size_bytes = self.size_bytes as u64;
            return Err(Error::OutOfRange { offset, length: size_bytes, size_bytes });
        }
        check(memory, size_bytes + TRAILER_BYTES as u64)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the range lies inside of the window, which is ours.
        let mapped = unsafe {
            let at = self.base.as_ptr().add(offset as usize).cast();
            rustix::mm::mmap(at, size_bytes as usize, protection, flags, memory, 0)
        };
        mapped.map(drop).map_err(|error| Error::io("cannot map leased memory", error))
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

/// Memory that could become smaller under our feet would mean SIGBUS.
fn check(memory: &OwnedFd, size_bytes: u64) -> Result<()> {
    use rustix::fs::SealFlags;
    let seals = rustix::fs::fcntl_get_seals(memory);
    let is_sealed = seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    let length = rustix::fs::fstat(memory).map_or(0, |stat| stat.st_size as u64);
    match is_sealed && length >= size_bytes {
        true => Ok(()),
        false => Err(Error::protocol(format!(
            "the lender handed over memory of {length} bytes (sealed: {is_sealed}), {size_bytes} \
             were leased"
        ))),
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: exactly this range was reserved, and borrows of `self` have ended.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.size_bytes) };
    }
}
