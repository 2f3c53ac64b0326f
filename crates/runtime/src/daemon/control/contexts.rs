//! Joining and leaving contexts.
//!
//! The open descriptor of `contexts/<id>` proves a client's right: the kernel checked the permissions when it was
//! opened, and the daemon compares inode and access mode. A descriptor for reading gives a membership for reading.
//!
//! A context that was removed and made again under the same number is another one. A number in a file beside the
//! context's file tells them apart. Members can write the context's file but not that one. Members of the old context
//! are removed.
//!
//! A node of a context is one process, unless all its processes say that they share it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rackmem_abi::Status;
use rackmem_rmc::{MAX_CONTEXTS, Rights};
use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::clients::clone_fd;
use super::peers::{announce, tell};
use super::{Answer, Context, Control, PeerSegment, Refusal, held_up, refuse};
use crate::daemon::foreign::Foreign;
use crate::daemon::local::LocalTable;
use crate::daemon::session::{Allowance, Member, Role, Session};
use crate::daemon::worker::{Command, Place};
use crate::protocol::{PeerState, Request, Response};
use crate::shm::line_lock::Owner;
use crate::shm::segment::{Segment, State};

/// Members that a daemon serves at a time; their numbers have to fit an [`Owner`].
const MAX_CLIENTS: usize = 4000;

/// A process that wants to be this node of a context.
struct Joiner {
    pid: rustix::process::Pid,
    ctx_id: u16,
    incarnation: u64,
    rights: Rights,
    shared: bool,
}

impl Control {
    pub(super) fn open(
        &mut self,
        id: u64,
        ctx_id: u16,
        segment_bytes: u64,
        shared: bool,
        fd: Option<OwnedFd>,
    ) -> Answer {
        if !matches!(self.session(id).role, Role::Client) {
            return Err((libc::EBUSY, "say hello first, and join once per connection".to_owned()));
        }
        if usize::from(ctx_id) >= MAX_CONTEXTS {
            let message = format!("context {ctx_id} is out of range: 0 to {}", MAX_CONTEXTS - 1);
            return Err((libc::ENOENT, message));
        }
        let (rights, incarnation, file) = self.check_right(ctx_id, fd)?;
        let process =
            self.session(id).process.ok_or((libc::EPROTO, "join on your own host".to_owned()))?;
        let joiner = Joiner { pid: process.pid, ctx_id, incarnation, rights, shared };
        self.check_alone(&joiner)?;
        let client = self.claim_client()?;
        let segment = match self.join(ctx_id, incarnation, segment_bytes, file) {
            Ok(segment) => segment,
            Err(refusal) => {
                self.clients[client] = false;
                return Err(refusal);
            }
        };
        let owner = Owner::new(self.nid, client as u16);
        // The memory of another user's process stays out of reach: its number could have passed to
        // a process that never connected, or it could have gained rights that its user lacks.
        let is_own = process.uid == rustix::process::geteuid();
        let local = LocalTable::new(if is_own { Foreign::open(process.pid) } else { None });
        let added = self.worker.call(Command::AddClient(client, owner, local));
        // If anything fails from here on, the client is a member all the same, until it hangs up.
        // A client with read access gets no way to change the memory of other members of this node.
        let fd = match rights {
            Rights::ReadWrite => clone_fd(segment.mapping()),
            Rights::ReadOnly => segment.mapping().read_only_fd().map_err(refuse("segment")),
        };
        self.session(id).role = Role::Member(Box::new(Member {
            id: client,
            owner,
            ctx_id,
            incarnation,
            rights,
            shared,
            segment,
            qps: BTreeMap::new(),
            buffers: BTreeMap::new(),
            qps_made: 0,
            buffers_made: 0,
            segment_places: 0,
            invitations: Allowance::default(),
        }));
        let read_only = rights == Rights::ReadOnly;
        added.map_err(held_up)?;
        let [flag, event] = self.add_bell(id).map_err(refuse("bell"))?;
        Ok((Response::Opened { owner: owner.token(), read_only }, vec![fd?, flag, event]))
    }

    /// A node is one process, unless all its processes want to share its segment. Read-only processes
    /// do not count.
    fn check_alone(&mut self, joiner: &Joiner) -> std::result::Result<(), Refusal> {
        while let Some((id, pid)) = self.rival_of(joiner) {
            if !self.session(id).line.is_hung_up() {
                let (nid, ctx_id) = (self.nid, joiner.ctx_id);
                let message = format!(
                    "process {pid} is node {nid} of context {ctx_id} already: join as another node, or let both \
                     processes say that they share it"
                );
                return Err((libc::EBUSY, message));
            }
            // It has ended, and nobody has looked since.
            self.end(id);
        }
        Ok(())
    }

