//! Anonymous shared memory: created sealed by a daemon, handed over as a file descriptor.
//!
//! A memfd has no name in any file system, so nothing is left behind however processes end. Its
//! size is sealed, so no holder can shrink it under another's feet (which would mean SIGBUS).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Page size that layouts assume; x86-64 and the common aarch64 configuration.
pub const PAGE_BYTES: usize = 4096;

/// Rights of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A mapped piece of shared memory; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    fd: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory; code that accesses it through `base` answers for the races.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out nothing but the address.
unsafe impl Sync for Mapping {}

/// `bytes` rounded up to whole pages.
pub const fn round_up_to_page(bytes: usize) -> usize {
    (bytes + PAGE_BYTES - 1) & !(PAGE_BYTES - 1)
}

/// `bytes` rounded up to whole pages, if that is less than the address space.
pub const fn checked_round_up_to_page(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE_BYTES)
}

impl Mapping {
    /// Creates zeroed shared memory of `len` bytes (rounded up to pages) and maps it.
    ///
    /// # Errors
    /// Errors of memfd_create, ftruncate, sealing and mmap.
    pub fn create(name: &str, len: usize) -> io::Result<Mapping> {
        let len = round_up_to_page(len.max(1));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        // A process with a descriptor for reading must not open it again for writing, by way of procfs.
        rustix::fs::fchmod(&fd, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(fd, len, Access::ReadWrite)
    }

    /// Maps shared memory that another process created.
    ///
    /// # Errors
    /// `InvalidData` if it is smaller than `min_len` or not sealed against shrinking.
    pub fn open(fd: OwnedFd, min_len: usize, access: Access) -> io::Result<Mapping> {
        let len = rustix::fs::fstat(&fd)?.st_size as usize;
        let sealed = rustix::fs::fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK);
        if !sealed || len < min_len.max(1) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("shared memory of {len} bytes (sealed: {sealed}), expected {min_len}"),
            ));
        }
        Self::map(fd, len, access)
    }

    fn map(fd: OwnedFd, len: usize, access: Access) -> io::Result<Mapping> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, flags, &fd, 0)?
        };
        let base = NonNull::new(base.cast()).expect("mmap never returns null");
        Ok(Mapping { fd, base, len })
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size in bytes, whole pages.
    #[allow(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory's file descriptor, to hand over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Number of the memory in the kernel's lists of mappings, unique while it exists.
    ///
    /// # Errors
    /// Errors of fstat.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)?.st_ino)
    }

    /// A second descriptor that allows loads only.
    ///
    /// # Errors
    /// Errors of opening the memory through procfs.
    pub fn read_only_fd(&self) -> io::Result<OwnedFd> {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))?;
        Ok(file.into())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `map`, and borrows of `self` have ended.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
