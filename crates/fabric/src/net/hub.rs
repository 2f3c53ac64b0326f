//! The listening end: many peers, one thread.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Buffer;
use crate::socket::{delay, timespec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::Serialize;

use super::frame;
use super::greet::{Greeter, Keys, MAX_STRANGER_BYTES, Met};
use super::proof::Proof;
use super::stranger::{MAX_STRANGERS, Stranger, Strangers};
use super::{access, socket};
use crate::error::{Error, Result};
use crate::rights::Right;

/// Peers at a time, strangers not counted; more have to wait to be accepted.
pub const MAX_PEERS: usize = 1024;

/// Longest frame without its length; a ledger of all lenders and leases is the longest.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Bytes that may wait for a peer that does not read, before it is given up.
const MAX_WAITING_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// Bytes taken in at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// Until the next attempt to accept, when there is no descriptor or memory for one more peer.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Descriptors that a peer takes until it is trusted.
const SPARE: usize = 2;

/// Number of a peer; never used again.
pub type PeerId = u64;

/// An event at the hub.
#[derive(Debug)]
pub enum Seen {
    /// A message of a peer that may speak.
    Message(PeerId, Vec<u8>),
    /// A peer is gone, in this way.
    Gone(PeerId, How),
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The peer hung up, has ended, or was disconnected for a wrong message.
    Ended,
    /// The peer's host knows nothing of the connection.
    Reset,
    /// The network broke: the peer may not know yet.
    Silent,
}

impl How {
    fn of(error: rustix::io::Errno) -> How {
        use rustix::io::Errno;
        match error {
            Errno::CONNRESET | Errno::PIPE => How::Reset,
            Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN => {
                How::Silent
            }
            _ => How::Ended,
        }
    }
}

/// Wakes the hub's thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the hub's wait, now or when it next begins.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    /// Permissions of its file; a listener of the network has none.
    mode: Option<u32>,
}

#[derive(Debug)]
enum Trust {
    /// Its handshake has not ended.
    Not(Greeter),
    Yes,
}

#[derive(Debug)]
struct Peer {
    fd: OwnedFd,
    is_local: bool,
    trust: Trust,
    /// Its place until it is trusted and has said something.
    stranger: Option<Stranger>,
    keys: Keys,
    /// Its node, if it has proved itself by a key.
    node: Option<u16>,
    input: Buffer,
    /// Parts of messages that wait to be sent, each with the descriptor that goes along with its first byte.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// Bytes of the first part that were sent, and bytes of all parts that were not.
    sent: usize,
    waiting_bytes: usize,
    last_heard: Instant,
    gone: Option<How>,
    /// The reason why it is not served, if it is not.
    turned_away: Option<String>,
}

/// Listeners and peers.
#[derive(Debug)]
pub struct Hub {
    listeners: Vec<Listener>,
    peers: BTreeMap<PeerId, Peer>,
    strangers: Strangers,
    next_peer: PeerId,
    proof: Option<Proof>,
    /// Rights of which a peer over the network has to have one.
    rights: &'static [Right],
    waker: Waker,
    /// Since an attempt to accept failed for want of descriptors or memory: when to try again.
    shortage: Option<Instant>,
    /// Kept open for a peer that finds no descriptor left: it is accepted in their place, so that it hears why it is
    /// not served.
    spare: Vec<OwnedFd>,
    /// End of the last wait.
    looked: Instant,
}

