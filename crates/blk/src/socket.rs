//! A client's socket: gathering sends, scattering receives, and waiting that spins shortly first.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};

/// Time that a thread polls for the next request before it sleeps. A wake-up by another core costs about as much as a
/// few of these polls, so a client that waits for each answer gains by it.
pub const SPIN: Duration = Duration::from_micros(50);

/// Most pieces of one system call (`UIO_MAXIOV`).
pub const MAX_PIECES: usize = 1024;

/// Misses until a connection stops to spin; it begins again when requests come in quick succession.
const PATIENCE: i32 = 4;

/// Threads that spin now; never all cores do.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// Bytes in memory that is not Rust's alone: a store's mapping.
pub use libc::iovec as Piece;

/// A piece of memory.
pub fn piece(base: *const u8, len: usize) -> Piece {
    Piece { iov_base: base.cast_mut().cast(), iov_len: len }
}

/// Takes `bytes` from the front of pieces, and returns those that are left.
pub(super) fn advance(mut pieces: &mut [Piece], mut bytes: usize) -> &mut [Piece] {
    while let Some(first) = pieces.first_mut() {
        if bytes < first.iov_len {
            // SAFETY: stays inside of the piece.
            first.iov_base = unsafe { first.iov_base.byte_add(bytes) };
            first.iov_len -= bytes;
            break;
        }
        bytes -= first.iov_len;
        pieces = &mut pieces[1..];
    }
    pieces
}

/// A connection's byte stream: a socket, or TLS over one.
pub trait Stream: Send {
    /// Waits for bytes and puts them into the pieces, front first. 0 is the end.
    ///
    /// # Errors
    /// The error of the kernel.
    ///
    /// # Safety
    /// The pieces are memory that may be written.
    unsafe fn receive(&mut self, into: &mut [Piece]) -> io::Result<usize>;

    /// As [`Stream::receive`], without waiting: `WouldBlock` if there is nothing.
    ///
    /// # Errors
    /// The error of the kernel.
    ///
    /// # Safety
    /// As [`Stream::receive`].
    unsafe fn receive_now(&mut self, into: &mut [Piece]) -> io::Result<usize>;

    /// Sends all of it.
    ///
    /// # Errors
    /// The error of the kernel.
    ///
    /// # Safety
    /// The pieces are memory that may be read.
    unsafe fn send(&mut self, from: &mut [Piece]) -> io::Result<()>;
}

/// A connected socket that blocks.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// Score of recent spins: more for each that paid off, less for each other. Below 0 none is made.
    luck: i32,
    may_spin: bool,
    deadline: Option<Instant>,
}

impl Socket {
    /// A socket of a client.
    pub fn new(fd: OwnedFd) -> Socket {
        Socket { fd, luck: 0, may_spin: spinners() > 0, deadline: None }
    }

    /// Sets the moment from which receiving and sending fail with `WouldBlock`, whatever has come or left before.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.deadline = deadline;
        match deadline {
            Some(_) => Ok(()),
            None => self.limit_calls(None),
        }
    }

    fn limit_calls(&self, left: Option<Duration>) -> io::Result<()> {
        for timeout in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&self.fd, timeout, left)?;
        }
        Ok(())
    }

    /// Limits the next call by the deadline, if there is one.
    #[inline]
    fn check_deadline(&self) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::WouldBlock.into()),
            left => self.limit_calls(Some(left)),
        }
    }

    unsafe fn receive_with(&self, into: &mut [Piece], flags: i32) -> io::Result<usize> {
        // SAFETY: zeros are an empty message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = into.as_mut_ptr();
        message.msg_iovlen = into.len() as _;
        loop {
            self.check_deadline()?;
            // SAFETY: the pieces may be written, as the caller promises; a wrong address is EFAULT.
            let got = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, flags) };
            match usize::try_from(got) {
                Ok(bytes) => return Ok(bytes),
                Err(_) => retry(io::Error::last_os_error())?,
            }
        }
    }

    /// Looks again and again, for [`SPIN`]; `None` if nothing came.
    unsafe fn spin(&mut self, into: &mut [Piece]) -> Option<io::Result<usize>> {
        if SPINNING.fetch_add(1, Ordering::Relaxed) >= spinners() {
            SPINNING.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let begin = Instant::now();
        let found = loop {
            // SAFETY: as the caller promises.
            match unsafe { self.receive_with(into, libc::MSG_DONTWAIT) } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                found => break Some(found),
            }
            if begin.elapsed() >= SPIN {
                break None;
            }
            // The client may be waiting for this very core.
            std::thread::yield_now();
        };
        SPINNING.fetch_sub(1, Ordering::Relaxed);
        self.luck = (self.luck + if found.is_some() { 1 } else { -1 }).clamp(-1, PATIENCE);
        found
    }
}

/// Threads that may spin at once.
fn spinners() -> usize {
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from)) / 2
}

/// Whether a call is to be made again.
fn retry(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

impl Stream for Socket {
    unsafe fn receive(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        if self.may_spin && self.luck >= 0 {
            // SAFETY: as the caller promises.
            if let Some(found) = unsafe { self.spin(into) } {
                return found;
            }
        }
        let begin = Instant::now();
        // SAFETY: as the caller promises.
        let got = unsafe { self.receive_with(into, 0) };
        if begin.elapsed() < SPIN {
            self.luck += 1;
        }
        got
    }

    unsafe fn receive_now(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        // SAFETY: as the caller promises.
        unsafe { self.receive_with(into, libc::MSG_DONTWAIT) }
    }

    unsafe fn send(&mut self, from: &mut [Piece]) -> io::Result<()> {
        let mut rest = from;
        while !rest.is_empty() {
            // SAFETY: zeros are an empty message header.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = rest.as_mut_ptr();
            message.msg_iovlen = rest.len().min(MAX_PIECES) as _;
            self.check_deadline()?;
            // SAFETY: the pieces may be read, as the caller promises.
            let sent = unsafe {
                libc::sendmsg(self.fd.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
            };
            match usize::try_from(sent) {
                Ok(bytes) => rest = advance(rest, bytes),
                Err(_) => retry(io::Error::last_os_error())?,
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_used_up_from_the_front() {
        let bytes = [0_u8; 10];
        let mut pieces =
            [piece(bytes.as_ptr(), 3), piece(bytes.as_ptr(), 0), piece(bytes.as_ptr(), 7)];
        let rest = advance(&mut pieces, 2);
        assert_eq!((rest.len(), rest[0].iov_len), (3, 1));
        let rest = advance(rest, 4);
        assert_eq!((rest.len(), rest[0].iov_len), (1, 4));
        assert_eq!(rest[0].iov_base.cast_const().cast(), &raw const bytes[3]);
        assert!(advance(rest, 4).is_empty());
    }
}
