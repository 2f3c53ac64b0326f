//! Where processes come that want a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rackmem::transport::{self, Channel};
use rustix::event::{PollFd, PollFlags, poll};

use super::carrier::Carrier;
use super::link::Link;
use super::{memory, wire};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::net::secret::{Secret, check_exposure};
use crate::net::socket;

/// Who may come over a network; who may come to a path is what the file's permissions say.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// What they have to know.
    pub secret: Option<Secret>,
    /// Whether others than this host's processes may come if there is no secret.
    pub is_insecure: bool,
}

/// Waits for processes that want a link.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Address,
    secret: Option<Secret>,
    /// The socket's file, if it has one: another's is not ours to remove.
    file: Option<(PathBuf, u64)>,
}

/// A process that has connected; it has not said anything yet.
#[derive(Debug)]
pub struct Caller(Way);

#[derive(Debug)]
enum Way {
    Memory(Channel),
    Network { fd: OwnedFd, who: String, secret: Option<Secret> },
}

impl Listener {
    /// Listens at a path, in place of a dead process but not of a living one, or at a `HOST:PORT`, where port 0 is
    /// any that is free.
    ///
    /// # Errors
    /// Somebody listens there, something else has that name, whoever reaches the address could come, or what the
    /// kernel says.
    pub fn bind(address: &Address, access: Access) -> Result<Listener> {
        let Access { secret, is_insecure } = access;
        match address {
            Address::Unix(path) => {
                let (fd, inode) = listen(path)?;
                let file = Some((path.clone(), inode));
                Ok(Listener { fd, address: address.clone(), secret, file })
            }
            Address::Tcp(name) => {
                check_exposure(name, secret.as_ref(), is_insecure, "have queue pairs here")?;
                let (fd, at) = socket::listen_tcp(name)?;
                Ok(Listener { fd, address: Address::Tcp(at.to_string()), secret, file: None })
            }
        }
    }

    /// Where it listens; with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for the next link.
    ///
    /// # Errors
    /// The peer goes away, wants too much, does not know the secret, or is no such peer.
    pub fn accept(&self) -> Result<Arc<Link>> {
        self.next()?.link()
    }

    /// Waits for the next process, and for nothing that it has to say.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn next(&self) -> Result<Caller> {
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))
                .map_err(|error| Error::io("cannot wait for a link", error))?;
            match self.take() {
                // Who has come has gone again.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                taken => return taken.map_err(|error| Error::io("cannot accept a link", error)),
            }
        }
    }

    fn take(&self) -> std::io::Result<Caller> {
        if self.address.is_local() {
            return Ok(Caller(Way::Memory(transport::accept(self.fd.as_fd())?)));
        }
        let fd = socket::accept(self.fd.as_fd(), false)?;
        let who = rustix::net::getpeername(&fd)?
            .and_then(|at| std::net::SocketAddr::try_from(at).ok())
            .map_or_else(|| "somebody".to_owned(), |at| at.to_string());
        Ok(Caller(Way::Network { fd, who, secret: self.secret.clone() }))
    }
}

fn listen(path: &Path) -> Result<(OwnedFd, u64)> {
    let cannot = |error| Error::io(format!("cannot listen at {}", path.display()), error);
    if let Ok(there) = std::fs::symlink_metadata(path) {
        let is_alive = there.file_type().is_socket() && Channel::connect(path).is_ok();
        if is_alive || !there.file_type().is_socket() {
            return Err(cannot(std::io::ErrorKind::AddrInUse.into()));
        }
    }
    let fd = transport::listen(path).map_err(cannot)?;
    let inode = std::fs::symlink_metadata(path).map_err(cannot)?.ino();
    Ok((fd, inode))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some((path, inode)) = &self.file else { return };
        if std::fs::symlink_metadata(path).is_ok_and(|there| there.ino() == *inode) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Caller {
    /// Agrees with it on a link.
    ///
    /// # Errors
    /// The peer goes away, wants too much, does not know the secret, or is no such peer.
    pub fn link(self) -> Result<Arc<Link>> {
        match self.0 {
            Way::Memory(channel) => {
                let (own, peer, terms) = memory::accept(&channel)?;
                let name = "the other process".to_owned();
                Link::start(Carrier::Memory(channel), name, [own, peer], terms, false)
            }
            Way::Network { fd, who, secret } => {
                let (wire, terms) = wire::accept(fd, &who, secret.as_ref())?;
                Link::over(wire, who, terms, false)
            }
        }
    }
}
