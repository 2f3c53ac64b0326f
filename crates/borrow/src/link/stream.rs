//! Links over UDP that find each other, with a clock and waiting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::end::{LinkEnd, Settings, Stats};
use super::fabric::Fabric;
use super::faulty::{Faults, FaultyFabric};
use super::handshake::{self, Message};
use super::seal::{Seal, Sealed};
use super::udp::{self, UdpFabric};
use crate::error::{Error, Result};
use crate::net::secret::{self, End, Nonce, Secret};

/// Channel of the bytes that are read and written as a stream.
const STREAM_CHANNEL: usize = 1;

/// Interval at which a step of the handshake is repeated until an answer comes.
const HELLO_INTERVAL: Duration = Duration::from_millis(50);

/// One end of a reliable link over UDP: messages on channels of different urgency, or a stream of bytes.
#[derive(Debug)]
pub struct LinkStream {
    end: LinkEnd<Sealed<Wire>>,
    start: Instant,
    peer: SocketAddr,
    /// Bytes of the oldest message that were read.
    read: usize,
}

/// UDP, with faults or without.
#[derive(Debug)]
pub(super) enum Wire {
    Clean(UdpFabric),
    Faulty(FaultyFabric<UdpFabric>),
}

impl Wire {
    pub(super) fn new(socket: UdpSocket, most: u16, faults: Option<Faults>) -> io::Result<Wire> {
        let udp = UdpFabric::new(socket, most.into())?;
        Ok(match faults {
            None => Wire::Clean(udp),
            Some(faults) => Wire::Faulty(FaultyFabric::new(udp, faults)),
        })
    }

    fn fabric(&mut self) -> &mut dyn Fabric {
        match self {
            Wire::Clean(fabric) => fabric,
            Wire::Faulty(fabric) => fabric,
        }
    }

    fn fabric_ref(&self) -> &dyn Fabric {
        match self {
            Wire::Clean(fabric) => fabric,
            Wire::Faulty(fabric) => fabric,
        }
    }
}

impl Fabric for Wire {
    fn max_bytes(&self) -> usize {
        self.fabric_ref().max_bytes()
    }

    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()> {
        self.fabric().send(datagram, now)
    }

    fn flush(&mut self, now: Duration) -> io::Result<()> {
        self.fabric().flush(now)
    }

    fn receive(&mut self, into: &mut [u8], now: Duration) -> io::Result<Option<usize>> {
        self.fabric().receive(into, now)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.fabric_ref().as_fd()
    }

    fn due(&self) -> Option<Duration> {
        self.fabric_ref().due()
    }
}

