//! A queue pair's own links to daemons of other hosts: the calling thread is the controller of the source.
//!
//! | | by the own daemon | by an own link |
//! |---|---|---|
//! | system calls of an operation by itself | four, in three processes | two at each end |
//! | progress while the program does something else | yes | of what has left |
//!
//! # Decisions
//!
//! - *What others can see leaves before the call returns.* A write, an atomic or a notification that is posted while
//!   others are in flight goes to the daemon, which sends many at a time; a system call for each would cost more. Reads
//!   are staged, and leave when [`BATCH`] have gathered or the program looks for completions.
//! - *A link that ends fails its operations*, and nothing is repeated. The daemon then knows more, and is asked; a new
//!   link is tried after [`FIRST_RETRY`].
//! - *A link is lost with that of the daemons.* The kernel of the other host keeps it up for a daemon that is stopped,
//!   which only the own daemon notices. So a thread that waits asks its daemon.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rackmem_abi::{Op, Status};
use rackmem_fabric::guest;
use rackmem_fabric::tcp::{TcpLink, UNIT_BYTES};
use rackmem_rmc::{Bounds, Memory, Network, QpConfig, QpId, Rmc, Sink, Source, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ffi::LOWEST_ADDRESS;
use super::membership::Membership;
use super::rings::{Rings, Waiter};
use crate::links::{Links, Path};
use crate::protocol::{Request, Response};
use crate::shm::copy;
use crate::shm::queue::QueueMemory;

/// Reads that are staged before they leave.
const BATCH: u32 = 32;

/// Longest asynchronous operation that others can see and that goes by an own link: an idle socket takes it at once.
const MAX_AT_ONCE_BYTES: u32 = UNIT_BYTES as u32;

/// Time after which a link that ended, or was not made, is tried again; doubles up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(64);

/// Transactions in flight.
const ITT_ENTRIES: u32 = rackmem_abi::MAX_WQ_SIZE as u32;

/// Packets per turn of a pipeline.
const PACKET_BUDGET: usize = 64;

/// The way to a node.
#[derive(Clone, Copy, Debug)]
enum Way {
    Unknown,
    Linked(Bounds),
    /// No link before then; the pause was so long.
    None(Instant, Duration),
}

/// The own links of a queue pair.
pub(super) struct Far {
    ways: Vec<Way>,
    links: Links,
    rmc: Rmc,
    pub(super) rings: Rings,
    /// Operations that were posted since the last turn.
    staged: u32,
}

impl Far {
    /// No links yet; `None`: there is no memory for the queues.
    pub(super) fn new(membership: &Membership, size: u32) -> Option<Far> {
        let Membership { nid, rack_nodes: nodes, ctx_id, rights, .. } = *membership;
        let memory = Arc::new(QueueMemory::create("rackmem-far").ok()?);
        let mut rmc = Rmc::new(nid, nodes, ITT_ENTRIES);
        rmc.add_qp(QpConfig { ctx_id, size, rights })?;
        Some(Far {
            ways: vec![Way::Unknown; usize::from(nodes)],
            links: Links::new(nid, nodes),
            rmc,
            rings: Rings::new(memory, size),
            staged: 0,
        })
    }

    /// Whether an operation goes by an own link, which is made when it is first needed.
    #[inline]
    pub(super) fn takes(&mut self, work: &Work, waiter: Waiter, membership: &Membership) -> bool {
        let is_idle = self.rings.in_flight() == 0;
        if is_idle {
            // An end that has come meanwhile is no operation's.
            self.turn();
        }
        let leaves_at_once = is_idle && work.length <= MAX_AT_ONCE_BYTES;
        (leaves_at_once || waiter == Waiter::Thread || work.op == Op::Read)
            && match self.ways[usize::from(work.dst_nid)] {
                Way::Linked(_) => true,
                way => is_idle && self.link(work.dst_nid, way, membership),
            }
    }

    /// Makes a link, while nothing waits for others.
    #[cold]
    fn link(&mut self, nid: u16, way: Way, membership: &Membership) -> bool {
        let pause = match way {
            Way::None(until, _) if Instant::now() < until => return false,
            Way::None(_, pause) => (2 * pause).min(LONGEST_RETRY),
            Way::Unknown | Way::Linked(_) => FIRST_RETRY,
        };
        let made = invite(nid, membership);
        let is_made = made.is_some();
        self.ways[usize::from(nid)] = match made {
            Some((link, bounds)) => {
                self.links.set(nid, Some(Path::Tcp(Box::new(link))));
                Way::Linked(bounds)
            }
            None => Way::None(Instant::now() + pause, pause),
        };
        is_made
    }

    /// Posts an operation, for which there is room. It leaves now, unless it may wait for others.
    #[inline]
    pub(super) fn post(&mut self, work: &Work, waiter: Waiter) {
        let may_wait = waiter != Waiter::Thread && self.rings.in_flight() != 0;
        self.rings.post(work, waiter);
        self.staged += 1;
        if !may_wait || self.staged >= BATCH {
            self.turn();
        }
    }

    /// One turn of the pipelines.
    #[inline]
    pub(super) fn turn(&mut self) {
        let Far { ways, links, rmc, rings, staged, .. } = self;
        links.receive();
        // Nobody has a reason to ask a process.
        while links.peek_request().is_some() {
            links.take_request();
        }
        let mut memory = OwnMemory { rings: &rings.memory, ways };
        rmc.poll_rcp(&mut memory, links, PACKET_BUDGET);
        rmc.poll_rgp(&mut memory, links, PACKET_BUDGET);
        links.transmit_far();
        *staged = 0;
        if let Some(nid) = self.links.lost_far() {
            self.lose(nid);
        }
    }

    /// Ends links to daemons that the own one has lost.
    #[cold]
    pub(super) fn look(&mut self, membership: &Membership) {
        for nid in 0..self.ways.len() as u16 {
            let is_linked = matches!(self.ways[usize::from(nid)], Way::Linked(_));
            if is_linked && membership.is_link_lost(nid) {
                self.lose(nid);
            }
        }
    }

    #[cold]
    fn lose(&mut self, nid: u16) {
        // Replies that came before the end still count.
        let mut memory = OwnMemory { rings: &self.rings.memory, ways: &self.ways };
        while self.rmc.poll_rcp(&mut memory, &mut self.links, PACKET_BUDGET) != 0 {}
        self.links.set(nid, None);
        self.rmc.fail_node(nid, &mut memory);
        self.ways[usize::from(nid)] = Way::None(Instant::now() + FIRST_RETRY, FIRST_RETRY);
    }

    /// Sleeps until something has come or can leave, or the time is over.
    pub(super) fn sleep(&self, time: Duration) {
        if self.links.have_work() {
            return;
        }
        let wanted = |has_staged| match has_staged {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        };
        let sockets = self.links.sockets();
        let mut sockets: Vec<_> = sockets
            .map(|(socket, has_staged)| PollFd::from_borrowed_fd(socket, wanted(has_staged)))
            .collect();
        if let Ok(time) = Timespec::try_from(time) {
            let _ = poll(&mut sockets, Some(&time));
        }
    }
}

/// A link with a node's daemon, if both daemons have one and the node has joined, and the bounds of its segment.
fn invite(nid: u16, membership: &Membership) -> Option<(TcpLink, Bounds)> {
    // A call that is given up would end the membership, while the daemon may still write to buffers.
    if membership.is_own_daemon_stopped() {
        return None;
    }
    let answer = membership.call(&Request::Invite { nid }).ok()?;
    let Response::Invited { invitation, size_bytes } = answer else { return None };
    let link = guest::connect(&invitation).ok()?;
    Some((link, Bounds { size_bytes }))
}

/// The queues of the calling process, and its own memory as local buffers. It has no segment here: its daemon answers
/// requests of others.
struct OwnMemory<'a> {
    rings: &'a QueueMemory,
    ways: &'a [Way],
}

