//! SIGTERM and SIGINT as a readable descriptor.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks the signals in this thread, and those it starts from now on, and returns a descriptor
/// that becomes readable when one comes.
pub fn catch() -> io::Result<OwnedFd> {
    // SAFETY: plain calls on a set that lives on the stack; the new descriptor is owned by no one
    // else.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Waits until a signal has come.
pub fn wait(signals: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, poll};
    // Nobody reads the descriptor, so it stays readable.
    while poll(&mut [PollFd::new(signals, PollFlags::IN)], None) != Ok(1) {}
}

/// Ends this process as SIGTERM would when it is dropped.
pub struct RaiseAtEnd;

impl Drop for RaiseAtEnd {
    fn drop(&mut self) {
        // SAFETY: sends a signal that this process catches.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    }
}
