//! The listening end: many peers, one thread.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::Serialize;

use super::frame::{self, Frames, MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES};
use super::secret::{Hello, Nonce, Proof, Secret};
use super::socket;
use crate::error::{Error, Result};
use crate::lease::SILENCE;

/// Peers at a time; more have to wait to be accepted.
pub const MAX_PEERS: usize = 1024;

/// Bytes that may wait for a peer that does not read, before it is given up.
const MAX_WAITING_BYTES: usize = 2 * MAX_FRAME_BYTES;

/// Bytes taken in at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// Number of a peer; never used again.
pub type PeerId = u64;

/// What the hub has seen.
#[derive(Debug)]
pub enum Seen {
    /// A message of a peer that may speak.
    Message(PeerId, Vec<u8>),
    /// A peer is gone, in this way.
    Gone(PeerId, How),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The peer hung up, has ended, or was given up for what it said.
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
    is_local: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Trust {
    /// Has to prove that it knows the secret.
    Not(Nonce),
    Yes,
}

#[derive(Debug)]
struct Peer {
    fd: OwnedFd,
    is_local: bool,
    trust: Trust,
    has_spoken: bool,
    frames: Frames,
    /// Parts that wait, each with what goes along with its first byte.
    waiting: Vec<(Vec<u8>, Option<OwnedFd>)>,
    last_heard: Instant,
    gone: Option<How>,
}

/// Listeners and peers.
#[derive(Debug)]
pub struct Hub {
    listeners: Vec<Listener>,
    peers: BTreeMap<PeerId, Peer>,
    next_peer: PeerId,
    secret: Option<Secret>,
    waker: Waker,
    /// When the last wait ended.
    looked: Instant,
}

impl Hub {
    /// A hub that listens nowhere yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(secret: Option<Secret>) -> Result<Hub> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("cannot make an eventfd", error))?;
        let waker = Waker(Arc::new(wake));
        let (listeners, peers) = (Vec::new(), BTreeMap::new());
        Ok(Hub { listeners, peers, next_peer: 1, secret, waker, looked: Instant::now() })
    }

    /// Listens there, too.
    pub fn listen(&mut self, fd: OwnedFd, is_local: bool) {
        self.listeners.push(Listener { fd, is_local });
    }

    /// Makes an established connection a peer.
    pub fn adopt(&mut self, fd: OwnedFd, is_local: bool) -> PeerId {
        self.add(fd, is_local, Trust::Yes, true)
    }

