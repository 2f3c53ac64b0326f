//! Peers on other hosts: when they are called, and the life and death of their links.
//!
//! Two connections make a link: one for messages of control, one for packets, which the worker gets. The node with the
//! higher number calls. Its peer says [`Request::Linked`] when it has both, and from then on both announce their
//! contexts.
//!
//! By rack files that number the nodes differently, both ends may wait for a call. So the node with the lower number
//! *asks* a peer of which nothing has come: it begins a handshake, in which the peer refuses and gives the reason why
//! there is no link.
//!
//! # Decisions
//!
//! - *One link lives at a time.* A daemon that calls as a node that is up already is refused unless it is the same
//!   daemon, whose old connections are half-open then. A node that was restarted calls again until the silence of its
//!   old connections has ended them, which takes no longer than [`rackmem_fabric::socket::SILENCE`].
//! - *The end of either connection is the end of the link.* Control watches the worker's socket, too.
//! - *So is the silence of a peer's daemon* (`beats.rs`): the kernel of its host answers probes for a daemon that is
//!   stopped.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::greeting::{Hello, Purpose, VERSION, Welcome};
use rackmem_fabric::socket;
use rackmem_fabric::stream::Stream;
use rackmem_fabric::tcp::{PacketLink, TcpLink};
use rackmem_fabric::ucx::{Address, Engine, UcxStream, Worker};
use rackmem_fabric::{Faults, Faulty};
use rustix::event::epoll;

use super::beats::Beater;
use super::greet::{GREETING_TIMEOUT, Greeter, MAX_GREETERS};
use super::guests::{Expected, Present};
use super::peers::{FIRST_RETRY, LAST_RETRY};
use super::questions::Question;
use super::{Control, NO_DESCRIPTOR_PAUSE};
use crate::daemon::line::{FarLine, Line};
use crate::daemon::session::Role;
use crate::daemon::{Config, Error, Result};
use crate::error::{limit_hint, listen_hint};
use crate::links::Path;
use crate::protocol::Request;
use crate::rack_file::{LinkKind, RackFile, Right};
use crate::shm::bell::Bells;
use crate::status::{LinkPath, LinkState, LinkStatus, Proof};
use crate::transport::Received;

/// Between two attempts to send what a socket did not take.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);

/// Connections that are taken before others are served.
const MAX_ACCEPTS: usize = 64;

/// Between two questions to a node that has not called: longer than from one of its calls, which may get no answer, to
/// the next.
const ASK_PAUSE: Duration = GREETING_TIMEOUT.saturating_add(LAST_RETRY.saturating_mul(2));

/// Longest text of a peer that is kept.
const MAX_TEXT_CHARS: usize = 200;

/// A node of another host.
#[derive(Debug)]
pub(super) struct FarPeer {
    pub(super) address: SocketAddr,
    retry: Duration,
    retry_at: Instant,
    /// Session of its connection for messages.
    pub(super) control: Option<u64>,
    /// Its connection for packets, which waits for the peer to have it, too.
    pending: Option<Pending>,
    /// Its end in UCX, until the link is up.
    worker: Option<Worker>,
    /// The socket of the worker's connection, while the link is up.
    pub(super) data: Option<OwnedFd>,
    /// Its daemon, while there is a connection.
    pub(super) incarnation: u64,
    pub(super) version: String,
    /// Last reason for which there was no link.
    pub(super) why: Option<String>,
    /// Whether its connection for packets was refused, for that reason. The one for messages ends then, too.
    pub(super) was_refused: bool,
    /// End of the time in which the connection for packets has to follow that for messages.
    meeting_ends: Option<Instant>,
    /// Time of the last change between up and down.
    pub(super) since: Instant,
    /// Attempts to reach it since the last link.
    pub(super) calls: u32,
    /// The question that it was asked and has not answered.
    pub(super) question: Option<Question>,
    /// Beats of this daemon since the peer's daemon was last heard.
    pub(super) unheard: u32,
}

/// A connection for packets, and where the peer is in UCX.
#[derive(Debug)]
struct Pending {
    stream: Stream,
    worker: Option<Address>,
}

