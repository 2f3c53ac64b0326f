//! The listeners of a lender, over TCP and UDP. The lender meets peers that have proved themselves.
//! Other peers keep nobody waiting.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rackmem_fabric::udp::{LinkListener, Settings};
use rustix::event::{EventfdFlags, eventfd};

use crate::transport::{DEAD_AFTER, Transport};
use rackmem_fabric::error::{Error, Result};
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::greet;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::stranger::{MAX_STRANGERS, Stranger, Strangers};
use rackmem_fabric::rights::Right;

/// Right of nodes that borrow a NIC.
const BORROWERS: &[Right] = &[Right::Nic];

/// A peer that connected: the way to it if it has proved itself, else the reason why not.
#[derive(Debug)]
pub struct Caller {
    /// Its address.
    pub peer: String,
    /// The way to it.
    pub way: Result<Transport>,
}

/// The listeners of a lender.
#[derive(Debug)]
pub struct Door {
    tcp: TcpListener,
    udp: LinkListener,
    proof: Option<Proof>,
    strangers: Strangers,
    sender: Sender<Caller>,
    callers: Receiver<Caller>,
    /// Readable while callers wait that came over TCP.
    bell: Arc<OwnedFd>,
}

impl Door {
    /// Listens for peers that `access` admits.
    ///
    /// # Errors
    /// `access` would lend the NIC to every process that reaches the address, or the error of the kernel.
    pub fn open(listen: SocketAddr, access: &Access, interface: &str) -> Result<Door> {
        access.check(&listen.to_string(), &format!("borrow {interface}"))?;
        let cannot = |error| Error::listen(listen, error);
        let tcp = TcpListener::bind(listen).map_err(cannot)?;
        tcp.set_nonblocking(true).map_err(cannot)?;
        let address = tcp.local_addr().map_err(cannot)?;
        let settings = Settings { dead_after: DEAD_AFTER, ..Settings::default() };
        let proof = access.proof.clone();
        let credentials = greet::credentials(proof.as_ref()).clone();
        let mut udp = LinkListener::bind(address, credentials, settings, None)?;
        if let Some(proof) = proof.clone() {
            udp = udp.admitting(proof, BORROWERS);
        }
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| cannot(error.into()))?);
        let (sender, callers) = channel();
        Ok(Door { tcp, udp, proof, strangers: Strangers::default(), sender, callers, bell })
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Readable when [`Door::next`] has something to do.
    pub fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [self.tcp.as_fd(), self.udp.as_fd(), self.bell.as_fd()]
    }

    /// The next caller, if there is one; it does not wait.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub fn next(&mut self) -> Result<Option<Caller>> {
        self.let_in()?;
        if let Ok(caller) = self.callers.try_recv() {
            return Ok(Some(caller));
        }
        // A peer that comes after this look rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        if let Ok(caller) = self.callers.try_recv() {
            return Ok(Some(caller));
        }
        match self.udp.try_accept() {
            Ok(link) => Ok(link.map(|link| {
                let peer = link.peer();
                Caller { peer: peer.to_string(), way: Ok(Transport::over_link(link, peer)) }
            })),
            Err(Error::Io { what, source }) if is_out_of_descriptors(&source) => {
                Err(Error::Io { what, source })
            }
            // One that cannot be answered is no reason to turn away others.
            Err(error) => Ok(Some(Caller { peer: "a peer over UDP".to_owned(), way: Err(error) })),
        }
    }

    /// Starts the proof of each connected peer, in a thread of its own.
    fn let_in(&self) -> Result<()> {
        for _ in 0..MAX_STRANGERS {
            let (stream, peer) = match self.tcp.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_out_of_descriptors(&error) => {
                    return Err(Error::io("cannot take a connection", error));
                }
                // One that has gone since is nobody.
                Err(_) => return Ok(()),
            };
            if let Err(error) = self.start(stream, peer.to_string()) {
                tracing::warn!("{peer} was turned away: {error}");
            }
        }
        Ok(())
    }

    fn start(&self, stream: TcpStream, peer: String) -> io::Result<()> {
        let stranger = self.strangers.admit(stream.as_fd())?;
        let (proof, sender) = (self.proof.clone(), self.sender.clone());
        let bell = self.bell.clone();
        let meet = move || {
            let way = meet(stream, &peer, proof.as_ref(), &stranger);
            drop(stranger);
            let _ = sender.send(Caller { peer, way });
            let _ = rustix::io::write(&bell, &1_u64.to_ne_bytes());
        };
        let thread = std::thread::Builder::new().name("rackmem-nic-door".to_owned());
        thread.spawn(meet).map(drop)
    }
}

fn meet(
    stream: TcpStream,
    peer: &str,
    proof: Option<&Proof>,
    stranger: &Stranger,
) -> Result<Transport> {
    let failed = |error| Error::io("cannot use a connection", error);
    stream.set_nonblocking(true).map_err(failed)?;
    let link = Link::welcome(stream.into(), peer, (proof, BORROWERS), stranger)?;
    Transport::over_tcp(link)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
