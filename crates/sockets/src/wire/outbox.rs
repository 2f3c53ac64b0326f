//! Frames that leave: several together where they may, and none before its turn when the network is slow.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rackmem_fabric::Sealer;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::frame::Frame;
use crate::board::DEPTH;

/// Messages up to this size are put together before they leave; the bytes of larger ones leave from where they
/// are.
const SMALL_BYTES: usize = 8 << 10;

/// Size at which frames that were put together leave.
const BATCH_BYTES: usize = 64 << 10;

/// Receives that wait for company, at most: fewer than a sender can use up meanwhile.
const HELD_RECEIVES: usize = DEPTH / 4;

/// Most bytes that wait for a network that takes no more: receives of all connections that there may be are fewer. A
/// peer for which more come together does not read, though it sends.
const MAX_WAITING_BYTES: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Keys of what is sent, and frames that are not sealed yet.
    sealer: Option<Sealer>,
    plain: Vec<u8>,
    /// Bytes for the socket.
    bytes: Vec<u8>,
    /// Bytes at the front that were sent.
    sent: usize,
    held_receives: usize,
    /// Whether the kernel did not take all: then nothing but small frames comes in.
    pub(super) is_blocked: bool,
    /// Connections that wait for the end of that.
    pub(super) waiting: Vec<u32>,
    /// Whether more came together than may wait.
    pub(super) is_overrun: bool,
    is_gone: bool,
}

impl Outbox {
    /// An empty one; without a sealer bytes leave as they are.
    pub(super) fn new(sealer: Option<Sealer>) -> Outbox {
        Outbox { sealer, ..Outbox::default() }
    }

    /// Frames on their way out, as far as they are not sealed.
    fn staged(&mut self) -> &mut Vec<u8> {
        if self.sealer.is_some() { &mut self.plain } else { &mut self.bytes }
    }

    /// Seals what is staged, and bytes behind it.
    fn seal(&mut self, behind: &[u8]) {
        let Some(sealer) = &mut self.sealer else { return };
        for plain in [&self.plain[..], behind].into_iter().filter(|plain| !plain.is_empty()) {
            self.is_gone |= sealer.seal(plain, &mut self.bytes).is_err();
        }
        self.plain.clear();
    }

    /// Puts a frame behind the others.
    pub(super) fn push(&mut self, frame: &Frame) {
        if self.plain.len() + self.bytes.len() - self.sent > MAX_WAITING_BYTES {
            self.is_overrun = true;
            self.give_up();
        }
        self.staged().extend_from_slice(&frame.encode());
    }

    /// Puts a receive behind the others; returns whether there are so many that they should leave.
    pub(super) fn hold(&mut self, frame: &Frame) -> bool {
        self.push(frame);
        self.held_receives += 1;
        self.held_receives >= HELD_RECEIVES
    }

    /// Sends a frame with its bytes, soon if they are few and now if they are many.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, frame: &Frame, bytes: &[u8]) {
        if self.is_blocked || bytes.len() <= SMALL_BYTES {
            self.push(frame);
            self.staged().extend_from_slice(bytes);
            if self.staged().len() >= BATCH_BYTES {
                self.flush(socket);
            }
            return;
        }
        self.push(frame);
        if self.sealer.is_some() {
            self.seal(bytes);
            return self.flush(socket);
        }
        let here = self.bytes.len() - self.sent;
        let parts = [IoSlice::new(&self.bytes[self.sent..]), IoSlice::new(bytes)];
        let left = leave(socket, &parts);
        let behind = &bytes[left.unwrap_or(0).saturating_sub(here)..];
        self.bytes.extend_from_slice(behind);
        self.account(left.map(|left| left.min(here)));
        if self.has_bytes() {
            self.flush(socket);
        }
    }

    fn has_bytes(&self) -> bool {
        self.bytes.len() > self.sent
    }

    fn account(&mut self, left: Option<usize>) {
        self.held_receives = 0;
        match left {
            Some(left) => self.sent = (self.sent + left).min(self.bytes.len()),
            None => self.give_up(),
        }
        if !self.has_bytes() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= BATCH_BYTES {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn give_up(&mut self) {
        self.is_gone = true;
        self.plain.clear();
        self.bytes.clear();
        self.sent = 0;
    }

    /// Sends as many bytes as the kernel takes.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>) {
        self.seal(&[]);
        if self.is_gone {
            self.give_up();
        }
        while self.has_bytes() {
            match leave(socket, &[IoSlice::new(&self.bytes[self.sent..])]) {
                Some(0) => {
                    self.is_blocked = true;
                    return;
                }
                left => self.account(left),
            }
        }
        self.account(Some(0));
        self.is_blocked = false;
    }
}

/// Sends without waiting; returns the number of bytes, or `None` if nobody is there any more.
fn leave(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Option<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut none = SendAncillaryBuffer::default();
    let sent = rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, parts, &mut none, flags));
    match sent.map_err(io::Error::from) {
        Ok(sent) => Some(sent),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}
