//! Options of sockets. Those that cannot change what connections here do are kept for `getsockopt` alone.

use super::{AF_INET, AF_UNIX, Context, DATAGRAMS, Errno, Files, Result};
use crate::kernel::network::{BUFFER_BYTES, Family, Socket, State};
use crate::kernel::threads::PROCESS;
use crate::stack::USER;

/// Levels of options.
const IP: u32 = 0;
const SOCKET: u32 = 1;
const TCP: u32 = 6;

const SO_REUSEADDR: u32 = 2;
const SO_TYPE: u32 = 3;
const SO_ERROR: u32 = 4;
const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_LINGER: u32 = 13;
const SO_PEERCRED: u32 = 17;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;
const SO_ACCEPTCONN: u32 = 30;
const SO_PROTOCOL: u32 = 38;
const SO_DOMAIN: u32 = 39;

/// Options that are kept: level, name, value at first, and whether all values but 0 are 1.
const KEPT: [(u32, u32, u32, bool); 30] = [
    (SOCKET, 1, 0, true), // SO_DEBUG
    (SOCKET, SO_REUSEADDR, 0, true),
    (SOCKET, 5, 0, true), // SO_DONTROUTE
    (SOCKET, 6, 0, true), // SO_BROADCAST
    (SOCKET, SO_SNDBUF, BUFFER_BYTES as u32, false),
    (SOCKET, SO_RCVBUF, BUFFER_BYTES as u32, false),
    (SOCKET, 9, 0, true),   // SO_KEEPALIVE
    (SOCKET, 10, 0, true),  // SO_OOBINLINE
    (SOCKET, 12, 0, false), // SO_PRIORITY
    (SOCKET, 15, 0, true),  // SO_REUSEPORT
    (SOCKET, 18, 1, false), // SO_RCVLOWAT
    (SOCKET, 29, 0, true),  // SO_TIMESTAMP
    (IP, 1, 0, false),      // IP_TOS
    (IP, 2, 64, false),     // IP_TTL
    (IP, 10, 1, false),     // IP_MTU_DISCOVER
    (IP, 11, 0, true),      // IP_RECVERR
    (IP, 15, 0, true),      // IP_FREEBIND
    (IP, 24, 0, true),      // IP_BIND_ADDRESS_NO_PORT
    (TCP, 1, 0, true),      // TCP_NODELAY
    (TCP, 2, 536, false),   // TCP_MAXSEG
    (TCP, 3, 0, true),      // TCP_CORK
    (TCP, 4, 7200, false),  // TCP_KEEPIDLE
    (TCP, 5, 75, false),    // TCP_KEEPINTVL
    (TCP, 6, 9, false),     // TCP_KEEPCNT
    (TCP, 7, 6, false),     // TCP_SYNCNT
    (TCP, 8, 60, false),    // TCP_LINGER2
    (TCP, 9, 0, false),     // TCP_DEFER_ACCEPT
    (TCP, 12, 1, true),     // TCP_QUICKACK
    (TCP, 18, 0, false),    // TCP_USER_TIMEOUT
    (TCP, 23, 0, false),    // TCP_FASTOPEN
];

/// Limits of buffers (`wmem_max`), of which Linux takes the double for its own data.
const MOST_BUFFER: u32 = BUFFER_BYTES as u32;
const LEAST_BUFFER: u32 = 2304;

/// A time as `struct timeval`; `None` is no limit.
fn read_limit(context: &mut Context<'_>, at: u64) -> Result<Option<u64>> {
    const DOM: Errno = Errno(33);
    let seconds = context.read_u64(at)?;
    let micros = context.read_u64(at.wrapping_add(8))?;
    if micros >= 1_000_000 {
        return Err(DOM);
    }
    // As on Linux, calls do not wait at all.
    if (seconds as i64) < 0 {
        return Ok(Some(0));
    }
    let limit_ns = seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000);
    Ok((limit_ns > 0).then_some(limit_ns))
}

