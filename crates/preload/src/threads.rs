//! Threads: those that the library starts are its own. Memory of the C library for any thread is never borrowed, as new
//! threads get that of ended ones.

use std::ffi::{c_int, c_void};

use crate::next::next;
use crate::thread;

type Routine = extern "C" fn(*mut c_void) -> *mut c_void;

/// Start routine of a thread of the library, and its argument.
struct Start {
    routine: Routine,
    argument: *mut c_void,
}

/// As pthread_create(3). Threads that the library starts are marked as its own.
///
/// # Safety
/// As for pthread_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    handle: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let (routine, argument) = match thread::is_inside() {
        true => {
            let start = Box::new(Start { routine, argument });
            (run_own as Routine, Box::into_raw(start).cast())
        }
        false => (routine, argument),
    };
    // The C library allocates the thread's own data meanwhile.
    let _inside = thread::enter();
    next!(pthread_create(
        handle => *mut libc::pthread_t,
        attributes => *const libc::pthread_attr_t,
        routine => Routine,
        argument => *mut c_void,
    ) -> c_int)
}

extern "C" fn run_own(start: *mut c_void) -> *mut c_void {
    thread::become_own();
    // SAFETY: made by `pthread_create` for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { routine, argument } = *start;
    routine(argument)
}

/// As thrd_create(3).
///
/// # Safety
/// As for thrd_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    handle: *mut libc::pthread_t,
    routine: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    let _inside = thread::enter();
    next!(thrd_create(
        handle => *mut libc::pthread_t,
        routine => extern "C" fn(*mut c_void) -> c_int,
        argument => *mut c_void,
    ) -> c_int)
}
