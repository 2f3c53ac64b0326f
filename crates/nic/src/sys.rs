//! Interfaces of the kernel that a lent NIC needs, each in its own small file.

pub(super) mod bpf;
pub(super) mod guard;
pub(super) mod interface;
pub(super) mod netlink;
pub(super) mod packet;
pub(super) mod permission;
pub(super) mod tap;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The descriptor that a system call returned, or its error.
pub(super) fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

/// Whether a system call that returns nothing worked.
pub(super) fn checked(result: libc::c_long) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}
