//! Messages to the kernel's routing socket: tunnels made and removed, changes of interfaces noticed.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::interface::{Interface, Mac};
use super::{checked, descriptor};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTMGRP_LINK: u32 = 1;
const NLMSG_ERROR: u16 = 2;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_PROTO_DOWN: u16 = 39;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_VXLAN_UDP_CSUM: u16 = 18;

/// Bytes of the headers of a message about an interface.
const HEADERS_BYTES: usize = 16 + 16;

/// UDP port of tunnels: the one that VXLAN has been given.
pub const VXLAN_PORT: u16 = 4789;

/// A message about an interface, as it is built.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, index: u32) -> Message {
        let mut bytes = vec![0; HEADERS_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST | ACKNOWLEDGE).to_ne_bytes());
        bytes[20..24].copy_from_slice(&index.to_ne_bytes());
        Message(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        self.0.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// An attribute made of attributes.
    fn nested(mut self, kind: u16, inside: impl FnOnce(Message) -> Message) -> Message {
        let at = self.0.len();
        self.0.extend_from_slice(&[0, 0]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        let mut message = inside(self);
        let length = (message.0.len() - at) as u16;
        message.0[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

fn socket(groups: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let socket =
        descriptor(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE).into() })?;
    // SAFETY: all zeros are a valid value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as _;
    address.nl_groups = groups;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address has that length.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length).into() })?;
    Ok(socket)
}

/// Sends a message and waits for the kernel's answer.
fn tell(message: Message) -> io::Result<()> {
    let socket = socket(0)?;
    rustix::net::send(&socket, &message.finish(), rustix::net::SendFlags::empty())?;
    let mut answer = [0u8; 4096];
    let length = rustix::io::read(&socket, &mut answer)?;
    let answer = &answer[..length];
    let word = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let is_error = answer.get(4..6) == Some(&NLMSG_ERROR.to_ne_bytes()[..]);
    match word(16).map(i32::from_ne_bytes) {
        Some(0) if is_error => Ok(()),
        Some(code) if is_error => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel answered something else")),
    }
}

/// Parameters of a tunnel between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its number, of 24 bits.
    pub id: u32,
    /// This host's address.
    pub local: IpAddr,
    /// The other host's address.
    pub remote: IpAddr,
    /// Most bytes of a packet inside.
    pub mtu: u32,
    /// The address of the interface, unless any will do.
    pub mac: Option<Mac>,
}

/// Makes the interface `name` the end of a VXLAN tunnel. It is switched off.
///
/// # Errors
/// Errors of the kernel: `EEXIST` if there is such an interface or tunnel.
pub fn create_tunnel(name: &str, tunnel: &Tunnel) -> io::Result<()> {
    let mut message = Message::new(RTM_NEWLINK, CREATE | EXCLUSIVE, 0)
        .attribute(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat())
        .attribute(IFLA_MTU, &tunnel.mtu.to_ne_bytes());
    if let Some(mac) = tunnel.mac {
        message = message.attribute(IFLA_ADDRESS, &mac);
    }
    let end = |message: Message, old: u16, new: u16, ip: IpAddr| match ip {
        IpAddr::V4(ip) => message.attribute(old, &ip.octets()),
        IpAddr::V6(ip) => message.attribute(new, &ip.octets()),
    };
    tell(message.nested(IFLA_LINKINFO, |message| {
        let message = message.attribute(IFLA_INFO_KIND, b"vxlan");
        message.nested(IFLA_INFO_DATA, |message| {
            let message = message
                .attribute(IFLA_VXLAN_ID, &tunnel.id.to_ne_bytes())
                .attribute(IFLA_VXLAN_PORT, &VXLAN_PORT.to_be_bytes())
                .attribute(IFLA_VXLAN_LEARNING, &[0])
                // Packets inside have checksums of their own (RFC 7348 §5); over IPv6 there has to be one.
                .attribute(IFLA_VXLAN_UDP_CSUM, &[0]);
            let message = end(message, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6, tunnel.remote);
            end(message, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6, tunnel.local)
        })
    }))
}

/// The message that removes an interface.
///
/// # Errors
/// It is gone.
pub fn removal(interface: &Interface) -> io::Result<Vec<u8>> {
    Ok(Message::new(RTM_DELLINK, 0, interface.index()?).finish())
}

/// The messages that give an interface the settings that it has now.
///
/// # Errors
/// It is gone.
pub fn restoration(interface: &Interface) -> io::Result<Vec<Vec<u8>>> {
    let index = interface.index()?;
    let (mtu, mac, up) = (interface.mtu()?, interface.mac()?, interface.is_up()?);
    let message = || Message::new(RTM_NEWLINK, 0, index);
    let mut switch = message();
    switch.0[24..28].copy_from_slice(&u32::from(up).to_ne_bytes());
    switch.0[28..32].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    Ok(vec![
        message().attribute(IFLA_MTU, &mtu.to_ne_bytes()).finish(),
        message().attribute(IFLA_ADDRESS, &mac).finish(),
        switch.finish(),
    ])
}

/// A socket for a message that somebody sends later.
///
/// # Errors
/// The error of the kernel.
pub fn open() -> io::Result<OwnedFd> {
    socket(0)
}

/// Takes the cable of a tunnel's end out, or puts it in, as programs see it.
///
/// # Errors
/// The error of the kernel.
pub fn set_carrier(interface: &Interface, carrier: bool) -> io::Result<()> {
    let down = [u8::from(!carrier)];
    tell(Message::new(RTM_NEWLINK, 0, interface.index()?).attribute(IFLA_PROTO_DOWN, &down))
}

/// Notices that some interface of this network namespace has changed.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Begins to notice.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new() -> io::Result<Watch> {
        let socket = socket(RTMGRP_LINK)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Watch(socket))
    }

    /// Forgets all changes so far. Whether there were any.
    pub fn drain(&self) -> bool {
        let mut any = false;
        let mut bytes = [0u8; 8192];
        loop {
            match rustix::io::read(&self.0, &mut bytes) {
                Ok(_) => any = true,
                // More changes than the kernel keeps are changes, too.
                Err(rustix::io::Errno::NOBUFS) => any = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
