//! State that the pager's threads share: tables, the kernel's side, and the moves that pages can make.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use rustix::mm::ProtFlags;

use super::cores;
use super::entry::Entry;
use super::frames::{Frames, NO_SLOT};
use super::latencies::Latencies;
use super::options::{MAX_HANDLERS, MAX_PREFETCH_PAGES, PAGE_BYTES, PagerOptions, Placement};
use super::slots::Slots;
use super::space::Space;
use super::statistics::{Counters, count};
use super::streams::Streams;
use super::table::Table;
use super::uffd::{Uffd, feature};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::Store;
use rackmem_lease::sync::lazy::reserve;
use rackmem_lease::sync::wait::{Event, Gate, Guarded};

/// A value that the child of a fork replaces, while it has one thread.
pub(crate) struct Replaced<T>(UnsafeCell<T>);

// SAFETY: shared references are given out as from any `T: Sync`; `replace` has its own condition.
unsafe impl<T: Send + Sync> Sync for Replaced<T> {}

impl<T> Replaced<T> {
    pub(crate) fn new(value: T) -> Replaced<T> {
        Replaced(UnsafeCell::new(value))
    }

    /// Puts another value there.
    ///
    /// # Safety
    /// No other thread of this process has the pager, and the caller has no reference to the value.
    pub(crate) unsafe fn replace(&self, value: T) -> T {
        // SAFETY: by the condition, no one else looks.
        unsafe { std::mem::replace(&mut *self.0.get(), value) }
    }
}

impl<T> Deref for Replaced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: only `replace` makes a unique reference, and no one else is there then.
        unsafe { &*self.0.get() }
    }
}

/// Pages of address space that are unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Area {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    pub(crate) fn new(len: usize, protection: ProtFlags) -> io::Result<Area> {
        let len = len.max(PAGE_BYTES);
        Ok(Area { base: reserve(len, protection)?, len })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base.as_ptr() as usize) < self.len
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `new`, and its users are gone.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Watermarks of free frames: the evictor begins below `low` and stops at `high`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermarks {
    /// Free frames that are not for pages ahead of need.
    pub(crate) reserve: usize,
    pub(crate) low: usize,
    pub(crate) high: usize,
    /// Pages that are kept in the staging area though the store has them: a fault there shows that a page is in use.
    pub(crate) standby: usize,
}

impl Watermarks {
    fn of(options: &PagerOptions) -> Watermarks {
        let pages = options.cache_pages();
        let burst = 2 * options.batch_pages.max(options.prefetch_pages);
        let high = (pages / 4).min(burst.max(pages / 64)).max(4);
        Watermarks { reserve: high / 8, low: high / 2, high, standby: pages / 16 }
    }
}

/// No core.
pub(crate) const NOWHERE: i32 = -1;

/// State that the pager's threads share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    /// The store's bytes, if they are mapped in this process.
    pub(crate) mapped: Option<NonNull<u8>>,
    pub(crate) options: PagerOptions,
    pub(crate) is_inline: bool,
    /// Cores that the program could use when it began.
    pub(super) allowed: libc::cpu_set_t,
    pub(crate) marks: Watermarks,
    pub(crate) table: Table,
    pub(crate) frames: Frames,
    pub(crate) slots: Slots,
    pub(crate) space: Space,
    pub(crate) uffd: Replaced<Uffd>,
    /// A place for each frame's page on its way out.
    pub(crate) staging: Area,
    /// Missing pages by which handler threads are called.
    pub(crate) doorbell: Area,
    zeros: Area,
    pub(crate) streams: Guarded<Streams>,
    pub(crate) counters: Counters,
    /// Times from fault to delivery, of pages that were read from the lender for it.
    pub(crate) page_ins: Latencies,
    /// Pages that left, modulo [`super::entry::STAMPS`].
    pub(crate) evictions: AtomicU32,
    /// Signalled when free frames are few, or the evictor is asked for something.
    pub(crate) evictor: Event,
    pub(crate) evictor_tid: AtomicI32,
    /// Core that the evictor was called to; -1: none.
    pub(crate) evictor_core: AtomicI32,
    /// Signalled when frames were given back.
    pub(crate) freed: Event,
    /// Nothing can leave and no more frames exist.
    pub(crate) is_exhausted: AtomicBool,
    /// Held shared by threads that resolve faults outside of handler threads.
    pub(crate) gate: Gate,
}

