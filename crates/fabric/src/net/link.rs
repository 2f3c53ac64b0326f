//! One connection and its owner: a borrower's, a lender's to the monitor, that of queue pairs between hosts.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::Buffer;
use crate::socket::wait;
use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use serde::{Serialize, de::DeserializeOwned};

use super::frame;
use super::greet::{self, Calling, Greeter, Keys, MAX_STRANGER_BYTES, Met};
use super::hub::MAX_FRAME_BYTES;
use super::proof::Proof;
use super::socket;
use super::stranger::{MAX_FIRST_FRAME_BYTES, Stranger};
use crate::address::Address;
use crate::descriptors::own;
use crate::error::{Error, Result};
use crate::rights::Right;

/// Descriptors that may come with one message.
const MAX_FDS: usize = 1;

/// Bytes taken in at a time.
const CHUNK_BYTES: usize = 4 << 10;

/// A connection of one owner.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    name: String,
    keys: Keys,
    /// The other end's node, if it has proved itself by a key.
    node: Option<u16>,
    input: Buffer,
    /// Longest frame that is taken.
    limit: usize,
    fds: Vec<OwnedFd>,
    /// For bytes on their way in: connections are made on the stacks of signal handlers, too, which are small.
    chunk: Box<[u8]>,
}

/// The error of a connection that has ended.
fn lost(name: &str, reason: &str) -> Error {
    Error::PeerLost { peer: name.to_owned(), reason: reason.to_owned() }
}

impl Link {
    fn new(fd: OwnedFd, name: String, limit: usize) -> Link {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        let input = Buffer::default();
        Link { fd, name, keys: None, node: None, input, limit, fds: Vec::new(), chunk }
    }

