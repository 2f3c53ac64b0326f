//! The control thread: accepts connections, answers clients, keeps links to the other daemons.

mod beats;
mod clients;
mod contexts;
mod far;
#[cfg(fuzzing)]
pub mod fuzz;
mod greet;
mod guests;
mod peers;
mod questions;
mod status;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_rmc::Bounds;
use rustix::event::{Timespec, epoll};

use self::far::Far;
use super::line::Line;
use super::session::{Role, Session};
use super::worker::{COMMAND_TIMEOUT, Command, Handle, HeldUp};
use super::{Config, Error, Result};
use crate::error::limit_hint;
use crate::links::Path;
use crate::links::shm::{self, ShmLink, Side};
use crate::protocol::Response;
use crate::rack::Rack;
use crate::shm::bell::Bells;
use crate::shm::segment::{Segment, State};
use crate::status::Work;
use crate::transport;

/// Connections that have not joined a context: beyond, the oldest gives way to the newest.
const MAX_VISITORS: usize = 128;

/// Until the next look when there is no descriptor left for a connection.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);

/// Shortest time between two looks of its own.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// Messages of a daemon of another host that are taken before others are served.
const MAX_MESSAGES: usize = 16;

const LISTENER: u64 = u64::MAX;
const SIGNALS: u64 = u64::MAX - 1;
const FAR_LISTENER: u64 = u64::MAX - 2;

/// A context that this node has joined.
struct Context {
    incarnation: u64,
    /// Held open, so that its inode names no other file.
    _file: OwnedFd,
    segment: Arc<Segment>,
    members: u32,
}

/// A peer's last report on a context.
struct PeerContext {
    /// Of the context's file: a context that was removed and made again is another one.
    incarnation: u64,
    segment: PeerSegment,
}

enum PeerSegment {
    Present(Arc<Segment>),
    /// The peer is on another host: packets reach the segment.
    Remote(Bounds),
    Left,
    /// Its process ended without leaving.
    Died,
    /// Its daemon is gone.
    Lost,
}

/// A failed request: positive `errno` and an explanation.
type Refusal = (i32, String);

/// The control thread's state.
pub struct Control {
    rack: Rack,
    nid: u16,
    nodes: u16,
    started: Instant,
    bell: Arc<Bells>,
    worker: Handle,
    listener: OwnedFd,
    epoll: OwnedFd,
    sessions: BTreeMap<u64, Session>,
    next_session: u64,
    /// Connections to other hosts whose messages were not all taken.
    unserved: Vec<u64>,
    contexts: BTreeMap<u16, Context>,
    /// Reports of peers on contexts, by node and context.
    peer_contexts: BTreeMap<(u16, u16), PeerContext>,
    /// Work of queue pairs so far.
    total: Work,
    /// Linked nodes and the session of the link; this node is linked to itself by no session.
    peers: BTreeMap<u16, u64>,
    /// Client numbers in use.
    clients: Vec<bool>,
    /// Nodes of other hosts, if the rack has any.
    far: Option<Far>,
    retry: Duration,
    retry_at: Instant,
}

