//! The library's own memory: one region of the address space, in which nothing is ever borrowed.
//!
//! Code that serves faults must not itself fault, so nothing of the library is in memory that it gave out: its Rust
//! code allocates here, and so do its threads when the C library allocates on their behalf. It is one region, so the
//! address of a pointer tells its owner.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlmalloc::{Allocator, Dlmalloc};

use crate::kernel;
use crate::lock::Lock;

/// Size of the region. It is address space only, until it is used.
pub const HEAP_BYTES: usize = 4 << 30;

/// Least growth of the used part of the region.
const GROWTH_BYTES: usize = 1 << 20;

/// Address of the region; 0 as long as there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);

/// The memory of the library's Rust code.
#[derive(Debug)]
pub struct OwnHeap;

#[global_allocator]
static GLOBAL: OwnHeap = OwnHeap;

static HEAP: Guarded = Guarded {
    lock: Lock::new("the library's own heap"),
    inner: UnsafeCell::new(Dlmalloc::new_with_allocator(Region)),
};

struct Guarded {
    lock: Lock,
    inner: UnsafeCell<Dlmalloc<Region>>,
}

// SAFETY: `inner` is reached only while the lock is held.
unsafe impl Sync for Guarded {}

/// Takes the lock for a fork, so that the child finds the heap whole.
pub fn lock() {
    HEAP.lock.take();
}

/// Gives the lock back.
pub fn unlock() {
    HEAP.lock.give();
}

fn with<R>(work: impl FnOnce(&mut Dlmalloc<Region>) -> R) -> R {
    lock();
    // SAFETY: the lock is held, so nobody else is in here; the allocator calls no one back but `Region`.
    let result = work(unsafe { &mut *HEAP.inner.get() });
    unlock();
    result
}

/// Whether memory is of this heap.
pub fn contains(memory: *const u8) -> bool {
    (memory as usize).wrapping_sub(BASE.load(Ordering::Relaxed)) < HEAP_BYTES
}

/// Whether there is so much room that others than the library may have some.
pub fn has_room() -> bool {
    USED.load(Ordering::Relaxed) < HEAP_BYTES / 2
}

/// As malloc.
pub fn allocate(size: usize) -> *mut u8 {
    // SAFETY: any size will do.
    with(|heap| unsafe { heap.malloc(size.max(1), MALLOC_ALIGNMENT) })
}

/// As memalign.
pub fn allocate_aligned(size: usize, alignment: usize) -> *mut u8 {
    // SAFETY: the caller's alignment is a power of two.
    with(|heap| unsafe { heap.c_memalign(alignment.max(MALLOC_ALIGNMENT), size.max(1)) })
}

/// As calloc.
pub fn allocate_zeroed(size: usize) -> *mut u8 {
    // SAFETY: any size will do.
    with(|heap| unsafe { heap.calloc(size.max(1), MALLOC_ALIGNMENT) })
}

/// As free.
///
/// # Safety
/// The memory is of this heap, and not used any more.
pub unsafe fn free(memory: *mut u8) {
    // SAFETY: the caller's promise.
    with(|heap| unsafe { heap.c_free(memory) });
}

/// As realloc.
///
/// # Safety
/// The memory is of this heap; if another one is returned, it is not used any more.
pub unsafe fn reallocate(memory: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    with(|heap| unsafe { heap.c_realloc(memory, size.max(1)) })
}

/// Bytes that surely belong to an allocation; fewer may have been asked for.
///
/// # Safety
/// The memory is of this heap.
pub unsafe fn usable_size(memory: *const u8) -> usize {
    // The size is in the word before the memory, with three flags; one word of it is the header's.
    // SAFETY: every chunk of dlmalloc that is in use begins so.
    let head = unsafe { memory.cast::<usize>().sub(1).read() };
    (head & !7).saturating_sub(2 * size_of::<usize>())
}

/// Alignment that malloc promises.
const MALLOC_ALIGNMENT: usize = 16;

// SAFETY: dlmalloc hands out memory that is of the layout and its caller's own, under a lock.
unsafe impl GlobalAlloc for OwnHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a layout's alignment is a power of two.
        with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}

/// Source of dlmalloc's memory: the region, from its beginning. Nothing goes back.
struct Region;

/// Bytes of the region that are in use. Written while the heap's lock is held.
static USED: AtomicUsize = AtomicUsize::new(0);

impl Region {
    fn base() -> Option<usize> {
        let base = BASE.load(Ordering::Relaxed);
        if base != 0 {
            return Some(base);
        }
        let base = kernel::map(HEAP_BYTES, libc::PROT_NONE)?;
        BASE.store(base, Ordering::Relaxed);
        Some(base)
    }
}

// SAFETY: what is returned was mapped and is given out once.
unsafe impl Allocator for Region {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let nothing = (ptr::null_mut(), 0, 0);
        let used = USED.load(Ordering::Relaxed);
        let Some(base) = Region::base() else { return nothing };
        let Some(size) = size.checked_next_multiple_of(GROWTH_BYTES) else { return nothing };
        if size > HEAP_BYTES - used || !kernel::allow(base + used, size) {
            return nothing;
        }
        USED.store(used + size, Ordering::Relaxed);
        ((base + used) as *mut u8, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}
