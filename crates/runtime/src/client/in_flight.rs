//! Operations in flight without a borrow, for interfaces that keep the buffers themselves. Rust programs use
//! [`QueuePair::scope`].

use std::mem::ManuallyDrop;
use std::time::Duration;

use rackmem_abi::{Op, Status};

use super::QueuePair;
use super::engine::{DAEMON, INLINE};
use super::mixed::{self, MIXED};
use super::queue_pair::{Outcome, Scope};

/// An operation that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its slot, which is its own until it has completed.
    pub slot: u16,
    /// How it ended, if it has; `None`: it is in flight, and [`QueuePair::next_done`] will return its slot.
    pub outcome: Option<Outcome>,
}

impl QueuePair {
    /// Whether each operation completes when it is posted: with inline progress on one host.
    pub fn completes_at_once(&self) -> bool {
        std::ptr::eq(self.raw().qp.engine, &raw const INLINE)
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u32 {
        self.raw().qp.posted.wrapping_sub(self.raw().qp.reaped)
    }

    /// Posts an operation of up to [`rackmem_abi::MAX_LENGTH`] bytes, without waiting for a free slot or for its end.
    /// `None`: the queue is full until [`QueuePair::next_done`] returns a slot.
    ///
    /// # Safety
    /// Until the operation has completed, `length` bytes at `buffer` may be read, for a read also written, and
    /// [`QueuePair::scope`] and the functions above it are not called.
    #[inline]
    pub unsafe fn start(
        &mut self,
        op: Op,
        nid: u16,
        offset: u64,
        buffer: *mut u8,
        length: u32,
    ) -> Option<Started> {
        let (slot, before) = (self.next_slot()?, self.raw().qp.posted);
        let outcome = self.with_scope(|scope| {
            scope.post(op, nid, offset, buffer as u64, length);
            scope.take_first()
        });
        let is_posted = self.raw().qp.posted != before;
        Some(Started { slot, outcome: (!is_posted).then_some(outcome) })
    }

    /// As [`QueuePair::start`], for a fetch-and-add (`[addend, 0]`) or a compare-and-swap (`[expected, desired]`).
    /// [`QueuePair::old_value`] of its slot is the earlier value until the slot is used again.
    ///
    /// # Safety
    /// As [`QueuePair::start`], without a buffer.
    pub unsafe fn start_atomic(
        &mut self,
        op: Op,
        nid: u16,
        offset: u64,
        operands: [u64; 2],
    ) -> Option<Started> {
        let words = self.operands(self.next_slot()?);
        // SAFETY: the slot is free, so no controller touches its words.
        unsafe { words.cast::<[u64; 2]>().write_volatile(operands) };
        // SAFETY: the words live as long as the pair; the rest is the caller's contract.
        unsafe { self.start(op, nid, offset, words.cast(), 8) }
    }

    /// Starts a read of the last of `end` bytes of a node's segment, to a place of the pair: it fails if the segment is
    /// smaller.
    ///
    /// # Safety
    /// As [`QueuePair::start_atomic`].
    pub unsafe fn start_probe(&mut self, nid: u16, end: u64) -> Option<Started> {
        let words = self.operands(self.next_slot()?);
        // SAFETY: as above.
        unsafe { self.start(Op::Read, nid, end.saturating_sub(1), words.cast(), 1) }
    }

    /// The earlier value that the atomic of a slot found.
    pub fn old_value(&self, slot: u16) -> u64 {
        // SAFETY: the words lie in the queue memory.
        unsafe { self.operands(slot).read_volatile() }
    }

    /// Takes a completion, if there is one. Does not wait.
    #[inline]
    pub fn next_done(&mut self) -> Option<(u16, Outcome)> {
        if self.in_flight() == 0 {
            return None;
        }
        self.with_scope(|scope| {
            scope.progress();
            let slot = scope.reap()?;
            Some((slot, scope.take_first()))
        })
    }

    /// Takes a completion. Spins for a moment, then sleeps for at most `longest`, and for 50 ms at most; `None`: none
    /// has come. Each sleep, also one of no length, looks whether the daemon lives; operations that a dead one had
    /// complete with [`Status::NodeLost`].
    pub fn wait_done(&mut self, longest: Duration) -> Option<(u16, Outcome)> {
        let is_mixed = std::ptr::eq(self.raw().qp.engine, &raw const MIXED);
        let most = if is_mixed { mixed::MAX_IDLE_TURNS } else { u32::MAX };
        let polls = if longest.is_zero() { 0 } else { self.raw().qp.spin_limit.min(most) };
        for poll in 0..=polls {
            if let Some(done) = self.next_done() {
                return Some(done);
            }
            if is_mixed && poll % mixed::TURNS_PER_YIELD == mixed::TURNS_PER_YIELD - 1 {
                std::thread::yield_now();
            }
        }
        if self.in_flight() == 0 {
            return None;
        }
        self.sleep_for(longest);
        self.next_done()
    }

    fn sleep_for(&mut self, longest: Duration) {
        let engine = self.raw().qp.engine;
        let state = self.raw_mut().qp.engine_state;
        let nap = if std::ptr::eq(engine, &raw const MIXED) {
            // SAFETY: the state of `MIXED` is a `Mixed`.
            unsafe { &mut (*state.cast::<mixed::Mixed>()).nap }
        } else if std::ptr::eq(engine, &raw const DAEMON) {
            // SAFETY: the state of the other engines is an `EngineState`.
            unsafe { &mut (*state.cast::<super::engine::EngineState>()).nap }
        } else {
            // Nothing sleeps: operations complete, or fail, when they are posted or polled.
            return;
        };
        let usual = std::mem::replace(nap, longest.min(super::membership::LIVENESS_INTERVAL));
        let nap = &raw mut *nap;
        self.with_scope(|scope| scope.sleep());
        // SAFETY: the state lives as long as the pair, and nothing else refers to it now.
        unsafe { *nap = usual };
    }

    /// The next slot, if it is free.
    #[inline]
    fn next_slot(&self) -> Option<u16> {
        let qp = &self.raw().qp;
        let slot = (qp.posted & (qp.size - 1)) as u16;
        (qp.slot_state[usize::from(slot)] == super::queue_pair::FREE).then_some(slot)
    }

    fn operands(&self, slot: u16) -> *mut u64 {
        // SAFETY: each slot has two operand words in the queue memory.
        unsafe { self.raw().qp.operands.add(2 * usize::from(slot)) }
    }

    /// A scope that does not wait for its operations.
    #[inline]
    fn with_scope<T>(&mut self, body: impl FnOnce(&mut Scope<'_, 'static>) -> T) -> T {
        body(&mut ManuallyDrop::new(Scope::over(self.raw_mut())))
    }
}

impl Scope<'_, '_> {
    /// The first failure since the last call.
    #[inline]
    fn take_first(&mut self) -> Outcome {
        match std::mem::replace(&mut self.first, Status::Ok) {
            Status::Ok => Ok(()),
            status => Err(status),
        }
    }
}
