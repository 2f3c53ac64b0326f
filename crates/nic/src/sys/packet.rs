//! A packet socket: every packet of an interface, whole, before and after this host's own stack.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::interface::Interface;
use super::{checked, descriptor};

/// Bytes of packets that the kernel keeps for us.
const RECEIVE_BUFFER_BYTES: libc::c_int = 64 << 20;
/// Bytes of packets on their way out: more would only wait longer in front of a slow NIC.
const SEND_BUFFER_BYTES: libc::c_int = 2 << 20;

/// Bytes of the two addresses of an Ethernet frame, behind which a VLAN tag stands.
const ADDRESSES_BYTES: usize = 12;
/// Protocol and control information of a VLAN tag, two bytes each (IEEE 802.1Q).
pub const VLAN_TAG_BYTES: usize = 4;
/// Bytes of a `virtio_net_hdr`: flags, kind, header length, segment size, checksum start and offset.
pub const VNET_HEADER_BYTES: usize = 10;

const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_VNET_HDR: libc::c_int = 15;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// `struct tpacket_auxdata` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Auxiliary {
    status: u32,
    length: u32,
    captured: u32,
    mac: u16,
    network: u16,
    vlan_tag: u16,
    vlan_protocol: u16,
}

/// A packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Takes all packets that arrive at an interface, those for others as well (until the socket goes),
    /// with a `virtio_net_hdr` in front. Packets that are sent carry `mark`.
    ///
    /// # Errors
    /// Errors of the system calls: `EPERM` without CAP_NET_RAW.
    pub fn open(interface: &Interface, mark: u32) -> io::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. Protocol 0: nothing arrives before the socket is bound.
        let socket =
            PacketSocket(descriptor(unsafe { libc::socket(libc::AF_PACKET, kind, 0).into() })?);
        let index = interface.index()? as libc::c_int;
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        socket.set(libc::SOL_SOCKET, libc::SO_MARK, &mark)?;
        // Less room than asked for loses packets under load, as a NIC does.
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER_BYTES);
        let _ = socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES);
        socket.bind(index)?;
        socket.take_all(index)?;
        Ok(socket)
    }

    /// Makes an interface take packets for other addresses, too, for as long as this lives; none of them
    /// arrives here.
    ///
    /// # Errors
    /// As [`PacketSocket::open`].
    pub fn promiscuous(interface: &Interface) -> io::Result<PacketSocket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let socket =
            PacketSocket(descriptor(unsafe { libc::socket(libc::AF_PACKET, kind, 0).into() })?);
        socket.take_all(interface.index()? as libc::c_int)?;
        Ok(socket)
    }

    fn take_all(&self, index: libc::c_int) -> io::Result<()> {
        let all = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as _,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)
    }

    fn bind(&self, index: libc::c_int) -> io::Result<()> {
        // SAFETY: all zeros are a valid value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as _;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address has that length.
        checked(unsafe {
            libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), length).into()
        })
        .map(drop)
    }

    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let length = size_of::<T>() as libc::socklen_t;
        let value: *const T = value;
        // SAFETY: `value` has that length.
        checked(unsafe {
            libc::setsockopt(self.0.as_raw_fd(), level, name, value.cast(), length).into()
        })
        .map(drop)
    }

    /// A packet that has arrived, header first; it does not wait. A VLAN tag that the NIC took off is put
    /// back: `into` has to have room for it behind the packet.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; `ENETDOWN` once when the interface is switched off.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let room = into.len().saturating_sub(VLAN_TAG_BYTES);
        let mut vector = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: room };
        let mut control = [0u64; 8];
        // SAFETY: all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the message points to bytes that outlive the call, with their lengths.
        let length = checked(unsafe {
            libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) as libc::c_long
        })?;
        match vlan_tag(&message) {
            Some(tag) => Ok(insert_tag(into, length, tag)),
            None => Ok(length),
        }
    }

    /// Sends a packet, header first; it does not wait.
    ///
    /// # Errors
    /// Errors of the system call: `WouldBlock` or `ENOBUFS` if the NIC's queue is full.
    pub fn send(&self, packet: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, packet, rustix::net::SendFlags::DONTWAIT)?)
    }
}

/// The tag that the NIC took off a packet.
fn vlan_tag(message: &libc::msghdr) -> Option<[u8; VLAN_TAG_BYTES]> {
    // SAFETY: the kernel has filled in the message; control messages are read as it lays them out.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_PACKET
                && (*header).cmsg_type == libc::PACKET_AUXDATA
            {
                let auxiliary: Auxiliary =
                    libc::CMSG_DATA(header).cast::<Auxiliary>().read_unaligned();
                return tag_of(&auxiliary);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

fn tag_of(auxiliary: &Auxiliary) -> Option<[u8; VLAN_TAG_BYTES]> {
    if auxiliary.status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let protocol = match auxiliary.status & TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => auxiliary.vlan_protocol,
    };
    let ([a, b], [c, d]) = (protocol.to_be_bytes(), auxiliary.vlan_tag.to_be_bytes());
    Some([a, b, c, d])
}

/// Puts a tag between the addresses and the rest of a packet; returns its new length. Offsets in the header of places
/// behind the tag move with them.
fn insert_tag(packet: &mut [u8], length: usize, tag: [u8; VLAN_TAG_BYTES]) -> usize {
    let at = VNET_HEADER_BYTES + ADDRESSES_BYTES;
    if length < at || packet.len() < length + VLAN_TAG_BYTES {
        return length;
    }
    packet.copy_within(at..length, at + VLAN_TAG_BYTES);
    packet[at..at + VLAN_TAG_BYTES].copy_from_slice(&tag);
    let moved = |field: &mut [u8]| {
        let value = u16::from_ne_bytes([field[0], field[1]]);
        if value != 0 {
            field.copy_from_slice(&(value + VLAN_TAG_BYTES as u16).to_ne_bytes());
        }
    };
    moved(&mut packet[2..4]); // length of all headers
    if packet[0] & 1 != 0 {
        moved(&mut packet[6..8]); // where the checksum starts, if it is left to do
    }
    length + VLAN_TAG_BYTES
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_put_back_and_places_move() {
        let mut packet = [0u8; 64];
        for (at, byte) in packet[VNET_HEADER_BYTES..40].iter_mut().enumerate() {
            *byte = at as u8;
        }
        packet[0] = 1;
        packet[2..4].copy_from_slice(&54u16.to_ne_bytes());
        packet[6..8].copy_from_slice(&34u16.to_ne_bytes());
        let length = insert_tag(&mut packet, 40, [0x81, 0, 0, 7]);
        assert_eq!(length, 44);
        assert_eq!(packet[2..4], 58u16.to_ne_bytes());
        assert_eq!(packet[6..8], 38u16.to_ne_bytes());
        assert_eq!(packet[20..30], [10, 11, 0x81, 0, 0, 7, 12, 13, 14, 15]);
        assert_eq!(insert_tag(&mut packet, 20, [1; 4]), 20, "too short for addresses");
    }

    #[test]
    fn only_valid_tags_count() {
        let none = Auxiliary {
            status: 1,
            length: 0,
            captured: 0,
            mac: 0,
            network: 0,
            vlan_tag: 5,
            vlan_protocol: 0x88a8,
        };
        assert_eq!(tag_of(&none), None);
        let old = Auxiliary { status: TP_STATUS_VLAN_VALID, ..none };
        assert_eq!(tag_of(&old), Some([0x81, 0, 0, 5]));
        let new = Auxiliary { status: TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID, ..none };
        assert_eq!(tag_of(&new), Some([0x88, 0xa8, 0, 5]));
    }
}
