//! Sockets of datagrams (UDP).
//!
//! A datagram goes to the socket that is bound to its place, and of several to the one that is bound most closely: to a
//! peer, then to an address. One that comes where nobody is has its sender learn of that, if it is connected
//! ([`Content::Unreachable`]). A socket holds as many as its buffer has room for, and others are lost.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::place::{Place, node_of, reached};
use super::ports::Protocol;
use super::sockets::{BUFFER_BYTES, Network, Socket, State};
use super::{Address, Content, MOST_DATAGRAM, Segment};
use crate::kernel::{Errno, Result};

/// Bytes of the receiver's buffer that a datagram takes besides its own: as on Linux for a short one.
const OVERHEAD: usize = 768;

/// One that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) struct Datagram {
    pub from: SocketAddrV4,
    pub bytes: Vec<u8>,
}

/// What a socket of datagrams has: a state machine without a network.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Datagrams {
    arrived: VecDeque<Datagram>,
    /// Bytes of the buffer that these take.
    held: usize,
    /// The only place that it talks to, if it is connected.
    pub peer: Option<SocketAddrV4>,
    /// The error that the program is to be told next: a datagram did not arrive.
    pub error: Option<Errno>,
    /// The program reads, or writes, no more.
    pub is_shut: (bool, bool),
}

impl Datagrams {
    /// Whether it takes datagrams from there.
    fn hears(&self, from: SocketAddrV4) -> bool {
        self.peer.is_none_or(|peer| peer == from)
    }

    /// Takes a datagram. Returns whether the program may see a difference: there was room for it.
    fn receive(&mut self, datagram: Datagram) -> bool {
        let bytes = datagram.bytes.len() + OVERHEAD;
        let has_room = self.held + bytes <= BUFFER_BYTES;
        if has_room {
            self.held += bytes;
            self.arrived.push_back(datagram);
        }
        has_room
    }

    /// The first datagram that has arrived; `None` if there is none yet. An error comes first.
    pub(in crate::kernel) fn first(&mut self) -> Result<Option<Datagram>> {
        match (self.error.take(), self.arrived.front()) {
            (Some(error), _) => Err(error),
            (None, Some(first)) => Ok(Some(first.clone())),
            (None, None) => Ok(None),
        }
    }

    /// Removes it.
    pub(in crate::kernel) fn remove(&mut self) {
        if let Some(first) = self.arrived.pop_front() {
            self.held -= first.bytes.len() + OVERHEAD;
        }
    }

    pub(in crate::kernel) fn is_readable(&self) -> bool {
        !self.arrived.is_empty() || self.is_shut.0
    }

    /// Bytes of the first datagram.
    pub(in crate::kernel) fn first_bytes(&self) -> usize {
        self.arrived.front().map_or(0, |first| first.bytes.len())
    }
}

impl Network {
    pub(in crate::kernel) fn datagrams(&mut self, number: u32) -> Option<&mut Datagrams> {
        match self.sockets.get_mut(&number).map(|socket| &mut socket.state) {
            Some(State::Datagrams(datagrams)) => Some(datagrams),
            _ => None,
        }
    }

    /// Has a socket talk to one place only, or to all again. It gets a port if it has none.
    pub(in crate::kernel) fn connect_datagrams(
        &mut self,
        number: u32,
        to: Option<SocketAddrV4>,
    ) -> Result<()> {
        let Some(to) = to.map(reached) else {
            self.change_place(number, |socket| {
                socket.local = socket.bound.map(Place::Inet);
            })?;
            let datagrams = self.datagrams(number).ok_or(Errno::BADF)?;
            datagrams.peer = None;
            return Ok(());
        };
        let local = self.source(number, *to.ip())?;
        self.change_place(number, |socket| socket.local = Some(Place::Inet(local)))?;
        let datagrams = self.datagrams(number).ok_or(Errno::BADF)?;
        datagrams.peer = Some(to);
        Ok(())
    }

