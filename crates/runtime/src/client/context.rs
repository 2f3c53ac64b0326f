use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rackmem_abi::Status;
use rackmem_rmc::Rights;

use super::membership::{LIVENESS_INTERVAL, Membership, Unmapped};
use super::options::JOIN_TIMEOUT;
use super::{
    LocalBuffer, OpenOptions, OwnSegment, QueuePair, RawQueuePair, buffer_bytes, interrupt,
    registered,
};
use crate::control::{self, Connection, unexpected};
use crate::error::{Error, Result};
use crate::protocol::{PeerState, Progress, Request, Response};
use crate::rack::Rack;
use crate::shm::bell::Bell;
use crate::shm::line_lock::Owner;
use crate::shm::mapping::{Access, Mapping};
use crate::shm::segment::{Segment, State};
use crate::shm::sleep::{self, Bed};

/// Between two questions whether a node has joined.
const JOIN_POLL: Duration = Duration::from_millis(2);

/// Between two questions whether the daemon of a node that has not joined is well.
const DAEMON_POLL: Duration = Duration::from_millis(250);

/// Time that the daemon gets to link to another host.
const LINK_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which a read-only member polls; it cannot sleep on a bed that it may not write.
const READER_NAP: Duration = Duration::from_millis(1);

/// Membership in a context: this node's segment, and the way to those of the others.
///
/// Leaving (dropping all handles) makes the peers' operations on this node fail with
/// [`Status::NoContext`].
#[derive(Clone, Debug)]
pub struct Context {
    membership: Arc<Membership>,
    /// Nodes that take part.
    nodes: u16,
    progress: Progress,
    spin_polls: u32,
}

impl Context {
    /// Joins a context, without waiting for others.
    ///
    /// # Errors
    /// No such rack, node or context; no permission; the segment does not fit the machine.
    pub fn open(options: &OpenOptions) -> Result<Context> {
        sleep::register_process().map_err(|e| Error::io("the kernel lacks membarrier", e))?;
        let file = options.rack.open_context(options.ctx_id, options.read_only)?;
        let (connection, rack_nodes) = Connection::open(&options.rack, options.nid)?;
        let nodes = options.nodes.unwrap_or(rack_nodes);
        if nodes == 0 || nodes > rack_nodes || options.nid >= nodes {
            return Err(Error::invalid(format!(
                "node {} of {nodes}: rack '{}' has {rack_nodes} nodes",
                options.nid,
                options.rack.name()
            )));
        }
        allow_daemon_to_reach_us(&connection);
        let (ctx_id, segment_bytes) = (options.ctx_id, options.segment_bytes);
        let request = Request::Open { ctx_id, segment_bytes, shared: options.shared };
        let opened = connection.call(&request, Some(&file.into()))?;
        let Response::Opened { owner, read_only } = opened.message else {
            return Err(unexpected(&opened.message));
        };
        let mut fds = opened.fds.into_iter();
        let (Some(fd), Some(flag), Some(event)) = (fds.next(), fds.next(), fds.next()) else {
            return Err(Error::new(libc::EPROTO, "the daemon sent no segment and bell"));
        };
        let bell = Bell::open(flag, event).map_err(|e| Error::io("cannot map the bell", e))?;
        let access = if read_only { Access::Read } else { Access::ReadWrite };
        let segment =
            Segment::open(fd, access).map_err(|e| Error::io("cannot map the segment", e))?;
        let membership = Membership {
            rack: options.rack.clone(),
            rack_nodes,
            over_hosts: connection.over_hosts(),
            nid: options.nid,
            ctx_id,
            rights: if read_only { Rights::ReadOnly } else { Rights::ReadWrite },
            owner: Owner::from_token(owner),
            bell,
            segment: Arc::new(segment),
            connection: Mutex::new(connection),
            process: std::process::id(),
            peers: Mutex::new(vec![None; usize::from(rack_nodes)]),
            remote: Mutex::new(vec![None; usize::from(rack_nodes)]),
            pinned: Mutex::default(),
            buffers: Mutex::default(),
        };
        if !membership.is_all_inline(options.progress) && !read_only {
            let address = membership.segment.data() as u64;
            membership.call(&Request::PlaceSegment { address })?;
        }
        Ok(Context {
            membership: Arc::new(membership),
            nodes,
            progress: options.progress,
            spin_polls: spin_polls(nodes),
        })
    }

