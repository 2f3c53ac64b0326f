//! The control thread: accepts connections, answers clients, keeps links to the other daemons.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_abi::{MAX_WQ_SIZE, Status};
use rackmem_rmc::{MAX_CONTEXTS, MAX_QPS, QpConfig, Rights};
use rustix::event::epoll;
use rustix::fs::OFlags;

use super::foreign::Foreign;
use super::link::{self, Link, Side};
use super::local::{Backing, LocalTable, MAX_BUFFERS};
use super::session::{Member, QpRecord, Role, Session};
use super::worker::{Command, Handle, NewQp};
use super::{Error, Result};
use crate::protocol::{PROTOCOL_VERSION, PeerState, Progress, Request, Response};
use crate::rack::{self, Rack};
use crate::shm::bell::Bell;
use crate::shm::line_lock::Owner;
use crate::shm::mapping::Mapping;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::{Segment, State};
use crate::status::{ContextStatus, NodeStatus, QpStatus};
use crate::transport::{self, Channel, Received};

/// Members that a daemon serves at a time; their numbers have to fit an [`Owner`].
const MAX_CLIENTS: usize = 4000;

/// Queue pairs of a member.
const MAX_QPS_PER_CLIENT: usize = 256;

/// Connections that have not joined a context: beyond, the oldest gives way to the newest.
const MAX_VISITORS: usize = 128;

/// Until the next look when there is no descriptor left for a connection.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);

/// Bytes of buffer memory of a member.
const MAX_BUFFER_BYTES: u64 = 1 << 40;

/// Between two attempts to reach a daemon that is not there; doubles up to the second.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(1);

const LISTENER: u64 = u64::MAX;
const SIGNALS: u64 = u64::MAX - 1;

/// A context that this node has joined.
struct Context {
    incarnation: u64,
    segment: Arc<Segment>,
    members: u32,
}

/// What a peer has said of a context.
struct PeerContext {
    /// Of the context's file: a context that was removed and made again is another one.
    incarnation: u64,
    segment: PeerSegment,
}

enum PeerSegment {
    Present(Arc<Segment>),
    Left,
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
    bell: Arc<Bell>,
    worker: Handle,
    listener: OwnedFd,
    epoll: OwnedFd,
    sessions: BTreeMap<u64, Session>,
    next_session: u64,
    contexts: BTreeMap<u16, Context>,
    /// What peers have said of contexts, by node and context.
    peer_contexts: BTreeMap<(u16, u16), PeerContext>,
    /// Linked nodes and the session of the link; this node is linked to itself by no session.
    peers: BTreeMap<u16, u64>,
    /// Client numbers in use.
    clients: Vec<bool>,
    retry: Duration,
    retry_at: Instant,
}