    /// A member that keeps another process from joining, and its process.
    fn rival_of(&self, joiner: &Joiner) -> Option<(u64, i32)> {
        let is_rival = |session: &Session, pid| match &session.role {
            Role::Member(member) => {
                member.ctx_id == joiner.ctx_id
                    && member.incarnation == joiner.incarnation
                    && member.rights == Rights::ReadWrite
                    && joiner.rights == Rights::ReadWrite
                    && !(member.shared && joiner.shared)
                    && pid != joiner.pid
            }
            _ => false,
        };
        self.sessions.iter().find_map(|(id, session)| {
            let pid = session.process?.pid;
            is_rival(session, pid).then(|| (*id, pid.as_raw_nonzero().get()))
        })
    }

    /// The open file of the context is the proof: the kernel checked the permissions. Its inode tells
    /// which context of this number it is.
    pub(super) fn check_right(
        &self,
        ctx_id: u16,
        fd: Option<OwnedFd>,
    ) -> std::result::Result<(Rights, u64, OwnedFd), Refusal> {
        let denied = || {
            (libc::EACCES, format!("no permission to join context {ctx_id}: send its open file"))
        };
        let fd = fd.ok_or_else(denied)?;
        let path = self.rack.context_path(ctx_id);
        // Not by asking the file system of a descriptor that a stranger sent: it may never answer.
        let look = |dir: BorrowedFd<'_>, path: &Path, flags: AtFlags| {
            let found = statx(dir, path, flags | AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
            Ok::<_, Errno>((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
        };
        let shown = look(fd.as_fd(), Path::new(""), AtFlags::EMPTY_PATH).map_err(|_| denied())?;
        let incarnation = self.rack.incarnation(shown.2);
        let expected = look(CWD, &path, AtFlags::empty())
            .map_err(|_| (libc::ENOENT, format!("there is no context {ctx_id}")))?;
        if shown != expected {
            return Err(denied());
        }
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(|_| denied())?;
        // A descriptor opened with O_PATH needed no permission and proves nothing.
        if flags.contains(OFlags::PATH) {
            return Err(denied());
        }
        let rights = match flags & OFlags::ACCMODE {
            OFlags::RDWR => Rights::ReadWrite,
            OFlags::RDONLY => Rights::ReadOnly,
            _ => return Err(denied()),
        };
        Ok((rights, incarnation, fd))
    }

    pub(super) fn claim_client(&mut self) -> std::result::Result<usize, Refusal> {
        let free = self.clients.iter().position(|used| !used);
        let id = free.unwrap_or(self.clients.len());
        if id >= MAX_CLIENTS {
            return Err((libc::EUSERS, format!("node {} has {id} clients already", self.nid)));
        }
        if id == self.clients.len() {
            self.clients.push(false);
        }
        self.clients[id] = true;
        Ok(id)
    }

    /// This node's segment of a context, made by the first member.
    pub(super) fn join(
        &mut self,
        ctx_id: u16,
        incarnation: u64,
        segment_bytes: u64,
        file: OwnedFd,
    ) -> std::result::Result<Arc<Segment>, Refusal> {
        if self.contexts.get(&ctx_id).is_some_and(|context| context.incarnation != incarnation) {
            self.give_up_context(ctx_id, true);
        }
        if let Some(context) = self.contexts.get_mut(&ctx_id) {
            let there = context.segment.size_bytes();
            if segment_bytes > there {
                let message = format!(
                    "node {} has joined context {ctx_id} with {there} bytes; {segment_bytes} asked",
                    self.nid
                );
                return Err((libc::EEXIST, message));
            }
            context.members += 1;
            return Ok(context.segment.clone());
        }
        if segment_bytes > rackmem_abi::MAX_OFFSET + 1 {
            let message = format!("a segment of {segment_bytes} bytes; offsets reach 1 TiB");
            return Err((libc::EFBIG, message));
        }
        let segment = Segment::create(self.nid, ctx_id, segment_bytes)
            .map_err(refuse("cannot make the segment"))?;
        let segment = Arc::new(segment);
        // Processes with a link know the segment that was there before.
        self.end_guests(None, Some(ctx_id));
        let (nid, installed) = (self.nid, Ok(Place::Mapped(segment.clone())));
        self.worker
            .call(Command::SetSegment { nid, ctx_id, segment: installed })
            .map_err(held_up)?;
        let context = Context { incarnation, _file: file, segment: segment.clone(), members: 1 };
        for session in self.peers.values() {
            announce(&mut self.sessions, *session, ctx_id, &context);
        }
        self.contexts.insert(ctx_id, context);
        let peers = self.peer_contexts.keys().filter(|(_, ctx)| *ctx == ctx_id);
        for nid in peers.map(|(nid, _)| *nid).collect::<Vec<_>>() {
            self.install_peer(nid, ctx_id);
        }
        tracing::info!(nid, ctx_id, segment_bytes, "context joined");
        Ok(segment)
    }

    pub(super) fn peer_segment(&mut self, id: u64, nid: u16) -> Answer {
        let member = self.member(id)?;
        let (ctx_id, rights, incarnation) = (member.ctx_id, member.rights, member.incarnation);
        let own = member.segment.clone();
        let is_remote = self.is_remote(nid);
        let state = |state| Ok((Response::Peer { state, is_remote }, Vec::new()));
        if nid >= self.nodes {
            return state(PeerState::NoNode);
        }
        let known = self.peer_contexts.get(&(nid, ctx_id));
        let known = known.filter(|context| context.incarnation == incarnation);
        let segment = match known.map(|context| &context.segment) {
            _ if nid == self.nid => own,
            Some(PeerSegment::Present(segment)) => segment.clone(),
            Some(PeerSegment::Remote(_)) => return state(PeerState::Remote),
            Some(PeerSegment::Left) => return state(PeerState::Left),
            Some(PeerSegment::Died) => return state(PeerState::Died),
            Some(PeerSegment::Lost) => return state(PeerState::Lost),
            None if !self.peers.contains_key(&nid) => return state(PeerState::Lost),
            None => return state(PeerState::Absent),
        };
        let fd = match rights {
            Rights::ReadWrite => clone_fd(segment.mapping())?,
            Rights::ReadOnly => segment.mapping().read_only_fd().map_err(refuse("segment"))?,
        };
        Ok((Response::Peer { state: PeerState::Present, is_remote }, vec![fd]))
    }

    pub(super) fn close(&mut self, id: u64) -> Answer {
        self.session(id).closed = true;
        if let Role::Member(member) = std::mem::replace(&mut self.session(id).role, Role::Client) {
            self.leave(*member, true);
        }
        Ok((Response::Done, Vec::new()))
    }

    /// A member is gone: of its own will or not.
    pub(super) fn leave(&mut self, mut member: Member, closed: bool) {
        // If the worker is held up it takes the command later; it releases no lock that is not its own.
        let _ = self.worker.call(Command::RemoveClient(member.id));
        for record in member.qps.values_mut() {
            record.count(&mut self.total);
        }
        self.clients[member.id] = false;
        let ctx_id = member.ctx_id;
        for segment in self.present_segments(ctx_id).chain([&member.segment]) {
            segment.release_locks(|owner| owner == member.owner);
            if !closed {
                segment.note_loss();
            }
        }
        // A context made again under the same number is none of its business.
        let context = self.contexts.get_mut(&ctx_id);
        let Some(context) = context.filter(|c| Arc::ptr_eq(&c.segment, &member.segment)) else {
            return;
        };
        context.members -= 1;
        if context.members == 0 {
            self.give_up_context(ctx_id, closed);
        }
    }

    /// The segments of peers in a context.
    pub(super) fn present_segments(&self, ctx_id: u16) -> impl Iterator<Item = &Arc<Segment>> {
        let of_context = self.peer_contexts.iter().filter(move |((_, ctx), _)| *ctx == ctx_id);
        of_context.filter_map(|(_, context)| match &context.segment {
            PeerSegment::Present(segment) => Some(segment),
            _ => None,
        })
    }

    /// Members that stay when their context was made again must not reach the new one by queue pairs of the old. They
    /// see by their segment that their operations will not complete.
    fn drop_queue_pairs_of(&mut self, segment: &Arc<Segment>) {
        for session in self.sessions.values_mut() {
            let Role::Member(member) = &mut session.role else { continue };
            if Arc::ptr_eq(&member.segment, segment) {
                for (_, mut record) in std::mem::take(&mut member.qps) {
                    let removed = Command::RemoveQp(member.id, record.memory.clone());
                    let _ = self.worker.call(removed);
                    record.count(&mut self.total);
                }
            }
        }
    }

    /// This node has no members in a context any more.
    pub(super) fn give_up_context(&mut self, ctx_id: u16, closed: bool) {
        let Some(context) = self.contexts.remove(&ctx_id) else { return };
        context.segment.retire(if closed { State::Closed } else { State::Lost });
        self.drop_queue_pairs_of(&context.segment);
        let why = if closed { Status::NoContext } else { Status::NodeLost };
        let _ = self.worker.call(Command::SetSegment { nid: self.nid, ctx_id, segment: Err(why) });
        for id in self.peers.values() {
            if let Some(session) = self.sessions.get_mut(id) {
                tell(session, &Request::ContextDown { ctx_id, lost: !closed }, &[]);
            }
        }
        tracing::info!(nid = self.nid, ctx_id, lost = !closed, "context left");
    }
}
