//! The sockets of a node, and the segments between them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use super::bound::{Name, PORTS};
use super::datagrams::{Datagram, Datagrams};
use super::end::{End, Family, Route};
use super::place::{Place, node_of, outside, reached};
use super::ports::Ports;
use super::{Address, Connection, Content, Kind, Segment};
use crate::kernel::{Errno, Result};

/// Sockets of a node, with those that programs have closed and whose last bytes are under way, at most.
pub const MOST_SOCKETS: usize = 1 << 16;

/// Bytes that wait in the sender or the receiver of a connection, at most: Linux' default (`wmem_default`).
pub const BUFFER_BYTES: usize = 212_992;

/// Connections that wait for `accept`, and as many again that wait for a place among these (`somaxconn`).
const MOST_WAITING: usize = 4096;

/// Somebody who asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asking {
    from: Place,
    /// The place that is asked.
    to: Place,
    connection: Connection,
}

/// What a listener keeps.
#[derive(Default)]
pub(in crate::kernel) struct Listener {
    /// Connections that wait for `accept` before others have to wait.
    pub backlog: usize,
    /// Sockets that wait for `accept`.
    pub ready: VecDeque<u32>,
    /// `shutdown` of a Unix socket for reading, after which nobody can connect; and for writing.
    pub is_shut: (bool, bool),
    /// Those that ask, and have no answer yet.
    asking: VecDeque<Asking>,
}

/// What a socket is for.
pub(in crate::kernel) enum State {
    /// Of a stream without a connection.
    Fresh,
    Datagrams(Datagrams),
    Listener(Listener),
    Stream {
        end: Box<End>,
        remote: Place,
        /// The program knows that it is connected.
        is_known: bool,
        /// The name of the other end, of a Unix socket.
        peer: Option<Name>,
    },
}

/// Times that calls wait, and flags.
#[derive(Debug, Clone, Default)]
pub(in crate::kernel) struct Settings {
    /// Options that only `getsockopt` sees, by level and name.
    pub kept: BTreeMap<(u32, u32), u32>,
    /// Other sockets may have the same port, as long as none listens.
    pub shares_port: bool,
    /// `SO_LINGER`. With no time, `close` resets the connection; other times have no effect.
    pub lingers: bool,
    pub linger_seconds: u32,
    pub receive_ns: Option<u64>,
    pub send_ns: Option<u64>,
}

impl Settings {
    /// Whether `close` resets the connection.
    const fn aborts(&self) -> bool {
        self.lingers && self.linger_seconds == 0
    }
}

pub(in crate::kernel) struct Socket {
    pub family: Family,
    /// The open file, if the program has one.
    file: Option<u32>,
    /// What it is bound to, by `bind` or `listen`.
    pub bound: Option<SocketAddrV4>,
    /// Where it is, once it has a place.
    pub local: Option<Place>,
    pub name: Option<Name>,
    pub state: State,
    pub settings: Settings,
}

impl Socket {
    fn new(family: Family, state: State) -> Socket {
        let settings = Settings::default();
        Socket { family, file: None, bound: None, local: None, name: None, state, settings }
    }
}

/// A segment inside the node.
struct Parcel {
    from: Place,
    to: Place,
    connection: Connection,
    kind: Kind,
}

/// The sockets of a node.
pub(in crate::kernel) struct Network {
    pub(super) node: u16,
    pub(super) nodes: u16,
    pub(super) sockets: BTreeMap<u32, Socket>,
    pub(super) ports: Ports,
    /// Ends of connections that are not over, by their place and that of the other end.
    ends: BTreeMap<(Place, Place), u32>,
    pub(super) next_port: u16,
    /// For other nodes.
    pub(super) outgoing: Vec<Segment>,
    /// For the node itself.
    inside: VecDeque<Parcel>,
    /// Open files of which a program may see a difference.
    touched: Vec<u32>,
    last: u32,
    /// Connections that the node has asked for.
    connections: u64,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            node: 0,
            nodes: 1,
            sockets: BTreeMap::new(),
            ports: Ports::default(),
            ends: BTreeMap::new(),
            next_port: *PORTS.start(),
            outgoing: Vec::new(),
            inside: VecDeque::new(),
            touched: Vec::new(),
            last: 0,
            connections: 0,
        }
    }
}

