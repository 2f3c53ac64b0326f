//! Threads: those that the library starts are its own. Memory of the C library for any thread is never borrowed, as new
//! threads get that of ended ones.

use std::ffi::{c_int, c_void};

use crate::next::next;
use crate::{process, signals, stacks, thread};

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Start routine of a thread, and its argument.
struct Start {
    routine: Routine,
    argument: *mut c_void,
}

/// As pthread_create(3). Threads that the library starts are marked as its own; others get a signal stack where faults
/// may come as SIGBUS.
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
    let begin: Option<Routine> = match thread::is_inside() {
        true => Some(run_own),
        false => (process::may_borrow() && signals::may_be_inline()).then_some(run as Routine),
    };
    // The C library allocates the thread's own data meanwhile.
    let _inside = thread::enter();
    let start = begin.map(|begin| (begin, Box::into_raw(Box::new(Start { routine, argument }))));
    let (routine, argument) =
        start.map_or((routine, argument), |(begin, start)| (begin, start.cast()));
    let status = next!(pthread_create(
        handle => *mut libc::pthread_t,
        attributes => *const libc::pthread_attr_t,
        routine => Routine,
        argument => *mut c_void,
    ) -> c_int);
    if let Some((_, start)) = start.filter(|_| status != 0) {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }
    status
}

/// A thread of the program. It may be cancelled, or end by pthread_exit, which unwinds this function: nothing of it may
/// be left to drop.
extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    let Start { routine, argument } = taken(start);
    stacks::give();
    routine(argument)
}

/// The start routine of a thread and its argument, which `start` holds.
fn taken(start: *mut c_void) -> Start {
    let _inside = thread::enter();
    // SAFETY: made by `pthread_create` for this thread alone.
    *unsafe { Box::from_raw(start.cast::<Start>()) }
}

extern "C-unwind" fn run_own(start: *mut c_void) -> *mut c_void {
    thread::become_own();
    let Start { routine, argument } = taken(start);
    routine(argument)
}

type C11Routine = extern "C-unwind" fn(*mut c_void) -> c_int;

/// As thrd_create(3), likewise.
///
/// # Safety
/// As for thrd_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    handle: *mut libc::pthread_t,
    routine: C11Routine,
    argument: *mut c_void,
) -> c_int {
    let has_stack = process::may_borrow() && signals::may_be_inline();
    let _inside = thread::enter();
    // SAFETY: `run_c11` gives the routine its own type back.
    let wrapped = unsafe { std::mem::transmute::<C11Routine, Routine>(routine) };
    let start = has_stack.then(|| Box::into_raw(Box::new(Start { routine: wrapped, argument })));
    let (routine, argument) =
        start.map_or((routine, argument), |start| (run_c11 as C11Routine, start.cast()));
    let status = next!(thrd_create(
        handle => *mut libc::pthread_t,
        routine => C11Routine,
        argument => *mut c_void,
    ) -> c_int);
    if let Some(start) = start.filter(|_| status != 0) {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }
    status
}

/// As `run`.
extern "C-unwind" fn run_c11(start: *mut c_void) -> c_int {
    let Start { routine, argument } = taken(start);
    stacks::give();
    // SAFETY: made by `thrd_create`.
    let routine = unsafe { std::mem::transmute::<Routine, C11Routine>(routine) };
    routine(argument)
}
