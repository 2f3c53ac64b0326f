use std::sync::{Arc, Weak};

use super::membership::Membership;
use crate::error::{Error, Result};
use crate::shm::mapping::{Access, Mapping, checked_round_up_to_page};
use crate::shm::segment::Segment;

/// Size of a buffer that has room for `size_bytes`: whole pages, at least one.
///
/// # Errors
/// `ENOMEM` if that is more than the address space.
pub(crate) fn buffer_bytes(size_bytes: usize) -> Result<usize> {
    checked_round_up_to_page(size_bytes.max(1)).ok_or_else(|| {
        Error::new(libc::ENOMEM, format!("no memory for a buffer of {size_bytes} bytes"))
    })
}

/// Shared memory for local buffers: every progress mode reaches it at full speed.
///
/// It derefs to bytes that this process owns; the daemon touches them only for operations that
/// were given a part of them. When it is dropped, the daemon forgets it.
#[derive(Debug)]
pub struct LocalBuffer {
    pub(super) mapping: Arc<Mapping>,
    /// The daemon's number for it.
    pub(super) number: u32,
    /// Gone once the context is closed.
    pub(super) membership: Weak<Membership>,
}

impl std::ops::Deref for LocalBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is as long as that, and lives as long as `self`. Operations write it
        // only while they hold a `&mut` of it (see `QueuePair`).
        unsafe { std::slice::from_raw_parts(self.mapping.base(), self.mapping.len()) }
    }
}

impl std::ops::DerefMut for LocalBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` makes it the only access by this process.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base(), self.mapping.len()) }
    }
}

impl LocalBuffer {
    /// First byte, for interfaces that hand the memory out.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }
}

impl Drop for LocalBuffer {
    fn drop(&mut self) {
        if let Some(membership) = self.membership.upgrade() {
            membership.drop_buffer(self.number, &self.mapping);
        }
    }
}

/// The own segment, which stays mapped while this lives. Other nodes may change it at any time until this one has left.
#[derive(Clone, Debug)]
pub struct OwnSegment(pub(crate) Arc<Segment>);

impl OwnSegment {
    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.0.data()
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Whether it is mapped for reading only.
    pub fn is_read_only(&self) -> bool {
        self.0.access() == Access::Read
    }
}