impl Network {
    pub(super) const fn join(&mut self, node: u16, nodes: u16) {
        (self.node, self.nodes) = (node, nodes);
    }

    pub(super) fn take_segments(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether a program has sockets, or segments of them are under way.
    pub(in crate::kernel) fn is_used(&self) -> bool {
        !self.sockets.is_empty() || !self.outgoing.is_empty()
    }

    /// The open files of which a program may see a difference since this was asked last.
    pub(in crate::kernel) fn take_touched(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.touched)
    }

    /// A program may see a difference of a socket.
    pub(in crate::kernel) fn touch(&mut self, number: u32) {
        self.touched.extend(self.sockets.get(&number).and_then(|socket| socket.file));
    }

    /// A new socket without a file.
    pub(in crate::kernel) fn add(&mut self, family: Family) -> Result<u32> {
        if self.sockets.len() >= MOST_SOCKETS {
            return Err(Errno::NFILE);
        }
        Ok(self.insert(Socket::new(family, State::Fresh)))
    }

    /// The same of datagrams.
    pub(in crate::kernel) fn add_datagrams(&mut self) -> Result<u32> {
        let number = self.add(Family::Inet)?;
        self.socket(number)?.state = State::Datagrams(Datagrams::default());
        Ok(number)
    }

    const fn next_connection(&mut self) -> Connection {
        self.connections += 1;
        Connection { node: self.node, count: self.connections - 1 }
    }

    fn insert(&mut self, socket: Socket) -> u32 {
        self.last = self.last.wrapping_add(1);
        while self.sockets.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
        self.ports.add(self.last, &socket);
        self.sockets.insert(self.last, socket);
        self.last
    }

