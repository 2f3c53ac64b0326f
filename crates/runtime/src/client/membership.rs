//! A process's membership in a context, and what it knows of the other nodes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rackmem_abi::Status;
use rackmem_rmc::Rights;

use super::registered;
use crate::control::Connection;
use crate::error::{Error, Result};
use crate::patience;
use crate::protocol::{PeerState, Progress, Request, Response};
use crate::rack::Rack;
use crate::shm::bell::Bell;
use crate::shm::line_lock::Owner;
use crate::shm::mapping::{Access, Mapping};
use crate::shm::segment::{Segment, State};
use crate::transport::Received;

/// Interval at which a waiter checks that its daemon and its peers live.
pub(super) const LIVENESS_INTERVAL: Duration = Duration::from_millis(50);

/// A process's membership in a context: one connection to its daemon, and the memory that came through it.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(super) rack: Rack,
    pub(crate) rack_nodes: u16,
    /// Nodes of the rack are on other hosts, and are reached through the daemon only.
    pub(super) over_hosts: bool,
    pub(crate) nid: u16,
    pub(crate) ctx_id: u16,
    pub(crate) rights: Rights,
    pub(crate) owner: Owner,
    pub(crate) bell: Bell,
    pub(crate) segment: Arc<Segment>,
    pub(super) connection: Mutex<Connection>,
    /// The process that has joined.
    pub(super) process: u32,
    pub(super) peers: Mutex<Vec<Option<Arc<Segment>>>>,
    /// Nodes on other hosts, as far as the daemon was asked.
    pub(super) remote: Mutex<Vec<Option<RemotePeer>>>,
    /// Segments whose addresses the program has: they stay mapped even if the node is lost.
    pub(super) pinned: Mutex<Vec<Arc<Segment>>>,
    /// Buffers that the daemon knows: it takes their addresses for them, so nothing else may come to lie there.
    pub(super) buffers: Mutex<Vec<Arc<Mapping>>>,
}

impl Membership {
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().expect("no call panics")
    }

    /// Asks the daemon. A child of `fork` may not: it would take answers that are its parent's, and close what is.
    pub(super) fn ask(&self, request: &Request) -> Result<Received<Response>> {
        if std::process::id() != self.process {
            let message =
                "the context belongs to the process that forked this one: open another one here";
            return Err(Error::new(libc::EPERM, message));
        }
        self.connection().call(request, None)
    }

    pub(crate) fn call(&self, request: &Request) -> Result<Response> {
        Ok(self.ask(request)?.message)
    }

    fn peers(&self) -> MutexGuard<'_, Vec<Option<Arc<Segment>>>> {
        self.peers.lock().expect("no holder panics")
    }

    /// Whether the program's threads do all that queue pairs of this progress have to do.
    pub(crate) fn is_all_inline(&self, progress: Progress) -> bool {
        progress == Progress::Inline && !self.over_hosts
    }

    /// The segment of a node, mapped when it is first needed.
    #[cold]
    pub(crate) fn map_peer(&self, nid: u16) -> std::result::Result<Arc<Segment>, Status> {
        self.find_peer(nid).map_err(Unmapped::status)
    }

    /// The segment of a node, or why it is not mapped.
    pub(super) fn find_peer(&self, nid: u16) -> std::result::Result<Arc<Segment>, Unmapped> {
        let index = usize::from(nid);
        let known = self.peers()[index].clone();
        if let Some(segment) = known.filter(|segment| segment.state() == State::Live) {
            return Ok(segment);
        }
        let answer = self.ask(&Request::Peer { nid });
        let Ok(answer) = answer else { return Err(Unmapped::LOST) };
        match (answer.message, answer.fds.into_iter().next()) {
            (Response::Peer { state: PeerState::Present, .. }, Some(fd)) => {
                let access = match self.rights {
                    Rights::ReadOnly => Access::Read,
                    Rights::ReadWrite => Access::ReadWrite,
                };
                let segment = Segment::open(fd, access).map_err(|_| Unmapped::LOST)?;
                let segment = Arc::new(segment);
                self.peers()[index] = Some(segment.clone());
                Ok(segment)
            }
            (Response::Peer { state, is_remote: true }, _) => {
                self.note_remote(nid, state);
                Err(Unmapped { state, is_remote: true })
            }
            (Response::Peer { state, is_remote }, _) => Err(Unmapped { state, is_remote }),
            _ => Err(Unmapped::LOST),
        }
    }

    /// Keeps a segment mapped for as long as the membership lasts.
    pub(super) fn pin(&self, segment: &Arc<Segment>) {
        let mut pinned = self.pinned.lock().expect("no holder panics");
        if !pinned.iter().any(|known| Arc::ptr_eq(known, segment)) {
            pinned.push(segment.clone());
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Arc<Mapping>>> {
        self.buffers.lock().expect("no holder panics")
    }

    /// Keeps a buffer mapped until the daemon has forgotten it, or the membership ends.
    pub(super) fn keep(&self, buffer: &Arc<Mapping>) {
        self.buffers().push(buffer.clone());
    }

    /// Gives up a buffer. If the daemon does not say that it has forgotten it, it stays mapped.
    pub(super) fn drop_buffer(&self, number: u32, buffer: &Arc<Mapping>) {
        if self.call(&Request::DropBuffer { buffer: number }).is_ok() {
            registered::forget(buffer);
            self.buffers().retain(|kept| !Arc::ptr_eq(kept, buffer));
        }
    }

    pub(crate) fn forget_peer(&self, peer: usize) {
        self.peers()[peer] = None;
    }

    pub(crate) fn is_daemon_gone(&self) -> bool {
        self.segment.state() != State::Live || self.connection().is_hung_up()
    }

    /// Whether the own daemon is stopped.
    pub(super) fn is_own_daemon_stopped(&self) -> bool {
        self.rack.daemon_pid(self.nid).is_some_and(|pid| patience::stopped(pid).is_some())
    }

    /// A daemon of the rack that is stopped, as a sentence for people.
    pub(crate) fn stopped_daemon(&self) -> Option<String> {
        (0..self.rack_nodes).find_map(|nid| {
            let stopped = patience::stopped(self.rack.daemon_pid(nid)?)?;
            Some(format!("the daemon of node {nid} {stopped}"))
        })
    }

    /// Whether a node that has joined is there no more. One that has not joined yet is not lost.
    pub(super) fn is_peer_gone(&self, nid: u16) -> bool {
        if let Some(Some(segment)) = self.peers().get(usize::from(nid)) {
            return segment.state() != State::Live;
        }
        if let Some(peer) = self.remote_peer(nid).filter(RemotePeer::is_recent) {
            return peer.is_gone();
        }
        // A call that is given up would end the membership.
        if self.is_own_daemon_stopped() {
            return false;
        }
        let missing = self.find_peer(nid).err();
        match missing.filter(|missing| missing.is_remote).and_then(|_| self.remote_peer(nid)) {
            Some(peer) => peer.is_gone(),
            None => missing.is_some_and(|missing| missing.state.is_lost()),
        }
    }

    /// Whether the own daemon has no link to a node of another host.
    pub(super) fn is_link_lost(&self, nid: u16) -> bool {
        let is_known = self.remote_peer(nid).is_some_and(|peer| peer.is_recent());
        // A call that is given up would end the membership.
        if !is_known && !self.is_own_daemon_stopped() {
            let _ = self.find_peer(nid);
        }
        self.remote_peer(nid).is_some_and(|peer| peer.state == PeerState::Lost)
    }

    fn remote(&self) -> MutexGuard<'_, Vec<Option<RemotePeer>>> {
        self.remote.lock().expect("no holder panics")
    }

    /// Keeps what the daemon answered about a node on another host.
    fn note_remote(&self, nid: u16, state: PeerState) {
        let mut remote = self.remote();
        let peer = &mut remote[usize::from(nid)];
        let had_joined = peer.is_some_and(|peer| peer.has_joined);
        let has_joined = had_joined || state == PeerState::Remote;
        *peer = Some(RemotePeer { state, has_joined, asked: Instant::now() });
    }

    fn remote_peer(&self, nid: u16) -> Option<RemotePeer> {
        self.remote().get(usize::from(nid)).copied().flatten()
    }
}

