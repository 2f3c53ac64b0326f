//! Waiting for descriptors. The kernel keeps the list of them and gets the changes of it, so that waiting
//! in vain costs one call that looks at none.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use super::sys::{checked, descriptor};

/// Most descriptors that are waited for at once.
const MAX_FDS: usize = 12;

/// Descriptors to wait for, in the order in which they were added since [`Waiter::begin`].
#[derive(Debug)]
pub struct Waiter {
    epoll: OwnedFd,
    /// The list that the kernel has.
    known: [Interest; MAX_FDS],
    count: usize,
    /// Bits of those at which something happened.
    ready: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interest {
    fd: RawFd,
    events: u32,
}

impl Waiter {
    /// Nothing.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new() -> io::Result<Waiter> {
        // SAFETY: no pointers.
        let epoll = descriptor(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC).into() })?;
        let nothing = Interest { fd: -1, events: 0 };
        Ok(Waiter { epoll, known: [nothing; MAX_FDS], count: 0, ready: 0 })
    }

    /// Begins the list again. To add a descriptor at the same place as before costs nothing. Nobody may close a
    /// descriptor that was added before, or add it at another place.
    pub fn begin(&mut self) {
        self.count = 0;
    }

    /// Adds a descriptor that is waited for until it can be read or written; returns its number in the list.
    ///
    /// # Errors
    /// The error of the kernel.
    ///
    /// # Panics
    /// These are too many.
    pub fn add(&mut self, fd: BorrowedFd<'_>, read: bool, write: bool) -> io::Result<usize> {
        let read = if read { libc::EPOLLIN } else { 0 };
        let write = if write { libc::EPOLLOUT } else { 0 };
        let wanted = Interest { fd: fd.as_raw_fd(), events: (read | write) as u32 };
        let index = self.count;
        let known = self.known[index];
        if known != wanted {
            if known.fd != wanted.fd && known.fd >= 0 {
                self.control(libc::EPOLL_CTL_DEL, known, index)?;
            }
            let is_new = known.fd != wanted.fd;
            let change = if is_new { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD };
            self.control(change, wanted, index)?;
            self.known[index] = wanted;
        }
        self.count += 1;
        Ok(index)
    }

    fn control(&self, change: libc::c_int, interest: Interest, index: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.events, u64: index as u64 };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the event is there for the call.
        checked(unsafe { libc::epoll_ctl(epoll, change, interest.fd, &raw mut event).into() })
            .map(drop)
    }

    /// Waits until one of them is ready, or for `most`; a signal ends it early. Returns whether one is ready.
    ///
    /// # Errors
    /// Errors of the system call: `ENOSYS` before Linux 5.11.
    pub fn wait(&mut self, most: Duration) -> io::Result<bool> {
        let timeout = libc::timespec {
            tv_sec: most.as_secs().min(3600) as _,
            tv_nsec: most.subsec_nanos() as _,
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_FDS];
        self.ready = 0;
        // SAFETY: list and time are there for the call, and the list has that length.
        let count = checked(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                MAX_FDS,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        });
        let count = match count {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            count => count?,
        };
        self.ready = events[..count].iter().fold(0, |bits, event| bits | 1 << event.u64);
        Ok(count > 0)
    }

    /// Whether something happened at the descriptor that was added as number `index`.
    pub fn is_ready(&self, index: usize) -> bool {
        self.ready & 1 << index != 0
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Readiness of two streams at the places 0 and 1 of a waiter.
    fn ready(waiter: &mut Waiter, streams: [(&UnixStream, bool, bool); 2]) -> [bool; 2] {
        waiter.begin();
        for (stream, read, write) in streams {
            waiter.add(stream.as_fd(), read, write).unwrap();
        }
        let any = waiter.wait(Duration::ZERO).unwrap();
        let ready = [0, 1].map(|index| waiter.is_ready(index));
        assert_eq!(any, ready != [false, false]);
        ready
    }

    #[test]
    fn it_waits_for_what_is_on_the_list_now() {
        let (mut a, mut far_a) = UnixStream::pair().unwrap();
        let (b, mut far_b) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::new().unwrap();
        assert_eq!(ready(&mut waiter, [(&a, true, false), (&b, true, false)]), [false, false]);
        far_a.write_all(b"x").unwrap();
        assert_eq!(ready(&mut waiter, [(&a, true, false), (&b, true, false)]), [true, false]);
        // Until it is read, it is ready; and each wish can change.
        assert_eq!(ready(&mut waiter, [(&a, true, false), (&b, false, true)]), [true, true]);
        assert_eq!(ready(&mut waiter, [(&a, false, false), (&b, true, false)]), [false, false]);
        far_b.write_all(b"y").unwrap();
        a.read_exact(&mut [0]).unwrap();
        assert_eq!(ready(&mut waiter, [(&a, true, false), (&b, true, false)]), [false, true]);
        // Another descriptor at a place.
        let (c, mut far_c) = UnixStream::pair().unwrap();
        far_c.write_all(b"z").unwrap();
        assert_eq!(ready(&mut waiter, [(&c, true, false), (&b, false, false)]), [true, false]);
    }

    #[test]
    fn it_waits_for_less_than_a_millisecond() {
        let mut waiter = Waiter::new().unwrap();
        assert!(!waiter.wait(Duration::from_micros(20)).unwrap());
    }
}