    /// Changes the place of a socket, or whether it listens there.
    pub(super) fn change_place<T>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Socket) -> T,
    ) -> Result<T> {
        let socket = self.sockets.get_mut(&number).ok_or(Errno::BADF)?;
        self.ports.remove(number, socket);
        let changed = change(socket);
        self.ports.add(number, socket);
        Ok(changed)
    }

    /// Two Unix sockets that are connected.
    pub(in crate::kernel) fn pair(&mut self) -> Result<[u32; 2]> {
        if self.sockets.len() + 2 > MOST_SOCKETS {
            return Err(Errno::NFILE);
        }
        let pair = [self.add(Family::Unix)?, self.add(Family::Unix)?];
        let connection = self.next_connection();
        for (own, other) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            let (local, remote) = (Place::Unix(own), Place::Unix(other));
            let end = Box::new(End::paired(connection, Family::Unix, BUFFER_BYTES));
            let socket = self.socket(own)?;
            socket.local = Some(local);
            socket.state = State::Stream { end, remote, is_known: true, peer: None };
            self.ends.insert((local, remote), own);
        }
        Ok(pair)
    }

    /// The open file of a socket, from which on it belongs to the program.
    pub(in crate::kernel) fn set_file(&mut self, number: u32, file: u32) {
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.file = Some(file);
        }
    }

    pub(in crate::kernel) fn socket(&mut self, number: u32) -> Result<&mut Socket> {
        self.sockets.get_mut(&number).ok_or(Errno::BADF)
    }

    pub(in crate::kernel) fn end(&mut self, number: u32) -> Option<&mut End> {
        match self.sockets.get_mut(&number).map(|socket| &mut socket.state) {
            Some(State::Stream { end, .. }) => Some(end),
            _ => None,
        }
    }

    /// Has a socket listen.
    pub(in crate::kernel) fn listen(&mut self, number: u32, backlog: u32) -> Result<()> {
        let socket = self.socket(number)?;
        if let State::Stream { .. } = socket.state {
            return Err(Errno::INVAL);
        }
        match (socket.family, socket.local, &socket.name) {
            (Family::Unix, _, None) => return Err(Errno::INVAL),
            (Family::Unix, ..) => socket.local = Some(Place::Unix(number)),
            (Family::Inet, None, _) => {
                self.bind(number, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
            }
            (Family::Inet, Some(Place::Inet(local)), _) => {
                let (ip, port) = (*local.ip(), local.port());
                let is_fresh = matches!(socket.state, State::Fresh);
                if is_fresh && self.has_listener(ip, port) {
                    return Err(Errno::ADDRINUSE);
                }
            }
            (Family::Inet, Some(Place::Unix(_)), _) => return Err(Errno::INVAL),
        }
        self.change_place(number, |socket| {
            if let State::Fresh = socket.state {
                socket.state = State::Listener(Listener::default());
            }
        })?;
        let socket = self.socket(number)?;
        let State::Listener(listener) = &mut socket.state else { return Err(Errno::INVAL) };
        listener.backlog = (backlog as usize).min(MOST_WAITING);
        self.admit(number);
        self.settle();
        Ok(())
    }

    /// Whether a listener, or the node, has no room for one more connection.
    pub(in crate::kernel) fn is_full(&self, number: u32) -> bool {
        let is_full = match self.sockets.get(&number).map(|socket| &socket.state) {
            Some(State::Listener(listener)) => listener.ready.len() > listener.backlog,
            _ => false,
        };
        is_full || self.sockets.len() >= MOST_SOCKETS
    }

    /// Asks the listener at an address for a connection.
    pub(in crate::kernel) fn connect(&mut self, number: u32, to: SocketAddrV4) -> Result<()> {
        let to = reached(to);
        let local = self.source(number, *to.ip())?;
        let (local, remote) = (Place::Inet(local), Place::Inet(to));
        if self.ends.contains_key(&(local, remote)) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        self.start(number, local, remote, None)
    }

    /// The same for a Unix socket. The listener has room, so the connection is open at once.
    pub(in crate::kernel) fn connect_unix(&mut self, number: u32, listener: u32) -> Result<()> {
        let peer = self.socket(listener)?.name.clone();
        self.start(number, Place::Unix(number), Place::Unix(listener), peer)
    }

    fn start(
        &mut self,
        number: u32,
        local: Place,
        remote: Place,
        peer: Option<Name>,
    ) -> Result<()> {
        let connection = self.next_connection();
        self.change_place(number, |socket| {
            let end = Box::new(End::connect(connection, socket.family, BUFFER_BYTES));
            socket.local = Some(local);
            socket.state = State::Stream { end, remote, is_known: false, peer };
        })?;
        self.ends.insert((local, remote), number);
        self.pump(number);
        self.settle();
        Ok(())
    }

    /// Takes the first connection that waits; `None` if there is none.
    pub(in crate::kernel) fn accept(&mut self, number: u32) -> Result<Option<u32>> {
        let State::Listener(listener) = &mut self.socket(number)?.state else {
            return Err(Errno::INVAL);
        };
        let accepted = listener.ready.pop_front();
        if accepted.is_none() && listener.is_shut.0 {
            return Err(Errno::INVAL);
        }
        if accepted.is_some() {
            self.admit(number);
            self.settle();
            // Calls that connect a Unix socket wait for room.
            self.touch(number);
        }
        Ok(accepted)
    }

    /// Answers those that ask while there is a place for them.
    fn admit(&mut self, number: u32) {
        while !self.is_full(number) {
            let Ok(Socket { family, name, state, settings, .. }) = self.socket(number) else {
                break;
            };
            let State::Listener(listener) = state else { break };
            let Some(asking) = listener.asking.pop_front() else { break };
            let Asking { from: remote, to: local, connection } = asking;
            let end = Box::new(End::accept(connection, *family, BUFFER_BYTES));
            let (family, name) = (*family, name.clone());
            // Linux makes a new Unix socket, and copies one of TCP.
            let settings = match family {
                Family::Inet => settings.clone(),
                Family::Unix => Settings::default(),
            };
            let peer = match remote {
                Place::Unix(asker) => self.sockets.get(&asker).and_then(|one| one.name.clone()),
                Place::Inet(_) => None,
            };
            let state = State::Stream { end, remote, is_known: true, peer };
            let socket =
                Socket { local: Some(local), name, settings, ..Socket::new(family, state) };
            let accepted = self.insert(socket);
            self.ends.insert((local, remote), accepted);
            if let Ok(Socket { state: State::Listener(listener), .. }) = self.socket(number) {
                listener.ready.push_back(accepted);
            }
            self.touch(number);
            self.pump(accepted);
        }
    }

    /// Sends what an end has to say, and forgets it if nobody needs it any more.
    fn pump(&mut self, number: u32) {
        let Some(Socket { local: Some(from), state: State::Stream { end, remote, .. }, .. }) =
            self.sockets.get_mut(&number)
        else {
            return;
        };
        let (from, to, connection) = (*from, *remote, end.connection());
        let (kinds, is_over, is_done) = (end.take_out(), end.is_over(), end.is_done());
        if (is_over || is_done) && self.ends.get(&(from, to)) == Some(&number) {
            self.ends.remove(&(from, to));
        }
        if is_done {
            self.remove(number);
        }
        for kind in kinds {
            self.send(Parcel { from, to, connection, kind });
        }
    }

    /// Forgets a socket. If there was no room for more, those that have asked may get their connections now.
    fn remove(&mut self, number: u32) {
        let was_full = self.sockets.len() >= MOST_SOCKETS;
        if let Some(socket) = self.sockets.remove(&number) {
            self.ports.remove(number, &socket);
        }
        if was_full {
            let listens = |socket: &Socket| matches!(socket.state, State::Listener(_));
            let listeners = self.sockets.iter().filter(|(_, socket)| listens(socket));
            let numbers: Vec<u32> = listeners.map(|(&number, _)| number).collect();
            numbers.into_iter().for_each(|number| self.admit(number));
        }
    }

    /// Has an end do something, and delivers what it says to the node itself.
    pub(in crate::kernel) fn with_end<T>(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut End) -> T,
    ) -> Option<T> {
        let done = self.end(number).map(act);
        self.pump(number);
        self.settle();
        done
    }

    fn send(&mut self, parcel: Parcel) {
        let Parcel { from: Place::Inet(from), to: Place::Inet(to), .. } = parcel else {
            return self.inside.push_back(parcel);
        };
        match node_of(*to.ip(), self.nodes) {
            Some(node) if node != self.node => self.outgoing.push(Segment {
                from: Address { node: self.node, port: from.port() },
                to: Address { node, port: to.port() },
                content: Content::Stream { connection: parcel.connection, kind: parcel.kind },
            }),
            _ => self.inside.push_back(parcel),
        }
    }

    /// Delivers what is for the node itself.
    fn settle(&mut self) {
        while let Some(parcel) = self.inside.pop_front() {
            self.handle(parcel);
        }
    }

    /// Handles a segment of another node.
    pub(super) fn receive(&mut self, segment: Segment) {
        let Segment { from: sender, to: receiver, content } = segment;
        let is_ours = receiver.node == self.node && sender.node != self.node;
        if !is_ours || sender.node >= self.nodes {
            return;
        }
        let (from, to) = (outside(sender), outside(receiver));
        match content {
            Content::Stream { connection, kind } => {
                let (from, to) = (Place::Inet(from), Place::Inet(to));
                self.handle(Parcel { from, to, connection, kind });
                self.settle();
            }
            Content::Datagram(bytes) => {
                if !self.take_datagram(to, Datagram { from, bytes }) {
                    let content = Content::Unreachable;
                    self.outgoing.push(Segment { from: receiver, to: sender, content });
                }
            }
            Content::Unreachable => self.unreached(to, from),
        }
    }

    fn handle(&mut self, Parcel { from, to, connection, kind }: Parcel) {
        let known = self.ends.get(&(to, from)).copied();
        let end = known.and_then(|number| self.end(number));
        match Route::of(end.as_deref(), connection, &kind) {
            Route::Known => self.change_end(known, |end| end.receive(kind)),
            Route::Asks => {
                self.change_end(known, End::make_room);
                self.ask(Asking { from, to, connection });
            }
            Route::Withdraws => self.withdraw(Asking { from, to, connection }),
            Route::Unknown => {
                self.send(Parcel { from: to, to: from, connection, kind: Kind::Reset });
            }
            Route::Nothing => {}
        }
    }

    /// Has an end, if there is one, do something that its program may see.
    fn change_end(&mut self, number: Option<u32>, act: impl FnOnce(&mut End) -> bool) {
        let Some(number) = number else { return };
        if self.end(number).is_some_and(act) {
            self.touch(number);
        }
        self.pump(number);
    }

    /// Somebody asks for a connection.
    fn ask(&mut self, asking: Asking) {
        if let Some(number) = self.listener_at(asking.to)
            && let Ok(Socket { state: State::Listener(listener), .. }) = self.socket(number)
            && listener.asking.len() < MOST_WAITING
        {
            listener.asking.push_back(asking);
            self.admit(number);
        } else {
            self.refuse(asking);
        }
    }

    fn refuse(&mut self, Asking { from, to, connection }: Asking) {
        self.send(Parcel { from: to, to: from, connection, kind: Kind::Refuse });
    }

    /// One that has asked for a connection, and has no answer yet, no longer wants it.
    fn withdraw(&mut self, withdrawn: Asking) {
        if let Some(number) = self.listener_at(withdrawn.to)
            && let Ok(Socket { state: State::Listener(listener), .. }) = self.socket(number)
        {
            listener.asking.retain(|&asking| asking != withdrawn);
        }
    }

    /// The program reads or writes no more. Ends of Unix sockets learn of both at once.
    pub(in crate::kernel) fn shut_down(&mut self, number: u32, reads: bool, writes: bool) {
        let Some(Socket { local, state: State::Stream { end, remote, .. }, .. }) =
            self.sockets.get_mut(&number)
        else {
            return;
        };
        let other = local.map(|local| (*remote, local));
        if reads {
            end.stop_reading();
        }
        if writes {
            end.finish();
        }
        let is_unix = remote.family() == Family::Unix;
        self.touch(number);
        self.pump(number);
        if reads
            && is_unix
            && let Some(other) = other.and_then(|other| self.ends.get(&other).copied())
            && let Some(end) = self.end(other)
        {
            end.finish();
            self.touch(other);
            self.pump(other);
        }
        self.settle();
    }

    /// A listener listens no more; those that wait learn of it.
    pub(in crate::kernel) fn stop_listening(&mut self, number: u32) {
        let stopped = self.change_place(number, |socket| match &mut socket.state {
            State::Listener(listener) => {
                let listener = std::mem::take(listener);
                socket.state = State::Fresh;
                Some(listener)
            }
            _ => None,
        });
        if let Ok(Some(Listener { ready, asking, .. })) = stopped {
            asking.into_iter().for_each(|asking| self.refuse(asking));
            for waiting in ready {
                self.with_end(waiting, |end| end.close(true));
            }
            self.touch(number);
            self.settle();
        }
    }

    /// `shutdown` of a Unix socket that listens: it keeps the connections that wait for `accept`, and gets no more.
    pub(in crate::kernel) fn shut_listener(&mut self, number: u32, reads: bool, writes: bool) {
        if let Ok(Socket { state: State::Listener(listener), .. }) = self.socket(number) {
            listener.is_shut.0 |= reads;
            listener.is_shut.1 |= writes;
            self.touch(number);
        }
    }

    /// Ends a connection at once, after which the socket can have another one.
    pub(in crate::kernel) fn disconnect(&mut self, number: u32) {
        self.with_end(number, End::reset);
        // There may be none.
        let _ = self.change_place(number, |socket| {
            socket.state = State::Fresh;
            socket.local = socket.bound.map(Place::Inet);
        });
        self.touch(number);
    }

    /// The program has closed its last descriptor of a socket.
    pub(in crate::kernel) fn close(&mut self, number: u32) {
        self.stop_listening(number);
        let Ok(socket) = self.socket(number) else { return };
        let aborts = socket.settings.aborts() && socket.family == Family::Inet;
        socket.file = None;
        match &mut socket.state {
            State::Stream { .. } => drop(self.with_end(number, |end| end.close(aborts))),
            _ => {
                self.remove(number);
                self.settle();
            }
        }
    }

    /// The program is over: closes all of its sockets.
    pub(in crate::kernel) fn leave(&mut self) {
        let numbers: Vec<u32> = self.sockets.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close(number));
    }
}
