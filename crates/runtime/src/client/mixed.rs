//! Inline progress in a rack over several hosts.
//!
//! The calling thread performs operations on segments that it can map, as everywhere. It posts those on nodes of other
//! hosts to queues: of an own link with the daemon there (`far.rs`), or those that it shares with its own daemon, which
//! inline progress does not use otherwise. Either way they are carried out by packets.
//!
//! # Decisions
//!
//! - *The program's CQ is memory of the engine.* The shared queues have counters of their own, because synchronous
//!   operations take entries there and no slots of the program. The engine moves their completions to the program's CQ.
//! - *Every asynchronous operation completes on that CQ*, also one that was done at once: an entry's phase depends on
//!   its position, so no completion may pass the CQ by.
//! - *A synchronous operation blocks in `execute`*, and completions of others go to the CQ meanwhile.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rackmem_abi::{CqEntry, MAX_ADDRESS, MAX_WQ_SIZE, Status, phase_of};
use rackmem_rmc::Work;

use super::engine::{EngineState, Stall, ignore};
use super::far::Far;
use super::ffi;
use super::membership::LIVENESS_INTERVAL;
use super::rings::{Rings, Waiter};

/// The CQ that the program sees.
struct ProgramCq {
    entries: Box<[AtomicU32; MAX_WQ_SIZE]>,
    size: u32,
    /// Completions ever put there.
    published: u32,
}

impl ProgramCq {
    fn new(size: u32) -> ProgramCq {
        ProgramCq {
            entries: Box::new([const { AtomicU32::new(0) }; MAX_WQ_SIZE]),
            size,
            published: 0,
        }
    }

    /// There is room: an entry for each slot, and a slot completes once.
    fn publish(&mut self, slot: u16, status_code: u8) {
        let entry = CqEntry { phase: phase_of(self.published, self.size), slot, status_code };
        let position = self.published & (self.size - 1);
        self.entries[position as usize].store(entry.encode(), Ordering::Release);
        self.published = self.published.wrapping_add(1);
    }
}

/// State behind `Qp::engine_state` of [`MIXED`].
pub(super) struct Mixed {
    /// The engine of mapped segments.
    engine: EngineState,
    /// By node, whether it is known to be on another host, which does not change.
    remote: Vec<bool>,
    shared: Rings,
    /// Links of its own; `None`: there was no memory for them.
    far: Option<Far>,
    cq: ProgramCq,
    /// Status code of the synchronous operation, once it has completed.
    answer: Option<u8>,
    /// The daemon is gone, and with it the way to other hosts.
    is_daemon_lost: bool,
    /// Longest sleep.
    pub(super) nap: Duration,
    stall: Stall,
}

/// Most turns of the own links in vain, each a system call, before a waiting thread sleeps: about 0.5 ms. A daemon
/// that sleeps takes 0.1 ms to wake on a virtual machine. If the thread slept before it answers, it would take as long
/// itself, the daemon would sleep again meanwhile, and so each operation would wake both.
pub(super) const MAX_IDLE_TURNS: u32 = 1024;

/// Turns of the own links in vain after which a waiting thread lets others of its core run. The daemon that wakes
/// for our request may be one of them: the kernel likes to wake a process where its packet came from.
pub(super) const TURNS_PER_YIELD: u32 = 16;

/// Longest sleep while completions may come both from the daemon and by an own link.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

/// The outcome of an operation's first step.
enum Way {
    Done(Status),
    /// It goes by packets.
    Remote(Work),
}

impl Mixed {
    pub(super) fn new(engine: EngineState, size: u32) -> Mixed {
        Mixed {
            remote: vec![false; usize::from(engine.nodes)],
            shared: Rings::new(engine.memory.clone(), size),
            far: Far::new(&engine.membership, size),
            cq: ProgramCq::new(size),
            answer: None,
            is_daemon_lost: false,
            nap: LIVENESS_INTERVAL,
            stall: Stall::default(),
            engine,
        }
    }

    /// The first entry of the CQ that the program sees.
    pub(super) fn cq(&self) -> *mut u32 {
        self.cq.entries.as_ptr().cast_mut().cast()
    }

