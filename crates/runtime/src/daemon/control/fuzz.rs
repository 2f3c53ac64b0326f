//! A daemon's control thread without its loop, for fuzzing.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType,
};

use super::{Control, Role};
use crate::daemon::line::Line;
use crate::daemon::{Config, worker};
use crate::links::shm;
use crate::rack::Rack;
use crate::shm::bell::Bells;
use crate::shm::mapping::Mapping;
use crate::transport::{Channel, MAX_FDS};

/// The daemon of node 1 of a rack of 3, with a worker.
pub struct Daemon(Control);

/// A client's end of a connection.
pub struct Client {
    socket: OwnedFd,
    session: u64,
}

impl Daemon {
    /// The daemon, which answers when [`Daemon::serve`] is called.
    pub fn new(rack: &Rack) -> Daemon {
        let bell = Arc::new(Bells::create().expect("a bell"));
        let spin = Duration::ZERO;
        let (rack, nids) = (rack.clone(), vec![1]);
        let (rack_file, faults) = (None, None);
        let config =
            Config { rack, nids, pin_core: None, spin, share_core: true, rack_file, faults };
        let mut workers = worker::spawn(&config, 3, &bell).expect("a worker");
        let worker = workers.pop().expect("a handle for the node");
        Daemon(Control::new(&config, 1, 3, bell, worker).expect("the rack is there"))
    }

    /// Connects a client.
    pub fn connect(&mut self) -> Client {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, far) =
            rustix::net::socketpair(family, kind, flags, None).expect("a socket pair");
        let session =
            self.0.add_session(Line::Near(Channel::from(far)), Role::Unknown).expect("a session");
        Client { socket, session }
    }

    /// Takes one message of a connection, or its end; false if the connection is over.
    pub fn serve(&mut self, session: u64) -> bool {
        self.0.serve(session);
        self.0.sessions.contains_key(&session)
    }

    /// Panics unless the books agree with each other.
    pub fn check(&self) {
        let control = &self.0;
        let members: Vec<_> = control
            .sessions
            .values()
            .filter_map(|session| match &session.role {
                Role::Member(member) => Some(member),
                _ => None,
            })
            .collect();
        let used = control.clients.iter().filter(|used| **used).count();
        assert_eq!(used, members.len(), "each member has a number of its own");
        for (ctx_id, context) in &control.contexts {
            let here =
                members.iter().filter(|member| Arc::ptr_eq(&member.segment, &context.segment));
            assert_eq!(here.count(), context.members as usize, "context {ctx_id}");
            assert!(context.members > 0, "context {ctx_id} has no members");
        }
        for (nid, id) in &control.peers {
            assert!(matches!(control.sessions[id].role, Role::Peer(peer) if peer == *nid));
        }
        let peers = control.sessions.values().filter(|s| matches!(s.role, Role::Peer(_)));
        assert_eq!(peers.count(), control.peers.len(), "each peer has one connection");
    }

    /// Whether peers have announced segments; the daemon keeps them to report their state later.
    pub fn knows_segments(&self) -> bool {
        !self.0.peer_contexts.is_empty()
    }

    /// Number of connections, contexts and peers, together.
    pub fn len(&self) -> usize {
        self.0.sessions.len() + self.0.contexts.len() + self.0.peers.len()
    }
}

impl Client {
    /// Sends bytes and descriptors.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // A full socket is as if nothing had been sent.
        let _ = rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut ancillary, flags);
    }

    /// Names its connection to the daemon.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Ends it; the daemon does not know yet.
    pub fn hang_up(self) -> u64 {
        self.session
    }

    /// The bytes of an answer that is there.
    pub fn answer(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 1 << 16];
        // Descriptors that come along are closed by the kernel.
        let got = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT).ok()?.0;
        bytes.truncate(got);
        (got > 0).then_some(bytes)
    }
}

/// Memory of a link, as a daemon makes it.
pub fn link_memory() -> Mapping {
    shm::create_memory().expect("a few pages")
}
