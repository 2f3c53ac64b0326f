//! The program's address space: its borrowed ranges, and the changes that it asks for.
//!
//! One change at a time. A change holds the pages that it is about, one after the other; handlers and evictor
//! go on with all others. They never wait for the lock of this module, as its holder may wait for
//! them.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::changes::Replacement;
use super::core::{Core, drop_pages};
use super::inline::Mask;
use super::options::PAGE_BYTES;
use super::ranges::{Child, Inner, drop_range, let_arrive};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::sync::wait::Lock;

/// The bits of mmap's flags that tell private from shared.
const MAP_TYPE: i32 = 0xf;
/// Flags that mean nothing here: all pages come when they are touched, and are plain ones.
const NOT_KEPT: i32 = libc::MAP_POPULATE
    | libc::MAP_LOCKED
    | libc::MAP_HUGETLB
    | libc::MAP_GROWSDOWN
    | libc::MAP_STACK;
pub(super) const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The program's address space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(crate) lock: Lock,
    inner: UnsafeCell<Inner>,
    children: AtomicUsize,
}

// SAFETY: `inner` is reached only with the lock held.
unsafe impl Sync for Space {}

pub(super) fn last_error(what: &str) -> Error {
    Error::io(what, io::Error::last_os_error())
}

pub(super) fn errno(what: impl Into<String>, number: i32) -> Error {
    Error::io(what, io::Error::from_raw_os_error(number))
}

/// The pages of a range, which must begin at one.
fn pages_of(address: usize, length: usize) -> Result<Range<usize>> {
    let length = length.checked_next_multiple_of(PAGE_BYTES).filter(|&length| length != 0);
    let end = length.and_then(|length| address.checked_add(length));
    match end.filter(|_| address % PAGE_BYTES == 0) {
        Some(end) => Ok(address..end),
        None => Err(errno(format!("{length:?} bytes at {address:#x} are not pages"), libc::EINVAL)),
    }
}

