//! A socket at which programs connect that know nothing of rackmem: Unix or TCP, with an orderly end.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{SocketFlags, SocketType, sockopt};

use super::path::{self, Name, Replace};
use super::{access, socket};
use crate::address::Address;
use crate::error::{Error, Result};

/// Silence before each keep-alive probe of the kernel, and unanswered probes after which the other host is taken for
/// dead.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_PROBES: u32 = 4;

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// The socket's file, if it has one, and its permissions.
    file: Option<(Name, u32)>,
}

impl Listener {
    /// Listens from now on, in place of a dead process but not of a living one, nor of a file that is no socket. Port 0
    /// is any that is free. Returns the address with its port. The caller has checked the exposure, see
    /// [`access::check_exposure`].
    ///
    /// # Errors
    /// Something else listens there or has that name, or the kernel refuses.
    pub fn bind(address: &Address, mode: u32) -> Result<(Listener, Address)> {
        match address {
            Address::Unix(path) => {
                let (fd, name) = path::listen(path, SocketType::STREAM, mode, Replace::Dead)
                    .map_err(|error| Error::listen_at_path(path, error))?;
                Ok((Listener { fd, file: Some((name, mode)) }, address.clone()))
            }
            Address::Tcp(name) => {
                let (fd, at) = socket::listen_tcp(name)?;
                Ok((Listener { fd, file: None }, Address::Tcp(at.to_string())))
            }
        }
    }

    /// Takes a waiting client. Returns its socket, which blocks, and its name.
    ///
    /// # Errors
    /// `WouldBlock` if none waits; `PermissionDenied` if it may not come.
    pub fn accept(&self) -> io::Result<(OwnedFd, String)> {
        let fd = rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC)?;
        if let Some((_, mode)) = &self.file {
            let process = sockopt::socket_peercred(&fd)?.pid.as_raw_nonzero();
            access::check_peer(fd.as_fd(), *mode)?;
            return Ok((fd, format!("process {process}")));
        }
        let stream = TcpStream::from(fd);
        tune(&stream)?;
        let who = stream.peer_addr()?.to_string();
        Ok((stream.into(), who))
    }

    /// Removes the socket's name, if it is still this one's.
    pub fn remove(&self) {
        if let Some((name, _)) = &self.file {
            name.remove();
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes small messages leave at once, and finds dead hosts by keep-alives. A slow host is not disconnected.
///
/// # Errors
/// The error of the kernel.
pub fn tune(stream: &std::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    Ok(())
}