/// Why a node's segment is not mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unmapped {
    pub(super) state: PeerState,
    /// The node is on another host: its segment never is.
    pub(super) is_remote: bool,
}

impl Unmapped {
    /// No answer that makes sense came.
    const LOST: Unmapped = Unmapped { state: PeerState::Lost, is_remote: false };

    /// The status of operations that need the mapping.
    pub(super) fn status(self) -> Status {
        match self.state {
            // Callers that map segments ask for remote nodes only until they know that these are remote.
            PeerState::Absent | PeerState::Left | PeerState::Remote => Status::NoContext,
            PeerState::NoNode => Status::NoNode,
            PeerState::Died | PeerState::Lost | PeerState::Present => Status::NodeLost,
        }
    }
}

/// A node on another host, as the daemon saw it last.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemotePeer {
    state: PeerState,
    /// It has been a member at some time of this membership.
    has_joined: bool,
    asked: Instant,
}

impl RemotePeer {
    /// Whether the daemon was asked not long ago. Waiters ask often, and the daemon has other work.
    fn is_recent(&self) -> bool {
        self.asked.elapsed() < LIVENESS_INTERVAL
    }

    /// Whether it is there no more. A link that comes back knows nothing of members that left meanwhile.
    fn is_gone(&self) -> bool {
        let has_ended = matches!(self.state, PeerState::Absent | PeerState::Left);
        self.state.is_lost() || (self.has_joined && has_ended)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Without this the daemon takes the end of the connection for a crash.
        let _ = self.call(&Request::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_node_is_gone_once_it_had_joined_or_without_a_way_to_it() {
        let is_gone =
            |state, has_joined| RemotePeer { state, has_joined, asked: Instant::now() }.is_gone();
        for has_joined in [false, true] {
            assert!(!is_gone(PeerState::Remote, has_joined));
            assert!(is_gone(PeerState::Lost, has_joined));
            assert!(is_gone(PeerState::Died, has_joined));
            assert_eq!(is_gone(PeerState::Left, has_joined), has_joined);
            assert_eq!(is_gone(PeerState::Absent, has_joined), has_joined);
        }
    }
}