impl Control {
    /// Listens, and links the node to itself.
    pub fn new(
        config: &Config,
        nid: u16,
        nodes: u16,
        bell: Arc<Bells>,
        worker: Handle,
    ) -> Result<Control> {
        let rack = &config.rack;
        let path = rack.socket_path(nid);
        let failed = |e| Error::io(format!("cannot listen at {}", path.display()), e);
        let listener = transport::listen(&path).map_err(failed)?;
        let far = Far::listen(config, nid)?;
        // The context's file decides which users may join it, not the socket.
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, everyone).map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let memory = Arc::new(shm::create_memory().map_err(failed)?);
        let to_self = Path::Shm(Box::new(ShmLink::new(memory, Side::Loop, None)));
        if worker.call(Command::SetLink(nid, Some(to_self))).is_err() {
            return Err(Error::new(
                libc::ETIMEDOUT,
                format!("the controller of node {nid} does not start"),
            ));
        }
        Ok(Control {
            rack: rack.clone(),
            nid,
            nodes,
            started: Instant::now(),
            bell,
            worker,
            listener,
            epoll,
            sessions: BTreeMap::new(),
            next_session: 0,
            unserved: Vec::new(),
            contexts: BTreeMap::new(),
            peer_contexts: BTreeMap::new(),
            total: Work::default(),
            peers: BTreeMap::new(),
            clients: Vec::new(),
            far,
            retry: peers::FIRST_RETRY,
            retry_at: Instant::now(),
        })
    }

    /// Serves until a signal comes, then retires this node's segments.
    pub fn run(mut self, signals: BorrowedFd<'_>) -> Result<()> {
        tracing::info!(nid = self.nid, nodes = self.nodes, "up");
        let result = self.serve_all(signals);
        // The worker stops first: when their segments are lost, clients complete their posted operations
        // themselves, and no other thread may do so then.
        self.worker.stop();
        self.retire_own_segments();
        let path = self.rack.socket_path(self.nid);
        if let Err(error) = transport::remove_socket(&path) {
            tracing::warn!(nid = self.nid, "cannot remove {}: {error}", path.display());
        }
        tracing::info!(nid = self.nid, "down");
        result
    }

    fn serve_all(&mut self, signals: BorrowedFd<'_>) -> Result<()> {
        let failed = |e: rustix::io::Errno| Error::io("epoll", e.into());
        let data = epoll::EventData::new_u64;
        epoll::add(&self.epoll, &self.listener, data(LISTENER), epoll::EventFlags::IN)
            .map_err(failed)?;
        if let Some(far) = &self.far {
            epoll::add(&self.epoll, &far.listener, data(FAR_LISTENER), epoll::EventFlags::IN)
                .map_err(failed)?;
        }
        epoll::add(&self.epoll, signals, data(SIGNALS), epoll::EventFlags::IN).map_err(failed)?;
        let mut events = Vec::with_capacity(64);
        loop {
            let timeout = self.next_look();
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept_all(),
                    SIGNALS => return Ok(()),
                    FAR_LISTENER => self.accept_far(),
                    id if self.serve_far(id) => {}
                    session => self.serve(session),
                }
            }
            for session in std::mem::take(&mut self.unserved) {
                self.serve(session);
            }
        }
    }

    /// Members on this node learn from their own segment that the node has left.
    fn retire_own_segments(&self) {
        for context in self.contexts.values() {
            context.segment.retire(State::Lost);
        }
    }

    /// Does what is due, and returns the time until the next look.
    fn next_look(&mut self) -> Option<Timespec> {
        let near = self.reach_lower_nodes();
        let far = self.look_far();
        if !self.unserved.is_empty() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let wait = near.into_iter().chain(far).min()?;
        Timespec::try_from(wait.max(SHORTEST_LOOK)).ok()
    }

    // Connections ------------------------------------------------------------------------------

    fn accept_all(&mut self) {
        loop {
            match transport::accept(self.listener.as_fd()) {
                Ok(channel) => {
                    self.add_session(Line::Near(channel), Role::Unknown);
                    if self.visitors().count() > MAX_VISITORS {
                        self.end_oldest_visitor();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let hint = limit_hint(&error);
                    tracing::warn!(nid = self.nid, "cannot accept a connection: {error}{hint}");
                    if !self.end_oldest_visitor() {
                        std::thread::sleep(NO_DESCRIPTOR_PAUSE);
                        return;
                    }
                }
            }
        }
    }

    /// Connections that have not joined a context, the oldest first.
    fn visitors(&self) -> impl Iterator<Item = u64> {
        let is_visitor = |role: &Role| matches!(role, Role::Unknown | Role::Client);
        self.sessions.iter().filter(move |(_, s)| is_visitor(&s.role)).map(|(id, _)| *id)
    }

    fn end_oldest_visitor(&mut self) -> bool {
        let oldest = self.visitors().next();
        oldest.inspect(|id| self.end(*id)).is_some()
    }

    fn add_session(&mut self, line: Line, role: Role) -> Option<u64> {
        let process = match &line {
            Line::Near(channel) => Some(channel.peer().ok()?),
            Line::Far(_) => None,
        };
        let id = self.next_session;
        let data = epoll::EventData::new_u64(id);
        epoll::add(&self.epoll, &line, data, epoll::EventFlags::IN).ok()?;
        self.sessions.insert(id, Session { line, process, role, bell: None, closed: false });
        self.next_session += 1;
        Some(id)
    }

    /// Takes messages of a connection, or its end.
    fn serve(&mut self, id: u64) {
        // Of a process of this host one at a time: the socket still has the others.
        for _ in 0..MAX_MESSAGES {
            let more = self.serve_one(id);
            let session = self.sessions.get(&id).filter(|_| more);
            if !session.is_some_and(|session| matches!(session.line, Line::Far(_))) {
                return;
            }
        }
        self.unserved.push(id);
    }

    /// Takes one message of a connection, or its end; `false`: there was none.
    fn serve_one(&mut self, id: u64) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let result = match session.role {
            Role::Linking(..) => session.line.receive().map(|got| self.linked(id, got)),
            Role::Peer(_) => session.line.receive().map(|got| self.hear_peer(id, got)),
            Role::Meeting(nid) => session.line.receive().map(|got| self.hear_met(id, nid, got)),
            _ => session.line.receive().map(|got| self.answer(id, got)),
        };
        match result {
            Ok(true) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(false) => self.end(id),
            Err(error) => {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    tracing::warn!(nid = self.nid, session = id, %error, "connection dropped");
                }
                self.end(id);
            }
        }
        false
    }

    fn end(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else { return };
        let nid = match session.role {
            Role::Member(member) => return self.leave(*member, session.closed),
            Role::Peer(nid) | Role::Meeting(nid) => nid,
            _ => return,
        };
        if self.peers.get(&nid) == Some(&id) {
            self.lose_peer(nid);
        }
        if let Line::Far(line) = &session.line {
            self.part(nid, line.lost().as_deref().unwrap_or("the link has ended"));
        }
    }
}

/// An answer to a client: the message and its descriptors.
type Answer = std::result::Result<(Response, Vec<OwnedFd>), Refusal>;

/// The refusal of a request that the worker did not carry out in time.
fn held_up(_: HeldUp) -> Refusal {
    let message = format!(
        "the daemon's controller has done nothing else for {} s: it waits for a process that was stopped, \
         or is kept from its core",
        COMMAND_TIMEOUT.as_secs()
    );
    (libc::ETIMEDOUT, message)
}

fn refuse(what: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |error| {
        let error = Error::io(what, error);
        (error.errno(), error.to_string())
    }
}