    /// Joins, and waits until all nodes that take part have joined.
    ///
    /// # Errors
    /// As [`Context::open`], as [`Context::wait_joined`], or a node does not join within a minute.
    pub fn open_all(options: &OpenOptions) -> Result<Context> {
        let context = Context::open(options)?;
        let deadline = Instant::now() + JOIN_TIMEOUT;
        for nid in 0..context.nodes {
            context.wait_joined(nid, Some(deadline))?;
        }
        Ok(context)
    }

    /// Waits until a node has joined.
    ///
    /// # Errors
    /// The deadline passes, or the rack has no such node. At once if a process has joined as the node
    /// and died: a new one may join later. Within two seconds if the node's daemon is gone or stopped, or
    /// if there is no link to its host.
    pub fn wait_joined(&self, nid: u16, deadline: Option<Instant>) -> Result<()> {
        if nid >= self.membership.rack_nodes {
            return Err(Status::NoNode.into());
        }
        let ctx_id = self.membership.ctx_id;
        let mut absence = Absence::new(nid, self.nid());
        loop {
            let missing = match self.membership.find_peer(nid) {
                // A node that was quick may be gone again.
                Ok(_) | Err(Unmapped { state: PeerState::Left | PeerState::Remote, .. }) => {
                    return Ok(());
                }
                Err(missing) => missing,
            };
            if self.membership.connection().is_hung_up() {
                return Err(Error::daemon_gone(self.nid()));
            }
            if missing.state == PeerState::Died {
                let message = format!(
                    "node {nid} joined context {ctx_id}, and its process ended without leaving it (rackmem_close)"
                );
                return Err(Error::new(libc::EHOSTDOWN, message));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let message = format!(
                    "timed out waiting for node {nid}: no process joined context {ctx_id} as it"
                );
                return Err(Error::new(libc::ETIMEDOUT, message));
            }
            absence.look(missing, &self.membership.rack)?;
            std::thread::sleep(interrupt::ask(JOIN_POLL)?);
        }
    }

    /// The way by which operations of its queue pairs progress.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// This node.
    pub fn nid(&self) -> u16 {
        self.membership.nid
    }

