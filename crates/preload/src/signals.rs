//! sigaction and its kin, for delivery by SIGBUS in the faulting thread.
//!
//! A program that has a handler of SIGBUS keeps it: it gets the signals that are none of the pager's, with the kernel's
//! own siginfo. No thread may block SIGBUS then, since the kernel ends a process that faults while it does. With a
//! thread that answers faults there is nothing to do: the kernel sends SIGBUS for pages that are lost.

use std::ffi::c_int;
use std::ptr;

use libc::{sigaction as Action, sighandler_t, sigset_t};
use rackmem_paging::program::Mode;

use crate::local::{Locals, Pointer};
use crate::next::next;
use crate::{heap, process, stacks, thread};

/// Whether faults come, or may come, as SIGBUS.
fn is_inline() -> bool {
    !thread::is_inside() && process::may_borrow() && may_be_inline()
}

/// The same of a process that may borrow.
pub fn may_be_inline() -> bool {
    process::settings().is_some_and(|settings| settings.mode != Mode::Thread)
}

/// As sigaction(2).
///
/// # Safety
/// As for sigaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const Action,
    old: *mut Action,
) -> c_int {
    let mut changed;
    let mut action = action;
    if is_inline() {
        if signal == libc::SIGBUS
            && let Some(pager) = process::pager()
        {
            let _inside = thread::enter();
            // SAFETY: the caller's promise.
            if unsafe { pager.chain_sigbus(action, old) } {
                return 0;
            }
        }
        if !action.is_null() {
            // SAFETY: the caller's promise; the copy lives until the call has returned.
            unsafe {
                changed = action.read();
                libc::sigdelset(&raw mut changed.sa_mask, libc::SIGBUS);
            }
            action = &raw const changed;
        }
    }
    next!(sigaction(signal => c_int, action => *const Action, old => *mut Action) -> c_int)
}

/// Sets a handler with these flags; returns the one before.
fn set(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: zero is a value of the type, and both live through the call.
    unsafe {
        let mut action: Action = std::mem::zeroed();
        let mut old: Action = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        match sigaction(signal, &raw const action, &raw mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// As signal(2).
///
/// # Safety
/// As for signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if is_inline() {
        return set(signal, handler, libc::SA_RESTART);
    }
    next!(signal(signal => c_int, handler => sighandler_t) -> sighandler_t)
}

/// As sysv_signal(3).
///
/// # Safety
/// As for sysv_signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    if is_inline() {
        return set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER);
    }
    next!(__sysv_signal(signal => c_int, handler => sighandler_t) -> sighandler_t)
}

/// The set without SIGBUS, if faults come as SIGBUS and the set is to be blocked.
fn allowed(how: c_int, set: *const sigset_t, changed: &mut sigset_t) -> *const sigset_t {
    if set.is_null() || how == libc::SIG_UNBLOCK || !is_inline() {
        return set;
    }
    // SAFETY: the caller of the function around this promises that the set is one.
    unsafe {
        *changed = set.read();
        libc::sigdelset(changed, libc::SIGBUS);
    }
    ptr::from_ref(changed)
}

/// As sigprocmask(2).
///
/// # Safety
/// As for sigprocmask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: zero is a value of the type.
    let mut changed = unsafe { std::mem::zeroed() };
    let set = allowed(how, set, &mut changed);
    let mut locals = Locals::new();
    let set = locals.input(set.cast_mut().cast(), size_of::<sigset_t>());
    let old = locals.both(old.cast(), size_of::<sigset_t>());
    locals.finish(next!(sigprocmask(how => c_int, set => Pointer, old => Pointer) -> c_int))
}

/// As pthread_sigmask(3).
///
/// # Safety
/// As for pthread_sigmask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: zero is a value of the type.
    let mut changed = unsafe { std::mem::zeroed() };
    let set = allowed(how, set, &mut changed);
    let mut locals = Locals::new();
    let set = locals.input(set.cast_mut().cast(), size_of::<sigset_t>());
    let old = locals.both(old.cast(), size_of::<sigset_t>());
    locals.finish(next!(pthread_sigmask(how => c_int, set => Pointer, old => Pointer) -> c_int))
}

/// As sigaltstack(2). The kernel writes to the stack when it delivers a signal, and ends the process if
/// it is away and the kernel's faults are not handled: in place of borrowed memory the stack is memory of the
/// library's. A stack that was given before stays allocated.
///
/// # Safety
/// As for sigaltstack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(
    stack: *const libc::stack_t,
    old: *mut libc::stack_t,
) -> c_int {
    let mut changed;
    let mut stack = stack;
    if !thread::is_inside() && process::needs_help() && !stack.is_null() {
        // SAFETY: the caller's promise.
        changed = unsafe { stack.read() };
        let (at, length) = (changed.ss_sp as usize, changed.ss_size);
        if process::pager().is_some_and(|pager| pager.overlaps(at, length)) {
            changed.ss_sp = heap::allocate_aligned(length, 4096).cast();
            if changed.ss_sp.is_null() {
                thread::set_errno(libc::ENOMEM);
                return -1;
            }
            stack = &raw const changed;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { stacks::change(stack, old) }
}
