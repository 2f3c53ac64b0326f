//! The way between borrower and lender: messages, which go first, and a stream of bytes with packets.
//!
//! Over TCP these are two connections, so that messages do not wait behind packets in the kernel's buffers;
//! over the link they are its two channels. Nothing here waits.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use rackmem_fabric::stream::Stream;
use rackmem_fabric::udp::LinkStream;

use super::message::{MAX_MESSAGE_BYTES, Message};
use super::waiter::Waiter;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::link::Link as TcpLink;

mod link;
mod tcp;

pub use link::Link;
pub use tcp::Tcp;

/// An end that is silent for so long is lost.
pub const DEAD_AFTER: Duration = Duration::from_secs(3);
/// Interval of keep-alives while an end sends nothing else.
pub const ALIVE_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes of messages that may wait for an end that does not read.
const MAX_BACKLOG_BYTES: usize = 64 << 10;
/// Bytes of packets that the kernel keeps on their way: enough for a fast link, and soon gone over a slow one.
const DATA_BUFFER_BYTES: usize = 4 << 20;

/// The way to the other end.
#[derive(Debug)]
pub enum Transport {
    /// Two connections.
    Tcp(Box<Tcp>),
    /// A reliable link over UDP.
    Link(Box<Link>),
}

impl Transport {
    /// A connection for messages, whose peer has proved itself.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn over_tcp(way: TcpLink) -> Result<Transport> {
        let (now, failed) = (Instant::now(), |error| Error::io("cannot use a connection", error));
        let (fd, keys, early) = way.into_parts();
        let socket = TcpStream::from(fd);
        let peer = socket.peer_addr().map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let messages = Stream::greeted(socket.into(), keys, early);
        let tcp = Tcp { messages, packets: None, peer, last_heard: now, last_said: now };
        Ok(Transport::Tcp(Box::new(tcp)))
    }

    /// A link for both.
    pub fn over_link(stream: LinkStream, peer: SocketAddr) -> Transport {
        Transport::Link(Box::new(Link { stream, peer, outgoing: Default::default(), taken: 0 }))
    }

    /// A second connection, for packets.
    pub fn set_packets(&mut self, packets: Stream) {
        // Less room costs speed only.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&packets, DATA_BUFFER_BYTES);
        if let Transport::Tcp(tcp) = self {
            tcp.packets = Some(packets);
        }
    }

    /// The connection for messages, for another use.
    pub fn into_stream(self) -> Option<Stream> {
        match self {
            // Bytes that have been read are messages, which that use has none of.
            Transport::Tcp(tcp) if tcp.messages.input().is_empty() => Some(tcp.messages),
            _ => None,
        }
    }

    /// Address of the peer.
    pub fn peer(&self) -> SocketAddr {
        match self {
            Transport::Tcp(tcp) => tcp.peer,
            Transport::Link(link) => link.peer,
        }
    }

    /// Address of this end, and bytes that the network carries in one piece, headers included.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn path(&self) -> io::Result<(IpAddr, u32)> {
        let Transport::Tcp(tcp) = self else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not over UDP"));
        };
        let (level, name) = match tcp.peer {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        let (mut mtu, mut length) = (0i32, size_of::<i32>() as libc::socklen_t);
        let fd = tcp.messages.as_fd().as_raw_fd();
        // SAFETY: both pointers are to numbers of the sizes that the call expects.
        let result =
            unsafe { libc::getsockopt(fd, level, name, (&raw mut mtu).cast(), &raw mut length) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let here = SocketAddr::try_from(rustix::net::getsockname(&tcp.messages)?)?;
        Ok((here.ip(), mtu.max(0) as u32))
    }

    /// Queues a message; [`Transport::drive`] sends it.
    ///
    /// # Errors
    /// [`Error::PeerLost`]: the other end does not take messages.
    pub fn post(&mut self, message: &Message) -> Result<()> {
        let bytes = message.encode();
        debug_assert!(bytes.len() <= MAX_MESSAGE_BYTES);
        let (waiting, peer) = match self {
            Transport::Tcp(tcp) => {
                tcp.put(&bytes);
                (tcp.messages.staged_bytes(), tcp.peer)
            }
            Transport::Link(link) => {
                link.outgoing.push_back(bytes);
                (link.outgoing.len() * MAX_MESSAGE_BYTES, link.peer)
            }
        };
        if waiting > MAX_BACKLOG_BYTES {
            return Err(lost(peer, "it does not take messages"));
        }
        Ok(())
    }

    /// Whether messages wait to be sent.
    pub fn has_backlog(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.messages.staged_bytes() > 0,
            Transport::Link(link) => !link.outgoing.is_empty(),
        }
    }

    /// Sends messages, shows that this end lives, and looks whether the other one does.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn drive(&mut self, now: Instant) -> Result<()> {
        match self {
            Transport::Tcp(tcp) => tcp.drive(now),
            Transport::Link(link) => link.drive(),
        }
    }

    /// Takes the other end for one that was heard of now: something keeps it.
    pub fn excuse(&mut self, now: Instant) {
        match self {
            Transport::Tcp(tcp) => tcp.last_heard = now,
            Transport::Link(link) => link.stream.excuse(),
        }
    }

    /// The next message, if one has arrived.
    ///
    /// # Errors
    /// [`Error::PeerLost`], [`Error::Protocol`].
    pub fn take(&mut self, now: Instant) -> Result<Option<Message>> {
        match self {
            Transport::Tcp(tcp) => tcp.take(now),
            Transport::Link(link) => link.take(),
        }
    }

    /// Sends as many of these bytes of packets as may go now.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn send_packets(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Transport::Tcp(tcp) => tcp.send_packets(bytes),
            Transport::Link(link) => link.send_packets(bytes),
        }
    }

    /// Takes bytes of packets that have arrived; 0 if there are none now.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn receive_packets(&mut self, into: &mut [u8], now: Instant) -> Result<usize> {
        match self {
            Transport::Tcp(tcp) => tcp.receive_packets(into, now),
            Transport::Link(link) => Ok(link.receive_packets(into)),
        }
    }

    /// Adds its descriptors to the waiter; `blocked` if packets wait to be sent. Returns the numbers in the waiter's
    /// list at which messages and packets arrive.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn await_with(&self, waiter: &mut Waiter, blocked: bool) -> io::Result<(usize, usize)> {
        match self {
            Transport::Tcp(tcp) => {
                let is_left = |stream: &Stream| stream.staged_bytes() > 0;
                let at = waiter.add(tcp.messages.as_fd(), true, is_left(&tcp.messages))?;
                match &tcp.packets {
                    Some(packets) => {
                        let blocked = blocked || is_left(packets);
                        Ok((at, waiter.add(packets.as_fd(), true, blocked)?))
                    }
                    None => Ok((at, at)),
                }
            }
            // A full window opens when something arrives.
            Transport::Link(link) => {
                let at = waiter.add(link.stream.as_fd(), true, false)?;
                Ok((at, at))
            }
        }
    }

    /// Whether something that has arrived is kept in this process, where nobody waits for it.
    pub fn keeps_arrivals(&self) -> bool {
        match self {
            Transport::Tcp(tcp) => tcp.keeps_arrivals(),
            Transport::Link(_) => true,
        }
    }

    /// Sends the packets that a link has been given.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn push_out(&mut self) -> Result<()> {
        match self {
            Transport::Tcp(_) => Ok(()),
            Transport::Link(link) => link.drive(),
        }
    }

    /// Time until [`Transport::drive`] has something to do although nothing arrives.
    pub fn due_in(&self, now: Instant) -> Duration {
        match self {
            Transport::Tcp(tcp) => {
                let say = tcp.last_said + ALIVE_INTERVAL;
                say.min(tcp.last_heard + DEAD_AFTER).saturating_duration_since(now)
            }
            Transport::Link(link) => link.stream.due_in(),
        }
    }

    /// Says goodbye, and why.
    pub fn bye(mut self, reason: &str) {
        let now = Instant::now();
        let _ = self.post(&Message::Bye(reason.to_owned())).and_then(|()| self.drive(now));
        if let Transport::Link(mut link) = self {
            // Until it has arrived, or for as long as a living peer needs.
            let deadline = now + Duration::from_millis(500);
            while Instant::now() < deadline && !link.stream.is_drained() {
                if link.drive().is_err()
                    || link.stream.wait(Some(Duration::from_millis(20))).is_err()
                {
                    break;
                }
            }
            link.stream.close();
        }
    }
}

fn lost(peer: SocketAddr, reason: &str) -> Error {
    Error::PeerLost { peer: peer.to_string(), reason: reason.to_owned() }
}
