//! Alternate signal stacks of the library's, where faults may come as SIGBUS.
//!
//! A program may run on stacks that it makes of borrowed memory, as coroutines do, or by makecontext(3). When a page of
//! such a stack is away, the kernel has no place there for the signal. So each thread has an alternate stack, which the
//! program does not see: one that it sets itself takes its place.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::next::next;
use crate::{heap, thread};

/// Room for the kernel's frame of the registers, a few of which may be nested, and for a handler of SIGBUS of the
/// program's.
const STACK_BYTES: usize = 64 << 10;

unsafe extern "C" {
    safe fn rackmem_preload_stack() -> *mut *mut c_void;
}

/// Key whose destructor gives a thread's stack back; [`NO_KEY`] until there is one.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: u32 = u32::MAX;

/// Makes the key, once, while the process has one thread.
pub fn begin() {
    let mut key = 0;
    // SAFETY: the function is one of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(take_back)) } == 0 {
        KEY.store(key, Ordering::Release);
        give();
    }
}

/// The calling thread's stack of the library's; null if it has none.
fn own() -> *mut c_void {
    // SAFETY: the word is the calling thread's own.
    unsafe { *rackmem_preload_stack() }
}

fn description(start: *mut c_void) -> libc::stack_t {
    libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: STACK_BYTES }
}

/// As sigaltstack(2), of the kernel.
fn set(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    next!(sigaltstack(new => *const libc::stack_t, old => *mut libc::stack_t) -> c_int)
}

/// Gives the calling thread a stack, if it has none. Without memory for one it goes on without.
pub fn give() {
    let key = KEY.load(Ordering::Acquire);
    if key == NO_KEY || !own().is_null() {
        return;
    }
    let _inside = thread::enter();
    let start: *mut c_void = heap::allocate_aligned(STACK_BYTES, 4096).cast();
    if start.is_null() {
        return;
    }
    // SAFETY: the key is one; the word is the calling thread's own; zero is a value of the type.
    unsafe {
        let mut before: libc::stack_t = std::mem::zeroed();
        let is_free =
            set(ptr::null(), &raw mut before) == 0 && before.ss_flags & libc::SS_DISABLE != 0;
        if is_free
            && libc::pthread_setspecific(key, start) == 0
            && set(&description(start), ptr::null_mut()) == 0
        {
            *rackmem_preload_stack() = start;
        } else {
            heap::free(start.cast());
        }
    }
}

extern "C" fn take_back(start: *mut c_void) {
    let _inside = thread::enter();
    // SAFETY: the stack was made for this thread by `give`. It runs on it only in a handler, and is at its end.
    unsafe {
        *rackmem_preload_stack() = ptr::null_mut();
        let mut before: libc::stack_t = std::mem::zeroed();
        if set(ptr::null(), &raw mut before) == 0 && before.ss_sp == start {
            let none = libc::stack_t { ss_flags: libc::SS_DISABLE, ..description(ptr::null_mut()) };
            set(&raw const none, ptr::null_mut());
        }
        heap::free(start.cast());
    }
}

/// As sigaltstack(2) for the program: a stack of the library's is as none.
///
/// # Safety
/// As for sigaltstack.
pub unsafe fn change(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    let own = own();
    if own.is_null() || thread::is_inside() {
        return set(new, old);
    }
    let mut before = description(ptr::null_mut());
    // SAFETY: the caller's promise.
    let is_none = !new.is_null() && unsafe { (*new).ss_flags } & libc::SS_DISABLE != 0;
    let own_again = description(own);
    let status = set(if is_none { &raw const own_again } else { new }, &raw mut before);
    if status == 0 && !old.is_null() {
        if before.ss_sp == own {
            before =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        }
        // SAFETY: the caller's promise.
        unsafe { old.write(before) };
    }
    status
}
