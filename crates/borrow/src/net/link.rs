//! One connection and its owner: a borrower's, a lender's to the monitor, that of queue pairs between hosts.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use serde::{Serialize, de::DeserializeOwned};

use super::frame::{self, Frames, MAX_FRAME_BYTES};
use super::secret::{self, End, Hello, Proof, Secret};
use super::socket;
use super::stranger::{MAX_FIRST_FRAME_BYTES, Stranger};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::lease::messages::PROTOCOL_VERSION;

/// Descriptors that may come with one message.
const MAX_FDS: usize = 1;

/// Bytes taken in at a time.
const CHUNK_BYTES: usize = 4 << 10;

/// A connection of one owner.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    name: String,
    frames: Frames,
    /// Longest frame that is taken.
    limit: usize,
    fds: Vec<OwnedFd>,
    /// For bytes on their way in: connections are made on the stacks of signal handlers, too, which are small.
    chunk: Box<[u8]>,
}

/// The error of a connection that has ended.
fn lost(name: &str, reason: &str) -> Error {
    Error::Lost { lender: name.to_owned(), reason: reason.to_owned() }
}

impl Link {
    fn new(fd: OwnedFd, name: String, limit: usize) -> Link {
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Link { fd, name, frames: Frames::default(), limit, fds: Vec::new(), chunk }
    }

    /// Takes a peer that has connected over TCP to a listener of this process, if it proves in time that it knows the
    /// secret. Frames may be [`MAX_FIRST_FRAME_BYTES`] long.
    ///
    /// # Errors
    /// It says nothing, is no rackmem, or knows another secret.
    pub fn welcome(
        fd: OwnedFd,
        name: &str,
        secret: Option<&Secret>,
        stranger: &Stranger,
    ) -> Result<Link> {
        let deadline = stranger.deadline();
        let mut link = Link::new(fd, name.to_owned(), MAX_FIRST_FRAME_BYTES);
        let hello = Hello::new(secret)?;
        link.send(&hello)?;
        if let (Some(secret), Some(ours)) = (secret, &hello.nonce) {
            let proof = link.receive_by::<Proof>(deadline)?;
            let wrong = || Error::Refused(format!("{name} does not know the secret"));
            link.send(&secret.confirm(ours, &proof).ok_or_else(wrong)?)?;
        }
        Ok(link)
    }

    /// Connects, within the time, and proves over TCP that it knows the secret.
    ///
    /// # Errors
    /// Nobody listens, the other end does not answer in time, or wants another secret.
    pub fn connect(address: &Address, secret: Option<&Secret>, patience: Duration) -> Result<Link> {
        let deadline = Instant::now() + patience;
        let fd = socket::connect(address, patience)
            .map_err(|error| Error::io(format!("cannot connect to {address}"), error))?;
        let mut link = Link::new(fd, address.to_string(), MAX_FRAME_BYTES);
        if !address.is_local() {
            link.introduce(secret, deadline)?;
        }
        Ok(link)
    }

    /// Makes a TCP connection that does not block a link: proves, within the time, that it knows the secret.
    ///
    /// # Errors
    /// As [`Link::connect`].
    pub fn meet(
        fd: OwnedFd,
        name: &str,
        secret: Option<&Secret>,
        patience: Duration,
    ) -> Result<Link> {
        let mut link = Link::new(fd, name.to_owned(), MAX_FRAME_BYTES);
        link.introduce(secret, Instant::now() + patience)?;
        Ok(link)
    }

    fn introduce(&mut self, secret: Option<&Secret>, deadline: Instant) -> Result<()> {
        let hello: Hello = self.receive_by(deadline)?;
        let name = &self.name;
        if hello.version != PROTOCOL_VERSION {
            return Err(Error::Protocol(format!(
                "{name} speaks version {} of the protocol, this is version {PROTOCOL_VERSION}: use \
                 the same version of rackmem on all hosts",
                hello.version
            )));
        }
        let (theirs, secret) = match (hello.nonce, secret) {
            (None, None) => return Ok(()),
            (Some(_), None) => {
                let why = format!("{name} wants a secret: name its file by --secret FILE");
                return Err(Error::Refused(why));
            }
            (None, Some(_)) => {
                let why =
                    format!("{name} does not know the secret, or was started without --secret");
                return Err(Error::Refused(why));
            }
            (Some(theirs), Some(secret)) => (theirs, secret),
        };
        let nonce = secret::nonce()?;
        let signature = secret.sign(End::Connector, &theirs, &nonce);
        self.send(&Proof { nonce, signature })?;
        // A peer that does not accept our proof hangs up.
        let proof = match self.receive_by::<Proof>(deadline) {
            Err(Error::Lost { .. }) => None,
            other => Some(other?),
        };
        let is_signed =
            |proof: Proof| secret.is_signed(End::Listener, &theirs, &nonce, &proof.signature);
        match proof.is_some_and(is_signed) {
            true => Ok(()),
            false => Err(Error::Refused(format!(
                "{} has another secret: the files must be the same",
                self.name
            ))),
        }
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
        let bytes = frame::encode(message)?;
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.fd, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let ready =
                        socket::wait(self.fd.as_fd(), PollFlags::OUT, crate::lease::SILENCE);
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
    /// [`Error::Lost`]: the other end is gone or says nothing for so long; or it is no message.
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
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = socket::wait(self.fd.as_fd(), PollFlags::IN, left)
                .map_err(|error| Error::io("cannot wait for an answer", error))?;
            if ready.is_empty() {
                return Err(lost(&self.name, "it does not answer"));
            }
        }
    }

    /// A message, if a whole one has come.
    ///
    /// # Errors
    /// As [`Link::receive`].
    pub fn poll<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(frame) = self.frames.next(self.limit)? {
                return frame::decode(&frame).map(Some);
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Receives bytes that are there; returns whether there were any.
    fn fill(&mut self) -> Result<bool> {
        // No more of a stranger's bytes than its frame may have.
        let room = (4 + self.limit - self.frames.waiting().min(3 + self.limit)).min(CHUNK_BYTES);
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
                self.fds.extend(fds);
            }
        }
        if got == 0 {
            return Err(lost(&self.name, "the connection has ended"));
        }
        self.frames.extend(&self.chunk[..got]);
        Ok(true)
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

    /// The socket; it does not block. Whatever came after the last message is lost.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The socket, and the bytes after the last message.
    pub fn into_parts(self) -> (OwnedFd, Vec<u8>) {
        (self.fd, self.frames.into_rest())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