impl LinkStream {
    /// Asks `address` for a link, for up to `patience`. Both ends prove that they know the secret, if there is one.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if nobody answers; [`Error::Refused`]: it has another secret; or the kernel refuses.
    pub fn connect(
        address: SocketAddr,
        secret: Option<&Secret>,
        settings: Settings,
        faults: Option<Faults>,
        patience: Duration,
    ) -> Result<LinkStream> {
        let cannot = |error| Error::io(format!("cannot link to {address} over UDP"), error);
        let any: SocketAddr =
            if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).map_err(cannot)?;
        let max_bytes = udp::max_bytes_to(address).map_err(cannot)? as u16;
        let asking = Asking { socket: &socket, address, deadline: Instant::now() + patience };
        let connector = secret::nonce()?;
        let listener = asking.challenge(connector)?;
        let seal = |end| Seal::new(secret, end, &listener, &connector);
        let (ours, theirs) = (seal(End::Connector), seal(End::Listener));
        let prove = Message::Prove { listener, connector, max_bytes };
        let (from, max_bytes) = asking.prove(prove, &ours, &theirs)?;
        socket.connect(from).map_err(cannot)?;
        let wire = Wire::new(socket, max_bytes, faults).map_err(cannot)?;
        let sealed = Sealed::new(wire, ours, theirs);
        LinkStream::start(sealed, address, handshake::session(&listener), settings, None)
    }

    pub(super) fn start(
        wire: Sealed<Wire>,
        peer: SocketAddr,
        session: u32,
        settings: Settings,
        greeting: Option<Message>,
    ) -> Result<LinkStream> {
        let mut end = LinkEnd::new(wire, peer.to_string(), session, settings, Duration::ZERO);
        if let Some(greeting) = greeting {
            end.greet_with(greeting.encode(), Duration::ZERO);
        }
        let mut stream = LinkStream { end, start: Instant::now(), peer, read: 0 };
        stream.drive()?;
        Ok(stream)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Takes arrived datagrams and sends what may be sent, without waiting. Returns whether anything arrived.
    ///
    /// # Errors
    /// As [`LinkEnd::poll`].
    pub fn drive(&mut self) -> Result<bool> {
        let now = self.now();
        self.end.poll(now)
    }

    /// Sends a message if the window has room for it now.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn try_send(&mut self, channel: usize, message: &[u8]) -> Result<bool> {
        Ok(self.end.push(channel, message)? && self.drive().map(|_| true)?)
    }

    /// Hands over a message without sending it yet: [`LinkStream::drive`] does.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn push(&mut self, channel: usize, message: &[u8]) -> Result<bool> {
        self.end.push(channel, message)
    }

    /// Sends a message, waiting for room.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn send(&mut self, channel: usize, message: &[u8]) -> Result<()> {
        while !self.end.push(channel, message)? {
            // Room comes with acknowledgements, which have to be taken.
            if !self.drive()? {
                self.wait(None)?;
            }
        }
        self.drive().map(drop)
    }

    /// The oldest message of a channel, if one has arrived; [`LinkStream::consume`] gives it up.
    pub fn front(&self, channel: usize) -> Option<&[u8]> {
        self.end.front(channel)
    }

    /// Gives up the oldest message of a channel.
    ///
    /// # Panics
    /// There is none.
    pub fn consume(&mut self, channel: usize) {
        self.end.consume(channel);
    }

    /// Waits for a message of a channel.
    ///
    /// # Errors
    /// [`Error::PeerLost`], after everything that had arrived was received.
    pub fn receive(&mut self, channel: usize) -> Result<Vec<u8>> {
        loop {
            if let Some(message) = self.end.front(channel) {
                let message = message.to_vec();
                self.end.consume(channel);
                return Ok(message);
            }
            self.await_message(channel)?;
        }
    }

    /// Takes datagrams that arrive, sleeping if none does. A lost link is an error once no message is left of it.
    fn await_message(&mut self, channel: usize) -> Result<()> {
        match self.drive() {
            Ok(true) => Ok(()),
            Ok(false) => self.wait(None),
            Err(_) if self.end.front(channel).is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the peer has everything that was sent.
    pub fn is_drained(&self) -> bool {
        self.end.is_drained()
    }

    /// Waits until the peer has everything that was sent.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn drain(&mut self) -> Result<()> {
        while !self.end.is_drained() {
            if !self.drive()? {
                self.wait(None)?;
            }
        }
        Ok(())
    }

    /// Sleeps until something arrives, something is due, or `most` has passed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn wait(&self, most: Option<Duration>) -> Result<()> {
        let until = self.due_in().min(most.unwrap_or(Duration::MAX));
        if until.is_zero() {
            return Ok(());
        }
        let timeout = Timespec { tv_sec: until.as_secs() as _, tv_nsec: until.subsec_nanos() as _ };
        match poll(&mut [PollFd::new(self, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Error::io("cannot wait for a link", error)),
        }
    }

    /// Takes the peer for one that was heard of now: the caller knows why it is silent.
    pub fn excuse(&mut self) {
        let now = self.now();
        self.end.excuse(now);
    }

    /// Time until [`LinkStream::drive`] has something to do although nothing arrives.
    pub fn due_in(&self) -> Duration {
        self.end.due().saturating_sub(self.now())
    }

    /// Ends the link in order. Messages that the peer does not have yet never arrive: see [`LinkStream::drain`].
    pub fn close(mut self) {
        let now = self.now();
        self.end.close(now);
    }

    /// Most bytes of one message.
    pub fn max_message_bytes(&self) -> usize {
        self.end.max_message_bytes()
    }

    /// Whether a message of a channel would be taken now.
    pub fn has_room(&self, channel: usize) -> bool {
        self.end.has_room(channel)
    }

    /// Address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Counters since the link was made.
    pub fn stats(&self) -> Stats {
        self.end.stats()
    }
}

