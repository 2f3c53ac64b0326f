//! brk and sbrk, by which some allocators get memory: a region of our own, of which the program has as much as it asked
//! for, and which is borrowed like all that is reserved first and used later. The kernel's own region stays as it is.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use rackmem_paging::PAGE_BYTES;

use crate::kernel::MAP_FAILED;
use crate::lock::Lock;
use crate::next::next;
use crate::{memory, process, thread};

/// Address space of the region.
const REGION_BYTES: usize = 256 << 30;

/// Held while the break moves.
static LOCK: Lock = Lock::new("the program's break");
/// Beginning of the region, and end of the program's part of it; 0 before the first call.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BREAK: AtomicUsize = AtomicUsize::new(0);

/// Whether the break is ours; makes the region.
fn is_ours() -> bool {
    if thread::is_inside() || !process::may_borrow() {
        return false;
    }
    if BASE.load(Ordering::Relaxed) == 0 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory touches no other.
        let base = unsafe {
            memory::mmap(std::ptr::null_mut(), REGION_BYTES, libc::PROT_NONE, flags, -1, 0)
        } as usize;
        if base != MAP_FAILED {
            BREAK.store(base, Ordering::Relaxed);
        }
        BASE.store(base, Ordering::Relaxed);
    }
    BASE.load(Ordering::Relaxed) != MAP_FAILED
}

/// Moves the break; returns whether it did.
fn move_to(wanted: usize) -> bool {
    let (base, old) = (BASE.load(Ordering::Relaxed), BREAK.load(Ordering::Relaxed));
    if wanted < base || wanted > base + REGION_BYTES {
        thread::set_errno(libc::ENOMEM);
        return false;
    }
    let (from, to) = (old.next_multiple_of(PAGE_BYTES), wanted.next_multiple_of(PAGE_BYTES));
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: both are within the region, and what the program gives back it does not use any more.
    let is_done = unsafe {
        match from.cmp(&to) {
            std::cmp::Ordering::Less => {
                memory::mprotect(from as *mut c_void, to - from, read_write) == 0
            }
            std::cmp::Ordering::Equal => true,
            std::cmp::Ordering::Greater => {
                let (at, length) = (to as *mut c_void, from - to);
                memory::mmap(at, length, libc::PROT_NONE, fixed, -1, 0) as usize != MAP_FAILED
            }
        }
    };
    if is_done {
        BREAK.store(wanted, Ordering::Relaxed);
    } else {
        thread::set_errno(libc::ENOMEM);
    }
    is_done
}

/// As sbrk(2).
///
/// # Safety
/// As for sbrk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(increment: isize) -> *mut c_void {
    let _held = LOCK.hold();
    if !is_ours() {
        return next!(sbrk(increment => isize) -> *mut c_void);
    }
    let old = BREAK.load(Ordering::Relaxed);
    let is_moved = increment == 0 || move_to(old.wrapping_add_signed(increment));
    if is_moved { old as *mut c_void } else { MAP_FAILED as *mut c_void }
}

/// As brk(2).
///
/// # Safety
/// As for brk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk(address: *mut c_void) -> c_int {
    let _held = LOCK.hold();
    if !is_ours() {
        return next!(brk(address => *mut c_void) -> c_int);
    }
    if move_to(address as usize) { 0 } else { -1 }
}