impl Hub {
    /// A hub that listens nowhere yet. Peers over the network have to prove themselves, and to have one of the rights.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(proof: Option<Proof>, rights: &'static [Right]) -> Result<Hub> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("cannot make an eventfd", error))?;
        let waker = Waker(Arc::new(wake));
        let (listeners, peers, strangers) = (Vec::new(), BTreeMap::new(), Strangers::default());
        let looked = Instant::now();
        let (next_peer, shortage, spare) = (1, None, Vec::new());
        let mut hub = Hub {
            listeners,
            peers,
            strangers,
            next_peer,
            proof,
            rights,
            waker,
            shortage,
            spare,
            looked,
        };
        hub.reserve()?;
        Ok(hub)
    }

    /// Listens at a port, too.
    pub fn listen(&mut self, fd: OwnedFd) {
        self.listeners.push(Listener { fd, mode: None });
    }

    /// Listens at a socket whose file has these permissions, too.
    pub fn listen_local(&mut self, fd: OwnedFd, mode: u32) {
        self.listeners.push(Listener { fd, mode: Some(mode) });
    }

    /// Makes an established connection a peer.
    pub fn adopt(&mut self, fd: OwnedFd, keys: Keys, is_local: bool) -> PeerId {
        let id = self.add(fd, is_local, Trust::Yes, None);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.keys = keys;
        }
        id
    }

    /// A handle by which other threads end the wait.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn add(
        &mut self,
        fd: OwnedFd,
        is_local: bool,
        trust: Trust,
        stranger: Option<Stranger>,
    ) -> PeerId {
        let id = self.next_peer;
        self.next_peer += 1;
        let peer = Peer {
            fd,
            is_local,
            trust,
            stranger,
            keys: None,
            node: None,
            input: Buffer::default(),
            waiting: VecDeque::new(),
            sent: 0,
            waiting_bytes: 0,
            last_heard: Instant::now(),
            gone: None,
            turned_away: None,
        };
        self.peers.insert(id, peer);
        id
    }

    /// Waits until something happens or the time is over, and adds it to `seen`.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn wait(&mut self, patience: Duration, seen: &mut Vec<Seen>) -> Result<()> {
        let _ = self.reserve();
        let pause = self.pause();
        let accepts = self.has_room() && pause.is_none();
        let patience = pause.map_or(patience, |pause| pause.min(patience));
        let mut fds = vec![PollFd::new(&self.waker.0, PollFlags::IN)];
        for listener in self.listeners.iter().filter(|_| accepts) {
            fds.push(PollFd::new(&listener.fd, PollFlags::IN));
        }
        for peer in self.peers.values() {
            let out = if peer.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&peer.fd, PollFlags::IN | out));
        }
        match poll(&mut fds, Some(&timespec(patience))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("cannot wait for messages", error)),
        }
        drop(fds);
        let _ = rustix::io::read(&self.waker.0, &mut [0; 8]);
        let delay = delay(self.looked, patience);
        self.looked = Instant::now();
        self.peers.values_mut().for_each(|peer| peer.last_heard += delay);
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.serve(id, seen);
        }
        if accepts {
            self.accept();
        }
        self.bury(seen);
        Ok(())
    }

    /// Whether a stranger that proves to be a peer would have a place.
    fn has_room(&self) -> bool {
        self.peers.values().filter(|peer| peer.stranger.is_none()).count() < MAX_PEERS
    }

    /// Time left until the next attempt to accept. A listener with a peer that cannot be accepted stays readable, so
    /// it is not waited for meanwhile.
    fn pause(&self) -> Option<Duration> {
        let left = self.shortage?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Does without more peers for a while; says so once.
    fn endure(&mut self, error: &io::Error) {
        if self.shortage.replace(Instant::now() + SHORTAGE_PAUSE).is_none() {
            let hint = crate::error::limit_hint(error);
            tracing::warn!("no more peers can be accepted for now: {error}{hint}");
        }
    }

    /// Opens the spare descriptors that are missing.
    ///
    /// # Errors
    /// There are no more: one more peer would not even hear why it is turned away.
    pub fn reserve(&mut self) -> Result<()> {
        while self.spare.len() < SPARE {
            let spare = self.waker.0.try_clone();
            let cannot = |error| Error::io("cannot serve connections", error);
            self.spare.push(spare.map_err(cannot)?);
        }
        Ok(())
    }

    fn accept(&mut self) {
        for at in 0..self.listeners.len() {
            // As many as there are places; later peers wait for the next round.
            for _ in 0..MAX_STRANGERS {
                let Listener { fd, mode } = &self.listeners[at];
                let mode = *mode;
                let accept = || socket::accept(fd.as_fd(), mode.is_some());
                let mut shortage = None;
                let mut accepted = accept();
                if accepted.as_ref().is_err_and(is_shortage) {
                    self.spare.clear();
                    shortage = std::mem::replace(&mut accepted, accept()).err();
                }
                let fd = match accepted {
                    Ok(fd) => fd,
                    Err(error) if is_shortage(&error) => return self.endure(&error),
                    Err(_) => break,
                };
                match self.welcome(fd, mode, shortage) {
                    Ok(None) => self.shortage = None,
                    // It goes before there is room for the next one.
                    Ok(Some(shortage)) => return self.endure(&shortage),
                    Err(error) => tracing::warn!("a peer was turned away: {error}"),
                }
            }
        }
    }

    /// Makes an accepted connection a peer. With a `shortage`, or if there is one now, it is turned away at its first
    /// message; returns the shortage.
    fn welcome(
        &mut self,
        fd: OwnedFd,
        mode: Option<u32>,
        mut shortage: Option<io::Error>,
    ) -> Result<Option<io::Error>> {
        let refused = |error| Error::io("it may not come", error);
        if let Some(mode) = mode {
            access::check_peer(fd.as_fd(), mode).map_err(refused)?;
        }
        let mut admitted = self.strangers.admit(fd.as_fd());
        if admitted.as_ref().is_err_and(is_shortage) {
            self.spare.clear();
            let again = self.strangers.admit(fd.as_fd());
            shortage = std::mem::replace(&mut admitted, again).err();
        }
        let stranger = admitted.map_err(refused)?;
        let is_local = mode.is_some();
        let trust = match is_local {
            true => Trust::Yes,
            false => Trust::Not(Greeter::new(self.proof.as_ref(), self.rights)),
        };
        let id = self.add(fd, is_local, trust, Some(stranger));
        if let Some(peer) = self.peers.get_mut(&id) {
            let why = |error: &io::Error| format!("{error}{}", crate::error::limit_hint(error));
            peer.turned_away = shortage.as_ref().map(why);
            peer.greet();
        }
        Ok(shortage)
    }

    /// Receives and sends a peer's bytes as far as possible, and takes its frames.
    fn serve(&mut self, id: PeerId, seen: &mut Vec<Seen>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.gone = peer.gone.or(peer.take_in()).or_else(|| peer.put_out());
        if !peer.greet() {
            return;
        }
        loop {
            match frame::first(peer.input.bytes(), MAX_FRAME_BYTES) {
                Ok(Some(frame)) => {
                    peer.stranger = None;
                    seen.push(Seen::Message(id, frame.to_vec()));
                    let taken = frame::PREFIX_BYTES + frame.len();
                    peer.input.take(taken);
                }
                Ok(None) => return peer.hurry(),
                Err(_) => {
                    peer.gone = Some(How::Ended);
                    return;
                }
            }
        }
    }

    fn bury(&mut self, seen: &mut Vec<Seen>) {
        let gone: Vec<(PeerId, How)> =
            self.peers.iter().filter_map(|(&id, peer)| Some((id, peer.how_gone()?))).collect();
        for (id, how) in gone {
            self.peers.remove(&id);
            seen.push(Seen::Gone(id, how));
        }
    }

    /// Sends a message, and along with it a descriptor. A peer that is gone is seen to be by `wait`.
    pub fn send(&mut self, id: PeerId, message: &impl Serialize, fd: Option<OwnedFd>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match frame::encode(message, MAX_FRAME_BYTES) {
            Ok(bytes) if peer.waiting_bytes + bytes.len() <= MAX_WAITING_BYTES => {
                match &mut peer.keys {
                    None => peer.push(bytes, fd),
                    Some(keys) => {
                        let mut wire = Vec::new();
                        match keys.sealer.seal(&bytes, &mut wire) {
                            Ok(()) => peer.push(wire, fd),
                            Err(_) => peer.gone = Some(How::Ended),
                        }
                    }
                }
            }
            _ => peer.gone = Some(How::Ended),
        }
    }

    /// Whether this peer has not hung up and was not given up.
    pub fn knows(&self, id: PeerId) -> bool {
        self.peers.contains_key(&id)
    }

    /// Closes the connection to a peer, as soon as all that was sent to it has left.
    pub fn hang_up(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.put_out();
        }
        self.peers.remove(&id);
    }

    /// The reason why a peer that has come is to be turned away: this process has no descriptor left for it.
    pub fn turned_away(&self, id: PeerId) -> Option<String> {
        self.peers.get(&id)?.turned_away.clone()
    }

    /// Whether the peer is on this host.
    pub fn is_local(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.is_local)
    }

    /// The peer's node, if it has proved itself by a key.
    pub fn node(&self, id: PeerId) -> Option<u16> {
        self.peers.get(&id)?.node
    }

    /// Since when nothing came from the peer.
    pub fn silence(&self, id: PeerId) -> Duration {
        self.peers.get(&id).map_or(Duration::MAX, |peer| peer.last_heard.elapsed())
    }

    /// Keeps a peer over the network for so long in silence.
    pub fn allow_silence(&self, id: PeerId, silence: Duration) {
        if let Some(peer) = self.peers.get(&id) {
            socket::allow_silence(peer.fd.as_fd(), silence);
        }
    }

    /// Takes a peer away from the hub: its socket, and the keys of what travels on it.
    pub fn take_out(&mut self, id: PeerId) -> Option<(OwnedFd, Keys)> {
        self.peers.remove(&id).map(|peer| (peer.fd, peer.keys))
    }
}

