//! Calls that send and receive with flags.

use std::net::SocketAddrV4;

use super::datagrams::Received;
use super::{Context, Errno, Files, Reading, Result, Writing, addresses};
use crate::kernel::files::transfer::{check_area, pieces};
use crate::kernel::network::{Family, Place, State};

const OUT_OF_BAND: u64 = 1;
const PEEK: u64 = 2;
const TRUNCATE: u64 = 0x20;
const DO_NOT_WAIT: u64 = 0x40;
const WAIT_FOR_ALL: u64 = 0x100;
const ERROR_QUEUE: u64 = 0x2000;
const NO_SIGNAL: u64 = 0x4000;

/// Offsets in `struct msghdr`.
const NAME: u64 = 0;
const NAME_LENGTH: u64 = 8;
const PIECES: u64 = 16;
const PIECE_COUNT: u64 = 24;
const CONTROL: u64 = 32;
const CONTROL_LENGTH: u64 = 40;
const FLAGS: u64 = 48;

impl Files {
    /// Sends pieces of user memory.
    fn send(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        flags: u64,
        to: Option<SocketAddrV4>,
    ) -> Result {
        let (number, _) = self.socket_number(context, descriptor)?;
        if flags & OUT_OF_BAND != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if self.network().datagrams(number).is_some() {
            return self.send_datagram(context, number, pieces, to);
        }
        let waits = flags & DO_NOT_WAIT == 0;
        let signals = flags & NO_SIGNAL == 0;
        self.write_socket(context, descriptor, pieces, Writing { waits, signals })
    }

    /// Receives into pieces of user memory.
    fn receive(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        flags: u64,
    ) -> Result<Received> {
        let socket @ (number, _) = self.socket_number(context, descriptor)?;
        let is_stream = self.network().datagrams(number).is_none();
        if flags & OUT_OF_BAND != 0 && is_stream {
            return Err(Errno::INVAL);
        }
        if flags & ERROR_QUEUE != 0 {
            return Err(Errno::AGAIN);
        }
        let is_inet = self.network().socket(number)?.family == Family::Inet;
        let reading = Reading {
            waits: flags & DO_NOT_WAIT == 0,
            keeps: flags & PEEK != 0,
            awaits_all: flags & WAIT_FOR_ALL != 0,
            drops: flags & TRUNCATE != 0 && is_inet,
        };
        match is_stream {
            true => self.read_socket(context, descriptor, pieces, reading).map(Received::bytes),
            false => self.receive_datagram(context, socket, pieces, reading),
        }
    }

    /// The address that a datagram is for. TCP ignores one, and messages of Unix sockets may have none.
    fn check_address(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        (at, length): (u64, u64),
    ) -> Result<Option<SocketAddrV4>> {
        let (number, _) = self.socket_number(context, descriptor)?;
        let has_address = at != 0;
        let socket = self.network().socket(number)?;
        match (&socket.state, socket.family) {
            (State::Datagrams(_), _) if has_address => {
                addresses::inet(&addresses::given(context, at, length)?).map(Some)
            }
            (State::Stream { .. }, Family::Unix) if has_address => Err(Errno::ISCONN),
            (_, Family::Unix) if has_address => Err(Errno::OPNOTSUPP),
            _ => Ok(None),
        }
    }

    /// The name that a receiver is told: that of a datagram's sender. TCP has none, and a Unix socket that of the other
    /// end.
    fn sender(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        received: &Received,
    ) -> Result<Vec<u8>> {
        if let Some(from) = received.from {
            return Ok(addresses::inet_bytes(from));
        }
        let (number, _) = self.socket_number(context, descriptor)?;
        match self.network().socket(number)?.state {
            State::Stream { remote: Place::Unix(_), peer: Some(_), .. } => {
                self.remote_bytes(number)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// `sendto`.
    pub(super) fn send_to(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, start, length, flags, address, address_length] = context.args();
        check_area((start, length))?;
        let to = self.check_address(context, descriptor, (address, address_length))?;
        self.send(context, descriptor, &[(start, length)], flags, to)
    }

    /// `recvfrom`.
    pub(super) fn receive_from(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, start, length, flags, address, length_at] = context.args();
        check_area((start, length))?;
        let received = self.receive(context, descriptor, &[(start, length)], flags)?;
        if address != 0 {
            let sender = self.sender(context, descriptor, &received)?;
            addresses::write(context, &sender, (address, length_at))?;
        }
        Ok(received.count)
    }

    /// `sendmsg`.
    pub(super) fn send_message(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, message, flags, ..] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let name = context.read_u64(message.wrapping_add(NAME))?;
        let length = context.read_u32(message.wrapping_add(NAME_LENGTH))?;
        let name = if length == 0 { 0 } else { name };
        let to = self.check_address(context, descriptor, (name, length.into()))?;
        let pieces = message_pieces(context, message)?;
        if self.network().socket(number)?.family == Family::Unix {
            check_control(context, message)?;
        }
        self.send(context, descriptor, &pieces, flags, to)
    }

    /// `recvmsg`.
    pub(super) fn receive_message(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, message, flags, ..] = context.args();
        self.socket_number(context, descriptor)?;
        let pieces = message_pieces(context, message)?;
        let received = self.receive(context, descriptor, &pieces, flags)?;
        let name = context.read_u64(message.wrapping_add(NAME))?;
        if name != 0 {
            let sender = self.sender(context, descriptor, &received)?;
            addresses::write(context, &sender, (name, message.wrapping_add(NAME_LENGTH)))?;
        }
        context.write_words(message.wrapping_add(CONTROL_LENGTH), &[0])?;
        let flags = if received.is_cut { TRUNCATE as u32 } else { 0 };
        context.memory.write(message.wrapping_add(FLAGS), &flags.to_le_bytes())?;
        Ok(received.count)
    }
}

fn message_pieces(context: &mut Context<'_>, message: u64) -> Result<Vec<(u64, u64)>> {
    const MOST: u64 = 1024;
    let start = context.read_u64(message.wrapping_add(PIECES))?;
    match context.read_u64(message.wrapping_add(PIECE_COUNT))? {
        count if count > MOST => Err(Errno::MSGSIZE),
        count => pieces(context, start, count),
    }
}

/// Refuses a message that hands over descriptors, by any of its control headers.
fn check_control(context: &mut Context<'_>, message: u64) -> Result<()> {
    const HEADER_BYTES: u64 = 16;
    const SOL_SOCKET: u32 = 1;
    const RIGHTS: u32 = 1;
    let mut at = context.read_u64(message.wrapping_add(CONTROL))?;
    let mut left = context.read_u64(message.wrapping_add(CONTROL_LENGTH))?;
    while left >= HEADER_BYTES {
        let length = context.read_u64(at)?;
        if !(HEADER_BYTES..=left).contains(&length) {
            return Err(Errno::INVAL);
        }
        let level = context.read_u32(at.wrapping_add(8))?;
        let kind = context.read_u32(at.wrapping_add(12))?;
        if (level, kind) == (SOL_SOCKET, RIGHTS) {
            context.host.warn(
                "sendmsg() with descriptors (SCM_RIGHTS) is not implemented; the program gets EOPNOTSUPP",
            );
            return Err(Errno::OPNOTSUPP);
        }
        // Headers are aligned, but the last one need not be.
        let step = length.checked_next_multiple_of(8).unwrap_or(left).min(left);
        (at, left) = (at.wrapping_add(step), left - step);
    }
    Ok(())
}
