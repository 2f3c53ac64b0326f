//! Listeners for links over UDP.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::end::Settings;
use super::fabric::Fabric;
use super::faulty::Faults;
use super::handshake::{self, BYTES, Message};
use super::seal::{Seal, Sealed, TAG_BYTES};
use super::stream::{LinkStream, Wire};
use crate::error::{Error, Result};
use crate::net::access::Access;
use crate::net::secret::{self, End, Nonce, Secret};
use crate::net::stranger::PROOF;

/// Links that a listener remembers, so that one that is asked for twice begins once.
const REMEMBERED: usize = 64;

/// Period of challenges: one can be answered for the rest of its period, and all of the next.
const CHALLENGE: Duration = PROOF;

/// Datagrams of strangers that one call looks at.
const MAX_DATAGRAMS_A_CALL: usize = 256;

/// A UDP socket at which links can be asked for.
#[derive(Debug)]
pub struct LinkListener {
    socket: UdpSocket,
    settings: Settings,
    faults: Option<Faults>,
    secret: Option<Secret>,
    /// Makes nonces that need not be remembered.
    challenges: Secret,
    since: Instant,
    begun: VecDeque<(SocketAddr, Nonce)>,
}

impl LinkListener {
    /// Listens at a UDP address for connectors that `access` admits.
    ///
    /// # Errors
    /// `access` would admit every process that reaches the address, or the error of the kernel.
    pub fn bind(
        address: SocketAddr,
        access: Access,
        settings: Settings,
        faults: Option<Faults>,
    ) -> Result<LinkListener> {
        access.check(&address.to_string(), "link to this process")?;
        LinkListener::bind_checked(address, access.secret, settings, faults)
    }

    /// As [`LinkListener::bind`], for a caller that has checked the exposure.
    pub(crate) fn bind_checked(
        address: SocketAddr,
        secret: Option<Secret>,
        settings: Settings,
        faults: Option<Faults>,
    ) -> Result<LinkListener> {
        let cannot = |error| Error::io(format!("cannot listen at {address} over UDP"), error);
        let socket = UdpSocket::bind(address).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let challenges = Secret::new(&secret::nonce()?);
        let (since, begun) = (Instant::now(), VecDeque::with_capacity(REMEMBERED));
        Ok(LinkListener { socket, settings, faults, secret, challenges, since, begun })
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// A link whose other end has proved that it knows the secret, if there is one; it does not wait. The connector
    /// gets the answer as soon as the new end is driven.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn try_accept(&mut self) -> Result<Option<LinkStream>> {
        let cannot = |error| Error::io("cannot take a link over UDP", error);
        let mut bytes = [0; BYTES + TAG_BYTES + 1];
        for _ in 0..MAX_DATAGRAMS_A_CALL {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // A host's refusal of an earlier answer is no failure of the listener.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(cannot(error)),
            };
            if let Some(begun) = self.answer(&bytes[..length], from) {
                return begun.map(Some);
            }
        }
        Ok(None)
    }

    /// Answers a datagram; returns a link, if it is a valid proof.
    fn answer(&mut self, datagram: &[u8], from: SocketAddr) -> Option<Result<LinkStream>> {
        let (message, _) = datagram.split_at_checked(BYTES)?;
        match Message::decode(message)? {
            Message::Hello { connector } => {
                let listener = self.challenge(from, &connector, 0);
                self.say(Message::Challenge { listener, connector }, from);
                None
            }
            Message::Prove { listener, connector, max_bytes } => {
                let is_ours = |age| self.challenge(from, &connector, age) == listener;
                // One that has begun repeats the answer itself.
                if !(is_ours(0) || is_ours(1)) || self.begun.contains(&(from, connector)) {
                    return None;
                }
                let theirs = self.seal(End::Connector, &listener, &connector);
                if theirs.open(datagram).is_none() {
                    self.say(Message::Denied { listener, connector }, from);
                    return None;
                }
                if self.begun.len() == REMEMBERED {
                    self.begun.pop_front();
                }
                self.begun.push_back((from, connector));
                Some(self.begin(from, listener, connector, max_bytes, theirs))
            }
            _ => None,
        }
    }

    /// The nonce for this connector, `age` times of [`CHALLENGE`] ago.
    fn challenge(&self, from: SocketAddr, connector: &Nonce, age: u64) -> Nonce {
        let time = (self.since.elapsed().as_secs() / CHALLENGE.as_secs()).wrapping_sub(age);
        let asked = format!("{from} {time}");
        *self.challenges.mark(&[asked.as_bytes(), connector]).first_chunk().expect("it is longer")
    }

    fn seal(&self, end: End, listener: &Nonce, connector: &Nonce) -> Seal {
        Seal::new(self.secret.as_ref(), end, listener, connector)
    }

    /// An answer that is lost is asked for again.
    fn say(&self, message: Message, to: SocketAddr) {
        let _ = self.socket.send_to(&message.encode(), to);
    }

    fn begin(
        &self,
        from: SocketAddr,
        listener: Nonce,
        connector: Nonce,
        most: u16,
        theirs: Seal,
    ) -> Result<LinkStream> {
        let cannot = |error| Error::io(format!("cannot link to {from} over UDP"), error);
        let mut here = self.socket.local_addr().map_err(cannot)?;
        here.set_port(0);
        let socket = UdpSocket::bind(here).map_err(cannot)?;
        socket.connect(from).map_err(cannot)?;
        let wire = Wire::new(socket, most, self.faults).map_err(cannot)?;
        let max_bytes = wire.max_bytes() as u16;
        let ours = self.seal(End::Listener, &listener, &connector);
        let sealed = Sealed::new(wire, ours, theirs);
        let session = handshake::session(&listener);
        let greeting = Some(Message::Welcome { listener, connector, max_bytes });
        LinkStream::start(sealed, from, session, self.settings, greeting)
    }

    /// Waits for a link.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn accept(&mut self) -> Result<LinkStream> {
        loop {
            if let Some(stream) = self.try_accept()? {
                return Ok(stream);
            }
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for links", error)),
            }
        }
    }
}

impl AsFd for LinkListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
