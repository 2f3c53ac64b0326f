//! Links to the daemons of other nodes, and their messages.
//!
//! Daemons announce to each other the nodes of a context and the sizes of their segments. A segment's own state shows
//! the end of its process, too, and sooner.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_abi::Status;
use rackmem_rmc::{Bounds, MAX_CONTEXTS};

use super::{Context, Control, PeerContext, PeerSegment};
use crate::daemon::line::Line;
use crate::daemon::session::{Role, Session};
use crate::daemon::worker::{Command, Place};
use crate::error::limit_hint;
use crate::links::Path;
use crate::links::shm::{self, ShmLink, Side};
use crate::protocol::{PROTOCOL_VERSION, Request, Response};
use crate::shm::bell::Bell;
use crate::shm::line_lock::Owner;
use crate::shm::mapping::Access;
use crate::shm::segment::{Segment, State};
use crate::transport::{Channel, Received};

/// Between two attempts to reach a daemon that is not there; doubles up to the second.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(20);
pub(super) const LAST_RETRY: Duration = Duration::from_secs(1);

impl Control {
    /// Links to the nodes with lower numbers. Returns the time to the next attempt if one is missing.
    pub(super) fn reach_lower_nodes(&mut self) -> Option<Duration> {
        let missing = |this: &Self| {
            let linking = |nid| {
                this.sessions.values().any(|s| matches!(s.role, Role::Linking(n, _) if n == nid))
            };
            (0..this.nid)
                .filter(|nid| !this.is_remote(*nid))
                .filter(|nid| !this.peers.contains_key(nid) && !linking(*nid))
                .collect()
        };
        let lower: Vec<u16> = missing(self);
        if lower.is_empty() {
            self.retry = FIRST_RETRY;
            return None;
        }
        let now = Instant::now();
        if now >= self.retry_at {
            for nid in lower {
                let Err(error) = self.reach(nid) else { continue };
                match limit_hint(&error) {
                    hint if hint.is_empty() => {
                        tracing::debug!(nid = self.nid, peer = nid, %error, "peer not there");
                    }
                    hint => {
                        tracing::error!(nid = self.nid, peer = nid, "cannot link: {error}{hint}");
                    }
                }
            }
            self.retry_at = now + self.retry;
            self.retry = (self.retry * 2).min(LAST_RETRY);
        }
        Some(self.retry_at.saturating_duration_since(now))
    }

