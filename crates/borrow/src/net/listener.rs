//! A socket at which programs connect that know nothing of rackmem: Unix or TCP, with an orderly end.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{SocketFlags, sockopt};

use crate::address::Address;
use crate::error::{Error, Result};

/// After so long without a sign of life the kernel asks whether the other host still lives, and how often.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_PROBES: u32 = 4;

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// At a path, with the file's number: another's file is not ours to remove.
    #[doc(hidden)]
    Unix { listener: UnixListener, path: PathBuf, inode: u64 },
    /// At a port.
    #[doc(hidden)]
    Tcp(TcpListener),
}

impl Listener {
    /// Listens from now on, in place of a dead process but not of a living one. Port 0 is any that is free.
    /// Returns the address with its port.
    ///
    /// # Errors
    /// Something else listens there, or the kernel refuses.
    pub fn bind(address: &Address) -> Result<(Listener, Address)> {
        match address {
            Address::Unix(path) => Ok((listen_unix(path)?, address.clone())),
            Address::Tcp(name) => listen_tcp(name),
        }
    }

    /// Takes a client that waits, and says who it is; its socket blocks.
    ///
    /// # Errors
    /// `WouldBlock` if none waits.
    pub fn accept(&self) -> io::Result<(OwnedFd, String)> {
        match self {
            Listener::Unix { listener, .. } => {
                let fd = rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?;
                let peer = sockopt::socket_peercred(&fd)?;
                Ok((fd, format!("process {}", peer.pid.as_raw_nonzero())))
            }
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(false)?;
                tune(&stream)?;
                Ok((stream.into(), address.to_string()))
            }
        }
    }

    /// Removes the socket's name, if it is still this one's.
    pub fn remove(&self) {
        if let Listener::Unix { path, inode, .. } = self
            && std::fs::metadata(path).is_ok_and(|metadata| metadata.ino() == *inode)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix { listener, .. } => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Small messages leave at once, and dead hosts are noticed, if slowly: who is only slow stays.
///
/// # Errors
/// What the kernel says.
pub fn tune(stream: &std::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    Ok(())
}

fn listen_unix(path: &Path) -> Result<Listener> {
    let cannot = |error| Error::io(format!("cannot listen at {}", path.display()), error);
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                // Whoever listened there is dead.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(cannot)?;
                    UnixListener::bind(path).map_err(cannot)?
                }
                _ => return Err(cannot(error)),
            }
        }
        result => result.map_err(cannot)?,
    };
    listener.set_nonblocking(true).map_err(cannot)?;
    let inode = std::fs::metadata(path).map_err(cannot)?.ino();
    Ok(Listener::Unix { listener, path: path.to_owned(), inode })
}

fn listen_tcp(address: &str) -> Result<(Listener, Address)> {
    let cannot = |error| Error::io(format!("cannot listen at {address}"), error);
    let listener = TcpListener::bind(address).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    Ok((Listener::Tcp(listener), Address::Tcp(bound.to_string())))
}
