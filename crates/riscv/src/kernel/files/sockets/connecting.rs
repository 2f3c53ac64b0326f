//! How sockets get their names and connections.

use super::addresses::{self, Path};
use super::{Context, Errno, Files, Result};
use crate::kernel::files::table::{CLOEXEC, NONBLOCK};
use crate::kernel::network::{Family, Listener, Name, State};
use crate::kernel::synthetic::is_ours;
use crate::kernel::{Change, Kind};
use crate::names::text_of;

impl Files {
    /// Gives a socket an address of the node, or the name of a file that is made.
    pub(super) fn bind(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, at, length, ..] = context.args();
        let (number, _) = self.socket_number(context, descriptor)?;
        let given = addresses::given(context, at, length)?;
        let socket = self.network().socket(number)?;
        let is_bound = socket.local.is_some() || socket.name.is_some();
        if socket.family == Family::Inet {
            let to = addresses::inet(&given)?;
            return match is_bound {
                true => Err(Errno::INVAL),
                false => self.network().bind(number, to).map(|()| 0),
            };
        }
        let path = addresses::path(&given)?;
        if socket.name.is_some() {
            return if matches!(path, Path::Any) { Ok(0) } else { Err(Errno::INVAL) };
        }
        let name = match path {
            Path::Any => self.network().free_name(),
            Path::Abstract(name) => Name::Abstract(name),
            Path::File(path) => self.make_socket(context, path)?,
        };
        self.network().set_name(number, name).map(|()| 0)
    }

    /// The absolute name of a file that a path means.
    fn socket_name(&self, path: &[u8]) -> Result<String> {
        let path = text_of(path);
        let is_absolute = path.starts_with('/');
        Ok(if is_absolute { path } else { format!("{}/{path}", self.current) })
    }

    /// Makes the file that stands for a socket.
    fn make_socket(&mut self, context: &mut Context<'_>, path: Vec<u8>) -> Result<Name> {
        const ALL: u64 = 0o777;
        let name = self.socket_name(&path)?;
        if is_ours(&name) {
            return Err(Errno::ACCES);
        }
        context.host.change(&Change::MakeSocket(&name)).map_err(|error| {
            match Errno::from(error) {
                Errno::EXIST => Errno::ADDRINUSE,
                errno => errno,
            }
        })?;
        let permissions = self.permissions_of(ALL);
        context.host.change(&Change::Permit { name: &name, permissions, follow: false })?;
        let inode = context.host.status(&name, false)?.inode;
        Ok(Name::File(path, inode))
    }

    /// Has a socket take connections.
    pub(super) fn listen(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        backlog: u64,
    ) -> Result {
        let (number, _) = self.socket_number(context, descriptor)?;
        if self.network().datagrams(number).is_some() {
            return Err(Errno::OPNOTSUPP);
        }
        self.network().listen(number, backlog as u32).map(|()| 0)
    }

    /// `accept4`.
    pub(super) fn accept(&mut self, context: &mut Context<'_>, flags: u64) -> Result {
        let [descriptor, to, length_at, ..] = context.args();
        if flags as u32 as u64 & !(NONBLOCK | CLOEXEC) != 0 {
            return Err(Errno::INVAL);
        }
        let (number, waits) = self.socket_number(context, descriptor)?;
        let limit_ns = self.network().socket(number)?.settings.receive_ns;
        if self.network().datagrams(number).is_some() {
            return Err(Errno::OPNOTSUPP);
        }
        if self.table.room() == 0 {
            return Err(Errno::MFILE);
        }
        let Some(accepted) = self.network().accept(number)? else {
            return Err(context.wait_for_socket(waits, limit_ns));
        };
        let opened = self.open_socket(accepted, flags)?;
        if to != 0 {
            let bytes = self.accepted_bytes(accepted)?;
            if let Err(errno) = addresses::write(context, &bytes, (to, length_at)) {
                self.table.close(opened)?;
                return Err(errno);
            }
        }
        Ok(opened)
    }

    /// Asks for a connection, or for what has become of it.
    pub(super) fn connect(&mut self, context: &mut Context<'_>) -> Result {
        let [descriptor, at, length, ..] = context.args();
        let (number, waits) = self.socket_number(context, descriptor)?;
        let given = addresses::given(context, at, length)?;
        let socket = self.network().socket(number)?;
        let family = socket.family;
        match (&socket.state, family) {
            (State::Datagrams(_), _) => {
                let is_none = given.0 == addresses::UNSPECIFIED;
                let to = if is_none { None } else { Some(addresses::inet(&given)?) };
                return self.network().connect_datagrams(number, to).map(|()| 0);
            }
            (_, Family::Inet) if given.0 == addresses::UNSPECIFIED => {
                self.network().stop_listening(number);
                self.network().disconnect(number);
                return Ok(0);
            }
            (State::Listener(_), Family::Inet) => return Err(Errno::ISCONN),
            (State::Listener(_), Family::Unix) => return Err(Errno::INVAL),
            (State::Stream { is_known: true, .. }, Family::Unix) => {
                return self.listener(context, &given).and(Err(Errno::ISCONN));
            }
            (State::Stream { .. }, _) => return self.connected(context, number, waits),
            (State::Fresh, _) => {}
        }
        if family == Family::Inet {
            let to = addresses::inet(&given)?;
            self.network().connect(number, to)?;
            // Even if the answer is there already, as on Linux.
            return if waits {
                self.connected(context, number, waits)
            } else {
                Err(Errno::INPROGRESS)
            };
        }
        let listener = self.listener(context, &given)?;
        if self.network().is_full(listener) {
            let limit_ns = self.network().socket(number)?.settings.send_ns;
            return Err(context.wait_for_socket(waits, limit_ns));
        }
        self.network().connect_unix(number, listener)?;
        self.connected(context, number, waits)
    }

    /// The Unix socket that listens by a name.
    fn listener(&mut self, context: &mut Context<'_>, given: &(u16, Vec<u8>)) -> Result<u32> {
        let name = match addresses::path(given)? {
            Path::Any => return Err(Errno::INVAL),
            Path::Abstract(name) => Name::Abstract(name),
            Path::File(path) => {
                let name = self.socket_name(&path)?;
                if is_ours(&name) {
                    return Err(Errno::NOENT);
                }
                let status = context.host.status(&name, true)?;
                if status.kind != Kind::Socket {
                    return Err(Errno::CONNREFUSED);
                }
                Name::File(path, status.inode)
            }
        };
        let listener = self.network().listener_named(&name).ok_or(Errno::CONNREFUSED)?;
        match &self.network().socket(listener)?.state {
            State::Listener(Listener { is_shut: (true, _), .. }) => Err(Errno::CONNREFUSED),
            _ => Ok(listener),
        }
    }

    /// What has become of a connection that was asked for.
    fn connected(&mut self, context: &mut Context<'_>, number: u32, waits: bool) -> Result {
        let socket = self.network().socket(number)?;
        let limit_ns = socket.settings.send_ns;
        let State::Stream { end, is_known, .. } = &mut socket.state else {
            return Err(Errno::INVAL);
        };
        if *is_known {
            return Err(Errno::ISCONN);
        }
        if end.is_connecting() {
            let waiting = context.wait_for_socket(waits, limit_ns);
            return Err(match context.wait {
                Some(_) => waiting,
                None if waits => Errno::INPROGRESS,
                None => Errno::ALREADY,
            });
        }
        if end.is_over() {
            let error = end.take_error().unwrap_or(Errno::CONNABORTED);
            self.network().disconnect(number);
            return Err(error);
        }
        *is_known = true;
        Ok(0)
    }

    /// `shutdown`.
    pub(super) fn shut_down(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        how: u64,
    ) -> Result {
        let (number, _) = self.socket_number(context, descriptor)?;
        let (reads, writes) = match how as u32 {
            0 => (true, false),
            1 => (false, true),
            2 => (true, true),
            _ => return Err(Errno::INVAL),
        };
        let socket = self.network().socket(number)?;
        match (&mut socket.state, socket.family) {
            (State::Datagrams(datagrams), _) => {
                datagrams.is_shut.0 |= reads;
                datagrams.is_shut.1 |= writes;
                let is_connected = datagrams.peer.is_some();
                self.network().touch(number);
                return if is_connected { Ok(0) } else { Err(Errno::NOTCONN) };
            }
            (State::Listener(_), Family::Inet) if reads => self.network().stop_listening(number),
            (State::Listener(_), Family::Unix) => {
                self.network().shut_listener(number, reads, writes);
            }
            (State::Stream { end, .. }, Family::Inet) if end.is_over() => {
                return Err(Errno::NOTCONN);
            }
            (State::Stream { end, .. }, _) if end.is_connecting() => {
                self.network().disconnect(number);
            }
            (State::Stream { .. }, _) => self.network().shut_down(number, reads, writes),
            (State::Fresh, Family::Inet) => return Err(Errno::NOTCONN),
            _ => {}
        }
        Ok(0)
    }
}
