//! Addresses as programs write them: `struct sockaddr_in` and `struct sockaddr_un`.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{AF_INET, AF_UNIX};
use crate::kernel::files::{Context, Errno, Files, Result};
use crate::kernel::network::{Family, Name, Place, State};

/// Bytes of an address of any kind (`struct sockaddr_storage`).
const LONGEST: u64 = 128;

/// Bytes of `struct sockaddr_in`.
const INET_BYTES: usize = 16;

/// Bytes of `struct sockaddr_un`.
const UNIX_BYTES: usize = 110;

/// The family of an address that is none: it ends a connection.
pub(super) const UNSPECIFIED: u16 = 0;

/// The bytes of an address that a program gives, and their family.
pub(super) fn given(context: &mut Context<'_>, at: u64, length: u64) -> Result<(u16, Vec<u8>)> {
    let length = u64::from(length as u32);
    if !(2..=LONGEST).contains(&length) {
        return Err(Errno::INVAL);
    }
    let mut bytes = vec![0; length as usize];
    context.memory.read(at, &mut bytes)?;
    Ok((u16::from_le_bytes([bytes[0], bytes[1]]), bytes))
}

/// An IPv4 address and port.
pub(super) fn inet((family, bytes): &(u16, Vec<u8>)) -> Result<SocketAddrV4> {
    let Some(&[_, _, high, low, a, b, c, d]) = bytes.first_chunk::<8>() else {
        return Err(Errno::INVAL);
    };
    match *family {
        _ if bytes.len() < INET_BYTES => Err(Errno::INVAL),
        AF_INET => {
            Ok(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// The name in an address of a Unix socket.
pub(super) enum Path {
    /// None yet: the kernel makes one.
    Any,
    Abstract(Vec<u8>),
    File(Vec<u8>),
}

/// The name of a Unix socket.
pub(super) fn path((family, bytes): &(u16, Vec<u8>)) -> Result<Path> {
    if *family != AF_UNIX || bytes.len() > UNIX_BYTES {
        return Err(Errno::INVAL);
    }
    Ok(match &bytes[2..] {
        [] => Path::Any,
        [0, name @ ..] => Path::Abstract(name.to_vec()),
        name => Path::File(name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()),
    })
}

pub(super) fn inet_bytes(address: SocketAddrV4) -> Vec<u8> {
    let mut bytes = AF_INET.to_le_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    bytes.extend(address.ip().octets());
    bytes.resize(INET_BYTES, 0);
    bytes
}

fn unix_bytes(name: Option<&Name>) -> Vec<u8> {
    let mut bytes = AF_UNIX.to_le_bytes().to_vec();
    match name {
        None => {}
        Some(Name::Abstract(name)) => {
            bytes.push(0);
            bytes.extend(name);
        }
        Some(Name::File(name, _)) => {
            bytes.extend(name);
            bytes.push(0);
        }
    }
    bytes
}

/// Writes an address where there is room for it, and its length.
pub(super) fn write(
    context: &mut Context<'_>,
    bytes: &[u8],
    (to, length_at): (u64, u64),
) -> Result {
    let room = context.read_u32(length_at)? as i32;
    let room = usize::try_from(room).map_err(|_| Errno::INVAL)?;
    context.memory.write(to, &bytes[..bytes.len().min(room)])?;
    context.memory.write(length_at, &(bytes.len() as u32).to_le_bytes())?;
    Ok(0)
}

impl Files {
    /// The address of a socket.
    fn local_bytes(&mut self, number: u32) -> Result<Vec<u8>> {
        let socket = self.network().socket(number)?;
        Ok(match (socket.family, socket.local) {
            (Family::Unix, _) => unix_bytes(socket.name.as_ref()),
            (_, Some(Place::Inet(local))) => inet_bytes(local),
            _ => inet_bytes(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        })
    }

    /// The address of the other end of a connection.
    pub(super) fn remote_bytes(&mut self, number: u32) -> Result<Vec<u8>> {
        match &self.network().socket(number)?.state {
            State::Stream { remote: Place::Unix(_), peer, .. } => Ok(unix_bytes(peer.as_ref())),
            State::Stream { remote: Place::Inet(remote), end, .. } => {
                match end.is_connecting() || end.is_over() {
                    true => Err(Errno::NOTCONN),
                    false => Ok(inet_bytes(*remote)),
                }
            }
            State::Datagrams(datagrams) => datagrams.peer.map(inet_bytes).ok_or(Errno::NOTCONN),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// The address of the other end of a connection that may be over.
    pub(super) fn accepted_bytes(&mut self, number: u32) -> Result<Vec<u8>> {
        match &self.network().socket(number)?.state {
            State::Stream { remote: Place::Inet(remote), .. } => Ok(inet_bytes(*remote)),
            _ => self.remote_bytes(number),
        }
    }

    /// `getsockname`.
    pub(super) fn own_address(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, to, length_at, ..] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let bytes = self.local_bytes(number)?;
        write(context, &bytes, (to, length_at))
    }

    /// `getpeername`.
    pub(super) fn other_address(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, to, length_at, ..] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let bytes = self.remote_bytes(number)?;
        write(context, &bytes, (to, length_at))
    }
}