/// The nodes of other hosts, and the connections that have not shown what they are.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) file: RackFile,
    pub(super) credentials: Arc<Credentials>,
    pub(super) nid: u16,
    pub(super) incarnation: u64,
    /// Version of UCX, if packets travel by it.
    ucx: Option<String>,
    /// Faults of links over TCP.
    faults: Option<Faults>,
    pub(super) listener: OwnedFd,
    pub(super) peers: BTreeMap<u16, FarPeer>,
    pub(super) greeters: BTreeMap<u64, Greeter>,
    /// Sockets of links that are up, by the number under which their end is reported.
    watched: BTreeMap<u64, u16>,
    /// By the number of the admission.
    pub(super) expected: BTreeMap<u64, Expected>,
    /// By the number under which their end is reported.
    pub(super) guests: BTreeMap<u64, Present>,
    pub(super) beater: Beater,
    pub(super) next_look: Instant,
}

impl Far {
    /// Listens at the node's address; `None`: all nodes are on this host.
    ///
    /// # Errors
    /// The private key cannot be used; the address is in use, or not one of this host.
    pub(super) fn listen(config: &Config, nid: u16) -> Result<Option<Far>> {
        let Some(file) = &config.rack_file else { return Ok(None) };
        let here = file.nodes[usize::from(nid)].address;
        let now = Instant::now();
        let peer = |peer: u16| FarPeer {
            address: file.nodes[usize::from(peer)].address,
            retry: FIRST_RETRY,
            retry_at: if peer < nid { now } else { now + ASK_PAUSE },
            control: None,
            worker: None,
            pending: None,
            data: None,
            incarnation: 0,
            version: String::new(),
            why: None,
            was_refused: false,
            meeting_ends: None,
            since: now,
            calls: 0,
            question: None,
            unheard: 0,
        };
        let nodes = 0..file.nodes.len() as u16;
        let remote = nodes.filter(|peer| !file.is_neighbour(nid, *peer));
        let peers: BTreeMap<u16, FarPeer> = remote.map(|nid| (nid, peer(nid))).collect();
        if peers.is_empty() {
            return Ok(None);
        }
        let credentials = Arc::new(file.credentials(nid)?);
        let ucx = match file.link {
            LinkKind::Tcp => None,
            LinkKind::Ucx => Some(Engine::load().map(|ucx| ucx.version()).map_err(|error| {
                Error::invalid(format!("{} has link = \"ucx\": {error}", file.path.display()))
            })?),
        };
        let listener = socket::listen(&here).map_err(|error| {
            let hint = listen_hint(&error);
            Error::io(format!("cannot listen at {here}, the address of node {nid}{hint}"), error)
        })?;
        let mut incarnation = [0; 8];
        rustix::rand::getrandom(&mut incarnation, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::io("no random numbers", error.into()))?;
        Ok(Some(Far {
            file: file.clone(),
            credentials,
            nid,
            incarnation: u64::from_ne_bytes(incarnation),
            ucx,
            faults: config.faults,
            listener,
            peers,
            greeters: BTreeMap::new(),
            watched: BTreeMap::new(),
            expected: BTreeMap::new(),
            guests: BTreeMap::new(),
            beater: Beater::start()?,
            next_look: now,
        }))
    }

    /// State of the link to a node of another host.
    pub(super) fn status(&self, nid: u16) -> Option<LinkStatus> {
        let peer = self.peers.get(&nid)?;
        let socket = peer.data.as_ref();
        let node = &self.file.nodes[usize::from(nid)];
        Some(LinkStatus {
            nid,
            path: if self.ucx.is_some() { LinkPath::Ucx } else { LinkPath::Tcp },
            path_why: self
                .ucx
                .as_ref()
                .map_or_else(String::new, |ucx| format!("UCX {ucx}, as the rack file says")),
            address: peer.address.to_string(),
            state: if socket.is_some() { LinkState::Up } else { LinkState::Down },
            why: self.why(nid, peer),
            sealed: !self.file.cleartext,
            proof: Some(Proof {
                key: node.key.map(|key| key.fingerprint()),
                secret: self.file.secret.is_some(),
            }),
            rights: node.rights.names().map(str::to_owned).collect(),
            version: peer.version.clone(),
            round_trip_us: socket.and_then(|socket| socket::round_trip_us(socket.as_fd())),
            since_ms: peer.since.elapsed().as_millis() as u64,
            calls: peer.calls,
            guests: self.guests_from(nid),
        })
    }

