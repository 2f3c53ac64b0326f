//! Progress of a queue pair without hardware: inline, by the daemon, or none after the node is lost. `mixed.rs` has
//! inline progress in a rack over several hosts.
//!
//! C performs short operations without this engine, with the same checks (`rackmem_try_` in
//! `include/rackmem/direct.h`), on the segments that the engine has mapped ([`ffi::Window`]). It calls the engine for
//! all others, and for those that meet a lock or a node that is not live.
//!
//! Inline progress does not touch the queues: the calling thread makes the checks and the copy of an operation. It
//! needs the segments of the peers mapped into this process, which the other two ways do not. Executing posted entries
//! from the rings was measured first. The rings were half of the cost and brought nothing, because the operation is
//! done when the call returns. Callbacks run where they always do, while the program waits for slots or drains the CQ.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rackmem_abi::{CqEntry, MAX_LENGTH, Op, Status, WqEntry, phase_of};
use rackmem_rmc::{Rights, Sink, Source, Work, rgp};

use super::ffi::{self, LOWEST_ADDRESS};
use super::membership::{LIVENESS_INTERVAL, Membership, Unmapped};
use crate::direct::{self, LocalBuffers};
use crate::shm::line_lock::Owner;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::View;

/// Time without a completion after which a waiter suspects that a daemon is stopped.
const STALL: Duration = Duration::from_millis(1500);

/// State behind `Qp::engine_state`.
pub(crate) struct EngineState {
    pub(super) membership: Arc<Membership>,
    pub(super) memory: Arc<QueueMemory>,
    owner: Owner,
    rights: Rights,
    pub(super) nodes: u16,
    /// Segments of the nodes, as far as they were needed.
    peers: Vec<Option<View>>,
    /// The same for inline C, which performs short operations without a call.
    windows: Box<[ffi::Window]>,
    /// This node's own segment: lost when the node is.
    own: View,
    /// Longest sleep.
    pub(super) nap: Duration,
    stall: Stall,
}

/// Time without completions, as a sleeper sees it.
#[derive(Default)]
pub(super) struct Stall {
    reaped: u32,
    since: Option<Instant>,
    is_said: bool,
}

impl Stall {
    /// Says once for each stall if a daemon is stopped: its operations complete when it goes on, and fail when it dies.
    /// They cannot fail before, as it may still write to their buffers.
    #[cold]
    pub(super) fn look(&mut self, reaped: u32, membership: &Membership) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.reaped != reaped {
            *self = Stall { reaped, since: Some(Instant::now()), is_said: false };
        } else if !self.is_said
            && since.elapsed() >= STALL
            && let Some(daemon) = membership.stopped_daemon()
        {
            self.is_said = true;
            eprintln!("rackmem: operations do not complete: {daemon}");
        }
    }
}

impl EngineState {
    pub(crate) fn new(membership: Arc<Membership>, memory: Arc<QueueMemory>) -> EngineState {
        EngineState {
            owner: membership.owner,
            rights: membership.rights,
            nodes: membership.rack_nodes,
            peers: (0..membership.rack_nodes).map(|_| None).collect(),
            windows: vec![ffi::Window::NONE; membership.rack_nodes.into()].into(),
            own: membership.segment.view(),
            nap: LIVENESS_INTERVAL,
            stall: Stall::default(),
            membership,
            memory,
        }
    }

