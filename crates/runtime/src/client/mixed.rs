//! Inline progress in a rack over several hosts.
//!
//! The calling thread performs operations on segments that it can map, as everywhere. It posts those on nodes of other
//! hosts to the queues that it shares with the daemon, which inline progress does not use otherwise; the daemon carries
//! them out by packets.
//!
//! # Decisions
//!
//! - *The program's CQ is memory of the engine.* The shared queues have counters of their own, because synchronous
//!   operations take entries there and no slots of the program. The engine moves their completions to the program's CQ.
//! - *Every asynchronous operation completes on that CQ*, also one that was done at once: an entry's phase depends on
//!   its position, so no completion may pass the CQ by.
//! - *A synchronous operation blocks in `execute`*, and completions of others go to the CQ meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rackmem_abi::{CqEntry, MAX_ADDRESS, MAX_WQ_SIZE, Status, WqEntry, phase_of};
use rackmem_rmc::Work;

use super::engine::{EngineState, Stall, ignore};
use super::ffi;
use super::membership::LIVENESS_INTERVAL;
use crate::shm::queue::QueueMemory;

/// The waiter for an entry of the shared WQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    /// The entry is free.
    Nobody,
    /// An asynchronous operation in this slot of the program.
    Slot(u16),
    /// The calling thread, in `execute`.
    Thread,
}

/// This side of the queues that the daemon serves.
struct SharedQueues {
    memory: Arc<QueueMemory>,
    size: u32,
    /// Entries ever posted.
    posted: u32,
    /// Completions ever taken.
    reaped: u32,
    /// By entry of the WQ.
    waiters: [Waiter; MAX_WQ_SIZE],
}

impl SharedQueues {
    fn new(memory: Arc<QueueMemory>, size: u32) -> SharedQueues {
        let waiters = [Waiter::Nobody; MAX_WQ_SIZE];
        SharedQueues { memory, size, posted: 0, reaped: 0, waiters }
    }

    fn next_entry(&self) -> u32 {
        self.posted & (self.size - 1)
    }

    /// Whether the next entry is free. Completions come in any order, so others may be while it is not.
    fn has_room(&self) -> bool {
        self.waiters[self.next_entry() as usize] == Waiter::Nobody
    }

    /// Posts an operation; there is room.
    fn post(&mut self, work: &Work, waiter: Waiter) {
        let index = self.next_entry();
        let words = WqEntry {
            phase: phase_of(self.posted, self.size),
            op_code: work.op as u8,
            dst_nid: work.dst_nid,
            offset: work.offset,
            length: work.length,
            buffer: work.buffer,
        }
        .encode();
        self.memory.wq_word(index, 1).store(words[1], Ordering::Relaxed);
        // Publishes the entry; pairs with the acquire load of word 0.
        self.memory.wq_word(index, 0).store(words[0], Ordering::Release);
        self.waiters[index as usize] = waiter;
        self.posted = self.posted.wrapping_add(1);
    }

    /// The next completion, if it has come.
    fn completion(&self) -> Option<CqEntry> {
        let word = self.memory.cq_entry(self.reaped & (self.size - 1)).load(Ordering::Acquire);
        let entry = CqEntry::decode(word);
        let is_new = entry.phase == phase_of(self.reaped, self.size);
        (is_new && self.reaped != self.posted).then_some(entry)
    }

    /// Takes the next completion, if it has come: its waiter, and the status.
    fn take(&mut self) -> Option<(Waiter, u8)> {
        let entry = self.completion()?;
        self.reaped = self.reaped.wrapping_add(1);
        Some((self.free(u32::from(entry.slot) & (self.size - 1)), entry.status_code))
    }

    /// Gives up an entry that has not completed, and returns its waiter.
    fn give_up(&mut self) -> Option<Waiter> {
        let index = (0..self.size).find(|index| self.waiters[*index as usize] != Waiter::Nobody)?;
        Some(self.free(index))
    }

    fn free(&mut self, index: u32) -> Waiter {
        std::mem::replace(&mut self.waiters[index as usize], Waiter::Nobody)
    }
}

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
    shared: SharedQueues,
    cq: ProgramCq,
    /// Status code of the synchronous operation, once it has completed.
    answer: Option<u8>,
    /// The daemon is gone, and with it the way to other hosts.
    is_daemon_lost: bool,
    stall: Stall,
}

/// The outcome of an operation's first step.
enum Way {
    Done(Status),
    /// It is for the daemon.
    Remote(Work),
}

