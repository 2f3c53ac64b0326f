//! Memory of an application that it did not share: reached by system calls, one per transfer.
//!
//! Slower than shared memory by a microsecond, but any address of the program can be a local
//! buffer, as in the paper, whose controller walks the application's own page tables.

use std::os::fd::OwnedFd;

use crate::shm::mapping::PAGE_BYTES;
use rackmem_abi::Status;
use rackmem_rmc::{Sink, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Pages that one system call looks at: the kernel takes no more pieces.
const PAGES_AT_ONCE: usize = 1024;

/// The address space of a process.
#[derive(Debug)]
pub struct Foreign {
    pid: Pid,
    /// Tells whether `pid` still is the process it was.
    pidfd: OwnedFd,
}

impl Foreign {
    /// The address space of process `pid`, or `None` if it has ended.
    pub fn open(pid: Pid) -> Option<Foreign> {
        Some(Foreign { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok()? })
    }

    /// Copies out of the process.
    ///
    /// # Errors
    /// `BadLocalBuffer`: it is gone, the memory is not there, or the kernel allows no access.
    pub fn load(&self, address: u64, out: Sink<'_>) -> Result<(), Status> {
        let ours = piece(out.as_mut_ptr(), out.len());
        self.transfer(ours, &[piece(address as *mut u8, out.len())], libc::process_vm_readv)
    }

    /// Copies into the process.
    ///
    /// # Errors
    /// As [`Foreign::load`].
    pub fn store(&self, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        let ours = piece(bytes.as_ptr().cast_mut(), bytes.len());
        self.transfer(ours, &[piece(address as *mut u8, bytes.len())], libc::process_vm_writev)
    }

    /// Whether all of a buffer can be loaded from, and stored to if `writes`: a byte of each of its
    /// pages is loaded, and stored as it was. The buffer is the operation's, so nobody changes it
    /// in between.
    ///
    /// # Errors
    /// As [`Foreign::load`].
    pub fn check(&self, address: u64, length: usize, writes: bool) -> Result<(), Status> {
        if length == 0 {
            return Ok(());
        }
        let end = address + length as u64;
        let page_of = |at: u64| at & !(PAGE_BYTES as u64 - 1);
        let first_bytes = (page_of(address)..end).step_by(PAGE_BYTES).map(|at| at.max(address));
        let pages: Vec<_> = first_bytes.map(|at| piece(at as *mut u8, 1)).collect();
        let mut bytes = [0u8; PAGES_AT_ONCE];
        for pages in pages.chunks(PAGES_AT_ONCE) {
            let ours = piece(bytes.as_mut_ptr(), pages.len());
            self.transfer(ours, pages, libc::process_vm_readv)?;
            if writes {
                self.transfer(ours, pages, libc::process_vm_writev)?;
            }
        }
        Ok(())
    }

    fn transfer(
        &self,
        ours: libc::iovec,
        theirs: &[libc::iovec],
        call: VmCall,
    ) -> Result<(), Status> {
        if ours.iov_len == 0 {
            return Ok(());
        }
        if self.is_gone() {
            return Err(Status::BadLocalBuffer);
        }
        let (pid, count) = (self.pid.as_raw_nonzero().get(), theirs.len() as libc::c_ulong);
        // SAFETY: `ours` describes a live slice of this process; `theirs` is the kernel's to check.
        let done = unsafe { call(pid, &ours, 1, theirs.as_ptr(), count, 0) };
        if done == ours.iov_len as isize { Ok(()) } else { Err(Status::BadLocalBuffer) }
    }

    /// A number may be used again once its process was reaped.
    fn is_gone(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now)), Ok(0))
    }
}

fn piece(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

type VmCall = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;
