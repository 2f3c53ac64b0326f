//! Datagrams over UDP. Many of one size cross the kernel as one, if it can do that (UDP_SEGMENT, UDP_GRO).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use super::Wire;

/// Datagrams that wait for one system call at most.
const BATCH: usize = 64;

/// Most bytes that one system call takes or gives.
const MAX_TRAIN_BYTES: usize = 65_000;

/// Bytes of the headers of IPv6 and UDP, which are part of a network's MTU.
const HEADERS_BYTES: usize = 40 + 8;
/// Bounds of a datagram without its headers: every network carries the lower one (576 bytes with their headers).
const MIN_BYTES: usize = 528;
const MAX_BYTES: usize = 62_000;

/// Bytes asked of the kernel for each direction; it may give less.
const SOCKET_BUFFER_BYTES: libc::c_int = 8 << 20;

/// A UDP socket with one peer.
#[derive(Debug)]
pub struct UdpWire {
    socket: UdpSocket,
    max_bytes: usize,
    /// Datagrams to be sent, one behind the other, and the end of each.
    outgoing: Box<[u8]>,
    ends: [usize; BATCH],
    count: usize,
    /// Whether the kernel cuts one into many.
    cuts: bool,
    incoming: Box<[u8]>,
    /// Of the datagrams that have arrived: bytes taken, bytes there, bytes of each.
    taken: usize,
    filled: usize,
    piece: usize,
}

/// Room for one control message with a number.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Most bytes of a datagram on the way to an address.
///
/// # Errors
/// There is no way.
pub fn max_bytes_to(address: SocketAddr) -> io::Result<usize> {
    let any: SocketAddr =
        if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    max_bytes(&socket)
}

fn max_bytes(socket: &UdpSocket) -> io::Result<usize> {
    let mtu = path_mtu(socket, socket.peer_addr()?)?;
    Ok(mtu.saturating_sub(HEADERS_BYTES).clamp(MIN_BYTES, MAX_BYTES))
}

impl UdpWire {
    /// Takes a socket that is connected to the peer; datagrams have up to `most` bytes.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(socket: UdpSocket, most: usize) -> io::Result<UdpWire> {
        socket.set_nonblocking(true)?;
        for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
            // Less than asked for costs retransmissions, nothing else.
            let _ = set_option(&socket, libc::SOL_SOCKET, option, SOCKET_BUFFER_BYTES);
        }
        // A kernel that does not join datagrams gives them one by one.
        let _ = set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        Ok(UdpWire {
            max_bytes: max_bytes(&socket)?.min(most.max(MIN_BYTES)),
            socket,
            outgoing: vec![0; MAX_TRAIN_BYTES].into_boxed_slice(),
            ends: [0; BATCH],
            count: 0,
            cuts: true,
            incoming: vec![0; 1 << 16].into_boxed_slice(),
            taken: 0,
            filled: 0,
            piece: 0,
        })
    }

    /// Beginning of datagram `index` of those to be sent.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Number of datagrams from `first` on that can go as one: all of one size, but the last may be shorter.
    fn train(&self, first: usize) -> usize {
        let length = |index: usize| self.ends[index] - self.start(index);
        let mut last = first;
        while self.cuts && last + 1 < self.count && length(last) == length(first) {
            if length(last + 1) > length(first) {
                break;
            }
            last += 1;
        }
        last + 1 - first
    }

    /// Sends datagrams from `first` on; returns the number of those that went.
    fn send_train(&mut self, first: usize) -> io::Result<usize> {
        let count = self.train(first);
        let from = self.start(first);
        let bytes = &mut self.outgoing[from..self.ends[first + count - 1]];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control([0; 64]);
        // SAFETY: all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if count > 1 {
            let piece = (self.ends[first] - from) as u16;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control.0) as _;
            // SAFETY: there is room for one message with a number, and it is written whole.
            unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                (*header).cmsg_level = libc::SOL_UDP;
                (*header).cmsg_type = libc::UDP_SEGMENT;
                (*header).cmsg_len = libc::CMSG_LEN(2) as _;
                libc::CMSG_DATA(header).cast::<u16>().write_unaligned(piece);
                message.msg_controllen = libc::CMSG_SPACE(2) as _;
            }
        }
        // SAFETY: the message points to what outlives the call.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        match io::Error::last_os_error() {
            _ if sent >= 0 => Ok(count),
            error if count > 1 && cannot_cut(&error) => {
                self.cuts = false;
                Ok(0)
            }
            error => Err(error),
        }
    }

    /// Takes datagrams that have arrived, perhaps many of one size. Returns whether there were any.
    fn refill(&mut self) -> io::Result<bool> {
        let room = self.incoming.len();
        let mut vector = libc::iovec { iov_base: self.incoming.as_mut_ptr().cast(), iov_len: room };
        let mut control = Control([0; 64]);
        // SAFETY: all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control.0) as _;
        // SAFETY: the message points to what outlives the call, with its lengths.
        let got =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        (self.taken, self.filled) = (0, got as usize);
        self.piece = joined(&message).unwrap_or(self.filled);
        Ok(true)
    }
}

/// The size of each of many datagrams that arrived as one.
fn joined(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel has filled in the message; control messages are read as it lays them out.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_UDP
            || (*header).cmsg_type != libc::UDP_GRO
        {
            return None;
        }
        let piece = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
        usize::try_from(piece).ok().filter(|&piece| piece > 0)
    }
}

impl Wire for UdpWire {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn send(&mut self, datagram: &[u8], now: Duration) -> io::Result<()> {
        let mut at = self.start(self.count);
        if self.count == BATCH || at + datagram.len() > MAX_TRAIN_BYTES {
            self.flush(now)?;
            at = 0;
        }
        self.outgoing[at..at + datagram.len()].copy_from_slice(datagram);
        self.ends[self.count] = at + datagram.len();
        self.count += 1;
        Ok(())
    }

    fn flush(&mut self, _now: Duration) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.count {
            match self.send_train(sent) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Datagrams that do not fit into the kernel's queue are lost, and sent again like all lost ones.
                Err(error) if is_congestion(&error) => break,
                Err(error) => {
                    self.count = 0;
                    return Err(error);
                }
            }
        }
        self.count = 0;
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8], _now: Duration) -> io::Result<Option<usize>> {
        if self.taken >= self.filled && !self.refill()? {
            return Ok(None);
        }
        let rest = &self.incoming[self.taken..self.filled];
        let datagram = &rest[..rest.len().min(self.piece)];
        self.taken += datagram.len().max(1);
        // One that is longer than any of the link's is cut, and so found damaged.
        let length = datagram.len().min(into.len());
        into[..length].copy_from_slice(&datagram[..length]);
        Ok(Some(length))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Whether the NIC or the kernel does not cut datagrams.
fn cannot_cut(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT | libc::EMSGSIZE)
    )
}
/// Whether the kernel had no room, or the way there is broken for now: the link's timers know what to do.
fn is_congestion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EAGAIN
                | libc::ENOBUFS
                | libc::EMSGSIZE
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::ENETDOWN
                | libc::EPERM
        )
    )
}

fn path_mtu(socket: &UdpSocket, peer: SocketAddr) -> io::Result<usize> {
    let (level, name) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mut mtu: libc::c_int = 0;
    let mut length = size_of_val(&mtu) as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: `mtu` and `length` are there for the call, and have the sizes that it expects.
    let result =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut mtu).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(mtu.max(0) as usize) }
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` is there for the call and `length` is its size.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
