//! A socket of a program, Unix or TCP, read by one thread and written by another.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{SendFlags, Shutdown, sockopt};

use rackmem_fabric::address::Address;
use rackmem_fabric::net::{listener, socket};

/// A connected socket that blocks, but no write for longer than it was told. However it is dropped, even by the
/// death of this process, its program sees a reset (as far as the socket knows such a thing), unless it was
/// settled.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    pub(super) fn new(fd: OwnedFd, longest_write: Duration) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&fd, false)?;
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(longest_write))?;
        sockopt::set_socket_linger(&fd, Some(Duration::ZERO))?;
        Ok(Socket(fd))
    }

    /// Connects within the time, to the first address of a host that takes it.
    pub(super) fn connect(
        address: &Address,
        patience: Duration,
        longest_write: Duration,
    ) -> io::Result<Socket> {
        let Address::Tcp(name) = address else {
            return Socket::new(socket::connect(address, patience)?, longest_write);
        };
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in socket::resolve(name).map_err(io::Error::other)? {
            match std::net::TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => {
                    listener::tune(&stream)?;
                    return Socket::new(stream.into(), longest_write);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Reads bytes that are there, or waits for some; 0 at the end.
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *into)).map_err(Into::into)
    }

    /// Writes some; `WouldBlock` if nobody has read for as long as a write may take.
    pub(super) fn write(&self, from: &[u8]) -> io::Result<usize> {
        rustix::io::retry_on_intr(|| rustix::net::send(&self.0, from, SendFlags::NOSIGNAL))
            .map_err(Into::into)
    }

    /// Says that no more will be written.
    pub(super) fn end_writing(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }

    /// Both directions have ended in order.
    pub(super) fn settle(&self) {
        let _ = sockopt::set_socket_linger(&self.0, None);
    }

    /// Wakes the reading thread. The program hears of nothing until the socket is dropped: the end of a direction would
    /// look like the end of its bytes.
    pub(super) fn wake_reader(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Read);
    }
}
