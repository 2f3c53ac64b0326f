//! How to wake a daemon: a flag that says whether it sleeps, and an event descriptor.
//!
//! The flag is mapped read-only by others and the descriptor counts, so that a hostile client can
//! neither hide another's wake-up nor make the daemon miss one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};

use super::mapping::{Access, Mapping};
use super::sleep;

/// A daemon's bell, at the daemon's or at another's end.
#[derive(Debug)]
pub struct Bell {
    flag: Mapping,
    event: OwnedFd,
}

impl Bell {
    /// A new bell, for a daemon.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = rustix::event::eventfd(0, flags)?;
        Ok(Bell { flag: Mapping::create("rackmem-bell", size_of::<AtomicU32>())?, event })
    }

    /// The bell of a daemon that handed over its descriptors.
    ///
    /// # Errors
    /// They are no bell's.
    pub fn open(flag: OwnedFd, event: OwnedFd) -> io::Result<Bell> {
        let flag = Mapping::open(flag, size_of::<AtomicU32>(), Access::Read)?;
        Ok(Bell { flag, event })
    }

    /// What to hand over: the flag's memory, read-only.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn flag_fd(&self) -> io::Result<OwnedFd> {
        self.flag.read_only_fd()
    }

    /// What to hand over: the event descriptor.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Not zero while the daemon sleeps.
    pub fn asleep(&self) -> &AtomicU32 {
        // SAFETY: the mapping covers the word for as long as `self`.
        unsafe { &*self.flag.base().cast::<AtomicU32>() }
    }

    /// Wakes the daemon.
    pub fn ring(&self) {
        // A full counter means that it is being woken already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Wakes the daemon if it sleeps: the check after publishing work.
    #[inline]
    pub fn ring_if_asleep(&self) {
        if self.asleep().load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    /// Sleeps until the bell rings, unless there is work; for the daemon.
    pub fn sleep_unless(&self, has_work: impl FnOnce() -> bool) {
        self.asleep().store(1, Ordering::Relaxed);
        sleep::barrier();
        if !has_work() {
            let _ = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], None);
        }
        self.asleep().store(0, Ordering::Relaxed);
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }
}