impl Control {
    /// Listens, and links the node to itself.
    pub fn new(
        rack: &Rack,
        nid: u16,
        nodes: u16,
        bell: Arc<Bell>,
        worker: Handle,
    ) -> Result<Control> {
        let path = rack.socket_path(nid);
        let failed = |e| Error::io(format!("cannot listen at {}", path.display()), e);
        let listener = transport::listen(&path).map_err(failed)?;
        // Who may join a context is decided by the context's file, not by the socket.
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, everyone).map_err(failed)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let memory = Arc::new(link::create_memory().map_err(failed)?);
        let to_self = Box::new(Link::new(memory, Side::Loop, None));
        worker.call(Command::SetLink(nid, Some(to_self)));
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
            contexts: BTreeMap::new(),
            peer_contexts: BTreeMap::new(),
            peers: BTreeMap::new(),
            clients: Vec::new(),
            retry: FIRST_RETRY,
            retry_at: Instant::now(),
        })
    }

    /// Serves until a signal comes, then retires this node's segments.
    pub fn run(mut self, signals: BorrowedFd<'_>) -> Result<()> {
        tracing::info!(nid = self.nid, nodes = self.nodes, "up");
        let result = self.serve_all(signals);
        self.retire_own_segments();
        let _ = std::fs::remove_file(self.rack.socket_path(self.nid));
        tracing::info!(nid = self.nid, "down");
        result
    }

    fn serve_all(&mut self, signals: BorrowedFd<'_>) -> Result<()> {
        let failed = |e: rustix::io::Errno| Error::io("epoll", e.into());
        let data = epoll::EventData::new_u64;
        epoll::add(&self.epoll, &self.listener, data(LISTENER), epoll::EventFlags::IN)
            .map_err(failed)?;
        epoll::add(&self.epoll, signals, data(SIGNALS), epoll::EventFlags::IN).map_err(failed)?;
        let mut events = Vec::with_capacity(64);
        loop {
            let timeout = self.reach_lower_nodes();
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
                    session => self.serve(session),
                }
            }
        }
    }

    /// Members on this node learn from their own segment that the node has left.
    fn retire_own_segments(&self) {
        for context in self.contexts.values() {
            context.segment.retire(State::Lost);
        }
    }

    // Connections ------------------------------------------------------------------------------

    fn accept_all(&mut self) {
        loop {
            match transport::accept(self.listener.as_fd()) {
                Ok(channel) => {
                    self.add_session(channel, Role::Unknown);
                    if self.visitors().count() > MAX_VISITORS {
                        self.end_oldest_visitor();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(nid = self.nid, %error, "cannot accept a connection");
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

    fn add_session(&mut self, channel: Channel, role: Role) -> Option<u64> {
        let credentials = channel.peer().ok()?;
        let id = self.next_session;
        let data = epoll::EventData::new_u64(id);
        epoll::add(&self.epoll, &channel, data, epoll::EventFlags::IN).ok()?;
        let (pid, uid) = (credentials.pid, credentials.uid);
        self.sessions.insert(id, Session { channel, pid, uid, role, closed: false });
        self.next_session += 1;
        Some(id)
    }

    /// Takes one message of a connection, or its end.
    fn serve(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let result = match session.role {
            Role::Linking(..) => session.channel.receive().map(|got| self.linked(id, got)),
            Role::Peer(_) => session.channel.receive().map(|got| self.hear_peer(id, got)),
            _ => session.channel.receive().map(|got| self.answer(id, got)),
        };
        match result {
            Ok(true) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(false) => self.end(id),
            Err(error) => {
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    tracing::warn!(nid = self.nid, session = id, %error, "connection dropped");
                }
                self.end(id);
            }
        }
    }

    fn end(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else { return };
        match session.role {
            Role::Member(member) => self.leave(*member, session.closed),
            Role::Peer(nid) if self.peers.get(&nid) == Some(&id) => self.lose_peer(nid),
            _ => {}
        }
    }

    // Clients ----------------------------------------------------------------------------------

    /// Answers a client's request; `false` ends the connection.
    fn answer(&mut self, id: u64, got: Received<Request>) -> bool {
        let mut fds = got.fds.into_iter();
        let result = match got.message {
            Request::Hello { version } => self.hello(id, version),
            Request::Open { ctx_id, segment_bytes } => {
                self.open(id, ctx_id, segment_bytes, fds.next())
            }
            Request::CreateQp { entries, progress } => self.create_qp(id, entries, progress),
            Request::DestroyQp { qp } => self.destroy_qp(id, qp),
            Request::CreateBuffer { size_bytes } => self.create_buffer(id, size_bytes),
            Request::PlaceBuffer { buffer, address } => self.place(id, address, |member| {
                member.buffers.get(buffer as usize).cloned().map(Backing::Buffer)
            }),
            Request::PlaceQp { qp, address } => self.place(id, address, |member| {
                member.qps.get(&qp).map(|record| Backing::Queue(record.memory.clone()))
            }),
            Request::PlaceSegment { address } => {
                self.place(id, address, |member| Some(Backing::Segment(member.segment.clone())))
            }
            Request::Peer { nid } => self.peer_segment(id, nid),
            Request::Close => self.close(id),
            Request::Status => Ok((Response::Status(Box::new(self.status())), Vec::new())),
            Request::Link { version, nid } => return self.accept_link(id, version, nid, fds),
            Request::ContextUp { .. } | Request::ContextDown { .. } => {
                Err((libc::EPROTO, "only daemons with a link say this".to_owned()))
            }
        };
        let (response, fds) = result
            .unwrap_or_else(|(errno, message)| (Response::Error { errno, message }, Vec::new()));
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.sessions.get(&id).is_some_and(|s| s.channel.send(&response, &fds).is_ok())
    }

    fn session(&mut self, id: u64) -> &mut Session {
        self.sessions.get_mut(&id).expect("sessions end after their last message")
    }

    fn member(&mut self, id: u64) -> std::result::Result<&mut Member, Refusal> {
        match &mut self.session(id).role {
            Role::Member(member) => Ok(member),
            _ => Err((libc::ENOTCONN, "join a context first".to_owned())),
        }
    }

    fn hello(&mut self, id: u64, version: u32) -> Answer {
        if version != PROTOCOL_VERSION {
            return Err((
                libc::EPROTO,
                format!(
                    "the program speaks version {version} of the protocol, the daemon version \
                     {PROTOCOL_VERSION}: rebuild the program or restart the rack"
                ),
            ));
        }
        if matches!(self.session(id).role, Role::Unknown) {
            self.session(id).role = Role::Client;
        }
        Ok((Response::Welcome { nid: self.nid, nodes: self.nodes }, self.bell_fds()?))
    }

    fn bell_fds(&self) -> std::result::Result<Vec<OwnedFd>, Refusal> {
        let event = self.bell.event_fd().try_clone_to_owned().map_err(refuse("bell"))?;
        Ok(vec![self.bell.flag_fd().map_err(refuse("bell"))?, event])
    }

    fn open(&mut self, id: u64, ctx_id: u16, segment_bytes: u64, fd: Option<OwnedFd>) -> Answer {
        if !matches!(self.session(id).role, Role::Client) {
            return Err((libc::EBUSY, "say hello first, and join once per connection".to_owned()));
        }
        if usize::from(ctx_id) >= MAX_CONTEXTS {
            let message = format!("context {ctx_id} is out of range: 0 to {}", MAX_CONTEXTS - 1);
            return Err((libc::ENOENT, message));
        }
        let (rights, incarnation) = self.check_right(ctx_id, fd)?;
        let client = self.claim_client()?;
        let segment = match self.join(ctx_id, incarnation, segment_bytes) {
            Ok(segment) => segment,
            Err(refusal) => {
                self.clients[client] = false;
                return Err(refusal);
            }
        };
        let owner = Owner::new(self.nid, client as u16);
        let pid = self.session(id).pid;
        // The memory of another user's process stays out of reach: its number could have passed to
        // a process that never connected, or it could have gained rights that its user lacks.
        let is_own = self.session(id).uid == rustix::process::geteuid();
        let local = LocalTable::new(if is_own { Foreign::open(pid) } else { None });
        self.worker.call(Command::AddClient(client, owner, local));
        // If this fails the client is a member all the same, until it hangs up.
        let fd = clone_fd(segment.mapping());
        self.session(id).role = Role::Member(Box::new(Member {
            id: client,
            owner,
            ctx_id,
            incarnation,
            rights,
            segment,
            qps: BTreeMap::new(),
            buffers: Vec::new(),
            qps_made: 0,
            placed: 0,
        }));
        let read_only = rights == Rights::ReadOnly;
        Ok((Response::Opened { owner: owner.token(), read_only }, vec![fd?]))
    }

    /// The open file of the context is the proof: the kernel checked the permissions. Its contents
    /// tell which context of this number it is.
    fn check_right(
        &self,
        ctx_id: u16,
        fd: Option<OwnedFd>,
    ) -> std::result::Result<(Rights, u64), Refusal> {
        let denied = || {
            (libc::EACCES, format!("no permission to join context {ctx_id}: send its open file"))
        };
        let fd = fd.ok_or_else(denied)?;
        let path = self.rack.context_path(ctx_id);
        let expected = rustix::fs::stat(&path)
            .map_err(|_| (libc::ENOENT, format!("there is no context {ctx_id}")))?;
        let shown = rustix::fs::fstat(&fd).map_err(|_| denied())?;
        if (shown.st_dev, shown.st_ino) != (expected.st_dev, expected.st_ino) {
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
        Ok((rights, rack::incarnation_of(&fd)))
    }

    fn claim_client(&mut self) -> std::result::Result<usize, Refusal> {
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
    fn join(
        &mut self,
        ctx_id: u16,
        incarnation: u64,
        segment_bytes: u64,
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
        if segment_bytes > rackmem_abi::MAX_OFFSET {
            let message = format!("a segment of {segment_bytes} bytes; offsets reach 1 TiB");
            return Err((libc::EFBIG, message));
        }
        let segment = Segment::create(self.nid, ctx_id, segment_bytes)
            .map_err(refuse("cannot make the segment"))?;
        let segment = Arc::new(segment);
        let (nid, installed) = (self.nid, Ok(segment.clone()));
        self.worker.call(Command::SetSegment { nid, ctx_id, segment: installed });
        let context = Context { incarnation, segment: segment.clone(), members: 1 };
        for session in self.peers.values() {
            announce(&self.sessions, *session, ctx_id, &context);
        }
        self.contexts.insert(ctx_id, context);
        tracing::info!(nid, ctx_id, segment_bytes, "context joined");
        Ok(segment)
    }

    fn create_qp(&mut self, id: u64, entries: u32, progress: Progress) -> Answer {
        let range = 2..=MAX_WQ_SIZE as u32;
        if !entries.is_power_of_two() || !range.contains(&entries) {
            let message = format!("{entries} entries: a power of two from 2 to {MAX_WQ_SIZE}");
            return Err((libc::EINVAL, message));
        }
        let nid = self.nid;
        if progress == Progress::Packet && self.packet_qps() >= MAX_QPS {
            return Err((libc::ENOSPC, format!("node {nid} has {MAX_QPS} queue pairs by packets")));
        }
        let member = self.member(id)?;
        if member.qps.len() >= MAX_QPS_PER_CLIENT {
            let message = format!("a member has at most {MAX_QPS_PER_CLIENT} queue pairs");
            return Err((libc::ENOSPC, message));
        }
        let memory = QueueMemory::create(&format!("rackmem-qp-{nid}"))
            .map_err(refuse("cannot make the queues"))?;
        let memory = Arc::new(memory);
        let config = QpConfig { ctx_id: member.ctx_id, size: entries, rights: member.rights };
        let qp = member.qps_made;
        member.qps_made += 1;
        let client = member.id;
        let fd = clone_fd(memory.mapping())?;
        member.qps.insert(qp, QpRecord { memory: memory.clone(), progress, entries });
        if progress != Progress::Inline {
            let by_packets = progress == Progress::Packet;
            self.worker.call(Command::AddQp(NewQp { client, memory, config, by_packets }));
        }
        Ok((Response::Qp { qp }, vec![fd]))
    }

    fn packet_qps(&self) -> usize {
        let members = self.sessions.values().filter_map(|session| match &session.role {
            Role::Member(member) => Some(member),
            _ => None,
        });
        let qps = members.flat_map(|member| member.qps.values());
        qps.filter(|record| record.progress == Progress::Packet).count()
    }

    fn destroy_qp(&mut self, id: u64, qp: u32) -> Answer {
        let member = self.member(id)?;
        let record = member.qps.remove(&qp).ok_or_else(|| unknown("queue pair", qp))?;
        let client = member.id;
        self.worker.call(Command::RemoveQp(client, record.memory));
        Ok((Response::Done, Vec::new()))
    }

    fn create_buffer(&mut self, id: u64, size_bytes: u64) -> Answer {
        if size_bytes == 0 || size_bytes > MAX_BUFFER_BYTES {
            let message = format!("a buffer of {size_bytes} bytes: 1 to {MAX_BUFFER_BYTES}");
            return Err((libc::EINVAL, message));
        }
        let member = self.member(id)?;
        if member.buffers.len() >= MAX_BUFFERS {
            let message = format!("a member has at most {MAX_BUFFERS} buffers: make larger ones");
            return Err((libc::ENOSPC, message));
        }
        // All are mapped here, where addresses are scarcer than they seem.
        let there: u64 = member.buffers.iter().map(|buffer| buffer.len() as u64).sum();
        if there > MAX_BUFFER_BYTES - size_bytes {
            let message = format!("a member has at most {MAX_BUFFER_BYTES} bytes of buffers");
            return Err((libc::ENOSPC, message));
        }
        let mapping = Mapping::create("rackmem-buffer", size_bytes as usize)
            .map_err(refuse("cannot make the buffer"))?;
        let fd = clone_fd(&mapping)?;
        member.buffers.push(Arc::new(mapping));
        Ok((Response::Buffer { buffer: member.buffers.len() as u32 - 1 }, vec![fd]))
    }

    fn place(
        &mut self,
        id: u64,
        address: u64,
        find: impl FnOnce(&Member) -> Option<Backing>,
    ) -> Answer {
        let member = self.member(id)?;
        let backing = find(member).ok_or_else(|| unknown("memory", 0))?;
        member.placed += 1;
        // Queue pairs come and go, so the count is generous; it only has to be bounded.
        if member.placed > 100 * (MAX_BUFFERS + MAX_QPS_PER_CLIENT) {
            return Err((libc::ENOSPC, "too much memory placed".to_owned()));
        }
        let client = member.id;
        self.worker.call(Command::Place(client, address, backing));
        Ok((Response::Done, Vec::new()))
    }

    fn peer_segment(&mut self, id: u64, nid: u16) -> Answer {
        let member = self.member(id)?;
        let (ctx_id, rights, incarnation) = (member.ctx_id, member.rights, member.incarnation);
        let own = member.segment.clone();
        let state = |state| Ok((Response::Peer { state }, Vec::new()));
        if nid >= self.nodes {
            return state(PeerState::NoNode);
        }
        let known = self.peer_contexts.get(&(nid, ctx_id));
        let known = known.filter(|context| context.incarnation == incarnation);
        let segment = match known.map(|context| &context.segment) {
            _ if nid == self.nid => own,
            Some(PeerSegment::Present(segment)) => segment.clone(),
            Some(PeerSegment::Left) => return state(PeerState::Left),
            Some(PeerSegment::Lost) => return state(PeerState::Lost),
            None if !self.peers.contains_key(&nid) => return state(PeerState::Lost),
            None => return state(PeerState::Absent),
        };
        let fd = match rights {
            Rights::ReadWrite => clone_fd(segment.mapping())?,
            Rights::ReadOnly => segment.mapping().read_only_fd().map_err(refuse("segment"))?,
        };
        Ok((Response::Peer { state: PeerState::Present }, vec![fd]))
    }

    fn close(&mut self, id: u64) -> Answer {
        self.session(id).closed = true;
        if let Role::Member(member) = std::mem::replace(&mut self.session(id).role, Role::Client) {
            self.leave(*member, true);
        }
        Ok((Response::Done, Vec::new()))
    }

    /// A member is gone: of its own will or not.
    fn leave(&mut self, member: Member, closed: bool) {
        self.worker.call(Command::RemoveClient(member.id));
        self.clients[member.id] = false;
        let ctx_id = member.ctx_id;
        for segment in self.present_segments(ctx_id).chain([&member.segment]) {
            segment.release_locks(|owner| owner == member.owner);
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
    fn present_segments(&self, ctx_id: u16) -> impl Iterator<Item = &Arc<Segment>> {
        let of_context = self.peer_contexts.iter().filter(move |((_, ctx), _)| *ctx == ctx_id);
        of_context.filter_map(|(_, context)| match &context.segment {
            PeerSegment::Present(segment) => Some(segment),
            _ => None,
        })
    }

    /// This node has no members in a context any more.
    fn give_up_context(&mut self, ctx_id: u16, closed: bool) {
        let Some(context) = self.contexts.remove(&ctx_id) else { return };
        context.segment.retire(if closed { State::Closed } else { State::Lost });
        let why = if closed { Status::NoContext } else { Status::NodeLost };
        self.worker.call(Command::SetSegment { nid: self.nid, ctx_id, segment: Err(why) });
        for session in self.peers.values().filter_map(|id| self.sessions.get(id)) {
            tell(session, &Request::ContextDown { ctx_id, lost: !closed }, &[]);
        }
        tracing::info!(nid = self.nid, ctx_id, lost = !closed, "context left");
    }

    // Links ------------------------------------------------------------------------------------

    /// Nodes link to those with lower numbers; returns when to try again, if any is missing.
    fn reach_lower_nodes(&mut self) -> Option<rustix::event::Timespec> {
        let missing = |this: &Self| {
            let linking = |nid| {
                this.sessions.values().any(|s| matches!(s.role, Role::Linking(n, _) if n == nid))
            };
            (0..this.nid).filter(|nid| !this.peers.contains_key(nid) && !linking(*nid)).collect()
        };
        let lower: Vec<u16> = missing(self);
        if lower.is_empty() {
            self.retry = FIRST_RETRY;
            return None;
        }
        let now = Instant::now();
        if now >= self.retry_at {
            for nid in lower {
                if let Err(error) = self.reach(nid) {
                    tracing::debug!(nid = self.nid, peer = nid, %error, "peer not there");
                }
            }
            self.retry_at = now + self.retry;
            self.retry = (self.retry * 2).min(LAST_RETRY);
        }
        let wait = self.retry_at.saturating_duration_since(now);
        rustix::event::Timespec::try_from(wait.max(Duration::from_millis(1))).ok()
    }

    fn reach(&mut self, nid: u16) -> io::Result<()> {
        let channel = Channel::connect(&self.rack.socket_path(nid))?;
        channel.set_nonblocking()?;
        let memory = Arc::new(link::create_memory()?);
        let flag = self.bell.flag_fd()?;
        let request = Request::Link { version: PROTOCOL_VERSION, nid: self.nid };
        channel.send(&request, &[memory.fd(), flag.as_fd(), self.bell.event_fd()])?;
        self.add_session(channel, Role::Linking(nid, memory));
        Ok(())
    }

    /// A daemon with a higher number asks for a link.
    fn accept_link(
        &mut self,
        id: u64,
        version: u32,
        nid: u16,
        mut fds: impl Iterator<Item = OwnedFd>,
    ) -> bool {
        let session = self.session(id);
        let uid = rustix::process::getuid();
        // Links carry every context, so only our own kind may make one; and it says nothing before.
        let trusted = session.uid == uid || session.uid.is_root();
        let is_first = matches!(session.role, Role::Unknown);
        let fits = is_first && version == PROTOCOL_VERSION && nid > self.nid && nid < self.nodes;
        let (Some(memory), Some(flag), Some(event)) = (fds.next(), fds.next(), fds.next()) else {
            return false;
        };
        if !trusted || !fits {
            tracing::warn!(nid = self.nid, peer = nid, version, "link refused");
            return false;
        }
        let (Ok(memory), Ok(bell)) = (link::open_memory(memory), Bell::open(flag, event)) else {
            return false;
        };
        let Ok(bell_fds) = self.bell_fds() else { return false };
        let fds: Vec<BorrowedFd<'_>> = bell_fds.iter().map(AsFd::as_fd).collect();
        let welcome = Response::Welcome { nid: self.nid, nodes: self.nodes };
        if self.session(id).channel.send(&welcome, &fds).is_err() {
            return false;
        }
        self.add_peer(id, nid, Link::new(Arc::new(memory), Side::Other, Some(bell)));
        true
    }

    /// The lower daemon has answered our request for a link.
    fn linked(&mut self, id: u64, got: Received<Response>) -> bool {
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
                self.add_peer(id, nid, Link::new(memory, Side::Maker, Some(bell)));
                true
            }
            _ => false,
        }
    }

    fn add_peer(&mut self, id: u64, nid: u16, link: Link) {
        if let Some(old) = self.peers.get(&nid).copied() {
            // It restarted before we noticed that it was gone.
            self.lose_peer(nid);
            self.sessions.remove(&old);
        }
        self.peer_contexts.retain(|(peer, _), _| *peer != nid);
        self.session(id).role = Role::Peer(nid);
        self.peers.insert(nid, id);
        self.worker.call(Command::SetLink(nid, Some(Box::new(link))));
        for (ctx_id, context) in &self.contexts {
            announce(&self.sessions, id, *ctx_id, context);
        }
        tracing::info!(nid = self.nid, peer = nid, "link up");
    }

    /// Takes what a linked daemon says; `false` ends the link.
    fn hear_peer(&mut self, id: u64, got: Received<Request>) -> bool {
        let Role::Peer(nid) = self.session(id).role else { return false };
        match got.message {
            Request::ContextUp { ctx_id, incarnation } => {
                let Some(fd) = got.fds.into_iter().next() else { return false };
                let Ok(segment) = Segment::open(fd, crate::shm::mapping::Access::ReadWrite) else {
                    return false;
                };
                let segment = Arc::new(segment);
                let present = PeerSegment::Present(segment.clone());
                let context = PeerContext { incarnation, segment: present };
                self.peer_contexts.insert((nid, ctx_id), context);
                self.worker.call(Command::SetSegment { nid, ctx_id, segment: Ok(segment) });
                true
            }
            Request::ContextDown { ctx_id, lost } => {
                if let Some(context) = self.peer_contexts.get_mut(&(nid, ctx_id)) {
                    context.segment = if lost { PeerSegment::Lost } else { PeerSegment::Left };
                }
                // The segment itself says closed or lost; the worker keeps it to answer so.
                self.shake_members(ctx_id);
                true
            }
            _ => false,
        }
    }

    fn lose_peer(&mut self, nid: u16) {
        tracing::warn!(nid = self.nid, peer = nid, "link lost");
        self.peers.remove(&nid);
        self.retry_at = Instant::now();
        let of_peer = |owner: Owner| owner.token() >> 12 == u32::from(nid);
        for ((peer, _), context) in &mut self.peer_contexts {
            let PeerSegment::Present(segment) = &context.segment else { continue };
            if *peer == nid {
                segment.retire(State::Lost);
                context.segment = PeerSegment::Lost;
            } else {
                segment.release_locks(of_peer);
            }
        }
        self.worker.call(Command::SetLink(nid, None));
        for context in self.contexts.values() {
            context.segment.release_locks(of_peer);
            context.segment.shake();
        }
    }

    /// Lets members that sleep in a context look again at who is there.
    fn shake_members(&self, ctx_id: u16) {
        if let Some(context) = self.contexts.get(&ctx_id) {
            context.segment.shake();
        }
    }

    // Status -----------------------------------------------------------------------------------

    fn status(&self) -> NodeStatus {
        let (reply, stats) = std::sync::mpsc::channel();
        self.worker.call(Command::Report(reply));
        let stats = stats.recv().unwrap_or_default();
        let contexts = self.contexts.iter().map(|(ctx_id, context)| ContextStatus {
            ctx_id: *ctx_id,
            segment_bytes: context.segment.size_bytes(),
            clients: context.members,
        });
        NodeStatus {
            nid: self.nid,
            nodes: self.nodes,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            peers_up: self.peers.keys().copied().collect(),
            contexts: contexts.collect(),
            qps: self.sessions.values().flat_map(qp_statuses).take(MAX_STATUS_QPS).collect(),
            served_packets: stats.served,
            served_bytes: stats.served_bytes,
        }
    }
}

/// Queue pairs that a status lists, so that it fits a message.
const MAX_STATUS_QPS: usize = 256;

type Answer = std::result::Result<(Response, Vec<OwnedFd>), Refusal>;

fn refuse(what: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |error| {
        let error = Error::io(what, error);
        (error.errno(), error.to_string())
    }
}

fn unknown(what: &str, number: u32) -> Refusal {
    (libc::EINVAL, format!("this connection has no {what} {number}"))
}

fn clone_fd(mapping: &Mapping) -> std::result::Result<OwnedFd, Refusal> {
    mapping.fd().try_clone_to_owned().map_err(refuse("cannot hand over memory"))
}

/// Tells a peer of a segment.
fn announce(sessions: &BTreeMap<u64, Session>, id: u64, ctx_id: u16, context: &Context) {
    if let Some(session) = sessions.get(&id) {
        let request = Request::ContextUp { ctx_id, incarnation: context.incarnation };
        tell(session, &request, &[context.segment.mapping().fd()]);
    }
}

/// Tells a peer something. One that does not read would have a wrong picture for ever: the link
/// ends, and the next one starts with everything that is true then.
fn tell(session: &Session, request: &Request, fds: &[BorrowedFd<'_>]) {
    if let Err(error) = session.channel.send(request, fds) {
        tracing::warn!(%error, "a peer does not listen: its link ends");
        session.channel.hang_up();
    }
}

fn qp_statuses(session: &Session) -> Vec<QpStatus> {
    let Role::Member(member) = &session.role else { return Vec::new() };
    let pid = session.pid.as_raw_nonzero().get() as u32;
    let status = |(qp, record): (&u32, &QpRecord)| {
        use std::sync::atomic::Ordering::Relaxed;
        let counters = record.memory.counters();
        QpStatus {
            pid,
            qp: *qp,
            ctx_id: member.ctx_id,
            progress: record.progress,
            entries: record.entries,
            ops: counters.ops.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            errors: counters.errors.load(Relaxed),
            outstanding: counters.outstanding.load(Relaxed),
        }
    };
    member.qps.iter().map(status).collect()
}