fn limit_bytes(limit_ns: Option<u64>) -> Vec<u8> {
    let limit = limit_ns.unwrap_or(0);
    let words = [limit / 1_000_000_000, limit % 1_000_000_000 / 1000];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The entry of an option that is kept, if such a socket has it.
fn kept(socket: &Socket, level: u32, name: u32) -> Result<(u32, bool)> {
    let is_missing = match level {
        SOCKET => false,
        TCP => socket.family == Family::Unix || matches!(socket.state, State::Datagrams(_)),
        _ => socket.family == Family::Unix,
    };
    if is_missing {
        return Err(Errno::OPNOTSUPP);
    }
    let found = KEPT.iter().find(|entry| (entry.0, entry.1) == (level, name));
    found.map(|&(_, _, value, is_flag)| (value, is_flag)).ok_or(Errno::NOPROTOOPT)
}

/// The value of an option of the level of sockets, if it is not one that is kept.
fn own_value(socket: &mut Socket, name: u32) -> Option<Vec<u8>> {
    const STREAM: u32 = 1;
    const UDP: u32 = 17;
    let is_udp = matches!(socket.state, State::Datagrams(_));
    let is_unix = socket.family == Family::Unix;
    Some(match name {
        SO_TYPE => words(&[if is_udp { DATAGRAMS as u32 } else { STREAM }]),
        SO_ERROR => {
            let error = match &mut socket.state {
                State::Stream { end, .. } => end.take_error(),
                State::Datagrams(datagrams) => datagrams.error.take(),
                _ => None,
            };
            words(&[error.map_or(0, |errno| errno.0.into())])
        }
        SO_LINGER => words(&[socket.settings.lingers.into(), socket.settings.linger_seconds]),
        SO_PEERCRED => match socket.state {
            State::Stream { .. } if is_unix => words(&[PROCESS as u32, USER as u32, USER as u32]),
            _ => words(&[0, u32::MAX, u32::MAX]),
        },
        SO_RCVTIMEO => limit_bytes(socket.settings.receive_ns),
        SO_SNDTIMEO => limit_bytes(socket.settings.send_ns),
        SO_ACCEPTCONN => words(&[matches!(socket.state, State::Listener(_)).into()]),
        SO_PROTOCOL if is_udp => words(&[UDP]),
        SO_PROTOCOL => words(&[if is_unix { 0 } else { TCP }]),
        SO_DOMAIN => words(&[if is_unix { AF_UNIX } else { AF_INET }.into()]),
        _ => return None,
    })
}

impl Files {
    /// `getsockopt`.
    pub(super) fn option(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, level, name, to, length_at, _] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let (level, name) = (level as u32, name as u32);
        let room = context.read_u32(length_at)? as i32;
        let room = usize::try_from(room).map_err(|_| Errno::INVAL)?;
        let socket = self.network().socket(number)?;
        let own = if level == SOCKET { own_value(socket, name) } else { None };
        let bytes = match own {
            Some(bytes) => bytes,
            None => {
                let (value, _) = kept(socket, level, name)?;
                words(&[socket.settings.kept.get(&(level, name)).copied().unwrap_or(value)])
            }
        };
        let count = bytes.len().min(room);
        context.memory.write(to, &bytes[..count])?;
        context.memory.write(length_at, &(count as u32).to_le_bytes())?;
        Ok(0)
    }

    /// `setsockopt`.
    pub(super) fn set_option(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, level, name, at, length, _] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let (level, name) = (level as u32, name as u32);
        let needed = match (level, name) {
            (SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) => 16,
            (SOCKET, SO_LINGER) => 8,
            _ => 4,
        };
        if (length as i32) < needed {
            return Err(Errno::INVAL);
        }
        let value = context.read_u32(at)?;
        let socket = self.network().socket(number)?;
        match (level, name) {
            (SOCKET, SO_RCVTIMEO) => socket.settings.receive_ns = read_limit(context, at)?,
            (SOCKET, SO_SNDTIMEO) => socket.settings.send_ns = read_limit(context, at)?,
            (SOCKET, SO_LINGER) => {
                let seconds = context.read_u32(at.wrapping_add(4))?;
                socket.settings.lingers = value != 0;
                if socket.settings.lingers {
                    socket.settings.linger_seconds = seconds;
                }
            }
            _ => {
                let (_, is_flag) = kept(socket, level, name)?;
                let value = match (level, name) {
                    (SOCKET, SO_SNDBUF | SO_RCVBUF) => value.clamp(LEAST_BUFFER, MOST_BUFFER) * 2,
                    _ if is_flag => u32::from(value != 0),
                    _ => value,
                };
                if (level, name) == (SOCKET, SO_REUSEADDR) {
                    socket.settings.shares_port = value != 0;
                }
                socket.settings.kept.insert((level, name), value);
            }
        }
        Ok(0)
    }
}
