//! The side that connects to the program that serves.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, Weak};

use super::crew::{Crew, Seat, Summary};
use super::pump::STALL;
use super::socket::Socket;
use super::{GRACE, MAX_LINKS, PATIENCE, RETRY, check, wait};
use crate::link::Link;
use crate::listener::{Caller, Listener};
use crate::pair::QPair;
use rackmem_fabric::address::Address;
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::access::Access;

/// Takes queue pairs, and carries each to a connection of its own to a server.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Address,
    crew: Arc<Crew>,
    links: Mutex<Vec<Weak<Link>>>,
}

impl Acceptor {
    /// Waits at `address` for connectors that may come there, for up to `sockets` connections at a time to the
    /// server. Whether that is there shows with each connection.
    ///
    /// # Errors
    /// Something else listens there, everybody could come, or limits do not permit as many.
    pub fn open(
        address: &Address,
        access: Access,
        server: Address,
        sockets: u32,
    ) -> Result<Acceptor> {
        check(sockets)?;
        let listener = Listener::bind(address, access)?;
        let crew = Crew::new(sockets);
        Ok(Acceptor {
            listener,
            shared: Arc::new(Shared { server, crew, links: Mutex::default() }),
        })
    }

    /// The address it waits at, with the port that the kernel chose.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Carries connections until `stop` becomes readable; then all of them end.
    ///
    /// # Errors
    /// The kernel refuses to wait for connections.
    pub fn run(self, stop: BorrowedFd<'_>) -> Result<Summary> {
        while wait(stop, Some(self.listener.as_fd()), None)? {
            match self.listener.next() {
                Ok(caller) => self.shared.start(caller),
                Err(error) => {
                    tracing::warn!("{error}");
                    std::thread::sleep(RETRY);
                }
            }
        }
        // No more come, then all go.
        drop(self.listener);
        let summary = self.shared.crew.end(GRACE);
        for link in self.shared.links() {
            link.hang_up();
        }
        Ok(summary)
    }
}

impl Shared {
    /// The links that there are.
    fn links(&self) -> Vec<Arc<Link>> {
        let mut links = self.links.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        links.iter().filter_map(Weak::upgrade).collect()
    }

    /// Starts a thread for a process that has connected. Only those that have a link count against [`MAX_LINKS`].
    fn start(self: &Arc<Shared>, caller: Caller) {
        let shared = self.clone();
        let serve = move || {
            if let Err(error) = caller.link().and_then(|link| shared.serve(&link)) {
                tracing::warn!("a process was turned away: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("rackmem-accept".to_owned()).spawn(serve);
        if let Err(error) = thread {
            tracing::warn!("a process was turned away: no thread for it: {error}");
        }
    }

    /// Takes the connections of one process until it is gone.
    fn serve(self: &Arc<Shared>, link: &Arc<Link>) -> Result<()> {
        let mut links = self.links.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        if links.len() >= MAX_LINKS {
            return Err(Error::Refused(format!("{MAX_LINKS} are linked already")));
        }
        links.push(Arc::downgrade(link));
        drop(links);
        tracing::info!("{} is linked", link.name());
        loop {
            let pair = match link.accept() {
                Ok(pair) => pair,
                Err(error) => {
                    tracing::info!("{error}");
                    return Ok(());
                }
            };
            let who = format!("connection {}", pair.number());
            let server = self.server.clone();
            let started = self.crew.start(who.clone(), move |seat| carry(seat, pair, &server));
            if let Err(error) = started {
                tracing::warn!("{who} was turned away: {error}");
            }
        }
    }
}

fn carry(seat: &mut Seat, pair: QPair, server: &Address) -> Result<()> {
    let socket = Socket::connect(server, PATIENCE, STALL)
        .map_err(|error| Error::io(format!("cannot connect to {server}"), error))?;
    seat.carry(pair, socket)
}