impl Peer {
    /// The way in which it is gone, if it is. A peer on this host has always ended, as no network can break.
    fn how_gone(&self) -> Option<How> {
        self.gone.map(|how| if self.is_local { How::Ended } else { how })
    }

    /// Takes its handshake as far as what has come allows. Returns whether it may speak.
    fn greet(&mut self) -> bool {
        let Trust::Not(greeter) = &mut self.trust else { return true };
        let mut out = Vec::new();
        let step = greeter.step(&mut self.input, &mut out);
        if !out.is_empty() {
            self.push(out, None);
        }
        match step {
            Ok(Some(Met { keys, node })) => {
                (self.keys, self.node, self.trust) = (keys, node, Trust::Yes);
                return true;
            }
            Ok(None) => self.hurry(),
            Err(_) => self.gone = Some(How::Ended),
        }
        false
    }

    /// Gives it up if it is a stranger whose time is over.
    fn hurry(&mut self) {
        if self.stranger.as_ref().is_some_and(Stranger::is_late) {
            self.gone = Some(How::Ended);
        }
    }

    /// Bytes to take in now: of one that is not trusted, no more than its handshake has.
    fn room(&self) -> usize {
        match self.trust {
            Trust::Yes => CHUNK_BYTES,
            Trust::Not(_) => MAX_STRANGER_BYTES.saturating_sub(self.input.len()),
        }
    }