    /// One operation from its operands to its status.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        op: u32,
        nid: u32,
        offset: u64,
        buffer: u64,
        length: u64,
    ) -> Status {
        let work = self.check(op, nid, offset, buffer, length);
        let outcome = work.and_then(|work| self.perform(work));
        self.count(outcome, length)
    }

    /// Counts an operation that the calling thread has done. Returns its status.
    #[inline(always)]
    pub(super) fn count(&self, outcome: Result<(), Status>, length: u64) -> Status {
        let status = outcome.err().unwrap_or(Status::Ok);
        self.memory.inline_counters().count(status == Status::Ok, length as u32);
        status
    }

    /// The checks that need no segment but the own.
    #[inline(always)]
    pub(super) fn check(
        &self,
        op: u32,
        nid: u32,
        offset: u64,
        buffer: u64,
        length: u64,
    ) -> Result<Work, Status> {
        if length > MAX_LENGTH.into() {
            return Err(Status::OutOfSegment);
        }
        let entry = WqEntry {
            phase: true,
            op_code: op as u8,
            dst_nid: nid.min(u16::MAX.into()) as u16,
            offset,
            length: length as u32,
            buffer,
        };
        let work = rgp::check(&entry, self.nodes, self.rights)?;
        if !self.own.is_live() {
            return Err(Status::NodeLost);
        }
        Ok(work)
    }

    /// Performs a checked operation on a mapped segment.
    #[inline(always)]
    pub(super) fn perform(&mut self, work: Work) -> Result<(), Status> {
        let (peer, owner) = (usize::from(work.dst_nid), self.owner);
        let view = match &self.peers[peer] {
            Some(view) => view,
            None => self.map(peer)?,
        };
        let done = direct::perform(work, view, &mut OwnMemory, owner);
        if let Err(Status::NodeLost | Status::NoContext) = done {
            self.forget(peer);
        }
        done
    }

    /// The first operation on a node maps its segment.
    #[cold]
    #[inline(never)]
    fn map(&mut self, peer: usize) -> Result<&View, Status> {
        let view = self.membership.map_peer(peer as u16)?.view();
        self.windows[peer] = view.window();
        Ok(self.peers[peer].insert(view))
    }

    /// The windows of all nodes, for the queue pair of this engine.
    pub(super) fn windows(&self) -> &[ffi::Window] {
        &self.windows
    }

    /// Whether a node's segment is mapped here.
    #[inline(always)]
    pub(super) fn has_mapped(&self, nid: u16) -> bool {
        self.peers[usize::from(nid)].is_some()
    }

    /// Maps a node's segment, or finds why that cannot be.
    pub(super) fn find(&mut self, nid: u16) -> Result<(), Unmapped> {
        let view = self.membership.find_peer(nid)?.view();
        self.peers[usize::from(nid)] = Some(view);
        Ok(())
    }

    /// A lost node may come back with another segment, so the next operation asks again.
    #[cold]
    #[inline(never)]
    fn forget(&mut self, peer: usize) {
        self.windows[peer] = ffi::Window::NONE;
        self.peers[peer] = None;
        self.membership.forget_peer(peer);
    }
}

/// The calling process's own memory as local buffers.
struct OwnMemory;

impl LocalBuffers for OwnMemory {
    #[inline(always)]
    fn locate(&self, address: u64, length: usize) -> Option<*mut u8> {
        (address >= LOWEST_ADDRESS || length == 0).then_some(address as *mut u8)
    }

    fn check(&mut self, _: u64, _: usize, _: bool) -> Result<(), Status> {
        Err(Status::BadLocalBuffer)
    }

    fn load(&mut self, _: u64, _: Sink<'_>) -> Result<(), Status> {
        Err(Status::BadLocalBuffer)
    }

    fn store(&mut self, _: u64, _: Source<'_>) -> Result<(), Status> {
        Err(Status::BadLocalBuffer)
    }
}

/// # Safety
/// `qp` comes from a [`super::RawQueuePair`] and is used by one thread at a time.
pub(super) unsafe fn state<'a>(qp: *mut ffi::Qp) -> &'a mut EngineState {
    // SAFETY: `engine_state` was set to a leaked `EngineState` that lives as long as the pair.
    unsafe { &mut *(*qp).engine_state.cast::<EngineState>() }
}

const READ: u32 = Op::Read as u32;
const WRITE: u32 = Op::Write as u32;

