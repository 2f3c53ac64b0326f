//! Memory of an application that it did not share: reached by system calls, one per transfer.
//!
//! Slower than shared memory by a microsecond, but any address of the program can be a local
//! buffer, as in the paper, whose controller walks the application's own page tables.

use std::os::fd::OwnedFd;

use rackmem_abi::Status;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The address space of a process.
#[derive(Debug)]
pub struct Foreign {
    pid: Pid,
    /// Tells whether `pid` still is the process it was.
    pidfd: OwnedFd,
}

impl Foreign {
    /// That of process `pid`, or `None` if it is gone.
    pub fn open(pid: Pid) -> Option<Foreign> {
        Some(Foreign { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Copies out of the process.
    ///
    /// # Errors
    /// `BadLocalBuffer`: it is gone, the memory is not there, or the kernel allows no access.
    pub fn load(&self, address: u64, out: &mut [u8]) -> Result<(), Status> {
        let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
        self.transfer(local, address, libc::process_vm_readv)
    }

    /// Copies into the process.
    ///
    /// # Errors
    /// As [`Foreign::load`].
    pub fn store(&self, address: u64, bytes: &[u8]) -> Result<(), Status> {
        let local =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        self.transfer(local, address, libc::process_vm_writev)
    }

    fn transfer(&self, local: libc::iovec, address: u64, call: VmCall) -> Result<(), Status> {
        if local.iov_len == 0 {
            return Ok(());
        }
        if self.is_gone() {
            return Err(Status::BadLocalBuffer);
        }
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: local.iov_len };
        // SAFETY: `local` describes a live slice of this process; `remote` is the kernel's to check.
        let done = unsafe { call(self.pid.as_raw_nonzero().get(), &local, 1, &remote, 1, 0) };
        if done == local.iov_len as isize { Ok(()) } else { Err(Status::BadLocalBuffer) }
    }

    /// A number may be used again once its process was reaped.
    fn is_gone(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

type VmCall = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;
