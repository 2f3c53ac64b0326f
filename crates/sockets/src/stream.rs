//! Bytes without message boundaries on a queue pair, for programs that know sockets (TSM §2.4, socket layer).
//!
//! The registered memory is cut into equal buffers that are always posted; a write is a message straight from
//! the caller's slice, and a read copies out of the buffer that came first.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Duration;

use rackmem_rmc::two_sided::{Completion, Descriptor, Kind, Status};

use super::board::DEPTH;
use super::pair::{Doorbell, QPair};
use rackmem_fabric::error::Result;

/// Longest wait of a read or write; they wait again and again.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A byte stream in both directions.
#[derive(Debug)]
pub struct QStream {
    pair: QPair,
    buffer_bytes: u64,
    /// Buffers with bytes that were not read: number of the buffer, and which bytes of it.
    arrived: VecDeque<(u64, std::ops::Range<u64>)>,
    /// Status with which the peer's direction has ended.
    end: Option<Status>,
    /// Whether the peer has said that no more bytes will come.
    peer_is_done: bool,
    /// Whether this end has said so.
    is_done: bool,
}

/// Result of a receive that does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Bytes that were received.
    Bytes(usize),
    /// The peer has said that these were all.
    End,
    /// The peer is gone and has not said so.
    Broken,
}

impl QStream {
    /// A stream on a new connection.
    ///
    /// # Errors
    /// There is less than a byte of registered memory for each buffer.
    pub fn new(mut pair: QPair) -> Result<QStream> {
        let buffer_bytes = pair.registered_bytes() / DEPTH as u64;
        for id in 0..DEPTH as u64 {
            pair.post_receive(Descriptor {
                offset: id * buffer_bytes,
                size_bytes: buffer_bytes,
                id,
            })?;
        }
        Ok(QStream {
            pair,
            buffer_bytes,
            arrived: VecDeque::with_capacity(DEPTH),
            end: None,
            peer_is_done: false,
            is_done: false,
        })
    }

    fn take(&mut self, completion: &Completion) {
        debug_assert_eq!(completion.kind, Kind::Receive);
        match completion.status {
            // A message without bytes says that no more will come.
            Status::Done if completion.length_bytes == 0 => {
                self.end = Some(Status::Closed);
                self.peer_is_done = true;
            }
            Status::Done => {
                self.arrived.push_back((completion.id, 0..completion.length_bytes));
            }
            // A stream's sender cuts messages to the buffer.
            Status::TooLong => self.end = Some(Status::Lost),
            status => {
                self.end.get_or_insert(status);
            }
        }
    }

    /// Waits until there is something to read, or nothing more will come; `false` after the timeout.
    pub fn wait_readable(&mut self, timeout: Duration) -> bool {
        while self.arrived.is_empty() && self.end.is_none() {
            let Some(completion) = self.pair.wait(timeout) else { return false };
            self.take(&completion);
        }
        true
    }

    /// Says that no more bytes will be written.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn shut_down(&mut self) -> io::Result<()> {
        self.send(&[])?;
        self.is_done = true;
        Ok(())
    }

    /// Reads bytes that have come; `None` if there are none yet.
    ///
    /// # Errors
    /// None that the peer can cause.
    pub fn try_read(&mut self, into: &mut [u8]) -> io::Result<Option<Arrived>> {
        self.look();
        let mut length = 0;
        while length < into.len() && !self.arrived.is_empty() {
            length += self.copy_out(&mut into[length..])?;
        }
        Ok(match self.end {
            _ if length > 0 => Some(Arrived::Bytes(length)),
            None => None,
            Some(_) if self.peer_is_done => Some(Arrived::End),
            Some(_) => Some(Arrived::Broken),
        })
    }

    /// Sends as many bytes as there is room for; returns their number, or `None` if there is no room yet.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn try_write(&mut self, from: &[u8]) -> io::Result<Option<usize>> {
        match self.pair.try_send(from) {
            None if self.pair.end().is_some() => Err(io::ErrorKind::BrokenPipe.into()),
            sent => Ok(sent),
        }
    }

    /// Says that no more bytes will be written; `false` if there is no room to say it yet.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn try_shut_down(&mut self) -> io::Result<bool> {
        self.is_done |= self.try_write(&[])?.is_some();
        Ok(self.is_done)
    }

    /// Whether both ends have said that no more bytes will come: it may be closed.
    pub fn is_over(&self) -> bool {
        self.is_done && self.peer_is_done
    }

    /// Whether the peer is gone though this is not over.
    pub fn is_broken(&mut self) -> bool {
        self.look();
        let is_gone = self.pair.end().is_some() || (self.end.is_some() && !self.peer_is_done);
        is_gone && !self.is_over()
    }

    pub(super) fn doorbell(&self) -> Doorbell {
        self.pair.doorbell()
    }

    /// Takes all that has come.
    fn look(&mut self) {
        while let Some(completion) = self.pair.poll() {
            self.take(&completion);
        }
    }

    /// Copies out of the first buffer that has bytes, and posts it again if those were its last ones.
    fn copy_out(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some((id, range)) = self.arrived.front_mut() else { return Ok(0) };
        let (id, bytes) = (*id, into.len().min((range.end - range.start) as usize));
        let offset = id * self.buffer_bytes;
        let from = offset + range.start;
        range.start += bytes as u64;
        let is_empty = range.is_empty();
        self.pair.load(from, &mut into[..bytes]).map_err(io::Error::other)?;
        if is_empty {
            self.arrived.pop_front();
            let size_bytes = self.buffer_bytes;
            let buffer = Descriptor { offset, size_bytes, id };
            self.pair.post_receive(buffer).map_err(io::Error::other)?;
        }
        Ok(bytes)
    }

    fn send(&mut self, from: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(bytes) = self.pair.try_send(from) {
                return Ok(bytes);
            }
            if self.pair.end().is_some() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.pair.wait_to_send(FOR_EVER);
            // Messages that have arrived meanwhile make no room here, but must not keep the wait from waiting.
            self.look();
        }
    }
}

impl Read for QStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        while !self.wait_readable(FOR_EVER) {}
        if self.arrived.is_empty() {
            return match self.end {
                Some(Status::Closed) | None => Ok(0),
                Some(_) => Err(io::ErrorKind::ConnectionReset.into()),
            };
        }
        self.copy_out(into)
    }
}

impl Write for QStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if from.is_empty() {
            return Ok(0);
        }
        self.send(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
