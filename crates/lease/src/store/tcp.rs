//! A lease of a lender that is reached over the network: each lane is a connection.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rackmem_fabric::socket::wait;
use rackmem_fabric::{Buffer, Inlet, MAX_PLAIN_BYTES, Received, Sealer};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use super::health::Health;
use super::packet::{Answer, HEADER_BYTES, Op, Request, Status};
use super::queue::Queue;
use super::{Lane, MAX_REQUEST_BYTES, Store};
use crate::ANSWER;
use crate::error::{Error, Result};
use crate::messages::{Reply, Request as Message};
use rackmem_fabric::address::Address;
use rackmem_fabric::error::Error as Plain;
use rackmem_fabric::net::link::Link;
use rackmem_fabric::net::proof::Proof;
use rackmem_fabric::net::socket::is_refused;

/// Requests up to this size are put together before they leave; the bytes of larger ones are not copied.
const SMALL_BYTES: usize = 16 << 10;

/// Size at which requests that were put together leave.
const BATCH_BYTES: usize = 64 << 10;

/// Bytes of further answers that are taken in along with one.
const AHEAD_BYTES: usize = 64 << 10;

/// The way to a lease over the network.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The lender's address, as a number: a name would be looked up with the C library's memory.
    pub address: Address,
    /// First address of the lease, as the lender counts.
    pub base: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Token of the lease, which the lender asks for.
    pub token: String,
    /// The proof that the lender asks for.
    pub proof: Option<Proof>,
    /// Time to poll for an answer before sleeping.
    pub spin: Duration,
    /// Longest silence on a lane that waits for nothing.
    pub patience: Duration,
}

/// A lease over the network.
#[derive(Clone, Debug)]
pub struct TcpStore {
    way: Arc<Way>,
    health: Arc<Health>,
    /// Numbers the lanes of this process.
    lanes: Arc<AtomicU64>,
}

impl TcpStore {
    pub(crate) fn new(way: Way, health: Arc<Health>) -> TcpStore {
        TcpStore { way: Arc::new(way), health, lanes: Arc::default() }
    }

    /// Asks the lender on a connection of its own, and returns that. One attempt.
    fn ask(&self, message: &Message, is_expected: impl Fn(&Reply) -> bool) -> Result<Link> {
        self.check()?;
        let asked = Link::connect(&self.way.address, self.way.proof.as_ref(), ANSWER).and_then(
            |mut link| {
                link.send(message)?;
                link.receive::<Reply>(ANSWER).map(|reply| (link, reply))
            },
        );
        match asked {
            Ok((link, reply)) if is_expected(&reply) => Ok(link),
            Ok((_, Reply::NoLease)) => Err(self.lose("it has the lease no more")),
            Ok((_, Reply::Refused(why))) => Err(self.health.broken(why)),
            Ok((_, other)) => Err(self.lose(format!("it answers {other:?}"))),
            Err(error) if is_refused(&error) => Err(self.lose("its process has ended")),
            Err(Plain::PeerLost { reason, .. }) => Err(self.health.broken(reason)),
            // Nothing is known of the lender.
            Err(error) if Error::is_at_limit(error.errno()) => Err(error.into()),
            Err(error) => Err(self.health.broken(error.to_string())),
        }
    }

    /// The lender has not got the bytes any more.
    #[cold]
    fn lose(&self, reason: impl Into<String>) -> Error {
        self.health.end(reason);
        self.health.error()
    }

    /// Opens the lane of this number; one that was open before takes no effect any more.
    fn connect(&self, number: u64) -> Result<(OwnedFd, Option<Sealer>, Inlet)> {
        let Way { base, token, .. } = &*self.way;
        let owner = std::process::id();
        let message = Message::Lane { base: *base, token: token.clone(), owner, number };
        let link = self.ask(&message, |reply| *reply == Reply::LaneOpen)?;
        link.allow_silence(self.way.patience);
        let (fd, keys, _) = link.into_parts();
        prepare(&fd).map_err(|error| Error::io("cannot prepare a lane", error))?;
        let (sealer, incoming) = keys.map(|keys| (keys.sealer, keys.incoming)).unzip();
        Ok((fd, sealer, Inlet::new(Buffer::with_room(AHEAD_BYTES), incoming)))
    }
}