    /// Nodes that take part: 0 to one less.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Size of this node's segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.membership.segment.size_bytes()
    }

    /// First byte of this node's segment, which other nodes may change at any time. A member that
    /// joined for reading only must not write it.
    pub fn segment_data(&self) -> *mut u8 {
        self.membership.segment.data()
    }

    /// This node's segment as memory that stays mapped while the result lives, also after this process has left.
    pub fn own_segment(&self) -> OwnSegment {
        OwnSegment(self.membership.segment.clone())
    }

    /// Nodes of the rack, also those that do not take part: 0 to one less.
    pub fn rack_nodes(&self) -> u16 {
        self.membership.rack_nodes
    }

    /// Whether this process joined for remote reads only.
    pub fn is_read_only(&self) -> bool {
        self.membership.rights == Rights::ReadOnly
    }

    /// A node's segment as memory of this process, which it stays for as long as the context.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the way of progress or the rights do not allow it; the node is not there.
    pub(crate) fn map_segment(&self, nid: u16) -> Result<Arc<Segment>> {
        if nid >= self.membership.rack_nodes {
            return Err(Status::NoNode.into());
        }
        let is_own = nid == self.nid();
        if self.membership.rights == Rights::ReadOnly
            || (!is_own && self.progress != Progress::Inline)
        {
            let message = format!("the segment of node {nid} is reached by queue pairs only");
            return Err(Error::new(libc::EOPNOTSUPP, message));
        }
        if is_own {
            return Ok(self.membership.segment.clone());
        }
        let segment = match self.membership.find_peer(nid) {
            Err(Unmapped { state: PeerState::Remote, .. }) => {
                let message = format!(
                    "node {nid} is on another host: its segment cannot be mapped, use a queue pair"
                );
                return Err(Error::new(libc::EOPNOTSUPP, message));
            }
            Err(missing) => return Err(missing.status().into()),
            Ok(segment) => segment,
        };
        if segment.state() != State::Live {
            return Err(Status::NodeLost.into());
        }
        self.membership.pin(&segment);
        Ok(segment)
    }

    /// 8 bytes of this node's segment, to poll and (unless joined for reading only) to change:
    /// atomic against remote operations.
    ///
    /// # Errors
    /// `OutOfSegment`; `MisalignedAtomic` if `offset` is no multiple of 8.
    pub fn word(&self, offset: u64) -> std::result::Result<&AtomicU64, Status> {
        self.check_own(offset, 8)?;
        if offset % 8 != 0 {
            return Err(Status::MisalignedAtomic);
        }
        // SAFETY: the word lies in the mapped segment, which lives as long as `self`.
        Ok(unsafe { &*self.segment_data().add(offset as usize).cast::<AtomicU64>() })
    }

    /// Copies out of this node's segment; lines may be torn by a concurrent remote write unless
    /// read through a queue pair.
    ///
    /// # Errors
    /// `OutOfSegment`
    pub fn read_own(&self, offset: u64, out: &mut [u8]) -> std::result::Result<(), Status> {
        self.check_own(offset, out.len())?;
        // SAFETY: the range was checked.
        unsafe {
            let from = self.segment_data().add(offset as usize);
            crate::shm::copy::copy_out(out.as_mut_ptr(), from, out.len());
        }
        Ok(())
    }

    /// Copies into this node's segment.
    ///
    /// # Errors
    /// `OutOfSegment`; `NoPermission` if joined for reading only.
    pub fn write_own(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), Status> {
        self.check_own(offset, bytes.len())?;
        if self.membership.segment.access() == Access::Read {
            return Err(Status::NoPermission);
        }
        // SAFETY: the range was checked.
        unsafe {
            let to = self.segment_data().add(offset as usize);
            crate::shm::copy::copy_in(to, bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }

    fn check_own(&self, offset: u64, length: usize) -> std::result::Result<(), Status> {
        let bounds = rackmem_rmc::Bounds { size_bytes: self.segment_bytes() };
        bounds.check(offset, length as u64)
    }

    /// Makes a queue pair of `entries` entries: a power of two from 2 to `MAX_WQ_SIZE`.
    ///
    /// # Errors
    /// Another number, or the daemon is gone.
    pub fn queue_pair(&self, entries: u32) -> Result<QueuePair> {
        Ok(QueuePair::new(self.raw_queue_pair(entries)?))
    }

    pub(crate) fn raw_queue_pair(&self, entries: u32) -> Result<RawQueuePair> {
        RawQueuePair::create(&self.membership, entries, self.progress, self.spin_polls)
    }

    /// Makes zeroed memory for local buffers, whole pages.
    ///
    /// # Errors
    /// The machine has no room, or the daemon is gone.
    pub fn buffer(&self, size_bytes: usize) -> Result<LocalBuffer> {
        let size_bytes = buffer_bytes(size_bytes)?;
        let request = Request::CreateBuffer { size_bytes: size_bytes as u64 };
        let answer = self.membership.ask(&request)?;
        let (Response::Buffer { buffer }, Some(fd)) =
            (answer.message, answer.fds.into_iter().next())
        else {
            return Err(Error::new(libc::EPROTO, "the daemon sent no buffer"));
        };
        let mapping = Mapping::open(fd, size_bytes, Access::ReadWrite)
            .map_err(|e| Error::io("cannot map the buffer", e))?;
        let mapping = Arc::new(mapping);
        self.membership.keep(&mapping);
        self.place(buffer, mapping.base() as u64)?;
        registered::note(&self.membership, &mapping)?;
        Ok(LocalBuffer { mapping, number: buffer, membership: Arc::downgrade(&self.membership) })
    }

    /// Announces the address of buffer memory to the daemon. Inline progress does not need it.
    pub(crate) fn place(&self, buffer: u32, address: u64) -> Result<()> {
        self.membership.call(&Request::PlaceBuffer { buffer, address }).map(|_| ())
    }

    pub(crate) fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Whether a node, or this process's daemon, is there no more.
    pub(super) fn is_gone(&self, nid: u16) -> bool {
        self.membership.is_daemon_gone() || self.membership.is_peer_gone(nid)
    }

    /// How often a process of this context has died, as far as this node's daemon has learnt: see
    /// [`Segment::losses`](crate::shm::segment::Segment::losses).
    pub fn losses(&self) -> u64 {
        self.membership.segment.losses()
    }

    /// Notifications that this node has received in this context.
    pub fn notifications(&self) -> u64 {
        self.membership.segment.notifications()
    }

    /// Sleeps until the count of notifications differs from `seen`, and returns it.
    ///
    /// # Errors
    /// The deadline passes, or the daemon is gone.
    pub fn wait_notify(&self, seen: u64, deadline: Option<Instant>) -> Result<u64> {
        let bed = self.membership.segment.notification_bed();
        self.sleep_in(bed, &mut || self.notifications() != seen, None, deadline)?;
        Ok(self.notifications())
    }

    /// Sleeps until `ready()`, being woken by remote writes to this node's segment.
    ///
    /// # Errors
    /// `watch` (a node) or the daemon is gone, or the deadline passes. A node that the rack does not have is gone.
    pub fn sleep_until(
        &self,
        ready: &mut dyn FnMut() -> bool,
        watch: Option<u16>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        self.sleep_in(self.membership.segment.bed(), ready, watch, deadline)
    }

    fn sleep_in(
        &self,
        bed: &Bed,
        ready: &mut dyn FnMut() -> bool,
        watch: Option<u16>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let is_gone =
            |&nid: &u16| nid >= self.membership.rack_nodes || self.membership.is_peer_gone(nid);
        loop {
            if ready() {
                return Ok(());
            }
            if self.membership.is_daemon_gone() {
                return Err(Error::daemon_gone(self.nid()));
            }
            if let Some(nid) = watch.filter(is_gone) {
                // Writes that it made before it went still count.
                if ready() {
                    return Ok(());
                }
                let message = format!("node {nid} is gone while it was waited for");
                return Err(Error::new(libc::EHOSTDOWN, message));
            }
            let mut nap = interrupt::ask(LIVENESS_INTERVAL)?;
            if let Some(deadline) = deadline {
                nap = nap.min(deadline.saturating_duration_since(Instant::now()));
                if nap.is_zero() {
                    return Err(Error::new(
                        libc::ETIMEDOUT,
                        "timed out: what was waited for did not happen",
                    ));
                }
            }
            match self.membership.segment.access() {
                Access::ReadWrite => bed.sleep_unless(ready, nap),
                // A reader cannot ask to be woken, so it polls now and then.
                Access::Read => std::thread::sleep(nap.min(READER_NAP)),
            }
        }
    }
}

/// State of a node that has not joined: its daemon may be the missing part.
struct Absence {
    nid: u16,
    /// The node that waits for it.
    here: u16,
    /// Its daemon has answered, or was not asked yet.
    asked: Instant,
    /// Since when there is no link to its host.
    without_link: Option<Instant>,
}

impl Absence {
    fn new(nid: u16, here: u16) -> Absence {
        Absence { nid, here, asked: Instant::now(), without_link: None }
    }

    /// Fails if the node's daemon does not answer, or if there has been no link to its host for long. The sockets of
    /// other hosts are not in the rack's directory.
    fn look(&mut self, missing: Unmapped, rack: &Rack) -> Result<()> {
        if missing.is_remote {
            return self.look_at_link(missing.state, rack);
        }
        if self.asked.elapsed() >= DAEMON_POLL {
            Connection::open(rack, self.nid)?;
            self.asked = Instant::now();
        }
        Ok(())
    }

    fn look_at_link(&mut self, state: PeerState, rack: &Rack) -> Result<()> {
        if state != PeerState::Lost {
            self.without_link = None;
        } else if self.without_link.get_or_insert_with(Instant::now).elapsed() >= LINK_TIMEOUT {
            let links = control::status(rack, self.here).map(|status| status.links);
            let link = links.unwrap_or_default().into_iter().find(|link| link.nid == self.nid);
            let why = link.map(|link| link.why).filter(|why| !why.is_empty());
            let why = why.unwrap_or_else(|| "`rackmem status` shows why".to_owned());
            let nid = self.nid;
            let message =
                format!("there is no link to node {nid}, which is on another host: {why}");
            return Err(Error::new(libc::EHOSTUNREACH, message));
        }
        Ok(())
    }
}

/// The daemon reaches local buffers outside shared memory by system calls that Yama may forbid to
/// all but parents; a process may allow it for another.
fn allow_daemon_to_reach_us(connection: &Connection) {
    if let Some(pid) = connection.daemon_pid() {
        // SAFETY: prctl with integers only; failing (no Yama) is fine.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, pid as libc::c_ulong, 0, 0, 0) };
    }
}

/// Polls before sleeping: for about as long as falling asleep and waking up take where every node has a core of its
/// own, next to none where spinning keeps others from running. `$RACKMEM_SPIN_POLLS` overrides it.
fn spin_polls(nodes: u16) -> u32 {
    const ALONE: u32 = 50_000;
    const CROWDED: u32 = 500;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let default = if usize::from(nodes) <= cores { ALONE } else { CROWDED };
    let chosen = std::env::var("RACKMEM_SPIN_POLLS").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or(default)
}

// Threads of a program share a context; each makes queue pairs of its own.
const _: fn() = || {
    fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Context>();
};