impl Space {
    /// Calls `work`, which changes the address space, with the lock held. A handler of a signal that touches a page
    /// which its own thread changes would wait for ever, so it runs afterwards.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        let _mask = Mask::blocking();
        let _held = self.lock.hold();
        // SAFETY: the lock is held, and `work` gets no reference to `self`.
        work(unsafe { &mut *self.inner.get() })
    }

    /// Calls `work` while the caller holds the lock already.
    ///
    /// # Safety
    /// The calling thread holds the lock, and is not inside of another such call.
    pub(crate) unsafe fn with_held<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        // SAFETY: by the condition.
        let inner = unsafe { &mut *self.inner.get() };
        let result = work(inner);
        self.children.store(inner.children.len(), Ordering::Release);
        result
    }

    pub(crate) fn has_children(&self) -> bool {
        self.children.load(Ordering::Acquire) != 0
    }

    /// Thaws slots that only ended children read. Not if a change is going on.
    pub(crate) fn reap(&self, core: &Core) {
        if !self.has_children() || !self.lock.try_acquire() {
            return;
        }
        let has_ended = |child: &Child| {
            let mut poll = libc::pollfd { fd: child.pipe.as_raw_fd(), events: 0, revents: 0 };
            // SAFETY: one descriptor, which is open.
            unsafe { libc::poll(&mut poll, 1, 0) > 0 && poll.revents & libc::POLLHUP != 0 }
        };
        // SAFETY: the lock was just taken.
        unsafe {
            self.with_held(|inner| {
                while let Some(index) = inner.children.iter().position(has_ended) {
                    let ended = inner.children.swap_remove(index);
                    let others = inner.children.iter().map(|child| &child.frozen);
                    core.slots.thaw(&ended.frozen, others, inner.inherited.as_ref());
                }
            });
        }
        self.lock.release();
    }

    /// See [`super::Pager::map_at`].
    pub(crate) fn map(
        &self,
        core: &Core,
        address: usize,
        length: usize,
        protection: i32,
        flags: i32,
    ) -> Result<usize> {
        let length = pages_of(0, length)?.end;
        if flags & MAP_TYPE != 0 && flags & MAP_TYPE != libc::MAP_PRIVATE {
            return Err(errno("borrowed memory is private", libc::EINVAL));
        }
        let is_fixed = flags & libc::MAP_FIXED != 0;
        let replaces = is_fixed && flags & libc::MAP_FIXED_NOREPLACE != libc::MAP_FIXED_NOREPLACE;
        let replaced = replaces.then(|| pages_of(address, length)).transpose()?;
        replaced.iter().for_each(|range| let_arrive(core, range.clone()));
        self.with(|inner| {
            inner.check_commitment(core, length)?;
            let _replacement = replaced.as_ref().map(Replacement::begin);
            let kept = flags & !NOT_KEPT;
            let flags = kept | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: without MAP_FIXED nothing that is there is touched; with it the caller asks for that.
            let base = unsafe { libc::mmap(address as *mut _, length, protection, flags, -1, 0) };
            if base == libc::MAP_FAILED {
                return Err(last_error("cannot map borrowed memory"));
            }
            let range = base as usize..base as usize + length;
            if replaces {
                inner.forget(core, range.clone());
            }
            let adopted = inner.adopt(core, range.clone(), protection);
            if adopted.is_err() {
                // SAFETY: just mapped.
                unsafe { libc::munmap(base, length) };
            }
            adopted.map(|()| range.start)
        })
    }

    /// See [`super::Pager::unmap`].
    pub(crate) fn unmap(&self, core: &Core, address: usize, length: usize) -> Result<()> {
        let range = pages_of(address, length)?;
        let_arrive(core, range.clone());
        self.with(|inner| {
            inner.forget(core, range.clone());
            // SAFETY: the caller asks for it.
            match unsafe { libc::munmap(range.start as *mut _, range.len()) } {
                0 => Ok(()),
                _ => Err(last_error("cannot unmap borrowed memory")),
            }
        })
    }

    /// See [`super::Pager::replace`].
    pub(crate) fn replace<R>(
        &self,
        core: &Core,
        address: usize,
        length: usize,
        map: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let range = pages_of(address, length)?;
        let_arrive(core, range.clone());
        self.with(|inner| {
            let _replacement = Replacement::begin(&range);
            map().inspect(|_| inner.forget(core, range.clone()))
        })
    }

    /// See [`super::Pager::discard`].
    pub(crate) fn discard(&self, core: &Core, address: usize, length: usize) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let range = pages_of(address, length)?;
        let_arrive(core, range.clone());
        self.with(|_| {
            drop_range(core, range.clone());
            Ok(())
        })
    }

    /// See [`super::Pager::protect`].
    pub(crate) fn protect(&self, address: usize, length: usize, protection: i32) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let range = pages_of(address, length)?;
        self.with(|inner| {
            // SAFETY: the caller asks for it.
            if unsafe { libc::mprotect(range.start as *mut _, range.len(), protection) } != 0 {
                return Err(last_error("cannot protect borrowed memory"));
            }
            inner.set_protection(range, protection);
            Ok(())
        })
    }

    /// See [`super::Pager::remap`].
    pub(crate) fn remap(
        &self,
        core: &Core,
        address: usize,
        old_length: usize,
        new_length: usize,
        flags: i32,
        new_address: usize,
    ) -> Result<usize> {
        let old = pages_of(address, old_length)?;
        let new_length = pages_of(0, new_length)?.end;
        if flags & !(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) != 0 {
            return Err(errno("only MREMAP_MAYMOVE and MREMAP_FIXED are known", libc::EINVAL));
        }
        let_arrive(core, old.clone());
        self.with(|inner| {
            if flags & libc::MREMAP_FIXED != 0 {
                let target = pages_of(new_address, new_length)?;
                if target.start < old.end && old.start < target.end {
                    return Err(errno("both ranges of mremap overlap", libc::EINVAL));
                }
                let _replacement = Replacement::begin(&target);
                let old = inner.shrink(core, old, new_length);
                inner.forget(core, target.clone());
                return inner.relocate(core, old, target);
            }
            if new_length <= old.len() {
                return Ok(inner.shrink(core, old, new_length).start);
            }
            inner.check_commitment(core, new_length - old.len())?;
            // SAFETY: grows where it is, or fails.
            let grown = unsafe { libc::mremap(old.start as *mut _, old.len(), new_length, 0) };
            if grown != libc::MAP_FAILED {
                let protection = inner.protection(old.end - 1);
                inner.adopt(core, old.end..old.start + new_length, protection)?;
                return Ok(old.start);
            }
            if flags & libc::MREMAP_MAYMOVE == 0 {
                return Err(last_error("cannot grow borrowed memory where it is"));
            }
            let target =
                rackmem_lease::sync::lazy::reserve(new_length, rustix::mm::ProtFlags::empty())
                    .map_err(|error| {
                        Error::io("cannot find room for borrowed memory to move to", error)
                    })?;
            let target = target.as_ptr() as usize;
            inner.relocate(core, old, target..target + new_length)
        })
    }

    /// Whether a page's protection has these bits. If a change is going on that is not known, and taken to be so: this
    /// must not wait, as a handler of a signal may ask that came while its thread makes the change.
    pub(crate) fn may_permit(&self, page: usize, access: i32) -> bool {
        if !self.lock.try_acquire() {
            return true;
        }
        // SAFETY: the lock was just taken.
        let protection = unsafe { self.with_held(|inner| inner.protection(page)) };
        self.lock.release();
        protection & access == access
    }

    /// For the evictor: copies a page that cannot be moved as it may not be written, and drops the original. Returns
    /// false if the page may be written, may not be read, or a change is going on.
    pub(crate) fn take_read_only(&self, core: &Core, page: usize, to: usize) -> bool {
        if !self.lock.try_acquire() {
            return false;
        }
        // SAFETY: the lock was just taken.
        let protection = unsafe { self.with_held(|inner| inner.protection(page)) };
        let is_taken = protection & READ_WRITE == libc::PROT_READ
            && core.copy_in(to, page as *const u8, PAGE_BYTES, false);
        if is_taken {
            drop_pages(page, PAGE_BYTES);
        }
        self.lock.release();
        is_taken
    }
}
