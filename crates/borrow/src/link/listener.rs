//! Where links over UDP can be asked for.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::end::Settings;
use super::fabric::Fabric;
use super::faulty::Faults;
use super::handshake::{self, Message};
use super::stream::{LinkStream, Wire};
use crate::error::{Error, Result};

/// Links that a listener remembers, so that one that is asked for twice begins once.
const REMEMBERED: usize = 64;

/// Where links can be asked for.
#[derive(Debug)]
pub struct LinkListener {
    socket: UdpSocket,
    settings: Settings,
    faults: Option<Faults>,
    begun: VecDeque<(SocketAddr, u32)>,
}

impl LinkListener {
    /// Listens at a UDP address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind(
        address: SocketAddr,
        settings: Settings,
        faults: Option<Faults>,
    ) -> Result<LinkListener> {
        let cannot = |error| Error::io(format!("cannot listen at {address} over UDP"), error);
        let socket = UdpSocket::bind(address).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        Ok(LinkListener { socket, settings, faults, begun: VecDeque::with_capacity(REMEMBERED) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// A link that was asked for, if one was; it does not wait. Whoever asked hears of it as soon as the
    /// new end is driven.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn try_accept(&mut self) -> Result<Option<LinkStream>> {
        let cannot = |error| Error::io("cannot take a link over UDP", error);
        let mut bytes = [0; 64];
        loop {
            let (length, from) = match self.socket.recv_from(&mut bytes) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // What somebody's host says of an earlier answer is no failure of the listener.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(cannot(error)),
            };
            let Some(Message::Hello { theirs, max_bytes }) = Message::decode(&bytes[..length])
            else {
                continue;
            };
            if self.begun.contains(&(from, theirs)) {
                continue; // its own end repeats the answer
            }
            if self.begun.len() == REMEMBERED {
                self.begun.pop_front();
            }
            self.begun.push_back((from, theirs));
            return self.begin(from, theirs, max_bytes).map(Some);
        }
    }

    fn begin(&self, from: SocketAddr, theirs: u32, most: u16) -> Result<LinkStream> {
        let cannot = |error| Error::io(format!("cannot link to {from} over UDP"), error);
        let mut here = self.socket.local_addr().map_err(cannot)?;
        here.set_port(0);
        let socket = UdpSocket::bind(here).map_err(cannot)?;
        socket.connect(from).map_err(cannot)?;
        let wire = Wire::new(socket, most, self.faults).map_err(cannot)?;
        let ours = handshake::nonce();
        let max_bytes = wire.max_bytes() as u16;
        let greeting = Some(Message::Welcome { theirs, ours, max_bytes });
        LinkStream::start(wire, from, handshake::session(theirs, ours), self.settings, greeting)
    }

    /// Waits for a link.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn accept(&mut self) -> Result<LinkStream> {
        loop {
            if let Some(stream) = self.try_accept()? {
                return Ok(stream);
            }
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("cannot wait for links", error)),
            }
        }
    }
}

impl AsFd for LinkListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
