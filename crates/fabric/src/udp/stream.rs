//! Links over UDP that find each other, with a clock and waiting.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::socket::timespec;
use rustix::event::{PollFd, PollFlags, poll};

use super::end::{LinkEnd, Settings, Stats};
use super::faulty::{Faults, FaultyWire};
use super::handshake::{self, Terms, Token};
use super::seal::Sealed;
use super::socket::{self, UdpWire};
use super::wire::Wire;
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::greeting::{self, Caller, GreetingError, Met, Verdict};

/// Channel of the bytes that are read and written as a stream.
const STREAM_CHANNEL: usize = 1;

/// Interval at which a step of the handshake is repeated until an answer comes.
const HELLO_INTERVAL: Duration = Duration::from_millis(50);

/// One end of a reliable link over UDP: messages on channels of different urgency, or a stream of bytes.
#[derive(Debug)]
pub struct LinkStream {
    end: LinkEnd<Sealed>,
    start: Instant,
    peer: SocketAddr,
    /// Bytes of the oldest message that were read.
    read: usize,
}

/// A wire over a socket that is connected to the peer, with faults or without.
pub(super) fn wire(
    socket: UdpSocket,
    most: u16,
    faults: Option<Faults>,
) -> io::Result<Box<dyn Wire>> {
    let udp = UdpWire::new(socket, most.into())?;
    Ok(match faults {
        None => Box::new(udp),
        Some(faults) => Box::new(FaultyWire::new(udp, faults)),
    })
}

impl LinkStream {
    /// Asks `address` for a link, for up to `patience`. Both ends prove themselves.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if nobody answers; [`Error::Unproved`]; or the kernel refuses.
    pub fn connect(
        address: SocketAddr,
        credentials: &Credentials,
        settings: Settings,
        faults: Option<Faults>,
        patience: Duration,
    ) -> Result<LinkStream> {
        let cannot = |error| Error::io(format!("cannot link to {address} over UDP"), error);
        let any: SocketAddr =
            if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).map_err(cannot)?;
        let max_bytes = socket::max_bytes_to(address).map_err(cannot)? as u16;
        let calling = Calling { socket: &socket, address, deadline: Instant::now() + patience };
        let (from, token, met) = calling.meet(credentials, Terms { max_bytes })?;
        socket.connect(from).map_err(cannot)?;
        let wire = wire(socket, met.welcome.max_bytes, faults).map_err(cannot)?;
        let sealed = Sealed::new(wire, met.seal, token, None);
        LinkStream::start(sealed, address, handshake::session(&token), settings)
    }

    pub(super) fn start(
        wire: Sealed,
        peer: SocketAddr,
        session: u32,
        settings: Settings,
    ) -> Result<LinkStream> {
        let end = LinkEnd::new(wire, peer.to_string(), session, settings, Duration::ZERO);
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
        let timeout = timespec(until);
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
        self.end.wire().as_fd().expect("UDP has a socket")
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
struct Calling<'a> {
    socket: &'a UdpSocket,
    address: SocketAddr,
    deadline: Instant,
}

impl Calling<'_> {
    /// Says hello until the listener welcomes it, and where that is from, or refuses.
    fn meet(
        &self,
        credentials: &Credentials,
        terms: Terms,
    ) -> Result<(SocketAddr, Token, Met<Terms>)> {
        let refused = |error| Error::Unproved { peer: self.address.to_string(), error };
        let (mut cookie, mut node) = (Token::default(), 0);
        loop {
            let (caller, hello) = Caller::bound(credentials, node, &terms, &cookie);
            let token = handshake::token_of(&hello).expect("a hello is longer");
            let (from, answer) = self.ask(&handshake::datagram(&cookie, &hello), &token)?;
            let frame = greeting::parse(&answer).map_err(refused)?;
            if let Some(frame) = frame.filter(|frame| frame.verdict == Verdict::Again as u8)
                && let Some((again, callee)) = frame.message.split_first_chunk()
            {
                (cookie, node) = (*again, handshake::node_of(callee));
                if !credentials.knows(node) {
                    return Err(refused(GreetingError::NoSuchNode(node)));
                }
                continue;
            }
            let met = caller.answered(&answer).map_err(refused)?;
            return Ok((from, token, met.map_err(|_| refused(GreetingError::NoDaemon))?));
        }
    }

    /// Sends a datagram again and again until an answer with its token comes.
    fn ask(&self, datagram: &[u8], token: &Token) -> Result<(SocketAddr, Vec<u8>)> {
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
                let mut bytes = [0; handshake::MAX_BYTES];
                match self.socket.recv_from(&mut bytes) {
                    Ok((length, from)) => {
                        if let Some((answered, frame)) = handshake::open(&bytes[..length])
                            && answered == token
                        {
                            return Ok((from, frame.to_vec()));
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
