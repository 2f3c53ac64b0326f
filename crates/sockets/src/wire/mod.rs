//! Two processes with a network between them: all of their connections on one TCP connection.
//!
//! A store into the peer's window on one host is a frame here ([`frame`]), which the peer's [`reader`] carries out
//! ([`apply`]) in the peer's own window. Loads are from a window here that stands for the peer's. A message leaves only
//! when its receive was posted, so the reader of the wire always has a place for its bytes and never waits: no
//! connection holds others up, however full its own queues are. Messages leave in parts ([`outbox`]), so that none
//! holds others up by its length either.
//!
//! Receives that were posted may wait for company, but not while the peer says that it wants one.

mod apply;
pub mod frame;
#[cfg(fuzzing)]
pub mod fuzz;
mod handshake;
mod outbox;
mod reader;
mod watch;

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use rackmem_fabric::{Buffer, Inlet};
use rustix::event::{EventfdFlags, eventfd};

pub(super) use self::handshake::{accept, connect};

use self::frame::{Frame, PART_BYTES};
use self::outbox::Outbox;
use self::reader::Reader;
use super::board::Head;
use super::core::Core;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::greet::Keys;

/// A connection to a process, for any number of queue pairs.
#[derive(Debug)]
pub(super) struct Wire {
    socket: OwnedFd,
    out: Mutex<Outbox>,
    /// Copy of the `is_blocked` of the outbox, for threads that only read it.
    is_blocked: AtomicBool,
    reader: Mutex<Reader>,
    /// Whether anything has arrived since the watching thread asked last.
    has_heard: AtomicBool,
    /// Count of looks at the socket by threads of the program.
    looks: AtomicU64,
    /// Threads of the program that sleep until the watching thread wakes them, and whether that thread leaves the
    /// socket to others for a while because they look.
    sleepers: AtomicU32,
    is_napping: AtomicBool,
    /// Wakes the thread that watches.
    waker: OwnedFd,
    watch: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Wire {
    fn new(socket: OwnedFd, keys: Keys, before: Buffer) -> Result<Wire> {
        let (sealer, incoming) = keys.map(|keys| (keys.sealer, keys.incoming)).unzip();
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("cannot make an eventfd", error))?;
        Ok(Wire {
            socket,
            out: Mutex::new(Outbox::new(sealer)),
            is_blocked: AtomicBool::new(false),
            reader: Mutex::new(Reader::new(Inlet::new(before, incoming))),
            has_heard: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            is_napping: AtomicBool::new(false),
            waker,
            watch: Mutex::default(),
        })
    }

    /// Does something with the outbox, and wakes the watching thread if it has to wait for room or to report some.
    fn with<T>(&self, work: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut out = lock(&self.out);
        let done = work(&mut out);
        let is_blocked = out.is_blocked;
        if is_blocked != self.is_blocked.swap(is_blocked, Ordering::AcqRel) || out.is_overrun {
            // The watching thread has to wait for room now, or to report that there is some.
            self.wake();
        }
        done
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    /// Sends a frame at once, and the bytes that wait before it.
    pub(super) fn say(&self, frame: Frame) {
        self.with(|out| {
            out.push(&frame);
            out.flush(self.socket.as_fd());
        });
    }

    /// Sends a receive that was posted: at once if the peer has none left, or wants one, else with others.
    pub(super) fn post(&self, frame: Frame, peer: &Head, is_last: bool) {
        self.with(|out| {
            let is_time = out.hold(&frame);
            // Under the lock: the thread that takes in a want flushes afterwards.
            if peer.take_want() || is_last || is_time {
                out.flush(self.socket.as_fd());
            }
        });
    }

    /// Sends a message, or part of one, soon: [`Wire::flush`] says when.
    #[inline]
    pub(super) fn send(&self, frame: Frame, bytes: &[u8]) {
        debug_assert!(bytes.len() <= PART_BYTES && bytes.len() == frame.length as usize);
        self.with(|out| out.send(self.socket.as_fd(), &frame, bytes));
    }

    /// Sends the bytes that wait.
    #[inline]
    pub(super) fn flush(&self) {
        self.with(|out| out.flush(self.socket.as_fd()));
    }

    /// Whether messages may leave. If not, this connection's owner is woken when they may.
    #[inline]
    pub(super) fn has_room(&self, number: u32, own: &Head) -> bool {
        if !self.is_blocked.load(Ordering::Acquire) {
            return true;
        }
        self.with(|out| {
            if out.is_blocked && own.wants_room.swap(1, Ordering::Relaxed) == 0 {
                out.waiting.push(number);
            }
            !out.is_blocked
        })
    }

    /// Reads bytes that are there, in the thread that waits for them: nobody has to be woken. Returns whether it read
    /// any.
    pub(super) fn look(&self, core: &Core) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let Ok(mut reader) = self.reader.try_lock() else { return false };
        self.read(core, &mut reader)
    }

    /// A thread of the program goes to sleep: another thread has to look until it has woken.
    pub(super) fn begin_sleep(&self) {
        // Of this and the nap, one is first, and sees the other.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.is_napping.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// It has woken.
    pub(super) fn end_sleep(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// The link has ended: the watching thread does the rest.
    pub(super) fn end(&self) {
        self.wake();
    }

    /// Waits until the connection has ended.
    pub(super) fn join(&self) {
        let watch = lock(&self.watch).take();
        if let Some(watch) = watch {
            let _ = watch.join();
        }
    }
}
