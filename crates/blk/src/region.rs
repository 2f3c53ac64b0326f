//! Private memory of a connection: as large as the largest request, and real only where it was touched.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

/// Anonymous memory that the kernel gives page by page; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to the holder of the region, as a `Box` does.
unsafe impl Send for Region {}

impl Region {
    pub(super) fn new(len: usize) -> io::Result<Region> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, prot, flags)? };
        Ok(Region { base: NonNull::new(base.cast()).expect("mmap never returns null"), len })
    }
}

impl std::ops::Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the region is mapped and nobody else's.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `new`, and borrows of `self` have ended.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Bytes that arrived and are not parsed yet.
#[derive(Debug)]
pub(super) struct Input {
    region: Region,
    head: usize,
    tail: usize,
}

impl Input {
    pub(super) fn new(len: usize) -> io::Result<Input> {
        Ok(Input { region: Region::new(len)?, head: 0, tail: 0 })
    }

    /// The bytes that wait.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.region[self.head..self.tail]
    }

    /// The first bytes are done with.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        self.head += bytes;
        debug_assert!(self.head <= self.tail);
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Room for bytes that arrive next. Waiting bytes are moved to the front once `wanted` bytes do not fit behind
    /// them.
    #[inline]
    pub(super) fn room(&mut self, wanted: usize) -> &mut [u8] {
        if self.region.len() - self.tail < wanted && self.head > 0 {
            self.region.copy_within(self.head..self.tail, 0);
            (self.head, self.tail) = (0, self.tail - self.head);
        }
        &mut self.region[self.tail..]
    }

    /// Records that `bytes` bytes were put into the room.
    #[inline]
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.tail += bytes;
        debug_assert!(self.tail <= self.region.len());
    }
}
