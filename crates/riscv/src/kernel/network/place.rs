//! What connections are between: IPv4 addresses with ports, and sockets of the node itself.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::Address;
use super::end::Family;

/// Where an end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kernel) enum Place {
    /// A Unix socket, by the number of the one that listened or asked.
    Unix(u32),
    Inet(SocketAddrV4),
}

impl Place {
    pub(in crate::kernel) const fn family(self) -> Family {
        match self {
            Place::Unix(_) => Family::Unix,
            Place::Inet(_) => Family::Inet,
        }
    }
}

/// The IPv4 address of a node: 10.0.0.1 for node 0, and counted on.
pub(in crate::kernel) const fn ip_of(node: u16) -> Ipv4Addr {
    let [high, low] = (node.wrapping_add(1)).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The node that has an address, if it is one of `nodes`.
pub(in crate::kernel) fn node_of(ip: Ipv4Addr, nodes: u16) -> Option<u16> {
    match ip.octets() {
        [10, 0, high, low] => {
            u16::from_be_bytes([high, low]).checked_sub(1).filter(|&node| node < nodes)
        }
        _ => None,
    }
}

/// The place that an address of a program means: that of no node is the node itself.
pub(super) const fn reached(to: SocketAddrV4) -> SocketAddrV4 {
    let ip = if to.ip().is_unspecified() { Ipv4Addr::LOCALHOST } else { *to.ip() };
    SocketAddrV4::new(ip, to.port())
}

/// A place of a node, for segments.
pub(super) const fn outside(address: Address) -> SocketAddrV4 {
    SocketAddrV4::new(ip_of(address.node), address.port)
}
