//! A lease of a lender on the same host: its memory is mapped here, and lanes are copies.
//!
//! The kernel keeps memory for as long as anybody has it mapped, and a lender never takes any of it away: a copy is
//! right whenever it is made. A lease that its lender ended, or whose lender died, is over all the same, as it
//! would be over the network; [`Health`] says so in memory that the lender, the borrower and its children share.

use std::sync::Arc;

use rackmem::shm::copy::copy_out;

use super::health::Health;
use super::queue::Queue;
use super::window::Window;
use super::{Lane, MAX_REQUEST_BYTES, Store};
use crate::error::{Error, Result};

/// A block of the window that has memory.
#[derive(Clone, Debug)]
pub struct MappedStore {
    window: Arc<Window>,
    offset: u64,
    size_bytes: u64,
    health: Arc<Health>,
}

impl MappedStore {
    /// The block of the window from `offset`; it was mapped.
    pub(crate) fn new(
        window: Arc<Window>,
        offset: u64,
        size_bytes: u64,
        health: Arc<Health>,
    ) -> MappedStore {
        MappedStore { window, offset, size_bytes, health }
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the block lies inside of the window.
        unsafe { self.window.base().add(self.offset as usize) }
    }
}

impl Store for MappedStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        self.check()?;
        Ok(Box::new(MappedLane { store: self.clone(), queue: Queue::new() }))
    }

    fn mapped(&self) -> Option<*mut u8> {
        Some(self.base())
    }

    fn check(&self) -> Result<()> {
        self.health.check()
    }
}

/// Reads are carried out when they are taken, unless something later would change what they see.
struct MappedLane {
    store: MappedStore,
    queue: Queue<()>,
}

impl MappedLane {
    fn range(&self, offset: u64, length: u64) -> Result<*mut u8> {
        self.store.health.check()?;
        self.store.check_range(offset, length)?;
        // SAFETY: the range was found to lie inside of the block.
        Ok(unsafe { self.store.base().add(offset as usize) })
    }

    /// Carries out reads of bytes that are about to change.
    fn settle(&mut self, offset: u64, length: u64) {
        let base = self.store.base();
        self.queue.stash_overlapping(offset, length, |from, into| {
            // SAFETY: the range was checked when it was asked for; a lease has one user, who
            // answers for what his lanes do to the same bytes at the same time.
            unsafe {
                let from = base.add(from as usize);
                copy_out(into.as_mut_ptr(), from, into.len());
            }
        });
    }
}

impl Lane for MappedLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        self.range(offset, length as u64)?;
        self.queue.push_read(offset, length, ());
        Ok(())
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        let to = self.range(offset, from.len() as u64)?;
        self.settle(offset, from.len() as u64);
        self.queue.push_other(());
        // SAFETY: `to` begins a checked range of that length; see `settle`.
        unsafe { copy_out(to, from.as_ptr(), from.len()) };
        Ok(())
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        let to = self.range(offset, length)?;
        self.settle(offset, length);
        self.queue.push_other(());
        discard(to, length as usize)
    }

    fn push(&mut self) -> Result<()> {
        self.store.health.check()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        let base = self.store.base();
        self.queue.take(into, |offset, (), into| {
            // SAFETY: as in `settle`.
            unsafe {
                let from = base.add(offset as usize);
                copy_out(into.as_mut_ptr(), from, into.len());
            }
            Ok(())
        })?;
        self.store.health.check()
    }

    fn reopen(&mut self) -> Result<()> {
        self.queue.clear();
        self.store.health.check()
    }

    fn is_ready(&mut self) -> bool {
        self.queue.len() > 0
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}

/// Gives whole pages back to the kernel if there are many, and overwrites the rest.
pub(crate) fn discard(at: *mut u8, length: usize) -> Result<()> {
    use rackmem::shm::mapping::PAGE_BYTES;
    let head = at.align_offset(PAGE_BYTES).min(length);
    let whole = (length - head) / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: the caller's range; all parts lie inside of it.
    unsafe {
        std::ptr::write_bytes(at, 0, head);
        if whole > 0 {
            let middle = at.add(head).cast();
            rustix::mm::madvise(middle, whole, rustix::mm::Advice::LinuxRemove)
                .map_err(|error| Error::io("cannot discard leased memory", error))?;
        }
        std::ptr::write_bytes(at.add(head + whole), 0, length - head - whole);
    }
    Ok(())
}
