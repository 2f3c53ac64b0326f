//! System calls on sockets: streams of IPv4 and of the machine itself (`AF_UNIX`), and datagrams of IPv4. What they do
//! is in [`crate::kernel::network`].
//!
//! | file | content |
//! |---|---|
//! | `addresses` | addresses as programs write them |
//! | `connecting` | `bind`, `listen`, `accept`, `connect`, `shutdown` |
//! | `datagrams` | sending and receiving datagrams |
//! | `messages` | `sendto`, `recvmsg` and their like |
//! | `options` | `getsockopt` and `setsockopt` |
//! | `streams` | reading and writing |

mod addresses;
mod connecting;
mod datagrams;
mod messages;
mod options;
mod streams;

use super::polling::{BAND_OUT, ERR, HUP, IN, NORMAL_IN, NORMAL_OUT, OUT, READ_HUP};
use super::table::{CLOEXEC, NONBLOCK, Open, OpenFile, READ_WRITE};
use super::{Context, Errno, Files, Result, number};
use crate::kernel::network::{Family, Listener, Network, State};
use crate::kernel::synthetic::FIRST_INODE;
use crate::kernel::{Kind, Status};

pub(super) use streams::{Reading, Writing, scatter};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;

/// The family of an `AF_` constant.
const fn family(number: u64) -> Result<Family> {
    const UNIX: u32 = AF_UNIX as u32;
    const INET: u32 = AF_INET as u32;
    match number as u32 {
        UNIX => Ok(Family::Unix),
        INET => Ok(Family::Inet),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// `SOCK_DGRAM`.
const DATAGRAMS: u64 = 2;

/// Checks the flags of a type of sockets, which is done before anything else.
const fn check_kind_flags(kind: u64) -> Result<()> {
    let flags = kind as u32 as u64 & !0xf;
    if flags & !(NONBLOCK | CLOEXEC) == 0 { Ok(()) } else { Err(Errno::INVAL) }
}

/// Checks the type and protocol of a socket. Returns its flags: `O_NONBLOCK` and `O_CLOEXEC`.
fn flags(family: Family, kind: u64, protocol: u64) -> Result {
    const STREAM: u64 = 1;
    const UDP: u64 = 17;
    const LAST_KIND: u64 = 10;
    const ANY: u64 = 0;
    const UNIX: u64 = 1;
    const TCP: u64 = 6;
    /// Linux' `IPPROTO_MAX`.
    const PROTOCOLS: u64 = 263;
    let (kind, flags) = (kind & 0xf, kind as u32 as u64 & !0xf);
    match (kind, family, protocol as u32 as u64) {
        _ if flags & !(NONBLOCK | CLOEXEC) != 0 || kind > LAST_KIND => Err(Errno::INVAL),
        (STREAM, Family::Unix, ANY | UNIX) | (STREAM, Family::Inet, ANY | TCP) => Ok(flags),
        (DATAGRAMS, Family::Inet, ANY | UDP) => Ok(flags),
        (_, Family::Inet, PROTOCOLS..) => Err(Errno::INVAL),
        (STREAM, ..) | (DATAGRAMS, Family::Inet, _) => Err(Errno::PROTONOSUPPORT),
        _ => Err(Errno::SOCKTNOSUPPORT),
    }
}

impl Context<'_> {
    /// Nothing can be done with a socket now: a call that waits does so for the time of the socket, if it has one.
    fn wait_for_socket(&mut self, waits: bool, limit_ns: Option<u64>) -> Errno {
        if !waits {
            return Errno::AGAIN;
        }
        let now = self.host.now_ns();
        match self.deadline.or(limit_ns.map(|limit| now.saturating_add(limit))) {
            Some(until) if until <= now => Errno::AGAIN,
            until => self.block(until),
        }
    }
}

impl Files {
    pub(in crate::kernel) const fn network(&mut self) -> &mut Network {
        &mut self.table.network
    }

    /// Has interests in changes report what has happened to sockets. Returns whether anything has.
    pub(in crate::kernel) fn note_sockets(&mut self) -> bool {
        let touched = self.network().take_touched();
        for &file in &touched {
            self.note_change(file, 0);
        }
        !touched.is_empty()
    }

    pub(super) fn socket_call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, a3, ..] = context.args();
        Some(match number {
            number::SOCKET => self.new_socket(a0, a1, a2),
            number::SOCKETPAIR => self.new_pair(context),
            number::BIND => self.bind(context),
            number::LISTEN => self.listen(context, a0, a1),
            number::ACCEPT => self.accept(context, 0),
            number::ACCEPT4 => self.accept(context, a3),
            number::CONNECT => self.connect(context),
            number::SHUTDOWN => self.shut_down(context, a0, a1),
            number::GETSOCKNAME => self.own_address(context),
            number::GETPEERNAME => self.other_address(context),
            number::SENDTO => self.send_to(context),
            number::RECVFROM => self.receive_from(context),
            number::SENDMSG => self.send_message(context),
            number::RECVMSG => self.receive_message(context),
            number::SETSOCKOPT => self.set_option(context),
            number::GETSOCKOPT => self.option(context),
            _ => return None,
        })
    }

    /// The socket of a descriptor, and whether calls on it wait.
    fn socket_number(&mut self, context: &mut Context<'_>, descriptor: u64) -> Result<(u32, bool)> {
        let file = self.named(context, descriptor)?;
        let OpenFile { open, flags, .. } = self.table.by_number(file)?;
        match open {
            Open::Socket(number) => Ok((*number, *flags & NONBLOCK == 0)),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// Gives a socket a descriptor.
    fn open_socket(&mut self, number: u32, flags: u64) -> Result {
        let inode = FIRST_INODE + u64::from(self.table.next_number());
        let file = OpenFile {
            open: Open::Socket(number),
            flags: READ_WRITE | flags & NONBLOCK,
            status: Status::new(Kind::Socket, inode),
        };
        let opened = self.table.add(file, flags & CLOEXEC != 0);
        match opened {
            Ok(descriptor) => {
                let file = self.table.file_number(descriptor)?;
                self.network().set_file(number, file);
            }
            Err(_) => self.network().close(number),
        }
        opened
    }

    /// `socket`.
    fn new_socket(&mut self, domain: u64, kind: u64, protocol: u64) -> Result {
        check_kind_flags(kind)?;
        let family = family(domain)?;
        let flags = flags(family, kind, protocol)?;
        let number = match kind & 0xf {
            DATAGRAMS => self.network().add_datagrams()?,
            _ => self.network().add(family)?,
        };
        self.open_socket(number, flags)
    }

    /// `socketpair`.
    fn new_pair(&mut self, context: &mut Context<'_>) -> Result {
        let [domain, kind, protocol, to, ..] = context.args();
        check_kind_flags(kind)?;
        // As on Linux, which writes the descriptors before it makes sockets.
        let before = context.read_u64(to)?;
        context.write_words(to, &[before])?;
        let family = family(domain)?;
        let flags = flags(family, kind, protocol)?;
        if family != Family::Unix {
            return Err(Errno::OPNOTSUPP);
        }
        if self.table.room() < 2 {
            return Err(Errno::MFILE);
        }
        let pair = self.network().pair()?;
        let opened = pair.map(|number| self.open_socket(number, flags));
        let ends = [opened[0]?, opened[1]?];
        let bytes: Vec<u8> = ends.iter().flat_map(|&end| (end as u32).to_le_bytes()).collect();
        if let Err(fault) = context.memory.write(to, &bytes) {
            for end in ends {
                self.table.close(end)?;
            }
            return Err(fault.into());
        }
        Ok(0)
    }

    /// Events of a socket that are there now.
    pub(super) fn socket_events(&mut self, number: u32) -> Result<u32> {
        let when = |is_so: bool, events: u32| if is_so { events } else { 0 };
        let socket = self.network().socket(number)?;
        let band = when(socket.family == Family::Unix, BAND_OUT);
        Ok(match &socket.state {
            State::Listener(Listener { ready, is_shut: (no_more_in, no_more_out), .. }) => {
                when(*no_more_in || !ready.is_empty(), IN | NORMAL_IN)
                    | when(*no_more_in, READ_HUP)
                    | when(*no_more_in && *no_more_out, HUP)
            }
            State::Stream { end, .. } if end.is_connecting() => 0,
            State::Stream { end, .. } => {
                let (no_more_in, no_more_out) = (end.is_read_out(), end.is_written_out());
                when(no_more_in || end.arrived_bytes() > 0, IN | NORMAL_IN)
                    | when(no_more_in, READ_HUP)
                    | when(no_more_out || end.has_space(), OUT | NORMAL_OUT | band)
                    | when(no_more_in && no_more_out, HUP)
                    | when(end.error().is_some(), ERR)
            }
            State::Datagrams(datagrams) => {
                let (no_more_in, no_more_out) = datagrams.is_shut;
                OUT | NORMAL_OUT
                    | BAND_OUT
                    | when(datagrams.is_readable(), IN | NORMAL_IN)
                    | when(no_more_in, READ_HUP)
                    | when(no_more_in && no_more_out, HUP)
                    | when(datagrams.error.is_some(), ERR)
            }
            State::Fresh => OUT | NORMAL_OUT | band | HUP,
        })
    }

    /// Bytes of a socket that wait to be read.
    pub(super) fn arrived_bytes(&mut self, number: u32) -> Result<usize> {
        match &self.network().socket(number)?.state {
            State::Listener(_) => Err(Errno::INVAL),
            State::Stream { end, .. } => Ok(end.arrived_bytes()),
            State::Datagrams(datagrams) => Ok(datagrams.first_bytes()),
            State::Fresh => Ok(0),
        }
    }
}
