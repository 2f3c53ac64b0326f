//! Listeners for processes that want a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rackmem::transport::{self, Channel};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::SocketType;

use super::carrier::Carrier;
use super::link::Link;
use super::{memory, wire};
use rackmem_fabric::address::Address;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::access::{Access, check_peer};
use rackmem_fabric::net::path::{self, Name, Replace};
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::socket;
use rackmem_fabric::net::stranger::{Stranger, Strangers};

/// Waits for processes that want a link.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Address,
    access: Access,
    strangers: Strangers,
    /// The socket's file, if it has one.
    file: Option<Name>,
}

/// A process that has connected; it has not said anything yet.
#[derive(Debug)]
pub struct Caller {
    way: Way,
    stranger: Stranger,
}

#[derive(Debug)]
enum Way {
    Memory(Channel),
    Network { fd: OwnedFd, who: String, proof: Option<Proof> },
}

impl Listener {
    /// Listens at a path, in place of a dead process but not of a living one, or at a `HOST:PORT`, where port 0 is
    /// any that is free.
    ///
    /// # Errors
    /// Somebody listens there, something else has that name, every process that reaches the address could connect, or
    /// the kernel refuses.
    pub fn bind(address: &Address, access: Access) -> Result<Listener> {
        let (fd, address, file) = match address {
            Address::Unix(path) => {
                let kind = SocketType::SEQPACKET;
                let (fd, name) = path::listen(path, kind, access.mode, Replace::Dead)
                    .map_err(|error| Error::listen_at_path(path, error))?;
                (fd, address.clone(), Some(name))
            }
            Address::Tcp(name) => {
                access.check(name, "have queue pairs here")?;
                let (fd, at) = socket::listen_tcp(name)?;
                (fd, Address::Tcp(at.to_string()), None)
            }
        };
        Ok(Listener { fd, address, access, strangers: Strangers::default(), file })
    }

    /// The address it listens at, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for the next link.
    ///
    /// # Errors
    /// The peer goes away, wants too much, proves nothing, or is no such peer.
    pub fn accept(&self) -> Result<Arc<Link>> {
        self.next()?.link()
    }

    /// Waits for the next process, and for nothing that it has to say.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn next(&self) -> Result<Caller> {
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))
                .map_err(|error| Error::io("cannot wait for a link", error))?;
            match self.take() {
                // The peer has hung up again, or may not connect.
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::PermissionDenied
                    ) => {}
                taken => return taken.map_err(|error| Error::io("cannot accept a link", error)),
            }
        }
    }

    fn take(&self) -> std::io::Result<Caller> {
        if self.address.is_local() {
            let channel = transport::accept(self.fd.as_fd())?;
            check_peer(channel.as_fd(), self.access.mode)?;
            let stranger = self.strangers.admit(channel.as_fd())?;
            return Ok(Caller { way: Way::Memory(channel), stranger });
        }
        let fd = socket::accept(self.fd.as_fd(), false)?;
        let who = rustix::net::getpeername(&fd)?
            .and_then(|at| std::net::SocketAddr::try_from(at).ok())
            .map_or_else(|| "somebody".to_owned(), |at| at.to_string());
        let stranger = self.strangers.admit(fd.as_fd())?;
        let proof = self.access.proof.clone();
        Ok(Caller { way: Way::Network { fd, who, proof }, stranger })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(name) = &self.file {
            name.remove();
        }
    }
}

impl Caller {
    /// Agrees with it on a link.
    ///
    /// # Errors
    /// The peer goes away, wants too much, proves nothing, or is no such peer.
    pub fn link(self) -> Result<Arc<Link>> {
        match self.way {
            Way::Memory(channel) => {
                let (own, peer, terms) = memory::accept(&channel)?;
                let name = "the other process".to_owned();
                Link::start(Carrier::Memory(channel), name, [own, peer], terms, false)
            }
            Way::Network { fd, who, proof } => {
                let (wire, terms) = wire::accept(fd, &who, proof.as_ref(), &self.stranger)?;
                Link::over(wire, who, terms, false)
            }
        }
    }
}