    /// Last reason for which there was no link. A node with a higher number calls by itself.
    pub(super) fn why(&self, nid: u16, peer: &FarPeer) -> String {
        if let Some(why) = self.lacks_right(nid) {
            return why;
        }
        let waits = || {
            let is_waiting = peer.data.is_none() && nid > self.nid;
            if is_waiting { "it has not called yet".to_owned() } else { String::new() }
        };
        peer.why.clone().unwrap_or_else(waits)
    }

    /// The right without which there is no link to a node, if it or this one lacks it.
    fn lacks_right(&self, nid: u16) -> Option<String> {
        let lacks = |nid: &u16| !self.file.nodes[usize::from(*nid)].rights.have(Right::Context);
        let nid = [nid, self.nid].into_iter().find(lacks)?;
        Some(format!(
            "node {nid} does not have the right 'context' in the rack file of node {}",
            self.nid
        ))
    }

    /// Where packets find this end of the link to a node, if they travel by UCX.
    fn worker_address(&self, nid: u16, purpose: Purpose) -> Option<Address> {
        let worker = self.peers.get(&nid)?.worker.as_ref().filter(|_| purpose == Purpose::Data)?;
        Some(worker.address().clone())
    }

    fn address(&self) -> SocketAddr {
        self.file.nodes[usize::from(self.nid)].address
    }

    pub(super) fn hello(&self, to: u16, purpose: Purpose) -> Hello {
        Hello {
            rack: self.file.name.clone(),
            nodes: self.file.nodes.len() as u16,
            from: self.nid,
            address: self.address(),
            to,
            incarnation: self.incarnation,
            purpose,
            sealed: !self.file.cleartext,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            worker: self.worker_address(to, purpose),
        }
    }

    /// The answer to a hello of the node that the caller's key has shown: a welcome, or a refusal for people.
    pub(super) fn answer(
        &self,
        hello: &Hello,
        node: Option<u16>,
    ) -> std::result::Result<Welcome, String> {
        let (name, nodes) = (&self.file.name, self.file.nodes.len());
        if hello.rack != *name || usize::from(hello.nodes) != nodes {
            return Err(format!(
                "it is in rack '{name}' of {nodes} nodes, not '{}' of {}: give all hosts the same file",
                hello.rack, hello.nodes
            ));
        }
        if hello.sealed == self.file.cleartext {
            return Err("`cleartext` differs: give all hosts the same file".to_owned());
        }
        let listed = self.file.nodes.iter().position(|node| node.address == hello.address);
        let agrees = listed.is_none_or(|nid| nid == usize::from(hello.from));
        let is_right = |_: &&FarPeer| agrees && hello.to == self.nid;
        let Some(peer) = self.peers.get(&hello.from).filter(is_right) else {
            return Err(self.other_numbers(hello, listed));
        };
        if let Some(owner) = node.filter(|owner| *owner != hello.from) {
            return Err(format!(
                "the key of its caller is that of node {owner}, not of node {}: give all hosts the same file",
                hello.from
            ));
        }
        if let Some(why) = self.lacks_right(hello.from) {
            return Err(why);
        }
        let is_other = hello.incarnation != peer.incarnation;
        match hello.purpose {
            // It asks. Without a reason it goes on waiting: nothing is wrong, as far as this node knows.
            Purpose::Control if hello.from < self.nid => {
                let calls = |why| format!("it calls {} in vain: {why}", peer.address);
                Err(peer.why.as_ref().map(calls).unwrap_or_default())
            }
            Purpose::Control if peer.control.is_some() && is_other => {
                Err(format!("another daemon is node {} already", hello.from))
            }
            Purpose::Guest => Err("a process comes without an invitation".to_owned()),
            Purpose::Data if peer.control.is_none() || peer.data.is_some() || is_other => {
                Err("packets come without messages".to_owned())
            }
            Purpose::Data if hello.worker.is_some() != self.ucx.is_some() => {
                Err("`link` differs: give all hosts the same file".to_owned())
            }
            _ => {
                let worker = self.worker_address(hello.from, hello.purpose);
                Ok(Welcome { worker, ..self.welcome() })
            }
        }
    }