impl Mixed {
    pub(super) fn new(engine: EngineState, size: u32) -> Mixed {
        Mixed {
            remote: vec![false; usize::from(engine.nodes)],
            shared: SharedQueues::new(engine.memory.clone(), size),
            cq: ProgramCq::new(size),
            answer: None,
            is_daemon_lost: false,
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

    /// Posts an operation for the daemon, after waiting for room. Without a daemon it fails.
    fn post(&mut self, work: &Work, waiter: Waiter, spin_limit: u32) {
        self.wait_until(spin_limit, |mixed| mixed.shared.has_room());
        if self.is_daemon_lost {
            return self.deliver(waiter, Status::NodeLost as u8);
        }
        self.shared.post(work, waiter);
        self.engine.membership.bell.ring_if_asleep();
    }

    fn wait_until(&mut self, spin_limit: u32, is_done: impl Fn(&Mixed) -> bool) {
        let mut polls = 0;
        while !is_done(self) {
            if self.move_completions() {
                continue;
            }
            polls += 1;
            if polls > spin_limit {
                self.sleep();
                polls = 0;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Moves the completions that have come to the program's CQ. Returns whether there were some.
    fn move_completions(&mut self) -> bool {
        let before = self.shared.reaped;
        while let Some((waiter, status_code)) = self.shared.take() {
            self.deliver(waiter, status_code);
        }
        self.shared.reaped != before
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
        self.engine.memory.bed().sleep_unless(&mut ready, LIVENESS_INTERVAL);
        if ready() {
            self.stall = Stall::default();
        } else if membership.is_daemon_gone() {
            self.lose_daemon();
        } else {
            self.stall.look(self.shared.reaped, membership);
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
    use rackmem_abi::Op;

    use super::*;

    fn queues(size: u32) -> SharedQueues {
        SharedQueues::new(Arc::new(QueueMemory::create("mixed-test").unwrap()), size)
    }

    fn read(offset: u64) -> Work {
        Work { op: Op::Read, dst_nid: 1, offset, length: 64, buffer: 4096 }
    }

    /// The daemon's part: completes an entry at a position of the CQ.
    fn complete(queues: &SharedQueues, position: u32, slot: u16, status: Status) {
        let phase = phase_of(position, queues.size);
        let entry = CqEntry { phase, slot, status_code: status as u8 };
        let word = queues.memory.cq_entry(position & (queues.size - 1));
        word.store(entry.encode(), Ordering::Release);
    }

    #[test]
    fn entries_have_the_phase_of_their_round_and_their_own_waiter() {
        let mut queues = queues(4);
        for round in 0..3u32 {
            for index in 0..4u32 {
                assert!(queues.has_room());
                queues.post(&read(u64::from(index) * 64), Waiter::Slot(3 - index as u16));
                let entry = WqEntry::decode(queues.memory.wq_words(index));
                assert_eq!(entry.phase, round % 2 == 0);
                assert_eq!(entry.offset, u64::from(index) * 64);
            }
            assert!(!queues.has_room());
            assert_eq!(queues.take(), None);
            for (n, index) in [2u16, 0, 3, 1].into_iter().enumerate() {
                complete(&queues, round * 4 + n as u32, index, Status::Ok);
                assert_eq!(queues.take(), Some((Waiter::Slot(3 - index), 0)));
            }
            assert_eq!(queues.take(), None, "the completions of the round before are old");
        }
    }

    #[test]
    fn there_is_no_room_while_the_next_entry_is_in_flight() {
        let mut queues = queues(2);
        queues.post(&read(0), Waiter::Thread);
        queues.post(&read(64), Waiter::Slot(1));
        complete(&queues, 0, 1, Status::OutOfSegment);
        assert_eq!(queues.take(), Some((Waiter::Slot(1), Status::OutOfSegment as u8)));
        assert!(!queues.has_room());
        complete(&queues, 1, 0, Status::Ok);
        assert_eq!(queues.take(), Some((Waiter::Thread, 0)));
        assert!(queues.has_room());
    }

    #[test]
    fn what_is_given_up_is_given_up_once() {
        let mut queues = queues(4);
        queues.post(&read(0), Waiter::Slot(2));
        queues.post(&read(64), Waiter::Thread);
        queues.post(&read(128), Waiter::Slot(0));
        complete(&queues, 0, 1, Status::Ok);
        assert_eq!(queues.take(), Some((Waiter::Thread, 0)));
        assert_eq!(queues.give_up(), Some(Waiter::Slot(2)));
        assert_eq!(queues.give_up(), Some(Waiter::Slot(0)));
        assert_eq!(queues.give_up(), None);
    }

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
