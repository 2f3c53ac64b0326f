//! How a queue pair progresses without hardware: inline, by the daemon, or not any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rackmem_abi::{CqEntry, Status, WqEntry, phase_of};
use rackmem_rmc::qp::Qp as QpState;
use rackmem_rmc::{QpConfig, Rights, rgp};

use super::context::Membership;
use super::ffi;
use crate::direct::{self, LocalBuffers};
use crate::shm::line_lock::Owner;
use crate::shm::queue::QueueMemory;
use crate::shm::segment::{State, View};

/// A waiter looks that often whether its daemon is still there.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(50);

/// Memory below this address is never a buffer, so that null pointers get an error, not a signal.
const LOWEST_ADDRESS: u64 = 4096;

/// State behind `Qp::engine_state`.
pub(crate) struct EngineState {
    membership: Arc<Membership>,
    memory: Arc<QueueMemory>,
    owner: Owner,
    rights: Rights,
    nodes: u16,
    /// The pipelines' view of the queues; only inline progress uses it.
    state: QpState,
    /// Segments of the nodes, as far as they were needed.
    peers: Vec<Option<View>>,
}

impl EngineState {
    pub(crate) fn new(
        membership: Arc<Membership>,
        memory: Arc<QueueMemory>,
        size: u32,
    ) -> EngineState {
        let rights = membership.rights;
        let config = QpConfig { ctx_id: membership.ctx_id, size, rights };
        EngineState {
            owner: membership.owner,
            rights,
            nodes: membership.rack_nodes,
            state: QpState::new(config).expect("the daemon has checked the size"),
            peers: (0..membership.rack_nodes).map(|_| None).collect(),
            membership,
            memory,
        }
    }

    /// One operation from its entry to its status.
    #[inline(always)]
    fn run(&mut self, entry: &WqEntry) -> Status {
        let outcome = rgp::check(entry, self.nodes, self.rights).and_then(|work| {
            if self.membership.segment.state() != State::Live {
                return Err(Status::NodeLost);
            }
            let peer = usize::from(work.dst_nid);
            if self.peers[peer].is_none() {
                self.peers[peer] = Some(self.membership.map_peer(work.dst_nid)?.view());
            }
            let view = self.peers[peer].as_ref().expect("just mapped");
            let done = direct::perform(&work, view, &mut OwnMemory, self.owner);
            if let Err(Status::NodeLost | Status::NoContext) = done {
                self.forget(peer);
            }
            done
        });
        let status = outcome.err().unwrap_or(Status::Ok);
        self.memory.counters().count(status == Status::Ok, entry.length);
        status
    }

    /// A node that is gone may come back with another segment: ask again next time.
    #[cold]
    fn forget(&mut self, peer: usize) {
        self.peers[peer] = None;
        self.membership.forget_peer(peer);
    }

    /// All entries that are posted.
    fn run_posted(&mut self) {
        loop {
            let next = self.state.next_entry();
            let words = self.memory.wq_words(next.index);
            let Some(entry) = rgp::accept(words, next.phase) else { break };
            let status = self.run(&entry);
            let slot = self.state.take_entry(false);
            let (position, word) = self.state.complete(slot, status, entry.length);
            self.memory.cq_entry(position).store(word, Ordering::Release);
        }
    }
}

/// The calling process's own memory as local buffers.
struct OwnMemory;

impl LocalBuffers for OwnMemory {
    #[inline(always)]
    fn locate(&self, address: u64, length: usize) -> Option<*mut u8> {
        (address >= LOWEST_ADDRESS || length == 0).then_some(address as *mut u8)
    }

    fn load(&mut self, _: u64, _: &mut [u8]) -> Result<(), Status> {
        Err(Status::BadLocalBuffer)
    }

    fn store(&mut self, _: u64, _: &[u8]) -> Result<(), Status> {
        Err(Status::BadLocalBuffer)
    }
}

/// # Safety
/// `qp` comes from a [`super::RawQueuePair`] and is used by one thread at a time.
unsafe fn state<'a>(qp: *mut ffi::Qp) -> &'a mut EngineState {
    // SAFETY: `engine_state` was set to a leaked `EngineState` that lives as long as the pair.
    unsafe { &mut *(*qp).engine_state.cast::<EngineState>() }
}

unsafe extern "C" fn execute(qp: *mut ffi::Qp, word0: u64, word1: u64) -> u32 {
    // SAFETY: C passes the queue pair that it got.
    let state = unsafe { state(qp) };
    state.run(&WqEntry::decode([word0, word1])) as u32
}

unsafe extern "C" fn progress(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    unsafe { state(qp) }.run_posted();
}

unsafe extern "C" fn wake(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    unsafe { state(qp) }.membership.bell.ring();
}

/// Sleeps until the daemon completes something, or is found to be gone.
unsafe extern "C" fn sleep(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    let (state, pair) = unsafe { (state(qp), &mut *qp) };
    let position = pair.reaped & (pair.size - 1);
    let phase = phase_of(pair.reaped, pair.size);
    let entry = state.memory.cq_entry(position);
    let mut ready = || CqEntry::decode(entry.load(Ordering::Acquire)).phase == phase;
    // The daemon may itself have gone to sleep before it could see our last entry.
    state.membership.bell.ring_if_asleep();
    state.memory.bed().sleep_unless(&mut ready, LIVENESS_INTERVAL);
    if !ready() && state.membership.is_daemon_gone() {
        pair.engine = &LOST;
        fail_posted(pair, &state.memory);
    }
}

/// Completes everything that is posted with `NodeLost`: there is no controller any more.
fn fail_posted(pair: &ffi::Qp, memory: &QueueMemory) {
    let mut position = pair.reaped;
    // A slot that has completed already is not busy; the application has yet to see it, though.
    // What is on the CQ stays; the rest follows in the order of its slots.
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

unsafe extern "C" fn ignore(_: *mut ffi::Qp) {}

/// The calling thread runs the pipelines.
pub(crate) static INLINE: ffi::Engine = ffi::Engine {
    execute: Some(execute),
    progress: Some(progress),
    wake: Some(ignore),
    sleep: Some(ignore),
};

/// The daemon runs them.
pub(crate) static DAEMON: ffi::Engine =
    ffi::Engine { execute: None, progress: None, wake: Some(wake), sleep: Some(sleep) };

/// Nobody does: every operation fails.
static LOST: ffi::Engine =
    ffi::Engine { execute: None, progress: Some(fail), wake: Some(ignore), sleep: Some(ignore) };
