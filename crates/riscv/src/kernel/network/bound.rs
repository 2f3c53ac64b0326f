//! Ports of addresses and names of Unix sockets, to which sockets are bound.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use super::place::{Place, ip_of, node_of};
use super::ports::{Protocol, meet};
use super::sockets::{Network, Socket, State};
use crate::kernel::{Errno, Result};

/// Ports of sockets that are not bound to one (`ip_local_port_range`).
pub(super) const PORTS: RangeInclusive<u16> = 32768..=60999;

/// The name of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) enum Name {
    /// One that is in no folder.
    Abstract(Vec<u8>),
    /// A file, as the program has named it, and its inode.
    File(Vec<u8>, u64),
}

impl Name {
    fn is_same(&self, other: &Name) -> bool {
        match (self, other) {
            (Name::File(_, one), Name::File(_, other)) => one == other,
            _ => self == other,
        }
    }
}

impl Socket {
    /// Whether it meets others at an address and port.
    pub(super) fn is_at(&self, ip: Ipv4Addr, port: u16) -> bool {
        matches!(self.local, Some(Place::Inet(local)) if meet(local, ip, port))
    }
}

impl Network {
    /// One without sockets, whose next port is this one.
    pub(super) fn with_next_port(port: u16) -> Option<Network> {
        PORTS.contains(&port).then(|| {
            let mut network = Network::default();
            network.next_port = port;
            network
        })
    }

    pub(super) const fn next_port(&self) -> u16 {
        self.next_port
    }

    /// Gives a socket a port of an address; port 0 stands for any.
    pub(in crate::kernel) fn bind(&mut self, number: u32, to: SocketAddrV4) -> Result<()> {
        let ip = *to.ip();
        if !ip.is_unspecified() && !self.is_own(ip) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let protocol = Protocol::of(self.socket(number)?);
        let port = match to.port() {
            0 => self.free_port(protocol)?,
            port if self.conflicts(number, ip, port) => return Err(Errno::ADDRINUSE),
            port => port,
        };
        self.change_place(number, |socket| {
            socket.bound = Some(SocketAddrV4::new(ip, port));
            socket.local = socket.bound.map(Place::Inet);
        })
    }

    /// Whether another socket keeps this one from a port.
    fn conflicts(&self, number: u32, ip: Ipv4Addr, port: u16) -> bool {
        let Some(own) = self.sockets.get(&number) else { return false };
        let (protocol, shares) = (Protocol::of(own), own.settings.shares_port);
        let is_in_the_way = |socket: &Socket| {
            let listens = matches!(socket.state, State::Listener(_));
            let both_share = shares && socket.settings.shares_port && !listens;
            socket.is_at(ip, port) && !both_share
        };
        let mut others = self.ports.at(protocol, port).filter(|&other| other != number);
        others.any(|other| self.sockets.get(&other).is_some_and(is_in_the_way))
    }

    /// A port that no socket has: each in its turn.
    pub(super) fn free_port(&mut self, protocol: Protocol) -> Result<u16> {
        for _ in PORTS {
            let port = self.next_port;
            self.next_port = if port == *PORTS.end() { *PORTS.start() } else { port + 1 };
            if self.ports.at(protocol, port).next().is_none() {
                return Ok(port);
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// The place from which a socket reaches an address: its own, or a free port.
    pub(super) fn source(&mut self, number: u32, to: Ipv4Addr) -> Result<SocketAddrV4> {
        let is_own = self.is_own(to);
        if !is_own && node_of(to, self.nodes).is_none() {
            return Err(Errno::NETUNREACH);
        }
        let source = if to.is_loopback() { Ipv4Addr::LOCALHOST } else { ip_of(self.node) };
        let socket = self.socket(number)?;
        match socket.local {
            Some(Place::Inet(local)) if local.ip().is_unspecified() => {
                Ok(SocketAddrV4::new(source, local.port()))
            }
            Some(Place::Inet(local)) if local.ip().is_loopback() && !is_own => Err(Errno::INVAL),
            Some(Place::Inet(local)) => Ok(local),
            _ => {
                let protocol = Protocol::of(socket);
                Ok(SocketAddrV4::new(source, self.free_port(protocol)?))
            }
        }
    }

    /// Whether an address is the node's own.
    pub(super) fn is_own(&self, ip: Ipv4Addr) -> bool {
        ip.is_loopback() || ip == ip_of(self.node)
    }

    /// Gives a Unix socket a name.
    pub(in crate::kernel) fn set_name(&mut self, number: u32, name: Name) -> Result<()> {
        if let Name::Abstract(_) = name
            && self.sockets.values().any(|socket| socket.name.as_ref() == Some(&name))
        {
            return Err(Errno::ADDRINUSE);
        }
        self.socket(number)?.name = Some(name);
        Ok(())
    }

    /// A name that no socket has, as Linux makes them: five digits.
    pub(in crate::kernel) fn free_name(&self) -> Name {
        let names = (0..=0xf_ffff).map(|count| Name::Abstract(format!("{count:05x}").into()));
        let has = |name: &Name| self.sockets.values().any(|one| one.name.as_ref() == Some(name));
        // There are fewer sockets than names.
        names.into_iter().find(|name| !has(name)).unwrap_or(Name::Abstract(Vec::new()))
    }

    pub(super) fn has_listener(&self, ip: Ipv4Addr, port: u16) -> bool {
        self.inet_listener_at(ip, port).is_some()
    }

    fn inet_listener_at(&self, ip: Ipv4Addr, port: u16) -> Option<u32> {
        let is_there =
            |number: &u32| self.sockets.get(number).is_some_and(|one| one.is_at(ip, port));
        self.ports.listeners_at(port).find(is_there)
    }

    /// The socket that listens at a place.
    pub(super) fn listener_at(&self, to: Place) -> Option<u32> {
        match to {
            Place::Inet(to) => self.inet_listener_at(*to.ip(), to.port()),
            Place::Unix(number) => {
                let state = self.sockets.get(&number).map(|socket| &socket.state);
                matches!(state, Some(State::Listener(_))).then_some(number)
            }
        }
    }

    /// The Unix socket that listens by a name; the last one, if files have come and gone.
    pub(in crate::kernel) fn listener_named(&self, name: &Name) -> Option<u32> {
        let is_it = |socket: &Socket| {
            let listens = matches!(socket.state, State::Listener(_));
            listens && socket.name.as_ref().is_some_and(|own| own.is_same(name))
        };
        self.sockets.iter().rev().find(|(_, socket)| is_it(socket)).map(|(&number, _)| number)
    }
}
