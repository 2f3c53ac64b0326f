//! The doorbell of a daemon: a flag that says whether it sleeps, and an event descriptor for each
//! process that may wake it.
//!
//! The flag is mapped read-only by others. An event descriptor is shared by both ends with all its
//! state, so a hostile process can fill it, empty it, or make it block. The daemon therefore never
//! reads one, and sleeps in an epoll that reports each write as an edge, whatever the count is: such a
//! process cannot hide another's wake-up, nor make the daemon miss one or block.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, epoll};

use super::mapping::{Access, Mapping};
use super::sleep;

/// Bells that one wake-up reports; the others stay reported for the next sleep.
const BELLS_AT_ONCE: usize = 16;

/// The flag's word.
fn asleep(flag: &Mapping) -> &AtomicU32 {
    // SAFETY: the mapping covers the word for as long as it is borrowed.
    unsafe { &*flag.base().cast::<AtomicU32>() }
}

fn ring(event: &OwnedFd) {
    // A full counter belongs to a process that wakes nobody but itself.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// The daemon's end of all its bells.
#[derive(Debug)]
pub struct Bells {
    flag: Mapping,
    epoll: OwnedFd,
    /// For the daemon's own threads.
    own: OwnedFd,
}

impl Bells {
    /// No bell but the daemon's own.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn create() -> io::Result<Bells> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let own = new_event(&epoll)?;
        Ok(Bells { flag: Mapping::create("rackmem-bell", size_of::<AtomicU32>())?, epoll, own })
    }

    /// A bell for one other process; it has no effect any more once it is dropped here.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn add(self: &Arc<Self>) -> io::Result<AddedBell> {
        Ok(AddedBell { event: new_event(&self.epoll)?, bells: self.clone() })
    }

    /// Has a socket wake the daemon when it becomes readable or writable, or ends, until it is closed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        let edges = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(0), edges)?)
    }

    /// Has a descriptor wake the daemon as long as it is readable, until it is closed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn watch_level(&self, fd: impl AsFd) -> io::Result<()> {
        let readable = epoll::EventFlags::IN;
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), readable)?)
    }

    /// Wakes the daemon.
    pub fn ring(&self) {
        ring(&self.own);
    }

    /// Sleeps until a bell rings, unless there is work.
    pub fn sleep_unless(&self, has_work: impl FnOnce() -> bool) {
        asleep(&self.flag).store(1, Ordering::Relaxed);
        sleep::barrier();
        if !has_work() {
            let mut events = Vec::with_capacity(BELLS_AT_ONCE);
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None);
        }
        asleep(&self.flag).store(0, Ordering::Relaxed);
    }
}

fn new_event(epoll: &OwnedFd) -> io::Result<OwnedFd> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(epoll, &event, epoll::EventData::new_u64(0), edges)?;
    Ok(event)
}

/// A bell that another process has or gets.
#[derive(Debug)]
pub struct AddedBell {
    bells: Arc<Bells>,
    event: OwnedFd,
}

impl AddedBell {
    /// The descriptors to hand over: the flag's memory, read-only, and the event.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn fds(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.bells.flag.read_only_fd()?, self.event.as_fd().try_clone_to_owned()?])
    }
}

impl Drop for AddedBell {
    fn drop(&mut self) {
        // Closing is not enough: the other process keeps the event alive.
        let _ = epoll::delete(&self.bells.epoll, &self.event);
    }
}

/// A daemon's bell, in the process that rings it.
#[derive(Debug)]
pub struct Bell {
    flag: Mapping,
    event: OwnedFd,
}

impl Bell {
    /// The bell of a daemon that handed over its descriptors.
    ///
    /// # Errors
    /// They are no bell's.
    pub fn open(flag: OwnedFd, event: OwnedFd) -> io::Result<Bell> {
        let flag = Mapping::open(flag, size_of::<AtomicU32>(), Access::Read)?;
        Ok(Bell { flag, event })
    }

    /// Not zero while the daemon sleeps.
    pub fn asleep(&self) -> &AtomicU32 {
        asleep(&self.flag)
    }

    /// Wakes the daemon.
    pub fn ring(&self) {
        ring(&self.event);
    }

    /// Wakes the daemon if it sleeps: the check after publishing work.
    #[inline]
    pub fn ring_if_asleep(&self) {
        if self.asleep().load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }
}