    /// Performs an operation on a mapped segment, or finds that it is for the daemon.
    #[inline(always)]
    fn begin(&mut self, op: u32, nid: u32, offset: u64, buffer: u64, length: u64) -> Way {
        let outcome = match self.engine.check(op, nid, offset, buffer, length) {
            Ok(work) if self.is_remote(work.dst_nid) => {
                // The entry has no room for more bits of the address.
                if work.buffer <= MAX_ADDRESS || work.length == 0 {
                    return Way::Remote(work);
                }
                Err(Status::BadLocalBuffer)
            }
            Ok(work) => self.engine.perform(work),
            Err(status) => Err(status),
        };
        Way::Done(self.engine.count(outcome, length))
    }

    #[inline(always)]
    fn is_remote(&mut self, nid: u16) -> bool {
        self.remote[usize::from(nid)]
            || (!self.engine.has_mapped(nid) && self.ask_whether_remote(nid))
    }

    /// Asks the daemon for a node's segment. A node on this host without one is left to the mapping engine.
    #[cold]
    #[inline(never)]
    fn ask_whether_remote(&mut self, nid: u16) -> bool {
        let is_remote = self.engine.find(nid).is_err_and(|missing| missing.is_remote);
        self.remote[usize::from(nid)] = is_remote;
        is_remote
    }

    /// Posts an operation on a node of another host, after waiting for room. Without a daemon it fails.
    fn post(&mut self, work: &Work, waiter: Waiter, spin_limit: u32) {
        if let Some(far) = &mut self.far
            && far.takes(work, waiter, &self.engine.membership)
        {
            return self.post_far(work, waiter, spin_limit);
        }
        self.wait_until(spin_limit, |mixed| mixed.shared.has_room());
        if self.is_daemon_lost {
            return self.deliver(waiter, Status::NodeLost as u8);
        }
        self.shared.post(work, waiter);
        self.engine.membership.bell.ring_if_asleep();
    }

    fn post_far(&mut self, work: &Work, waiter: Waiter, spin_limit: u32) {
        let has_room = |mixed: &Mixed| mixed.far.as_ref().is_none_or(|far| far.rings.has_room());
        self.wait_until(spin_limit, has_room);
        if let Some(far) = &mut self.far {
            far.post(work, waiter);
        }
    }

