//! A client without manners: bytes and descriptors on a daemon's socket.

#![allow(dead_code)]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rackmem::protocol::{PROTOCOL_VERSION, Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::queue::QueueMemory;
use rackmem::status::NodeStatus;
use rackmem::transport::{Channel, Received};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use super::BOUND;

/// More descriptors than a daemon takes with a message.
pub const MANY_FDS: usize = 8;

pub struct Raw(Channel);

impl Raw {
    pub fn connect(rack: &Rack, nid: u16) -> Raw {
        Raw::connect_to(&rack.socket_path(nid))
    }

    pub fn connect_to(path: &Path) -> Raw {
        let deadline = Instant::now() + BOUND;
        let channel = loop {
            match Channel::connect(path) {
                // Too many wait to be accepted.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "nobody accepts connections");
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => break other.unwrap(),
            }
        };
        for way in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&channel, way, Some(BOUND)).unwrap();
        }
        Raw(channel)
    }

    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MANY_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let flags = SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags)?;
        Ok(())
    }

    /// The answer, or `None` if the daemon ended the connection.
    ///
    /// # Panics
    /// If neither comes in time.
    pub fn answer(&self) -> Option<Received<Response>> {
        match self.0.receive() {
            Ok(received) => Some(received),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no answer"),
            Err(_) => None,
        }
    }

    pub fn call(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Option<Received<Response>> {
        self.send(&serde_json::to_vec(request).unwrap(), fds).ok()?;
        self.answer()
    }

    pub fn hello(&self) -> Received<Response> {
        self.call(&Request::Hello { version: PROTOCOL_VERSION }, &[]).expect("hello is answered")
    }

    /// Joins a context by its open file; returns the segment, the bell's flag and its event.
    pub fn open(&self, ctx_id: u16, segment_bytes: u64, file: BorrowedFd<'_>) -> [OwnedFd; 3] {
        let open = Request::Open { ctx_id, segment_bytes, shared: true };
        let got = self.call(&open, &[file]).unwrap();
        assert!(matches!(got.message, Response::Opened { .. }), "{:?}", got.message);
        got.fds.try_into().unwrap()
    }

    /// A member of a context with every right, and what [`Raw::open`] returns.
    pub fn member(rack: &Rack, nid: u16, ctx_id: u16, segment_bytes: u64) -> (Raw, [OwnedFd; 3]) {
        let raw = Raw::connect(rack, nid);
        raw.hello();
        let file = rack.open_context(ctx_id, false).unwrap();
        let fds = raw.open(ctx_id, segment_bytes, file.as_fd());
        (raw, fds)
    }

    pub fn queue_pair(&self, entries: u32, progress: Progress) -> (u32, QueueMemory) {
        let got = self.call(&Request::CreateQp { entries, progress }, &[]).unwrap();
        let Response::Qp { qp } = got.message else { panic!("{:?}", got.message) };
        (qp, QueueMemory::open(got.fds.into_iter().next().unwrap()).unwrap())
    }
}

/// The state of a node, in bounded time.
pub fn status(rack: &Rack, nid: u16) -> NodeStatus {
    let raw = Raw::connect(rack, nid);
    raw.hello();
    match raw.call(&Request::Status, &[]).map(|got| got.message) {
        Some(Response::Status(status)) => *status,
        other => panic!("no status of node {nid}: {other:?}"),
    }
}