    pub(super) fn reach(&mut self, nid: u16) -> io::Result<()> {
        let channel = Channel::connect(&self.rack.socket_path(nid))?;
        channel.set_nonblocking()?;
        if !is_our_kind(channel.peer()?.uid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let memory = Arc::new(shm::create_memory()?);
        let bell = self.bell.add()?;
        let [flag, event] = bell.fds()?;
        let request = Request::Link { version: PROTOCOL_VERSION, nid: self.nid };
        channel.send(&request, &[memory.fd(), flag.as_fd(), event.as_fd()])?;
        if let Some(id) = self.add_session(Line::Near(channel), Role::Linking(nid, memory)) {
            self.session(id).bell = Some(bell);
        }
        Ok(())
    }

    /// A daemon with a higher number asks for a link.
    pub(super) fn accept_link(
        &mut self,
        id: u64,
        version: u32,
        nid: u16,
        mut fds: impl Iterator<Item = OwnedFd>,
    ) -> bool {
        let session = self.session(id);
        let trusted = session.process.is_some_and(|process| is_our_kind(process.uid));
        let is_first = matches!(session.role, Role::Unknown);
        let is_new = is_first && nid > self.nid && nid < self.nodes && !self.is_remote(nid);
        let fits = is_new && version == PROTOCOL_VERSION;
        let (Some(memory), Some(flag), Some(event)) = (fds.next(), fds.next(), fds.next()) else {
            return false;
        };
        if !trusted || !fits {
            tracing::warn!(nid = self.nid, peer = nid, version, "link refused");
            return false;
        }
        let (Ok(memory), Ok(bell)) = (shm::open_memory(memory), Bell::open(flag, event)) else {
            return false;
        };
        let Ok(bell_fds) = self.add_bell(id) else { return false };
        let fds: Vec<BorrowedFd<'_>> = bell_fds.iter().map(AsFd::as_fd).collect();
        let welcome = Response::Welcome {
            nid: self.nid,
            nodes: self.nodes,
            over_hosts: self.is_over_hosts(),
        };
        if self.session(id).line.send(&welcome, &fds).is_err() {
            return false;
        }
        let link = ShmLink::new(Arc::new(memory), Side::Other, Some(bell));
        self.add_peer(id, nid, Path::Shm(Box::new(link)));
        true
    }

    /// The lower daemon has answered our request for a link.
    pub(super) fn linked(&mut self, id: u64, got: Received<Response>) -> bool {
        let role = std::mem::replace(&mut self.session(id).role, Role::Unknown);
        let Role::Linking(nid, memory) = role else { return false };
        let mut fds = got.fds.into_iter();
        let (Response::Welcome { nid: answered, .. }, Some(flag), Some(event)) =
            (got.message, fds.next(), fds.next())
        else {
            return false;
        };
        match Bell::open(flag, event) {
            Ok(bell) if answered == nid => {
                let link = ShmLink::new(memory, Side::Maker, Some(bell));
                self.add_peer(id, nid, Path::Shm(Box::new(link)));
                true
            }
            _ => false,
        }
    }

    pub(super) fn add_peer(&mut self, id: u64, nid: u16, path: Path) {
        if let Some(old) = self.peers.get(&nid).copied().filter(|old| *old != id) {
            // It restarted before we noticed that it was gone.
            self.lose_peer(nid);
            self.sessions.remove(&old);
        }
        // It announces again what it has.
        for (_, ctx_id) in self.peer_contexts.keys().filter(|(peer, _)| *peer == nid) {
            let (ctx_id, segment) = (*ctx_id, Err(Status::NoContext));
            let _ = self.worker.call(Command::SetSegment { nid, ctx_id, segment });
        }
        self.peer_contexts.retain(|(peer, _), _| *peer != nid);
        self.session(id).role = Role::Peer(nid);
        self.peers.insert(nid, id);
        let _ = self.worker.call(Command::SetLink(nid, Some(path)));
        for (ctx_id, context) in &self.contexts {
            announce(&mut self.sessions, id, *ctx_id, context);
        }
        tracing::info!(nid = self.nid, peer = nid, "link up");
    }

    /// Takes a message of a linked daemon; `false` ends the link.
    pub(super) fn hear_peer(&mut self, id: u64, got: Received<Request>) -> bool {
        let Role::Peer(nid) = self.session(id).role else { return false };
        self.hear_beat(nid);
        match got.message {
            Request::ContextUp { ctx_id, incarnation, size_bytes } => {
                if usize::from(ctx_id) >= MAX_CONTEXTS {
                    return false;
                }
                let fd = got.fds.into_iter().next();
                let segment = match fd.map(|fd| Segment::open(fd, Access::ReadWrite)) {
                    Some(Ok(segment)) => PeerSegment::Present(Arc::new(segment)),
                    None if self.is_remote(nid) => PeerSegment::Remote(Bounds { size_bytes }),
                    _ => return false,
                };
                let context = PeerContext { incarnation, segment };
                self.peer_contexts.insert((nid, ctx_id), context);
                self.install_peer(nid, ctx_id);
                true
            }
            Request::ContextDown { ctx_id, lost } => {
                if let Some(context) = self.peer_contexts.get_mut(&(nid, ctx_id)) {
                    context.segment = if lost { PeerSegment::Died } else { PeerSegment::Left };
                    // The segment says so, too, but members may write there.
                    let why = if lost { Status::NodeLost } else { Status::NoContext };
                    let segment = Err(why);
                    let _ = self.worker.call(Command::SetSegment { nid, ctx_id, segment });
                }
                self.end_guests(Some(nid), Some(ctx_id));
                if let Some(context) = self.contexts.get(&ctx_id).filter(|_| lost) {
                    context.segment.note_loss();
                }
                self.shake_members(ctx_id);
                true
            }
            Request::Beat => true,
            Request::Ask if self.is_remote(nid) => self.tell_status(id),
            Request::Told(status) if self.is_remote(nid) => {
                self.told(nid, *status);
                true
            }
            Request::Admit(admission) if self.is_remote(nid) => {
                self.admit(nid, admission);
                true
            }
            _ => false,
        }
    }

    /// Tells the worker where a peer's segment lies, if the peer is in the same context as this node: one that was
    /// made again, or on another host, may only have the same number.
    pub(super) fn install_peer(&mut self, nid: u16, ctx_id: u16) {
        let Some(peer) = self.peer_contexts.get(&(nid, ctx_id)) else { return };
        let ours = self.contexts.get(&ctx_id).map(|context| context.incarnation);
        let segment = match &peer.segment {
            _ if ours.is_some_and(|ours| ours != peer.incarnation) => Err(Status::NoContext),
            PeerSegment::Present(segment) => Ok(Place::Mapped(segment.clone())),
            PeerSegment::Remote(bounds) => Ok(Place::Far(*bounds)),
            PeerSegment::Left | PeerSegment::Died | PeerSegment::Lost => return,
        };
        let _ = self.worker.call(Command::SetSegment { nid, ctx_id, segment });
    }

    pub(super) fn lose_peer(&mut self, nid: u16) {
        tracing::warn!(nid = self.nid, peer = nid, "link lost");
        self.peers.remove(&nid);
        self.retry_at = Instant::now();
        let of_peer = |owner: Owner| owner.token() >> 12 == u32::from(nid);
        for ((peer, ctx_id), context) in &mut self.peer_contexts {
            if let (PeerSegment::Present(segment), false) = (&context.segment, *peer == nid) {
                segment.release_locks(of_peer);
            }
            let is_there =
                matches!(context.segment, PeerSegment::Present(_) | PeerSegment::Remote(_));
            if *peer == nid && is_there {
                if let PeerSegment::Present(segment) = &context.segment {
                    segment.retire(State::Lost);
                }
                context.segment = PeerSegment::Lost;
                if let Some(own) = self.contexts.get(ctx_id) {
                    own.segment.note_loss();
                }
                let (ctx_id, segment) = (*ctx_id, Err(Status::NodeLost));
                let _ = self.worker.call(Command::SetSegment { nid, ctx_id, segment });
            }
        }
        let _ = self.worker.call(Command::SetLink(nid, None));
        for context in self.contexts.values() {
            context.segment.release_locks(of_peer);
            context.segment.shake();
        }
    }

    /// Wakes members that sleep in a context, so that they check whether their peers live.
    pub(super) fn shake_members(&self, ctx_id: u16) {
        if let Some(context) = self.contexts.get(&ctx_id) {
            context.segment.shake();
        }
    }
}

/// Links carry every context, so only daemons of the same user or root's have one.
fn is_our_kind(uid: rustix::process::Uid) -> bool {
    uid == rustix::process::geteuid() || uid.is_root()
}

/// Tells a peer of a segment.
pub(super) fn announce(
    sessions: &mut BTreeMap<u64, Session>,
    id: u64,
    ctx_id: u16,
    context: &Context,
) {
    let Some(session) = sessions.get_mut(&id) else { return };
    let (incarnation, size_bytes) = (context.incarnation, context.segment.size_bytes());
    let request = Request::ContextUp { ctx_id, incarnation, size_bytes };
    match session.line {
        Line::Near(_) => tell(session, &request, &[context.segment.mapping().fd()]),
        Line::Far(_) => tell(session, &request, &[]),
    }
}

/// Tells a peer something. One that does not read would have a wrong picture for ever: the link
/// ends, and the next one starts with everything that is true then.
pub(super) fn tell(session: &mut Session, request: &Request, fds: &[BorrowedFd<'_>]) {
    if let Err(error) = session.line.send(request, fds) {
        tracing::warn!(%error, "a peer does not listen: its link ends");
        session.line.hang_up("it does not listen");
    }
}
