//! Bytes on their way: those of a packet's payload, between a link and the memory of a node.
//!
//! They may lie in memory that another process changes meanwhile, so there are no references to them: they are copied,
//! and what was copied is what is checked and used.

use core::marker::PhantomData;

/// Bytes to copy from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    at: *const u8,
    length: usize,
    lives: PhantomData<&'a [u8]>,
}

impl<'a> Source<'a> {
    /// These bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Source<'a> {
        Source { at: bytes.as_ptr(), length: bytes.len(), lives: PhantomData }
    }

    /// Bytes that others may change.
    ///
    /// # Safety
    /// `length` bytes at `at` stay mapped for as long as `'a`.
    #[inline]
    pub const unsafe fn from_raw(at: *const u8, length: usize) -> Source<'a> {
        Source { at, length, lives: PhantomData }
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Address of the first byte. The bytes may change while they are read.
    #[inline]
    pub const fn as_ptr(self) -> *const u8 {
        self.at
    }

    /// Copies all bytes.
    ///
    /// # Panics
    /// `out` has another length.
    pub fn copy_to(self, out: &mut [u8]) {
        assert_eq!(out.len(), self.length, "as many bytes as there are");
        for (index, byte) in out.iter_mut().enumerate() {
            // SAFETY: within the bytes. Volatile, as others may write them.
            *byte = unsafe { self.at.add(index).read_volatile() };
        }
    }

    /// The `index`-th operand of an atomic: `{addend}` or `{expected, desired}`.
    ///
    /// # Panics
    /// There are fewer bytes.
    #[inline]
    pub fn operand(self, index: usize) -> u64 {
        assert!(8 * index + 8 <= self.length, "an operand has 8 bytes");
        // SAFETY: within the bytes, as just checked; an array of bytes needs no alignment.
        u64::from_le_bytes(unsafe { self.at.add(8 * index).cast::<[u8; 8]>().read_volatile() })
    }
}

/// Room to copy bytes to.
#[derive(Debug)]
pub struct Sink<'a> {
    at: *mut u8,
    length: usize,
    lives: PhantomData<&'a mut [u8]>,
}

impl<'a> Sink<'a> {
    /// This room.
    #[inline]
    pub const fn new(bytes: &'a mut [u8]) -> Sink<'a> {
        Sink { at: bytes.as_mut_ptr(), length: bytes.len(), lives: PhantomData }
    }

    /// Room that others may write to, too.
    ///
    /// # Safety
    /// `length` bytes at `at` stay mapped for writing as long as `'a`.
    #[inline]
    pub const unsafe fn from_raw(at: *mut u8, length: usize) -> Sink<'a> {
        Sink { at, length, lives: PhantomData }
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Address of the first byte. Others may write to the bytes meanwhile.
    #[inline]
    pub const fn as_mut_ptr(&self) -> *mut u8 {
        self.at
    }

    /// Fills the room.
    ///
    /// # Panics
    /// There are fewer or more bytes than room.
    #[inline]
    pub fn put(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.length, "as many bytes as there is room for");
        for (index, &byte) in bytes.iter().enumerate() {
            // SAFETY: within the room. Volatile, as others may read it.
            unsafe { self.at.add(index).write_volatile(byte) };
        }
    }
}
