//! Puts interfaces back when this process ends, however it ends: a child that outlives it for a moment.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::netlink;

/// Messages that the kernel gets when this is dropped, or when the process is killed.
#[derive(Debug)]
pub struct Guard {
    /// The child reads from the other end, and gets nothing until this one is closed.
    alive: Option<OwnedFd>,
    child: libc::pid_t,
}

impl Guard {
    /// Guards interfaces of this network namespace; `messages` put them back, in this order.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(messages: &[Vec<u8>]) -> io::Result<Guard> {
        let socket = netlink::open()?;
        let (waits, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let keep = [waits.as_raw_fd(), socket.as_raw_fd()];
        // SAFETY: the child calls nothing but system calls, on memory that was made before.
        let child = unsafe { libc::fork() };
        match child {
            0 => wait_and_tell(keep, messages),
            child if child < 0 => Err(io::Error::last_os_error()),
            child => Ok(Guard { alive: Some(alive), child }),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.alive.take());
        // SAFETY: the child is ours, and nobody else waits for it.
        unsafe { libc::waitpid(self.child, std::ptr::null_mut(), 0) };
    }
}

/// The whole life of the child. It has a session of its own, so what ends a terminal's or a job's
/// processes leaves it alone, and no descriptor but its two, so that nobody waits for it.
fn wait_and_tell([waits, socket]: [i32; 2], messages: &[Vec<u8>]) -> ! {
    // SAFETY: system calls only, with memory of this frame and of `messages`.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"rackmem-guard".as_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let (low, high) = if waits < socket { (waits, socket) } else { (socket, waits) };
        close_range(0, low - 1);
        close_range(low + 1, high - 1);
        close_range(high + 1, i32::MAX);
        let mut nothing = 0u8;
        while libc::read(waits, (&raw mut nothing).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        for message in messages {
            libc::send(socket, message.as_ptr().cast(), message.len(), 0);
        }
        libc::_exit(0)
    }
}

/// Closes descriptors from `first` to `last`.
///
/// # Safety
/// Nobody uses them any more.
unsafe fn close_range(first: i32, last: i32) {
    if first <= last {
        // SAFETY: the caller's promise.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}