    /// The reason of a refusal if the caller's rack file gives other numbers to the two nodes.
    fn other_numbers(&self, hello: &Hello, listed: Option<usize>) -> String {
        format!(
            "{} and {} are nodes {} and {} in the rack file of the first, {} and {} in that of the second: give all \
             hosts the same file",
            hello.address,
            self.address(),
            hello.from,
            hello.to,
            listed.map_or_else(|| "none".to_owned(), |nid| nid.to_string()),
            self.nid
        )
    }

    pub(super) fn welcome(&self) -> Welcome {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Welcome { incarnation: self.incarnation, version, worker: None }
    }

    /// Time of the next thing that is due by itself.
    fn due(&self) -> Option<Instant> {
        let calls = self.peers.iter().filter(|(nid, peer)| self.is_to_be_called(**nid, peer));
        let deadlines = self.greeters.values().map(|greeter| greeter.deadline);
        let meetings = self.peers.values().filter_map(|peer| peer.meeting_ends);
        let beat = self.peers.values().any(FarPeer::is_linked).then_some(self.next_look);
        let questions = self.peers.values().filter_map(|peer| Some(peer.question.as_ref()?.ends));
        let peers = calls.map(|(_, peer)| peer.retry_at).chain(meetings).chain(questions);
        peers.chain(deadlines).chain(beat).min()
    }

    fn is_to_be_called(&self, nid: u16, peer: &FarPeer) -> bool {
        let is_called = |greeter: &Greeter| greeter.called == Some(nid);
        (nid < self.nid || peer.why.is_none())
            && peer.control.is_none()
            && self.lacks_right(nid).is_none()
            && !self.greeters.values().any(is_called)
    }
}

impl FarPeer {
    pub(super) fn is_linked(&self) -> bool {
        self.data.is_some()
    }
}

impl Control {
    /// Whether the rack has nodes on other hosts.
    pub(super) fn is_over_hosts(&self) -> bool {
        self.far.is_some()
    }

    /// Whether a node is on another host: packets reach it, its memory cannot be mapped here.
    pub(super) fn is_remote(&self, nid: u16) -> bool {
        self.far.as_ref().is_some_and(|far| far.peers.contains_key(&nid))
    }

    /// Calls and asks nodes, gives up on handshakes, and sends what is left to send. Returns the time until the next
    /// look.
    pub(super) fn look_far(&mut self) -> Option<Duration> {
        let far = self.far.as_mut()?;
        let now = Instant::now();
        let late: Vec<u64> =
            far.greeters.iter().filter(|(_, g)| g.deadline <= now).map(|(id, _)| *id).collect();
        let is_late = |peer: &FarPeer| peer.meeting_ends.is_some_and(|end| end <= now);
        let alone: Vec<u64> = far
            .peers
            .values()
            .filter(|peer| is_late(peer))
            .filter_map(|peer| peer.control)
            .collect();
        let calls: Vec<u16> = far
            .peers
            .iter()
            .filter(|(nid, peer)| far.is_to_be_called(**nid, peer) && peer.retry_at <= now)
            .map(|(nid, _)| *nid)
            .collect();
        for id in late {
            self.give_up_greeter(id, "it does not answer");
        }
        for id in alone {
            self.end_because(id, "its connection for packets does not come");
        }
        for nid in calls {
            self.call(nid, Purpose::Control);
        }
        self.end_silent(now);
        self.give_up_questions(now);
        let lines = self.sessions.values_mut().map(|session| &mut session.line);
        let is_waiting = lines.fold(false, |waits, line| line.flush() | waits);
        let due = self.far.as_ref()?.due().map(|at| at.saturating_duration_since(Instant::now()));
        if is_waiting { Some(due.unwrap_or(FLUSH_PAUSE).min(FLUSH_PAUSE)) } else { due }
    }

    /// Begins to connect to a node.
    pub(super) fn call(&mut self, nid: u16, purpose: Purpose) {
        let Some(far) = &mut self.far else { return };
        let Some(peer) = far.peers.get_mut(&nid) else { return };
        let asks = nid > self.nid;
        peer.calls += u32::from(purpose == Purpose::Control && !asks);
        peer.retry_at = Instant::now() + if asks { ASK_PAUSE } else { peer.retry };
        peer.retry = (peer.retry * 2).min(LAST_RETRY);
        let here = far.file.nodes[usize::from(self.nid)].address;
        let greeter = match socket::connect(&here, &peer.address) {
            Ok(socket) => Greeter::calling(Stream::new(socket), nid, purpose),
            Err(_) if asks => return,
            Err(error) => return self.note_failure(nid, &error.to_string()),
        };
        self.add_greeter(greeter);
    }