    /// Takes a peer that has connected over TCP to a listener of this process, if it proves itself in time and has one
    /// of these rights. Frames may be [`MAX_FIRST_FRAME_BYTES`] long.
    ///
    /// # Errors
    /// It says nothing, is no rackmem, proves nothing, or has none of the rights.
    pub fn welcome(
        fd: OwnedFd,
        name: &str,
        (proof, rights): (Option<&Proof>, &'static [Right]),
        stranger: &Stranger,
    ) -> Result<Link> {
        let mut link = Link::new(fd, name.to_owned(), MAX_FIRST_FRAME_BYTES);
        let mut greeter = Greeter::new(proof, rights);
        loop {
            let mut out = Vec::new();
            let step = greeter.step(&mut link.input, &mut out);
            let sent = link.write(&out);
            match step.map_err(|error| Error::Refused(format!("{name}: {error}")))? {
                Some(Met { keys, node }) => {
                    (link.keys, link.node) = (keys, node);
                    return Ok(link);
                }
                None => sent?,
            }
            let room = MAX_STRANGER_BYTES.saturating_sub(link.input.len());
            link.fill_by(stranger.deadline(), room)?;
        }
    }

    /// Connects, within the time; over TCP, both ends prove themselves.
    ///
    /// # Errors
    /// Nobody listens, the other end does not answer in time, or wants another proof.
    pub fn connect(address: &Address, proof: Option<&Proof>, patience: Duration) -> Result<Link> {
        let deadline = Instant::now() + patience;
        let fd = socket::connect(address, patience)
            .map_err(|error| Error::io(format!("cannot connect to {address}"), error))?;
        let mut link = Link::new(fd, address.to_string(), MAX_FRAME_BYTES);
        if !address.is_local() {
            link.introduce(proof, deadline)?;
        }
        Ok(link)
    }

    /// Makes a TCP connection that does not block a link: both ends prove themselves within the time.
    ///
    /// # Errors
    /// As [`Link::connect`].
    pub fn meet(
        fd: OwnedFd,
        name: &str,
        proof: Option<&Proof>,
        patience: Duration,
    ) -> Result<Link> {
        let mut link = Link::new(fd, name.to_owned(), MAX_FRAME_BYTES);
        link.introduce(proof, Instant::now() + patience)?;
        Ok(link)
    }

    fn introduce(&mut self, proof: Option<&Proof>, deadline: Instant) -> Result<()> {
        let mut out = Vec::new();
        let mut calling = Calling::new(proof, &mut out);
        loop {
            self.write(&std::mem::take(&mut out))?;
            self.fill_by(deadline, CHUNK_BYTES)?;
            let step = calling.step(&mut self.input, &mut out);
            let met = step.map_err(|error| greet::explain(&self.name, proof, error))?;
            if let Some(Met { keys, node }) = met {
                (self.keys, self.node) = (keys, node);
                return self.write(&out);
            }
        }
    }

    /// Checks that the other end's node has this right, if it has proved itself by a key.
    ///
    /// # Errors
    /// [`Error::Refused`] names the peer, the right and the remedy.
    pub fn require(&self, proof: Option<&Proof>, right: Right) -> Result<()> {
        let Some(proof) = proof else { return Ok(()) };
        let refused = |why| Error::Refused(format!("{} is not used: {why}", self.name));
        proof.check(self.node, &[right]).map_err(refused)
    }

    /// Has the connection reset when it is closed: to the other end it is broken, not ended.
    pub fn reset(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    /// Keeps the connection for so long in silence.
    pub fn allow_silence(&self, silence: Duration) {
        socket::allow_silence(self.fd.as_fd(), silence);
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is gone, or does not read.
    pub fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let bytes = frame::encode(message, MAX_FRAME_BYTES)?;
        let Some(keys) = &mut self.keys else { return self.write(&bytes) };
        let mut wire = Vec::new();
        let sealed = keys.sealer.seal(&bytes, &mut wire);
        sealed.map_err(|error| lost(&self.name, &error.to_string()))?;
        self.write(&wire)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.fd, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let ready = wait(self.fd.as_fd(), PollFlags::OUT, super::SILENCE);
                    if !matches!(ready, Ok(flags) if !flags.is_empty()) {
                        return Err(lost(&self.name, "it does not read"));
                    }
                }
                Err(error) => return Err(lost(&self.name, &io::Error::from(error).to_string())),
            }
        }
        Ok(())
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// [`Error::PeerLost`]: the other end is gone or says nothing for so long; or it is no message.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        self.receive_by(Instant::now() + patience)
    }

    /// As [`Link::receive`], until a deadline that no received byte puts off.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn receive_by<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<T> {
        loop {
            if let Some(message) = self.poll()? {
                return Ok(message);
            }
            self.wait_by(deadline)?;
        }
    }

    fn wait_by(&self, deadline: Instant) -> Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(lost(&self.name, "it does not answer"));
        }
        let ready = wait(self.fd.as_fd(), PollFlags::IN, left)
            .map_err(|error| Error::io("cannot wait for an answer", error))?;
        if ready.is_empty() { Err(lost(&self.name, "it does not answer")) } else { Ok(()) }
    }

    /// Waits for bytes, and receives up to so many.
    fn fill_by(&mut self, deadline: Instant, room: usize) -> Result<()> {
        self.wait_by(deadline)?;
        self.fill(room).map(drop)
    }

    /// A message, if a whole one has come.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(message) = frame::take(&mut self.input, self.limit)? {
                return Ok(Some(message));
            }
            // No more of a stranger's bytes than its frame may have.
            let most = frame::PREFIX_BYTES + self.limit;
            if !self.fill(most.saturating_sub(self.input.len()).max(1))? {
                return Ok(None);
            }
        }
    }

    /// Receives up to so many bytes that are there; returns whether the input has grown: records may be empty, or not
    /// whole.
    fn fill(&mut self, room: usize) -> Result<bool> {
        let room = room.min(CHUNK_BYTES);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut self.chunk[..room])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match rustix::net::recvmsg(&self.fd, &mut buffers, &mut ancillary, flags) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(lost(&self.name, &io::Error::from(error).to_string())),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds.map(own));
            }
        }
        if got == 0 {
            return Err(lost(&self.name, "the connection has ended"));
        }
        let before = self.input.len();
        match &mut self.keys {
            None => self.input.extend(&self.chunk[..got]),
            Some(keys) => {
                let opened = keys.incoming.extend(&self.chunk[..got], &mut self.input);
                opened.map_err(|error| lost(&self.name, &error.to_string()))?;
            }
        }
        Ok(self.input.len() > before)
    }

    /// The oldest descriptor that came with a message.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        (!self.fds.is_empty()).then(|| self.fds.remove(0))
    }

    /// Name of the peer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address at the other end of a connection over TCP, as a number.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn peer(&self) -> Result<Address> {
        let cannot = |error| Error::io(format!("cannot tell the address of {}", self.name), error);
        let stream = self.fd.try_clone().map(std::net::TcpStream::from);
        let peer = stream.and_then(|stream| stream.peer_addr()).map_err(cannot)?;
        Ok(Address::Tcp(peer.to_string()))
    }

    /// The socket, which does not block, the keys of what travels on it, and the bytes after the last message.
    pub fn into_parts(self) -> (OwnedFd, Keys, Buffer) {
        (self.fd, self.keys, self.input)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