    /// What ends the wait from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn add(&mut self, fd: OwnedFd, is_local: bool, trust: Trust, has_spoken: bool) -> PeerId {
        let id = self.next_peer;
        self.next_peer += 1;
        let peer = Peer {
            fd,
            is_local,
            trust,
            has_spoken,
            frames: Frames::default(),
            waiting: Vec::new(),
            last_heard: Instant::now(),
            gone: None,
        };
        self.peers.insert(id, peer);
        id
    }

    /// Waits until something happens or the time is over, and adds what did.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, patience: Duration, seen: &mut Vec<Seen>) -> Result<()> {
        let accepts = self.peers.len() < MAX_PEERS;
        let mut fds = vec![PollFd::new(&self.waker.0, PollFlags::IN)];
        for listener in self.listeners.iter().filter(|_| accepts) {
            fds.push(PollFd::new(&listener.fd, PollFlags::IN));
        }
        for peer in self.peers.values() {
            let out = if peer.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&peer.fd, PollFlags::IN | out));
        }
        match poll(&mut fds, Some(&socket::timespec(patience))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("cannot wait for messages", error)),
        }
        drop(fds);
        let _ = rustix::io::read(&self.waker.0, &mut [0; 8]);
        let delay = socket::delay(self.looked, patience);
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

    fn accept(&mut self) {
        for at in 0..self.listeners.len() {
            while self.peers.len() < MAX_PEERS {
                let is_local = self.listeners[at].is_local;
                let Ok(fd) = socket::accept(self.listeners[at].fd.as_fd(), is_local) else { break };
                self.welcome(fd, is_local);
            }
        }
    }

    fn welcome(&mut self, fd: OwnedFd, is_local: bool) {
        if is_local {
            self.add(fd, true, Trust::Yes, false);
            return;
        }
        let Ok(hello) = Hello::new(self.secret.as_ref()) else { return };
        let trust = hello.nonce.map_or(Trust::Yes, Trust::Not);
        let id = self.add(fd, false, trust, false);
        self.send(id, &hello, None);
    }

    /// Moves what can be moved.
    fn serve(&mut self, id: PeerId, seen: &mut Vec<Seen>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.gone = peer.gone.or(peer.take_in()).or_else(|| peer.put_out());
        if !peer.has_spoken && peer.last_heard.elapsed() > SILENCE {
            peer.gone = Some(How::Ended);
        }
        loop {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            let limit = match peer.trust {
                Trust::Yes => MAX_FRAME_BYTES,
                Trust::Not(_) => MAX_FIRST_FRAME_BYTES,
            };
            match peer.frames.next(limit) {
                Ok(Some(frame)) => match peer.trust {
                    Trust::Yes => {
                        peer.has_spoken = true;
                        seen.push(Seen::Message(id, frame));
                    }
                    Trust::Not(nonce) => self.judge(id, nonce, &frame),
                },
                Ok(None) => return,
                Err(_) => {
                    peer.gone = Some(How::Ended);
                    return;
                }
            }
        }
    }

    fn judge(&mut self, id: PeerId, ours: Nonce, frame: &[u8]) {
        let (Some(secret), Some(peer)) = (&self.secret, self.peers.get_mut(&id)) else { return };
        let proof: Option<Proof> = frame::decode(frame).ok();
        let Some(ours) = proof.and_then(|proof| secret.confirm(&ours, &proof)) else {
            peer.gone = Some(How::Ended);
            return;
        };
        peer.trust = Trust::Yes;
        self.send(id, &ours, None);
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
        let waiting: usize = peer.waiting.iter().map(|(bytes, _)| bytes.len()).sum();
        match frame::encode(message) {
            Ok(bytes) if waiting + bytes.len() <= MAX_WAITING_BYTES => {
                peer.waiting.push((bytes, fd));
                peer.gone = peer.gone.or(peer.put_out());
            }
            _ => peer.gone = Some(How::Ended),
        }
    }

    /// Hangs up on a peer, as soon as what was sent to it has left.
    pub fn hang_up(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.put_out();
        }
        self.peers.remove(&id);
    }

    /// Whether the peer is on this host.
    pub fn is_local(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.is_local)
    }

    /// Since when nothing came from the peer.
    pub fn silence(&self, id: PeerId) -> Duration {
        self.peers.get(&id).map_or(Duration::MAX, |peer| peer.last_heard.elapsed())
    }

    /// Takes a peer away from the hub: its socket.
    pub fn take_out(&mut self, id: PeerId) -> Option<OwnedFd> {
        self.peers.remove(&id).map(|peer| peer.fd)
    }
}

impl Peer {
    /// How it is gone, if it is. On this host there is no network that breaks.
    fn how_gone(&self) -> Option<How> {
        self.gone.map(|how| if self.is_local { How::Ended } else { how })
    }

    /// Takes in what has come; says how the peer is gone, if it is.
    fn take_in(&mut self) -> Option<How> {
        let mut bytes = [0; CHUNK_BYTES];
        // A peer that never stops does not keep the others waiting.
        for _ in 0..16 {
            match rustix::net::recv(&self.fd, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Some(How::Ended),
                Ok((n, _)) => {
                    self.last_heard = Instant::now();
                    self.frames.extend(&bytes[..n]);
                }
                Err(rustix::io::Errno::AGAIN) => return None,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Some(How::of(error)),
            }
        }
        None
    }

    /// Sends what waits, as far as the peer reads it; says how the peer is gone, if it is.
    fn put_out(&mut self) -> Option<How> {
        while let Some((bytes, fd)) = self.waiting.first_mut() {
            match send(self.fd.as_fd(), bytes, fd.as_ref().map(AsFd::as_fd)) {
                Ok(sent) if sent == bytes.len() => {
                    self.waiting.remove(0);
                }
                Ok(sent) => {
                    bytes.drain(..sent);
                    *fd = None;
                }
                Err(rustix::io::Errno::AGAIN) => return None,
                Err(error) => return Some(How::of(error)),
            }
        }
        None
    }
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
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn time_in_which_nobody_looked_is_nobodys_silence() {
        let (patience, away) = (Duration::from_millis(10), Duration::from_millis(100));
        let mut hub = Hub::new(None).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let begun = Instant::now();
        let peer = hub.adopt(ours.into(), true);
        std::thread::sleep(away);
        hub.wait(patience, &mut Vec::new()).unwrap();
        let silence = hub.silence(peer);
        assert!(silence + away <= begun.elapsed() + patience, "{silence:?}");
    }
}
