//! One socket on one queue pair: bytes, ends of directions, and the end of it all, both ways.
//!
//! One thread reads the socket and sends, the other one receives and writes the socket. Each sleeps in the
//! kernel where its bytes come from, so the one that receives also watches for the peer's end, and ends the
//! other's sleep.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::socket::Socket;
use crate::pair::{Doorbell, QPair, SPIN};
use crate::stream::{Arrived, QStream};
use rackmem_fabric::error::Result;

/// Longest time from the end of a connection's peer to the reset of a socket that nobody reads.
pub const STALL: Duration = Duration::from_secs(1);

/// Longest sleep between two looks at a queue pair: wakes are not lost, so it could be any.
const NAP: Duration = Duration::from_secs(1);

/// Looks at a queue pair before the core is offered to others.
const LOOKS: u32 = 16;

/// A core that is offered to others and does not come back within this is not ours to spin on.
const CROWDED: Duration = Duration::from_micros(300);

/// Waits that sleep at once after a core was found crowded, before one looks again for a while.
const MODEST_WAITS: u32 = 256;

/// Most bytes that are read at once.
const CHUNK_BYTES: usize = 32 << 10;

/// A socket and its queue pair.
#[derive(Debug)]
pub(super) struct Pump {
    stream: Mutex<QStream>,
    doorbell: Doorbell,
    socket: Socket,
    is_broken: AtomicBool,
    /// Waits that are to sleep at once, because others want the cores.
    modest_waits: AtomicU32,
    /// Bytes that were carried: from the socket, and to it.
    carried_bytes: [AtomicU64; 2],
}

/// Something does not go on: the socket failed, or the peer is gone.
struct Broken;

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken
    }
}

impl Pump {
    pub(super) fn new(pair: QPair, socket: Socket) -> Result<Pump> {
        let stream = QStream::new(pair)?;
        let doorbell = stream.doorbell();
        Ok(Pump {
            stream: Mutex::new(stream),
            doorbell,
            socket,
            is_broken: AtomicBool::new(false),
            modest_waits: AtomicU32::new(0),
            carried_bytes: [const { AtomicU64::new(0) }; 2],
        })
    }

    fn lock(&self) -> MutexGuard<'_, QStream> {
        self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Bytes that were carried: from the socket, and to it.
    pub(super) fn carried_bytes(&self) -> [u64; 2] {
        self.carried_bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Carries until both directions have ended, or either side is gone: then `false`. The caller's thread is
    /// one of the two.
    ///
    /// # Errors
    /// There is no second thread.
    pub(super) fn run(&self, stack_bytes: usize) -> io::Result<bool> {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("rackmem-send".to_owned());
            let sends = || self.guard(|| self.send());
            let sender = builder.stack_size(stack_bytes).spawn_scoped(scope, sends)?;
            let has_received = self.guard(|| self.receive());
            let is_in_order = sender.join().unwrap_or(false) && has_received;
            if is_in_order {
                self.socket.settle();
            }
            Ok(is_in_order)
        })
    }

    /// Does one direction; a failure ends the other one, too.
    fn guard(&self, work: impl FnOnce() -> std::result::Result<(), Broken>) -> bool {
        let is_done = work().is_ok();
        if !is_done {
            self.give_up();
        }
        is_done
    }

    /// Ends the connection, whatever is under way.
    pub(super) fn give_up(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.socket.wake_reader();
        self.doorbell.ring();
    }

    fn check(&self) -> std::result::Result<(), Broken> {
        if self.is_broken.load(Ordering::Acquire) { Err(Broken) } else { Ok(()) }
    }

    /// From the socket to the queue pair.
    fn send(&self) -> std::result::Result<(), Broken> {
        let mut bytes = vec![0; CHUNK_BYTES];
        loop {
            let length = self.socket.read(&mut bytes)?;
            // Giving up ends the read, too: that is not the end of the program's stream.
            self.check()?;
            if length == 0 {
                self.until(|stream| Ok(stream.try_shut_down()?.then_some(())))?;
                // The other thread may have waited for this.
                self.doorbell.ring();
                return Ok(());
            }
            let mut rest = &bytes[..length];
            while !rest.is_empty() {
                let sent = self.until(|stream| Ok(stream.try_write(rest)?))?;
                rest = &rest[sent..];
            }
            self.carried_bytes[0].fetch_add(length as u64, Ordering::Relaxed);
        }
    }

    /// From the queue pair to the socket.
    fn receive(&self) -> std::result::Result<(), Broken> {
        let mut bytes = vec![0; CHUNK_BYTES];
        loop {
            match self.until(|stream| Ok(stream.try_read(&mut bytes)?))? {
                Arrived::Bytes(length) => self.write(&bytes[..length])?,
                Arrived::End => break,
                Arrived::Broken => return Err(Broken),
            }
            self.check()?;
        }
        self.socket.end_writing();
        // The other thread may be waiting for its program, and would not see that the peer is gone.
        self.until(|stream| match stream.is_broken() {
            true => Err(Broken),
            false => Ok(stream.is_over().then_some(())),
        })
    }

    fn write(&self, bytes: &[u8]) -> std::result::Result<(), Broken> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The program does not read. It may take its time as long as the peer is there.
                    self.check()?;
                    if self.lock().is_broken() {
                        return Err(Broken);
                    }
                }
                Err(_) => return Err(Broken),
            }
        }
        self.carried_bytes[1].fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this wait is to sleep at once; counts it.
    fn is_modest(&self) -> bool {
        let left = self.modest_waits.load(Ordering::Relaxed);
        self.modest_waits.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    /// Tries until it works: looks for a while, then sleeps until the peer does something.
    fn until<T>(
        &self,
        mut attempt: impl FnMut(&mut QStream) -> std::result::Result<Option<T>, Broken>,
    ) -> std::result::Result<T, Broken> {
        // In this order: a stream at its end is not broken any more.
        let mut look = || match attempt(&mut self.lock()) {
            Ok(None) => self.check().err().map(Err),
            result => result.transpose(),
        };
        let begin = Instant::now();
        let mut looked = Duration::ZERO;
        while looked < SPIN && !self.is_modest() {
            for _ in 0..LOOKS {
                if let Some(result) = look() {
                    return result;
                }
                std::hint::spin_loop();
            }
            // The peer may be waiting for this very core.
            std::thread::yield_now();
            looked = begin.elapsed();
        }
        if looked > CROWDED {
            self.modest_waits.store(MODEST_WAITS, Ordering::Relaxed);
        }
        loop {
            let mut found = None;
            let mut ready = || {
                found = look();
                found.is_some()
            };
            self.doorbell.sleep_unless(&mut ready, NAP);
            if let Some(result) = found {
                return result;
            }
        }
    }
}
