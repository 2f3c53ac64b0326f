//! Carriers of datagrams, reliable or not.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Carries datagrams to one peer. It may lose, delay, reorder, double and damage them.
///
/// Times are those of one clock that only goes forward, since any moment.
pub trait Wire: std::fmt::Debug + Send {
    /// Most bytes of a datagram.
    fn max_bytes(&self) -> usize;

    /// Sends a datagram, perhaps together with later ones at [`Wire::flush`].
    ///
    /// # Errors
    /// `ConnectionRefused` if the peer is known to be gone. A full queue is no error: the datagram is lost.
    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()>;

    /// Sends datagrams that still wait.
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn flush(&mut self, _now: Duration) -> io::Result<()> {
        Ok(())
    }

    /// The length of a datagram that has arrived, which is put into `into`; `None` if there is none.
    ///
    /// # Errors
    /// `ConnectionRefused` if the peer is known to be gone.
    fn receive(&mut self, into: &mut [u8], now: Duration) -> io::Result<Option<usize>>;

    /// Readable when something may have arrived, if the kernel knows.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Time at which the wire itself has something to do, with nothing arriving.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Datagrams that were dropped because the peer had not sent them.
    fn forged(&self) -> u64 {
        0
    }
}

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a perfect wire within this process.
#[derive(Debug)]
pub struct MemoryWire {
    outgoing: Queue,
    incoming: Queue,
    max_bytes: usize,
}

impl MemoryWire {
    /// Both ends of a wire for datagrams of up to `max_bytes`.
    pub fn pair(max_bytes: usize) -> (MemoryWire, MemoryWire) {
        let (there, back) = (Queue::default(), Queue::default());
        (
            MemoryWire { outgoing: there.clone(), incoming: back.clone(), max_bytes },
            MemoryWire { outgoing: back, incoming: there, max_bytes },
        )
    }
}

impl Wire for MemoryWire {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn send(&mut self, datagram: &[u8], _now: Duration) -> io::Result<()> {
        let mut queue = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(datagram.to_vec());
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], _now: Duration) -> io::Result<Option<usize>> {
        let mut queue = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(queue.pop_front().map(|datagram| {
            let length = datagram.len().min(into.len());
            into[..length].copy_from_slice(&datagram[..length]);
            length
        }))
    }
}