impl Store for TcpStore {
    fn size_bytes(&self) -> u64 {
        self.way.size_bytes
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        let number = self.lanes.fetch_add(1, Ordering::Relaxed);
        let (fd, sealer, ahead) = self.connect(number)?;
        Ok(Box::new(TcpLane {
            fd,
            sealer,
            number,
            store: self.clone(),
            queue: Queue::new(),
            out: Vec::with_capacity(BATCH_BYTES + SMALL_BYTES + HEADER_BYTES),
            record: Vec::new(),
            ahead,
            next_tag: 0,
            is_broken: false,
        }))
    }

    fn check(&self) -> Result<()> {
        self.health.check()
    }

    fn fence(&self) -> Result<()> {
        let Way { base, token, .. } = &*self.way;
        let message =
            Message::Fence { base: *base, token: token.clone(), owner: std::process::id() };
        self.ask(&message, |reply| *reply == Reply::Fenced).map(drop)
    }
}

/// The socket of a lane blocks, but not for ever.
fn prepare(fd: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(fd, false)?;
    sockopt::set_socket_timeout(fd, sockopt::Timeout::Recv, Some(ANSWER))?;
    Ok(())
}

struct TcpLane {
    fd: OwnedFd,
    sealer: Option<Sealer>,
    number: u64,
    store: TcpStore,
    queue: Queue<u32>,
    out: Vec<u8>,
    /// A sealed record on its way out.
    record: Vec<u8>,
    /// Bytes that came before they were wanted.
    ahead: Inlet,
    next_tag: u32,
    is_broken: bool,
}

impl TcpLane {
    /// The lane is broken; whether the lease is over as well shows when it is reopened.
    #[cold]
    fn fail(&mut self, reason: impl Into<String>) -> Error {
        self.is_broken = true;
        self.store.health.broken(reason)
    }

    fn check(&mut self) -> Result<()> {
        self.store.health.check()?;
        if self.is_broken { Err(self.fail("the lane is broken")) } else { Ok(()) }
    }

    fn ask(&mut self, op: Op, offset: u64, length: u64) -> Result<u32> {
        self.check()?;
        self.store.check_range(offset, length)?;
        if self.out.len() >= BATCH_BYTES {
            self.flush()?;
        }
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        let address = self.store.way.base + offset;
        self.out.extend_from_slice(&Request { op, tag, length, address }.encode());
        Ok(tag)
    }

    fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let sent = self.send(&out);
        self.out = out;
        self.out.clear();
        sent
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if self.sealer.is_none() {
            return self.write(bytes);
        }
        bytes.chunks(MAX_PLAIN_BYTES).try_for_each(|part| {
            let Some(sealer) = &mut self.sealer else { return Ok(()) };
            let mut record = std::mem::take(&mut self.record);
            record.clear();
            let sealed = sealer.seal(part, &mut record);
            let sent = match sealed {
                Ok(()) => self.write(&record),
                Err(error) => Err(self.fail(error.to_string())),
            };
            self.record = record;
            sent
        })
    }

    /// Sends all of it. While the lender does not read because we do not read its answers, they are
    /// taken in: nobody waits for ever.
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        while !bytes.is_empty() {
            match rustix::net::send(&self.fd, bytes, flags) {
                Ok(n) => bytes = &bytes[n..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait_to_send()?,
                Err(error) => return Err(self.fail(io::Error::from(error).to_string())),
            }
        }
        Ok(())
    }

    fn wait_to_send(&mut self) -> Result<()> {
        let wanted = PollFlags::IN | PollFlags::OUT;
        let ready =
            wait(self.fd.as_fd(), wanted, ANSWER).map_err(|error| self.fail(error.to_string()))?;
        if ready.is_empty() {
            return Err(self.fail("it does not read"));
        }
        if ready.contains(PollFlags::IN) { self.absorb(AHEAD_BYTES).map(drop) } else { Ok(()) }
    }

    /// Receives bytes that are there, this many at least if they are, without waiting; returns their number.
    fn absorb(&mut self, room: usize) -> Result<usize> {
        let (room, flags) = (room.max(AHEAD_BYTES), RecvFlags::DONTWAIT);
        match self.ahead.receive(self.fd.as_fd(), Default::default(), room, flags) {
            Ok(Received { bytes: 0, .. }) => Err(self.fail("the connection has ended")),
            Ok(Received { bytes, .. }) => Ok(bytes),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(0),
                _ => Err(self.fail(error.to_string())),
            },
        }
    }

    /// Gets a header and the bytes that have to follow it.
    fn receive(&mut self, header: &mut [u8; HEADER_BYTES], into: &mut [u8]) -> Result<()> {
        let mut got = self.give(0, header, into);
        let give_up =
            (!self.store.way.spin.is_zero()).then(|| Instant::now() + self.store.way.spin);
        let mut spins = give_up.is_some();
        while got < HEADER_BYTES + into.len() {
            let flags = if spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
            let head = &mut header[got.min(HEADER_BYTES)..];
            let body = &mut into[got.saturating_sub(HEADER_BYTES)..];
            match self.ahead.receive(self.fd.as_fd(), [head, body], AHEAD_BYTES, flags) {
                Ok(Received { bytes: 0, .. }) => return Err(self.fail("the connection has ended")),
                Ok(Received { direct, .. }) => {
                    got += direct;
                    got += self.give(got, header, into);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock if spins => {
                        std::hint::spin_loop();
                        spins = give_up.is_some_and(|give_up| Instant::now() < give_up);
                    }
                    ErrorKind::WouldBlock => return Err(self.fail("it does not answer")),
                    _ => return Err(self.fail(error.to_string())),
                },
            }
        }
        Ok(())
    }

    /// Moves bytes that came ahead to what is missing behind the first `got`; returns their number.
    #[inline]
    fn give(&mut self, got: usize, header: &mut [u8; HEADER_BYTES], into: &mut [u8]) -> usize {
        let head = self.ahead.give(&mut header[got.min(HEADER_BYTES)..]);
        match (got + head).checked_sub(HEADER_BYTES) {
            Some(at) => head + self.ahead.give(&mut into[at..]),
            None => head,
        }
    }

    fn judge(&mut self, header: &[u8; HEADER_BYTES], tag: u32, length: usize) -> Result<()> {
        let answer = Answer::decode(header);
        match answer {
            Ok(Answer { status: Status::Done, tag: theirs, length: n })
                if theirs == tag && n == length as u64 =>
            {
                Ok(())
            }
            Ok(Answer { status, .. }) if status != Status::Done => {
                Err(self.store.lose(format!("it answers '{status:?}'")))
            }
            _ => Err(self.store.lose("it does not keep to the protocol")),
        }
    }
}

impl Lane for TcpLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        let tag = self.ask(Op::Read, offset, length as u64)?;
        self.queue.push_read(offset, length, tag);
        Ok(())
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        let tag = self.ask(Op::Write, offset, from.len() as u64)?;
        self.queue.push_other(tag);
        if from.len() <= SMALL_BYTES {
            self.out.extend_from_slice(from);
            return Ok(());
        }
        self.flush()?;
        self.send(from)
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        let tag = self.ask(Op::Discard, offset, length)?;
        self.queue.push_other(tag);
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        self.check()?;
        self.flush()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        self.push()?;
        let (_, length, _, _, tag) = self.queue.get(0).expect("something is outstanding");
        assert_eq!(into.len(), length, "the buffer has the length of the request");
        let mut header = [0; HEADER_BYTES];
        self.queue.take(into, |_, _, _| Ok(()))?;
        // An answer that is not `Done` is shorter; but then the lane has ended.
        self.receive(&mut header, into)?;
        self.judge(&header, tag, length)
    }

    fn reopen(&mut self) -> Result<()> {
        self.queue.clear();
        self.out.clear();
        (self.fd, self.sealer, self.ahead) = self.store.connect(self.number)?;
        self.is_broken = false;
        Ok(())
    }

    fn is_ready(&mut self) -> bool {
        let Some((_, length, _, _, _)) = self.queue.get(0) else { return false };
        if self.flush().is_err() {
            // `take` says why, at once.
            return true;
        }
        let wanted = HEADER_BYTES + length;
        while self.ahead.len() < wanted {
            match self.absorb(wanted - self.ahead.len()) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
        true
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}