// SAFETY: `mapped` points to memory that all threads may use while the store lives.
unsafe impl Send for Core {}
// SAFETY: as above; everything else synchronises itself.
unsafe impl Sync for Core {}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        options: PagerOptions,
        is_inline: bool,
        uffd: Uffd,
    ) -> Result<Core> {
        let no_memory =
            |error| Error::io("cannot reserve address space for the pager's tables", error);
        let slots = usize::try_from(store.size_bytes()).unwrap_or(usize::MAX) / PAGE_BYTES;
        if slots == 0 || slots >= NO_SLOT as usize {
            let limit = NO_SLOT as u64 * PAGE_BYTES as u64;
            return Err(Error::refused(format!(
                "a pager needs a store of at least a page and less than {limit} bytes; this one has {}",
                store.size_bytes()
            )));
        }
        let budget = options.cache_pages();
        let capacity = ((budget + slots) * options.growth).min(super::options::MAX_CACHE_PAGES);
        let readable = ProtFlags::READ;
        let core = Core {
            mapped: store.mapped().and_then(NonNull::new),
            marks: Watermarks::of(&options),
            table: Table::new().map_err(no_memory)?,
            frames: Frames::new(budget, capacity).map_err(no_memory)?,
            slots: Slots::new(slots).map_err(no_memory)?,
            space: Space::default(),
            uffd: Replaced::new(uffd),
            staging: Area::new(capacity * PAGE_BYTES, readable | ProtFlags::WRITE)
                .map_err(no_memory)?,
            doorbell: Area::new(MAX_HANDLERS * PAGE_BYTES, readable).map_err(no_memory)?,
            zeros: Area::new(MAX_PREFETCH_PAGES * PAGE_BYTES, readable).map_err(no_memory)?,
            streams: Guarded::new(Streams::new(options.prefetch_pages)),
            store,
            options,
            is_inline,
            allowed: cores::allowed(),
            counters: Counters::default(),
            page_ins: Latencies::default(),
            evictions: AtomicU32::new(0),
            evictor: Event::default(),
            evictor_tid: AtomicI32::new(0),
            evictor_core: AtomicI32::new(NOWHERE),
            freed: Event::default(),
            is_exhausted: AtomicBool::new(false),
            gate: Gate::default(),
        };
        core.register_own()?;
        Ok(core)
    }

    /// Pages are missed on this core: the evictor comes, if it is to be there. To a lender that is reached by messages
    /// it has more to do than it would save, and does that beside the program. Does not allocate.
    pub(super) fn call_evictor_to(&self, number: usize) {
        let is_wanted = self.is_inline && self.options.evictor != Placement::Anywhere;
        let is_there = self.evictor_core.load(Ordering::Relaxed) == number as i32;
        let tid = self.evictor_tid.load(Ordering::Relaxed);
        if !is_wanted || self.mapped.is_none() || is_there || tid == 0 {
            return;
        }
        let only = cores::only(number, &self.allowed);
        if only.is_some_and(|only| cores::bind(tid, &only)) {
            self.evictor_core.store(number as i32, Ordering::Relaxed);
        }
    }

    /// Registers the staging area and the doorbell with the userfaultfd.
    pub(crate) fn register_own(&self) -> Result<()> {
        for area in [&self.staging, &self.doorbell] {
            self.uffd.register(area.base() as usize, area.len()).map_err(|error| {
                Error::io("cannot register the pager's own pages with userfaultfd", error)
            })?;
        }
        Ok(())
    }

    /// Whether first writes to delivered pages are noted. If the store is mapped, a comparison of the page costs less
    /// than that.
    pub(crate) fn notes_writes(&self) -> bool {
        self.mapped.is_none() && self.uffd.features & feature::WP_ASYNC != 0
    }

    /// Bytes of a slot, if it is one and the store is mapped.
    pub(crate) fn slot_bytes(&self, slot: u32) -> Option<*mut u8> {
        // SAFETY: slots are pages of the store.
        self.mapped
            .filter(|_| slot != NO_SLOT)
            .map(|base| unsafe { base.as_ptr().add(slot as usize * PAGE_BYTES) })
    }

    /// A frame's place in the staging area.
    pub(crate) fn staging_of(&self, frame: u32) -> usize {
        self.staging.base() as usize + frame as usize * PAGE_BYTES
    }

    /// Zeros, for [`MAX_PREFETCH_PAGES`] pages.
    pub(crate) fn zeros(&self) -> *const u8 {
        self.zeros.base()
    }

    /// A frame, unless fewer than `reserve` others would be left; wakes the evictor when few are.
    pub(crate) fn take_frame(&self, reserve: usize) -> Option<u32> {
        let frame = self.frames.take(reserve);
        if self.frames.free() < self.marks.low {
            self.evictor.signal();
        }
        frame
    }

    /// Puts pages where nothing is. Returns false if the program has no such pages any more.
    pub(crate) fn copy_in(&self, page: usize, from: *const u8, len: usize, protect: bool) -> bool {
        let mut done = 0;
        while done < len {
            let (copied, result) =
                self.uffd.copy(page + done, from.wrapping_add(done), len - done, protect);
            done += copied;
            match result.map_err(|error| error.raw_os_error()) {
                Ok(()) => {}
                // The address space is being changed.
                Err(Some(libc::EAGAIN)) => std::thread::yield_now(),
                Err(Some(libc::EEXIST)) => {
                    self.uffd.wake(page + done);
                    done += PAGE_BYTES;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Moves a page that the caller holds back from its place in the staging area. Returns false as
    /// `copy_in` does; the page is dropped then.
    pub(crate) fn move_back(&self, page: usize, frame: u32) -> bool {
        let staged = self.staging_of(frame);
        loop {
            let (_, result) = self.uffd.move_pages(page, staged, PAGE_BYTES);
            match result.map_err(|error| error.raw_os_error()) {
                Ok(()) => return true,
                Err(Some(libc::EAGAIN)) => std::thread::yield_now(),
                // Protections differ, or a child of fork shares it: a copy does as well.
                Err(_) => {
                    let is_there = self.copy_in(page, staged as *const u8, PAGE_BYTES, false);
                    drop_pages(staged, PAGE_BYTES);
                    return is_there;
                }
            }
        }
    }

    /// Gives back the frame, and the slot if it has one, of a page that the caller holds and has dropped from memory.
    pub(crate) fn release(&self, frame: u32) {
        let slot = self.frames.slot(frame);
        if slot != NO_SLOT {
            self.slots.give(slot);
        }
        self.frames.give(frame);
        self.freed.signal();
    }

    /// The page, which the caller holds, can never be delivered.
    pub(crate) fn lose(&self, page: usize, frame: Option<u32>) {
        count(&self.counters.lost);
        if let Some(frame) = frame {
            self.frames.give(frame);
            self.freed.signal();
        }
        if let Some(cell) = self.table.cell(page) {
            cell.settle(Entry::LOST);
        }
        if self.uffd.poison(page).is_err() {
            self.uffd.wake(page);
        }
    }
}

/// Makes pages zero, and gives their memory back.
pub(crate) fn drop_pages(address: usize, len: usize) {
    // SAFETY: the caller holds the pages, or the program asked for it.
    unsafe { libc::madvise(address as *mut libc::c_void, len, libc::MADV_DONTNEED) };
}