    pub(super) fn accept_far(&mut self) {
        for _ in 0..MAX_ACCEPTS {
            let Some(far) = &self.far else { return };
            let socket = match socket::accept(far.listener.as_fd()) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let hint = limit_hint(&error);
                    tracing::warn!(
                        nid = self.nid,
                        "cannot accept a host's connection: {error}{hint}"
                    );
                    return std::thread::sleep(NO_DESCRIPTOR_PAUSE);
                }
            };
            let greeter = Greeter::called(Stream::new(socket), &far.credentials);
            let strangers = far.greeters.values().filter(|greeter| greeter.called.is_none());
            if strangers.count() >= MAX_GREETERS {
                self.give_up_oldest_stranger();
            }
            self.add_greeter(greeter);
        }
    }

    /// Ends a connection for a reason that status shows.
    pub(super) fn end_because(&mut self, id: u64, why: &str) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.line.hang_up(why);
        }
        self.end(id);
    }

    /// Says once for each reason why there is no link to a node.
    pub(super) fn note_failure(&mut self, nid: u16, why: &str) {
        let why = &printable(why);
        let Some(peer) = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid)) else { return };
        if peer.why.as_deref() != Some(why.as_str()) {
            let address = peer.address;
            tracing::warn!(nid = self.nid, peer = nid, %address, version = VERSION, "no link: {why}");
            peer.why = Some(why.clone());
        }
    }

    /// A handshake has shown the daemon of a node at the other end of a connection for messages.
    pub(super) fn meet(&mut self, nid: u16, met: Met) {
        let Some(peer) = self.far.as_ref().and_then(|far| far.peers.get(&nid)) else { return };
        match peer.control {
            // Two of one number were welcomed at the same time.
            Some(_) if peer.incarnation != met.incarnation => return,
            // Half-open: the same daemon would not call again.
            Some(old) => self.end(old),
            None => {}
        }
        // UCX looks for the host's adapters when it is started, and would never find one that came up later.
        let is_ucx = self.far.as_ref().is_some_and(|far| far.ucx.is_some());
        let new_worker = || Engine::load().and_then(|ucx| Worker::new(&ucx));
        let worker = match is_ucx.then(new_worker).transpose() {
            Ok(worker) => worker,
            Err(error) => return self.note_failure(nid, &error.to_string()),
        };
        let line = match FarLine::new(met.stream) {
            Ok(line) => Line::Far(line),
            Err(error) => return self.note_failure(nid, &error.to_string()),
        };
        let Some(id) = self.add_session(line, Role::Meeting(nid)) else { return };
        let Some(far) = &mut self.far else { return };
        // It need not be asked any more.
        far.greeters.retain(|_, greeter| greeter.called != Some(nid));
        let Some(peer) = far.peers.get_mut(&nid) else { return };
        (peer.control, peer.incarnation, peer.version) = (Some(id), met.incarnation, met.version);
        peer.meeting_ends = Some(Instant::now() + GREETING_TIMEOUT);
        (peer.worker, peer.was_refused) = (worker, false);
        if nid < self.nid {
            self.call(nid, Purpose::Data);
        }
    }

    /// A handshake has shown the daemon of a node at the other end of a connection for packets.
    pub(super) fn meet_data(&mut self, nid: u16, met: Met) {
        let Some(peer) = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid)) else { return };
        let is_expected = peer.incarnation == met.incarnation && peer.data.is_none();
        let Some(id) = peer.control.filter(|_| is_expected) else { return };
        peer.pending = Some(Pending { stream: met.stream, worker: met.worker });
        if nid > self.nid {
            if let Some(session) = self.sessions.get_mut(&id) {
                super::peers::tell(session, &Request::Linked, &[]);
            }
            self.link_far(id, nid);
        }
    }

    /// Takes a message of a daemon whose link is not up; `false` ends the connection.
    pub(super) fn hear_met(&mut self, id: u64, nid: u16, got: Received<Request>) -> bool {
        matches!(got.message, Request::Linked) && nid < self.nid && self.link_far(id, nid)
    }

    /// Both connections are there.
    fn link_far(&mut self, id: u64, nid: u16) -> bool {
        let Some(far) = &mut self.far else { return false };
        let Some(peer) = far.peers.get_mut(&nid) else { return false };
        let Some(pending) = peer.pending.take() else { return false };
        let worker = peer.worker.take();
        let token = self.next_session;
        let ends = epoll::EventFlags::RDHUP;
        let watched = pending.stream.as_fd().try_clone_to_owned().and_then(|socket| {
            epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token), ends)?;
            Ok(socket)
        });
        let Ok(socket) = watched else { return false };
        self.next_session += 1;
        far.watched.insert(token, nid);
        let faults =
            far.faults.map(|faults| Faults { seed: faults.seed.wrapping_add(token), ..faults });
        let path = match path(pending, worker, faults, &self.bell) {
            Ok(path) => path,
            Err(error) => {
                self.end_because(id, &error.to_string());
                return true;
            }
        };
        let Some(peer) = self.far.as_mut().and_then(|far| far.peers.get_mut(&nid)) else {
            return false;
        };
        peer.data = Some(socket);
        (peer.retry, peer.since, peer.why) = (FIRST_RETRY, Instant::now(), None);
        peer.calls = 0;
        (peer.meeting_ends, peer.unheard) = (None, 0);
        self.add_peer(id, nid, path);
        self.begin_to_beat(id);
        true
    }

    /// Whether the number is that of a connection of this part, which is served then.
    pub(super) fn serve_far(&mut self, id: u64) -> bool {
        let Some(far) = &mut self.far else { return false };
        if far.greeters.contains_key(&id) {
            self.greet(id);
        } else if let Some(nid) = far.watched.get(&id).copied() {
            // The worker's end of the link says why; here it only has to be noticed.
            if let Some(control) = far.peers.get(&nid).and_then(|peer| peer.control) {
                self.end(control);
            }
        } else {
            return self.end_guest(id);
        }
        true
    }

    /// The connection for messages has ended, and with it the link.
    pub(super) fn part(&mut self, nid: u16, why: &str) {
        self.end_guests(Some(nid), None);
        let Some(far) = &mut self.far else { return };
        far.watched.retain(|_, peer| *peer != nid);
        far.greeters.retain(|_, greeter| greeter.called != Some(nid));
        let Some(peer) = far.peers.get_mut(&nid) else { return };
        if let Some(data) = &peer.data {
            // The worker may have the socket for longer.
            let _ = epoll::delete(&self.epoll, data);
        }
        (peer.control, peer.pending, peer.data, peer.meeting_ends) = (None, None, None, None);
        peer.worker = None;
        (peer.since, peer.retry_at) = (Instant::now(), Instant::now() + peer.retry);
        if !std::mem::take(&mut peer.was_refused) {
            self.note_failure(nid, why);
        }
        self.give_up_question(nid);
    }
}

/// The link over a connection, which wakes the worker.
fn path(
    pending: Pending,
    worker: Option<Worker>,
    faults: Option<Faults>,
    bell: &Bells,
) -> io::Result<Path> {
    let Pending { stream, worker: address } = pending;
    if let Some(worker) = worker {
        let address = address.ok_or_else(|| io::Error::other("it has no address in UCX"))?;
        bell.watch_level(worker.efd())?;
        let stream =
            UcxStream::new(worker, &address, stream.into_socket()).map_err(io::Error::other)?;
        return Ok(Path::Ucx(Box::new(PacketLink::new(stream))));
    }
    bell.watch(&stream)?;
    let link = TcpLink::new(stream);
    Ok(match faults {
        Some(faults) => Path::Faulty(Box::new(Faulty::new(link, faults))),
        None => Path::Tcp(Box::new(link)),
    })
}

/// A peer's text as it may be shown.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// The other end of a handshake that succeeded.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) stream: Stream,
    pub(super) incarnation: u64,
    pub(super) version: String,
    /// Where packets find it, if they travel by UCX.
    pub(super) worker: Option<Address>,
}
