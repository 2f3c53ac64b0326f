//! close, close_range, closefrom, dup2 and dup3: programs use them on numbers that they have not opened, and the
//! library's descriptors are none of theirs.

use std::ffi::{c_int, c_uint};

use rackmem_lease::descriptors;

use crate::next::next;
use crate::thread;

/// As close(2); the library's descriptors are not open to programs.
///
/// # Safety
/// As for close.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if descriptors::is_own(fd) {
        if !thread::is_inside() {
            return refused(libc::EBADF);
        }
        descriptors::close(fd);
    }
    next!(close(fd => c_int) -> c_int)
}

/// As close_range(2).
///
/// # Safety
/// As for close_range.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let mut begin = first;
    while let Some(own) =
        descriptors::first_from(begin).filter(|&own| own <= last && !thread::is_inside())
    {
        if begin < own {
            let status =
                next!(close_range(begin => c_uint, own - 1 => c_uint, flags => c_int) -> c_int);
            if status != 0 {
                return status;
            }
        }
        begin = own + 1;
    }
    if begin > last && begin != first {
        return 0;
    }
    next!(close_range(begin => c_uint, last => c_uint, flags => c_int) -> c_int)
}

/// As closefrom(3).
///
/// # Safety
/// As for closefrom.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: the caller's promise.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// As dup2(2); the library's descriptors cannot be replaced.
///
/// # Safety
/// As for dup2.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    if descriptors::is_own(to) && !thread::is_inside() {
        return refused(libc::EBUSY);
    }
    next!(dup2(from => c_int, to => c_int) -> c_int)
}

/// As dup3(2), likewise.
///
/// # Safety
/// As for dup3.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if descriptors::is_own(to) && !thread::is_inside() {
        return refused(libc::EBUSY);
    }
    next!(dup3(from => c_int, to => c_int, flags => c_int) -> c_int)
}

fn refused(errno: c_int) -> c_int {
    thread::set_errno(errno);
    -1
}
