//! Sockets by their ports.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::place::Place;
use super::sockets::{Socket, State};

/// Protocols, of which each has ports of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// That of a socket of IPv4.
    pub(super) const fn of(socket: &Socket) -> Protocol {
        match socket.state {
            State::Datagrams(_) => Protocol::Udp,
            _ => Protocol::Tcp,
        }
    }
}

/// A socket with a port: its protocol, the port, whether it does not listen, and its number.
type Entry = (Protocol, u16, bool, u32);

/// Sockets that have ports, those that listen first of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ports(BTreeSet<Entry>);

impl Ports {
    fn entry(number: u32, socket: &Socket) -> Option<Entry> {
        let Some(Place::Inet(local)) = socket.local else { return None };
        let listens = matches!(socket.state, State::Listener(_));
        Some((Protocol::of(socket), local.port(), !listens, number))
    }

    /// A socket is there, or has changed.
    pub(super) fn add(&mut self, number: u32, socket: &Socket) {
        self.0.extend(Ports::entry(number, socket));
    }

    /// It is there no more, or about to change.
    pub(super) fn remove(&mut self, number: u32, socket: &Socket) {
        if let Some(entry) = Ports::entry(number, socket) {
            self.0.remove(&entry);
        }
    }

    /// Numbers of the sockets with a port.
    pub(super) fn at(&self, protocol: Protocol, port: u16) -> impl Iterator<Item = u32> {
        let entries = (protocol, port, false, 0)..=(protocol, port, true, u32::MAX);
        self.0.range(entries).map(|&(.., number)| number)
    }

    /// Numbers of those that listen there.
    pub(super) fn listeners_at(&self, port: u16) -> impl Iterator<Item = u32> {
        let entries = (Protocol::Tcp, port, false, 0)..=(Protocol::Tcp, port, false, u32::MAX);
        self.0.range(entries).map(|&(.., number)| number)
    }
}

/// Whether a socket at one place stands in the way of another one, or hears what is for that: the same port of one
/// address, where none stands for all of them.
pub(super) fn meet(local: SocketAddrV4, ip: Ipv4Addr, port: u16) -> bool {
    let is_all = local.ip().is_unspecified() || ip.is_unspecified();
    local.port() == port && (is_all || *local.ip() == ip)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::network::end::Family;
    use crate::kernel::network::sockets::Network;

    /// A call of a program on one of its sockets.
    #[derive(Debug, Clone)]
    enum Call {
        Open,
        Bind(u16),
        Listen,
        Connect(u16),
        Accept,
        Disconnect,
        StopListening,
        Close,
    }

    fn call() -> impl Strategy<Value = Call> {
        let port = prop::sample::select(vec![0, 1, 2]);
        prop_oneof![
            3 => Just(Call::Open),
            3 => port.clone().prop_map(Call::Bind),
            2 => Just(Call::Listen),
            3 => port.prop_map(Call::Connect),
            2 => Just(Call::Accept),
            1 => Just(Call::Disconnect),
            1 => Just(Call::StopListening),
            2 => Just(Call::Close),
        ]
    }

    fn make(network: &mut Network, number: u32, call: &Call) {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let connects = network.end(number).is_some();
        // A call that the network refuses changes nothing.
        let _ = match call {
            Call::Open => network.add(Family::Inet).map(|_| ()),
            Call::Bind(port) if !connects => network.bind(number, at(*port)),
            Call::Listen => network.listen(number, 1),
            Call::Connect(port) if !connects => network.connect(number, at(*port)),
            Call::Accept => network.accept(number).map(|_| ()),
            Call::Disconnect => {
                network.disconnect(number);
                Ok(())
            }
            Call::StopListening => {
                network.stop_listening(number);
                Ok(())
            }
            Call::Close => {
                network.close(number);
                Ok(())
            }
            _ => Ok(()),
        };
    }

    proptest! {
        #[test]
        fn ports_are_those_of_the_sockets(
            calls in prop::collection::vec((0usize..8, call()), 1..80),
        ) {
            let mut network = Network::default();
            for (index, call) in calls {
                let numbers: Vec<u32> = network.sockets.keys().copied().collect();
                let number = numbers.get(index % numbers.len().max(1)).copied().unwrap_or(0);
                make(&mut network, number, &call);
                let mut found = Ports::default();
                network.sockets.iter().for_each(|(&number, socket)| found.add(number, socket));
                prop_assert_eq!(&network.ports, &found);
            }
            network.leave();
            prop_assert!(network.sockets.is_empty() && network.ports == Ports::default());
        }
    }
}
