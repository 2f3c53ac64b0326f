//! Bytes on a connection that does not block, sealed or not. Bytes are staged in memory; a turn of the owner writes all
//! of them at once, and reads at most once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::{Buffer, Inlet, Received, Records, Seal, Sealer};

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// The same of a peer that has proved nothing.
const FIRST_READ_BYTES: usize = 4 << 10;

/// Bytes that have left, beyond which the rest of a buffer moves to its front.
const SENT_BYTES: usize = 256 << 10;

/// One end of a connection.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    sealer: Option<Sealer>,
    /// Bytes that the owner has staged.
    out: Vec<u8>,
    /// The same in sealed records, for the socket.
    records: Vec<u8>,
    /// Bytes of `records`, or of `out` in cleartext, that have left.
    sent: usize,
    /// Bytes that have come, and that the owner has not taken.
    input: Inlet,
    read_bytes: usize,
    may_have_more: bool,
    lost: Option<String>,
}

impl Stream {
    /// A stream in cleartext, which reads little at a time.
    pub fn new(socket: OwnedFd) -> Stream {
        Stream {
            socket,
            sealer: None,
            out: Vec::new(),
            records: Vec::new(),
            sent: 0,
            input: Inlet::default(),
            read_bytes: FIRST_READ_BYTES,
            may_have_more: true,
            lost: None,
        }
    }

    /// A stream whose handshake others have done: its keys, unless it is in cleartext, and what has come behind it.
    pub fn greeted(socket: OwnedFd, keys: Option<Box<Records>>, input: Buffer) -> Stream {
        let (sealer, incoming) = keys.map(|keys| (keys.sealer, keys.incoming)).unzip();
        let input = Inlet::new(input, incoming);
        Stream { sealer, input, read_bytes: READ_BYTES, ..Stream::new(socket) }
    }

    /// Seals everything from here on. Input that was not taken yet is sealed already.
    pub fn seal(&mut self, seal: Seal) {
        debug_assert!(self.out.is_empty(), "what was staged in cleartext has left");
        let mut input = std::mem::take(&mut *self.input);
        match Records::new(seal, &mut input) {
            Ok(Records { sealer, incoming }) => {
                self.sealer = Some(sealer);
                self.input = Inlet::new(input, Some(incoming));
            }
            Err(error) => self.lose(error.to_string()),
        }
    }

    /// The connection, whose keys and bytes nobody needs any more.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Reads much at a time from here on: the peer has proved who it is.
    pub fn read_more(&mut self) {
        self.read_bytes = READ_BYTES;
    }

    /// Reason for the end of the stream, if it has ended.
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Ends the stream; the peer and whoever watches the socket learn of it.
    pub fn lose(&mut self, why: impl Into<String>) {
        if self.lost.is_none() {
            self.lost = Some(why.into());
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }

    /// The buffer that the next [`Stream::transmit`] sends.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Bytes that have not left yet.
    #[inline]
    pub fn staged_bytes(&self) -> usize {
        self.out.len() + self.records.len() - self.sent
    }

    /// Writes what is staged, as far as the socket takes it. Returns whether anything left.
    pub fn transmit(&mut self) -> bool {
        if self.lost.is_some() {
            (self.out, self.records, self.sent) = (Vec::new(), Vec::new(), 0);
            return false;
        }
        if let Some(sealer) = &mut self.sealer
            && !self.out.is_empty()
        {
            let sealed = sealer.seal(&self.out, &mut self.records);
            self.out.clear();
            if let Err(error) = sealed {
                self.lose(error.to_string());
                return false;
            }
        }
        let before = self.sent;
        let wire = if self.sealer.is_some() { &mut self.records } else { &mut self.out };
        let ended = send(&self.socket, wire, &mut self.sent);
        let has_moved = self.sent != before;
        if self.sent == wire.len() {
            wire.clear();
            self.sent = 0;
        } else if self.sent >= SENT_BYTES {
            wire.drain(..self.sent);
            self.sent = 0;
        }
        if let Err(error) = ended {
            // The last words of the peer may be there.
            while self.receive() {}
            self.lose(io::Error::from(error).to_string());
        }
        has_moved
    }

    /// Reads once. Returns whether anything came.
    pub fn receive(&mut self) -> bool {
        if self.lost.is_some() {
            return false;
        }
        let socket = self.socket.as_fd();
        match self.input.receive(socket, Default::default(), self.read_bytes, RecvFlags::DONTWAIT) {
            Ok(Received { bytes: 0, .. }) => self.lose("the peer has closed the connection"),
            Ok(_) => {
                self.may_have_more = true;
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.may_have_more = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.lose(error.to_string()),
        }
        false
    }

    /// Bytes that have come and were not taken.
    #[inline]
    pub fn input(&self) -> &[u8] {
        self.input.bytes()
    }

    /// The same, for an owner that takes it, and the buffer that the next [`Stream::transmit`] sends.
    #[inline]
    pub fn both(&mut self) -> (&mut Buffer, &mut Vec<u8>) {
        (&mut self.input, &mut self.out)
    }

    /// Forgets the first bytes of the input.
    pub fn take(&mut self, bytes: usize) {
        self.input.take(bytes);
    }

    /// Whether the last read found something, so that there may be more. Of later bytes, and of room for what is
    /// staged, the socket's edges tell.
    #[inline]
    pub fn may_have_more(&self) -> bool {
        self.may_have_more && self.lost.is_none()
    }
}

fn send(socket: &OwnedFd, wire: &[u8], sent: &mut usize) -> Result<(), Errno> {
    while *sent < wire.len() {
        match rustix::net::send(socket, &wire[*sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(bytes) => *sent += bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
