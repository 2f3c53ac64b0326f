//! The side to which programs connect.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::crew::{Crew, Summary};
use super::pump::STALL;
use super::socket::Socket;
use super::{GRACE, PATIENCE, RETRY, check, terms, wait};
use crate::link::Link;
use crate::pair::QPair;
use rackmem_fabric::address::Address;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::access::{Access, check_exposure};
use rackmem_fabric::net::listener::Listener;
use rackmem_fabric::net::proof::Proof;

/// Listens like any server, and carries its connections over queue pairs.
#[derive(Debug)]
pub struct Connector {
    listener: Listener,
    address: Address,
    acceptor: Address,
    proof: Option<Proof>,
    sockets: u32,
    link: Arc<Link>,
    crew: Arc<Crew>,
}

impl Connector {
    /// Links to the acceptor, with the proof of `access`, then listens at `address` (port 0: any that is free) for up
    /// to `sockets` connections at a time. More wait until others have ended. Programs that connect to a port cannot
    /// prove anything, so `access` has to admit every program that reaches it.
    ///
    /// # Errors
    /// There is no acceptor, it wants another proof, every process that reaches the port could connect, something else
    /// listens there, or limits do not permit as many.
    pub fn open(
        acceptor: &Address,
        access: Access,
        address: &Address,
        sockets: u32,
    ) -> Result<Connector> {
        check(sockets)?;
        if let Address::Tcp(name) = address {
            let could = format!("use what {acceptor} reaches");
            let remedy = "listen at a path, which has permissions";
            check_exposure(name, false, access.is_insecure, &could, remedy)?;
        }
        let Access { proof, mode, .. } = access;
        let link = Link::connect(acceptor, proof.as_ref(), terms(sockets))?;
        let (listener, address) = Listener::bind(address, mode)?;
        let (acceptor, crew) = (acceptor.clone(), Crew::new(sockets));
        Ok(Connector { listener, address, acceptor, proof, sockets, link, crew })
    }

    /// The address it listens at, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Carries connections until `stop` becomes readable; then all of them end. When the acceptor is lost,
    /// all end, too, and those that come later find the next acceptor at the same address, or are turned away.
    ///
    /// # Errors
    /// The kernel refuses to wait for connections.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<Summary> {
        loop {
            let is_full = !self.crew.has_room();
            let listener = (!is_full).then(|| self.listener.as_fd());
            if !wait(stop, listener, is_full.then_some(RETRY))? {
                self.listener.remove();
                let summary = self.crew.end(GRACE);
                self.link.hang_up();
                return Ok(summary);
            }
            if is_full {
                continue;
            }
            match self.listener.accept() {
                Ok((fd, who)) => self.take(fd, &who),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    // Descriptors or memory are short: come back when others may have gone.
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    /// A failure here concerns this connection only.
    fn take(&mut self, fd: OwnedFd, who: &str) {
        let socket = Socket::new(fd, STALL).map_err(|error| Error::io("no such socket", error));
        let started = socket.and_then(|socket| {
            let link = self.linked()?;
            self.crew.start(who.to_owned(), move |seat| seat.carry(open(&link)?, socket))
        });
        if let Err(error) = started {
            tracing::warn!("{who} was turned away: {error}");
        }
    }

    fn linked(&mut self) -> Result<Arc<Link>> {
        if self.link.is_lost() {
            tracing::warn!("the acceptor at {} was lost", self.acceptor);
            self.link = Link::connect(&self.acceptor, self.proof.as_ref(), terms(self.sockets))?;
        }
        Ok(self.link.clone())
    }
}

/// A queue pair; of one whose socket has just ended, the peer may still be busy with the end.
fn open(link: &Arc<Link>) -> Result<QPair> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match link.open() {
            Err(Error::Refused(_)) if Instant::now() < deadline => std::thread::sleep(RETRY),
            result => return result,
        }
    }
}