    fn wait_until(&mut self, spin_limit: u32, is_done: impl Fn(&Mixed) -> bool) {
        let mut polls = 0;
        while !is_done(self) {
            if self.move_completions() {
                continue;
            }
            polls += 1;
            let is_far = self.far_in_flight() != 0;
            if polls > if is_far { spin_limit.min(MAX_IDLE_TURNS) } else { spin_limit } {
                self.sleep();
                polls = 0;
            } else if is_far && polls.is_multiple_of(TURNS_PER_YIELD) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Moves the completions that have come to the program's CQ. Returns whether there were some.
    fn move_completions(&mut self) -> bool {
        let mut moved = false;
        while let Some(done) = self.shared.take() {
            self.deliver(done.waiter, done.status_code);
            moved = true;
        }
        moved | (self.far_in_flight() != 0 && self.turn_far())
    }

    fn far_in_flight(&self) -> u32 {
        self.far.as_ref().map_or(0, |far| far.rings.in_flight())
    }

    /// One turn of the own links. Returns whether an operation has completed.
    fn turn_far(&mut self) -> bool {
        let Some(far) = &mut self.far else { return false };
        far.turn();
        let mut moved = false;
        while let Some(done) = self.far.as_mut().and_then(|far| far.rings.take()) {
            let is_ok = done.status_code == Status::Ok as u8;
            self.engine.memory.inline_counters().count(is_ok, done.length);
            self.deliver(done.waiter, done.status_code);
            moved = true;
        }
        moved
    }

    fn deliver(&mut self, waiter: Waiter, status_code: u8) {
        match waiter {
            Waiter::Slot(slot) => self.cq.publish(slot, status_code),
            Waiter::Thread => self.answer = Some(status_code),
            Waiter::Nobody => {}
        }
    }

    /// Sleeps until the daemon completes an operation, or is found dead.
    #[cold]
    fn sleep(&mut self) {
        let membership = &self.engine.membership;
        // The daemon may itself have gone to sleep before it could see our last entry.
        membership.bell.ring_if_asleep();
        let mut ready = || self.shared.completion().is_some();
        match self.far.as_ref().filter(|far| far.rings.in_flight() != 0) {
            // One sleep cannot wait for both.
            Some(far) if self.shared.in_flight() != 0 => far.sleep(SHORT_SLEEP.min(self.nap)),
            Some(far) => far.sleep(self.nap),
            None => self.engine.memory.bed().sleep_unless(&mut ready, self.nap),
        }
        if ready() {
            self.stall = Stall::default();
        } else if membership.is_daemon_gone() {
            self.lose_daemon();
        } else {
            if let Some(far) = self.far.as_mut().filter(|far| far.rings.in_flight() != 0) {
                far.look(membership);
            }
            let reaped = self.far.as_ref().map_or(0, |far| far.rings.reaped);
            self.stall.look(self.shared.reaped.wrapping_add(reaped), membership);
        }
    }

    /// Completes what the daemon will not complete any more. Completions that it left still count.
    fn lose_daemon(&mut self) {
        self.is_daemon_lost = true;
        self.move_completions();
        while let Some(waiter) = self.shared.give_up() {
            self.deliver(waiter, Status::NodeLost as u8);
        }
    }
}

/// # Safety
/// `qp` comes from a [`super::RawQueuePair`] with [`MIXED`] and is used by one thread at a time.
unsafe fn state<'a>(qp: *mut ffi::Qp) -> &'a mut Mixed {
    // SAFETY: `engine_state` was set to a leaked `Mixed` that lives as long as the pair.
    unsafe { &mut *(*qp).engine_state.cast::<Mixed>() }
}

unsafe extern "C" fn execute(
    qp: *mut ffi::Qp,
    op: u32,
    nid: u32,
    offset: u64,
    buffer: u64,
    length: u64,
) -> u32 {
    // SAFETY: C passes the queue pair that it got.
    let (mixed, spin_limit) = unsafe { (state(qp), (*qp).spin_limit) };
    let work = match mixed.begin(op, nid, offset, buffer, length) {
        Way::Done(status) => return status as u32,
        Way::Remote(work) => work,
    };
    mixed.post(&work, Waiter::Thread, spin_limit);
    mixed.wait_until(spin_limit, |mixed| mixed.answer.is_some());
    mixed.answer.take().map_or(Status::NodeLost as u32, u32::from)
}

unsafe extern "C" fn start(
    qp: *mut ffi::Qp,
    op: u32,
    nid: u32,
    offset: u64,
    buffer: u64,
    length: u64,
) -> u32 {
    // SAFETY: as `execute`.
    let (mixed, pair) = unsafe { (state(qp), &*qp) };
    let slot = (pair.posted & (pair.size - 1)) as u16;
    match mixed.begin(op, nid, offset, buffer, length) {
        Way::Done(status) => mixed.cq.publish(slot, status as u8),
        Way::Remote(work) => mixed.post(&work, Waiter::Slot(slot), pair.spin_limit),
    }
    ffi::POSTED
}

unsafe extern "C" fn progress(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    unsafe { state(qp) }.move_completions();
}

unsafe extern "C" fn sleep(qp: *mut ffi::Qp) {
    // SAFETY: as `execute`.
    let (mixed, pair) = unsafe { (state(qp), &*qp) };
    if mixed.cq.published == pair.reaped && !mixed.move_completions() {
        mixed.sleep();
        mixed.move_completions();
    }
}

/// The calling thread runs operations on mapped segments, the daemon those on nodes of other hosts.
pub(super) static MIXED: ffi::Engine = ffi::Engine {
    execute: Some(execute),
    progress: Some(progress),
    wake: Some(ignore),
    sleep: Some(sleep),
    start: Some(start),
    posts: 1,
};

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_programs_cq_turns_its_phase_with_each_round() {
        let mut cq = ProgramCq::new(2);
        for position in 0..8u32 {
            let index = (position & 1) as usize;
            let old = CqEntry::decode(cq.entries[index].load(Ordering::Acquire));
            assert_ne!(old.phase, phase_of(position, 2));
            cq.publish(position as u16 % 2, Status::NoContext as u8);
            let new = CqEntry::decode(cq.entries[index].load(Ordering::Acquire));
            assert_eq!(new.phase, phase_of(position, 2));
            assert_eq!((new.slot, new.status_code), (position as u16 % 2, Status::NoContext as u8));
        }
    }
}
