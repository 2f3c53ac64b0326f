//! fork: a child reads its parent's memory, and its writes are its own.
//!
//! The hooks are handlers of pthread_atfork, registered before any of the program's: so they run last
//! before the fork and first after it, and forks that the C library makes by itself have them, too.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::pid_t;

use crate::next::next;
use crate::{heap, kernel, process, reserved, thread};

/// That the fork which is being made cannot have a child. Written while the lock is held.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Registers the library's hooks to run at each fork.
pub fn register() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    let status = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    if status != 0 {
        kernel::complain(&["no memory for handlers of fork"]);
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

extern "C" fn before() {
    let _inside = thread::enter();
    process::BEGIN.take();
    if let Some(pager) = process::pager() {
        let refused = pager.before_fork();
        IS_REFUSED.store(refused.is_err(), Ordering::Relaxed);
        if let Err(error) = refused {
            kernel::complain(&["no fork: ", &error.to_string(), &error.hint()]);
        }
    }
    reserved::LOCK.take();
    heap::lock();
}

extern "C" fn in_parent() {
    let _inside = thread::enter();
    heap::unlock();
    reserved::LOCK.give();
    if !IS_REFUSED.load(Ordering::Relaxed)
        && let Some(pager) = process::pager()
    {
        pager.after_fork_in_parent();
    }
    process::BEGIN.give();
}

extern "C" fn in_child() {
    let _inside = thread::enter();
    heap::unlock();
    reserved::LOCK.give();
    if IS_REFUSED.load(Ordering::Relaxed) {
        give_up();
    }
    if let Some(pager) = process::pager()
        && let Err(error) = pager.after_fork_in_child()
    {
        let why = error.to_string() + &error.hint();
        kernel::complain(&["the child of a fork cannot go on: ", &why]);
        give_up();
    }
    process::BEGIN.give();
}

/// Ends a child that would read wrong memory.
fn give_up() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(CHILD_STATUS) }
}

/// Exit status of a child that could not be given its memory.
const CHILD_STATUS: c_int = 127;

/// As fork(2). Fails with EAGAIN if the child could not be given its memory.
///
/// # Safety
/// As for fork.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    let child = next!(fork() -> pid_t);
    if child > 0 && process::pager().is_some() && IS_REFUSED.swap(false, Ordering::Relaxed) {
        // The child has ended, or is about to.
        let mut status = 0;
        // SAFETY: the status lives through the call.
        while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1
            && thread::errno() == libc::EINTR
        {}
        thread::set_errno(libc::EAGAIN);
        return -1;
    }
    child
}

/// As _Fork(3), which does not run the handlers of pthread_atfork.
///
/// # Safety
/// As for _Fork.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    if process::pager().is_none() {
        return next!(_Fork() -> pid_t);
    }
    before();
    let child = next!(_Fork() -> pid_t);
    if child == 0 {
        in_child();
    } else {
        in_parent();
    }
    child
}