impl AsFd for LinkStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.fabric().as_fd().expect("UDP has a socket")
    }
}

fn as_io(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

/// Bytes of the stream channel; waits for at least one. A lost peer is an error, not an end.
impl Read for LinkStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(message) = self.end.front(STREAM_CHANNEL) {
                let rest = &message[self.read..];
                let length = rest.len().min(into.len());
                into[..length].copy_from_slice(&rest[..length]);
                self.read += length;
                if self.read == message.len() {
                    self.end.consume(STREAM_CHANNEL);
                    self.read = 0;
                }
                if length > 0 {
                    return Ok(length);
                }
                continue;
            }
            self.await_message(STREAM_CHANNEL).map_err(as_io)?;
        }
    }
}

impl Write for LinkStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.max_message_bytes());
        if length > 0 {
            self.send(STREAM_CHANNEL, &bytes[..length]).map_err(as_io)?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drive().map(drop).map_err(as_io)
    }
}

/// A connector that asks for a link.
struct Asking<'a> {
    socket: &'a UdpSocket,
    address: SocketAddr,
    deadline: Instant,
}

impl Asking<'_> {
    /// Sends `Hello` until the listener's nonce comes.
    fn challenge(&self, ours: Nonce) -> Result<Nonce> {
        let hello = Message::Hello { connector: ours }.encode();
        self.repeat(&hello, |datagram, _| match Message::decode(datagram)? {
            Message::Challenge { listener, connector } if connector == ours => Some(Ok(listener)),
            _ => None,
        })
    }

    /// Sends the proof until `Welcome` comes; returns its sender, and most bytes of a datagram.
    fn prove(&self, prove: Message, ours: &Seal, theirs: &Seal) -> Result<(SocketAddr, u16)> {
        let mut proof = prove.encode();
        proof.extend(ours.tag(&proof));
        let Message::Prove { listener, connector, .. } = prove else { unreachable!("it proves") };
        self.repeat(&proof, |datagram, from| {
            if Message::decode(datagram) == Some(Message::Denied { listener, connector }) {
                return Some(Err(Error::Refused(format!(
                    "{} has another secret, or one of both has none: name the same file by --secret \
                     FILE at both ends",
                    self.address
                ))));
            }
            match Message::decode(theirs.open(datagram)?)? {
                Message::Welcome { max_bytes, .. } => Some(Ok((from, max_bytes))),
                _ => None,
            }
        })
    }

    /// Sends a datagram again and again until an answer to it comes.
    fn repeat<T>(
        &self,
        datagram: &[u8],
        mut answer: impl FnMut(&[u8], SocketAddr) -> Option<Result<T>>,
    ) -> Result<T> {
        let address = self.address;
        let failed = |error| Error::io(format!("cannot link to {address} over UDP"), error);
        let begun = Instant::now();
        while Instant::now() < self.deadline {
            self.socket.send_to(datagram, address).map_err(failed)?;
            let round = Instant::now() + HELLO_INTERVAL;
            while let left = round.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                self.socket.set_read_timeout(Some(left)).map_err(failed)?;
                let mut bytes = [0; 128];
                match self.socket.recv_from(&mut bytes) {
                    Ok((length, from)) => {
                        if let Some(answer) = answer(&bytes[..length], from) {
                            return answer;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }
        let waited = self.deadline.saturating_duration_since(begun);
        let reason = format!("nobody answered within {:.1} s", waited.as_secs_f64());
        Err(Error::PeerLost { peer: address.to_string(), reason })
    }
}