    /// Sends a datagram to a place, or to the peer of the socket.
    pub(in crate::kernel) fn send_datagram(
        &mut self,
        number: u32,
        to: Option<SocketAddrV4>,
        bytes: Vec<u8>,
    ) -> Result<()> {
        const DESTADDRREQ: Errno = Errno(89);
        let datagrams = self.datagrams(number).ok_or(Errno::BADF)?;
        if bytes.len() > MOST_DATAGRAM {
            return Err(Errno::MSGSIZE);
        }
        let to = reached(to.or(datagrams.peer).ok_or(DESTADDRREQ)?);
        if to.port() == 0 {
            return Err(Errno::INVAL);
        }
        if datagrams.is_shut.1 {
            return Err(Errno::PIPE);
        }
        if let Some(error) = datagrams.error.take() {
            return Err(error);
        }
        let from = self.source(number, *to.ip())?;
        if self.socket(number)?.local.is_none() {
            let local = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, from.port());
            self.change_place(number, |socket| socket.local = Some(Place::Inet(local)))?;
        }
        match node_of(*to.ip(), self.nodes).filter(|&node| node != self.node) {
            Some(node) => self.outgoing.push(Segment {
                from: Address { node: self.node, port: from.port() },
                to: Address { node, port: to.port() },
                content: Content::Datagram(bytes),
            }),
            None if !self.take_datagram(to, Datagram { from, bytes }) => self.unreached(from, to),
            None => {}
        }
        Ok(())
    }

    /// The socket of a place that hears another one.
    fn hearer(&self, at: SocketAddrV4, from: SocketAddrV4) -> Option<u32> {
        let closeness = |number: &u32| {
            let socket = self.sockets.get(number)?;
            let (Socket { local: Some(Place::Inet(local)), .. }, State::Datagrams(datagrams)) =
                (socket, &socket.state)
            else {
                return None;
            };
            let is_it = socket.is_at(*at.ip(), at.port()) && datagrams.hears(from);
            is_it.then_some((datagrams.peer.is_some(), !local.ip().is_unspecified()))
        };
        let numbers = self.ports.at(Protocol::Udp, at.port());
        let hearers = numbers.filter_map(|number| Some((closeness(&number)?, number)));
        hearers.max().map(|(_, number)| number)
    }

    /// A datagram has come to a place of the node. Returns whether anybody is there.
    pub(super) fn take_datagram(&mut self, to: SocketAddrV4, datagram: Datagram) -> bool {
        let Some(number) = self.hearer(to, datagram.from) else { return false };
        if self.datagrams(number).is_some_and(|datagrams| datagrams.receive(datagram)) {
            self.touch(number);
        }
        true
    }

    /// Nobody is where a socket of the node has sent a datagram.
    pub(super) fn unreached(&mut self, from: SocketAddrV4, to: SocketAddrV4) {
        let Some(number) = self.hearer(from, to) else { return };
        if let Some(datagrams) = self.datagrams(number)
            && datagrams.peer.is_some()
        {
            datagrams.error = Some(Errno::CONNREFUSED);
            self.touch(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_beyond_the_buffer_are_lost_and_others_stay_whole() {
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        let datagram = |first: u8, length: usize| Datagram { from, bytes: vec![first; length] };
        let mut datagrams = Datagrams::default();
        assert!(datagrams.receive(datagram(0, MOST_DATAGRAM)));
        let rest = BUFFER_BYTES - MOST_DATAGRAM - 2 * OVERHEAD;
        assert!(!datagrams.receive(datagram(1, rest + 1)), "a byte too long");
        assert!(datagrams.receive(datagram(2, rest)));
        assert!(!datagrams.receive(datagram(3, 0)), "empty ones have their place, too");
        for expected in [0, 2] {
            let first = datagrams.first().expect("no error").expect("it has arrived");
            assert_eq!(first.bytes[0], expected);
            datagrams.remove();
        }
        assert_eq!(datagrams.first(), Ok(None));
        assert!(datagrams.receive(datagram(4, rest + 1)), "there is room again");
    }
}