impl Memory for OwnMemory<'_> {
    #[inline(always)]
    fn wq_words(&self, _: QpId, slot: u32) -> [u64; 2] {
        self.rings.wq_words(slot)
    }

    #[inline(always)]
    fn put_cq(&mut self, _: QpId, position: u32, word: u32) {
        self.rings.cq_entry(position).store(word, Ordering::Release);
    }

    #[inline(always)]
    fn check(&mut self, _: QpId, work: &Work) -> Result<(), Status> {
        if let Way::Linked(bounds) = self.ways[usize::from(work.dst_nid)] {
            bounds.check(work.offset, work.length.into())?;
        }
        let is_buffer = work.buffer >= LOWEST_ADDRESS || work.length == 0;
        is_buffer.then_some(()).ok_or(Status::BadLocalBuffer)
    }

    #[inline(always)]
    fn load(&mut self, _: QpId, address: u64, out: Sink<'_>) -> Result<(), Status> {
        // SAFETY: the program vouches for its buffer, and the sink for its room.
        unsafe { copy::copy_out(out.as_mut_ptr(), address as *const u8, out.len()) };
        Ok(())
    }

    #[inline(always)]
    fn store(&mut self, _: QpId, address: u64, bytes: Source<'_>) -> Result<(), Status> {
        // SAFETY: as above; the source vouches for its bytes.
        unsafe { copy::copy_out(address as *mut u8, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn read(&mut self, _: u16, _: u64, _: Sink<'_>) {}

    fn write(&mut self, _: u16, _: u64, _: Source<'_>) {}

    fn fetch_add(&mut self, _: u16, _: u64, _: u64) -> u64 {
        0
    }

    fn compare_swap(&mut self, _: u16, _: u64, _: u64, _: u64) -> u64 {
        0
    }

    fn notify(&mut self, _: u16) {}
}