unsafe extern "C" fn execute(
    qp: *mut ffi::Qp,
    op: u32,
    nid: u32,
    offset: u64,
    buffer: u64,
    length: u64,
) -> u32 {
    // SAFETY: C passes the queue pair that it got.
    let state = unsafe { state(qp) };
    // A constant operation folds the checks that depend on it away.
    let status = match op {
        READ => state.run(READ, nid, offset, buffer, length),
        WRITE => state.run(WRITE, nid, offset, buffer, length),
        _ => state.run(op, nid, offset, buffer, length),
    };
    status as u32
}

unsafe extern "C" fn wake(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    unsafe { state(qp) }.membership.bell.ring();
}

/// Sleeps until the daemon completes an operation, or is found dead.
unsafe extern "C" fn sleep(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    let (state, pair) = unsafe { (state(qp), &mut *qp) };
    let position = pair.reaped & (pair.size - 1);
    let phase = phase_of(pair.reaped, pair.size);
    let entry = state.memory.cq_entry(position);
    let mut ready = || CqEntry::decode(entry.load(Ordering::Acquire)).phase == phase;
    // The daemon may itself have gone to sleep before it could see our last entry.
    state.membership.bell.ring_if_asleep();
    state.memory.bed().sleep_unless(&mut ready, state.nap);
    if ready() {
        state.stall = Stall::default();
    } else if state.membership.is_daemon_gone() {
        pair.engine = &LOST;
        fail_posted(pair, &state.memory);
    } else {
        state.stall.look(pair.reaped, &state.membership);
    }
}

/// Completes all posted entries with `NodeLost`: there is no controller any more.
fn fail_posted(pair: &ffi::Qp, memory: &QueueMemory) {
    let mut position = pair.reaped;
    // A slot that has completed already is not busy; the application has yet to see it, though.
    // Completions on the CQ stay; the rest follows in the order of the slots.
    let mut seen = [false; rackmem_abi::MAX_WQ_SIZE];
    while position != pair.posted {
        let word = memory.cq_entry(position & (pair.size - 1)).load(Ordering::Acquire);
        let entry = CqEntry::decode(word);
        if entry.phase != phase_of(position, pair.size) {
            break;
        }
        seen[usize::from(entry.slot) % rackmem_abi::MAX_WQ_SIZE] = true;
        position = position.wrapping_add(1);
    }
    const BUSY: u8 = 1;
    for slot in 0..pair.size {
        if position == pair.posted {
            break;
        }
        if pair.slot_state[slot as usize] == BUSY && !seen[slot as usize] {
            let entry = CqEntry {
                phase: phase_of(position, pair.size),
                slot: slot as u16,
                status_code: Status::NodeLost as u8,
            };
            memory.cq_entry(position & (pair.size - 1)).store(entry.encode(), Ordering::Release);
            position = position.wrapping_add(1);
        }
    }
}

unsafe extern "C" fn fail(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    let (state, pair) = unsafe { (state(qp), &*qp) };
    fail_posted(pair, &state.memory);
}

/// Wakes the sleepers of a node's mapped segment.
pub(super) unsafe extern "C" fn rouse(qp: *mut ffi::Qp, nid: u32) {
    // SAFETY: as `execute`; queue pairs with windows have an `EngineState`.
    if let Some(Some(view)) = unsafe { state(qp) }.peers.get(nid as usize) {
        view.wake();
    }
}

pub(super) unsafe extern "C" fn ignore(_: *mut ffi::Qp) {}

/// The calling thread runs the pipelines: nothing is ever outstanding.
pub(crate) static INLINE: ffi::Engine = ffi::Engine {
    execute: Some(execute),
    progress: Some(ignore),
    wake: Some(ignore),
    sleep: Some(ignore),
    start: Some(execute),
    posts: 0,
};

/// The daemon runs them.
pub(crate) static DAEMON: ffi::Engine = ffi::Engine {
    execute: None,
    progress: None,
    wake: Some(wake),
    sleep: Some(sleep),
    start: None,
    posts: 0,
};

/// No controller is left: every operation fails.
static LOST: ffi::Engine = ffi::Engine {
    execute: None,
    progress: Some(fail),
    wake: Some(ignore),
    sleep: Some(ignore),
    start: None,
    posts: 0,
};