    /// Sends bytes, at once or later.
    fn push(&mut self, bytes: Vec<u8>, fd: Option<OwnedFd>) {
        self.waiting_bytes += bytes.len();
        self.waiting.push_back((bytes, fd));
        self.gone = self.gone.or(self.put_out());
    }

    /// Receives bytes that have come; returns the way in which the peer is gone, if it is.
    fn take_in(&mut self) -> Option<How> {
        let mut bytes = [0; CHUNK_BYTES];
        // A peer that never stops does not keep the others waiting.
        for _ in 0..16 {
            let room = self.room();
            if room == 0 {
                return None;
            }
            match rustix::net::recv(&self.fd, &mut bytes[..room], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Some(How::Ended),
                Ok((n, _)) => {
                    self.last_heard = Instant::now();
                    match &mut self.keys {
                        None => self.input.extend(&bytes[..n]),
                        Some(keys) => {
                            let opened = keys.incoming.extend(&bytes[..n], &mut self.input);
                            // Not its own bytes, so not its own end either.
                            if opened.is_err() {
                                return Some(How::Reset);
                            }
                        }
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return None,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Some(How::of(error)),
            }
        }
        None
    }

    /// Sends waiting parts, as far as the peer reads them; returns the way in which the peer is gone, if it is.
    fn put_out(&mut self) -> Option<How> {
        while let Some((bytes, fd)) = self.waiting.front_mut() {
            match send(self.fd.as_fd(), &bytes[self.sent..], fd.as_ref().map(AsFd::as_fd)) {
                Ok(sent) => {
                    *fd = None;
                    self.sent += sent;
                    self.waiting_bytes -= sent;
                    if self.sent == bytes.len() {
                        self.waiting.pop_front();
                        self.sent = 0;
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return None,
                Err(error) => return Some(How::of(error)),
            }
        }
        None
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    matches!(errno, Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn send(to: BorrowedFd<'_>, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, flags)
}

#[cfg(test)]
mod tests;
