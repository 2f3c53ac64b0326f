//! Ctrl-C, SIGTERM and SIGHUP, for commands that have something to clean up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rackmem_fabric::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Failure, Result};

/// Has a limit on the size of files (`ulimit -f`) be an error of what grows, instead of the end of the process. For
/// those who serve others; a program that they execute would have it so, too.
pub fn outlive_file_limits() {
    // SAFETY: no handler is set.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a null action changes nothing, and the old one has room.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Catches the signals that ask to end. Ctrl-C after one of them ends the process at once: then
/// nothing is cleaned up, but the kernel ends the children. SIGTERM may come again, as from
/// `timeout`, which sends it to the command and to the command's group.
#[derive(Debug)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    // Becomes readable with the first signal and stays so.
    readable: UnixStream,
}

impl Interrupt {
    /// Catches from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn catch() -> Result<Interrupt> {
        Interrupt::catch_all(&[SIGINT, SIGTERM])
    }

    /// Catches the end of the terminal, too, unless that is ignored, as under `nohup`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn catch_with_hangup() -> Result<Interrupt> {
        match is_ignored(SIGHUP) {
            true => Interrupt::catch(),
            false => Interrupt::catch_all(&[SIGINT, SIGTERM, SIGHUP]),
        }
    }

    fn catch_all(signals: &[i32]) -> Result<Interrupt> {
        Interrupt::register(signals).map_err(|error| Failure::io("cannot catch signals", error))
    }

    fn register(signals: &[i32]) -> io::Result<Interrupt> {
        let (readable, written) = UnixStream::pair()?;
        let signal = Arc::new(AtomicUsize::new(0));
        let asked_before = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_default(SIGINT, asked_before.clone())?;
        for &number in signals {
            signal_hook::flag::register(number, asked_before.clone())?;
            signal_hook::flag::register_usize(number, signal.clone(), number as usize)?;
            signal_hook::low_level::pipe::register(number, written.try_clone()?)?;
        }
        Ok(Interrupt { signal, readable })
    }

    /// The signal that has come, if any.
    pub fn received(&self) -> Option<i32> {
        match self.signal.load(Ordering::SeqCst) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Readable once a signal has come.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    /// Ends what waits for a signal, as if one had come.
    pub fn give_up(&self) {
        let _ = signal_hook::low_level::raise(SIGTERM);
    }

    /// Fails if a signal has come.
    ///
    /// # Errors
    /// Names the signal.
    pub fn check(&self) -> Result<()> {
        self.received().map_or(Ok(()), |signal| Err(Failure::interrupted(signal)))
    }

    /// Sleeps, unless a signal comes or has come.
    ///
    /// # Errors
    /// Names the signal.
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        let timeout = timespec(duration);
        let _ = poll(&mut [PollFd::new(&self.readable, PollFlags::IN)], Some(&timeout));
        self.check()
    }
}
