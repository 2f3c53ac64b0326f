//! A queue pair with the operations that are in flight on it.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rackmem::client::{QueuePair, Started};
use rackmem::{LINE_BYTES, Op, Status};

use super::errors::{Kind, raise};
use super::given::Given;
use crate::LOOK;

/// Time for which a pair that is closed waits for its operations.
const CLOSING: Duration = Duration::from_secs(2);

/// Bytes from which an operation releases Python's lock while it copies: some microseconds.
const QUICK_BYTES: usize = 64 << 10;

/// Most bytes of one entry, in whole lines.
const STEP: usize = rackmem::MAX_LENGTH as usize & !(LINE_BYTES - 1);

const PENDING: u8 = u8::MAX;
/// The pair was closed before the operation completed.
const ABANDONED: u8 = u8::MAX - 1;

/// An operation as Python asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub op: Op,
    pub nid: u16,
    pub offset: u64,
    /// Of the buffer; 0 without one.
    pub base: usize,
    pub length: usize,
    /// Of an atomic.
    pub operands: [u64; 2],
}

impl Request {
    fn is_atomic(&self) -> bool {
        matches!(self.op, Op::FetchAdd | Op::CompareSwap)
    }
}

/// An operation in flight, which its pair and an object of Python share.
pub struct Flight {
    pub request: Request,
    /// Entries that have not completed, and one for the thread that posts them.
    left: AtomicU32,
    /// First failure of its entries.
    first: AtomicU8,
    status: AtomicU8,
    old: AtomicU64,
    buffer: Mutex<Option<Given>>,
}

impl Flight {
    pub fn new(request: Request, buffer: Option<Given>) -> Arc<Flight> {
        Arc::new(Flight {
            request,
            left: AtomicU32::new(1),
            first: AtomicU8::new(Status::Ok as u8),
            status: AtomicU8::new(PENDING),
            old: AtomicU64::new(0),
            buffer: Mutex::new(buffer),
        })
    }

    pub fn is_done(&self) -> bool {
        self.status.load(Ordering::Acquire) != PENDING
    }

    /// Its outcome, and an atomic's earlier value.
    pub fn outcome(&self, nodes: u16) -> Option<PyResult<u64>> {
        let code = self.status.load(Ordering::Acquire);
        Some(match code {
            PENDING => return None,
            ABANDONED => {
                let text = "the queue pair was closed before the operation completed: wait for its result before";
                Err(raise(Kind::Closed, text))
            }
            _ => match Status::from_code(code) {
                Some(Status::Ok) => Ok(self.old.load(Ordering::Relaxed)),
                status => {
                    Err(failure(&self.request, status.unwrap_or(Status::BadOperation), nodes))
                }
            },
        })
    }

    /// One of its entries has completed. Ends the export of its buffer with the last.
    pub fn land(&self, outcome: Result<(), Status>) {
        if let Err(status) = outcome {
            let first = &self.first;
            let _ = first.compare_exchange(0, status as u8, Ordering::Relaxed, Ordering::Relaxed);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(self.buffer.lock().unwrap_or_else(PoisonError::into_inner).take());
            self.status.store(self.first.load(Ordering::Relaxed), Ordering::Release);
        }
    }

    fn has_failed(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0
    }

    /// It will not complete, and what it points to must stay for ever.
    fn abandon(&self) {
        std::mem::forget(self.buffer.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.status.store(ABANDONED, Ordering::Release);
    }
}

/// What is left to post of an operation.
pub struct Rest {
    done: usize,
    /// The end of a transfer in several entries was looked for.
    probe: Probe,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    Needed,
    /// By this flight, so that its entry is not taken for one of the operation.
    Started,
    Past,
}

impl Rest {
    pub fn of(request: &Request) -> Rest {
        let probe = if request.length > STEP { Probe::Needed } else { Probe::Past };
        Rest { done: 0, probe }
    }
}

/// A queue pair.
pub struct Pair {
    qp: ManuallyDrop<QueuePair>,
    pub nodes: u16,
    /// By slot.
    flights: Vec<Option<Arc<Flight>>>,
    /// By node, whether its segment was mapped by an operation: the next one needs no daemon.
    known: Vec<bool>,
    looked: Instant,
}

impl Pair {
    pub fn new(qp: QueuePair, entries: usize, nodes: u16) -> Pair {
        let flights = vec![None; entries];
        let known = vec![false; nodes.into()];
        Pair { qp: ManuallyDrop::new(qp), nodes, flights, known, looked: Instant::now() }
    }

    pub fn in_flight(&self) -> u32 {
        self.qp.in_flight()
    }

    /// Whether an operation is over in about a microsecond: Python's lock is kept.
    #[inline]
    pub fn is_quick(&self, request: &Request) -> bool {
        request.length <= QUICK_BYTES
            && self.known.get(usize::from(request.nid)) == Some(&true)
            && self.qp.completes_at_once()
    }

    /// Performs an operation that [`Pair::is_quick`]. Returns an atomic's earlier value; `None`: it is not over.
    ///
    /// # Safety
    /// The request's buffer is memory of its length for the call.
    #[inline]
    pub unsafe fn perform(&mut self, request: &Request) -> Option<Result<u64, Status>> {
        // SAFETY: the caller's contract.
        let Started { slot, outcome } = unsafe { self.start(request, 0, request.length) }?;
        Some(self.note(request, outcome?).map(|()| self.old_value(request, slot)))
    }

    fn old_value(&self, request: &Request, slot: u16) -> u64 {
        if request.is_atomic() { self.qp.old_value(slot) } else { 0 }
    }

    #[inline]
    fn note(&mut self, request: &Request, outcome: Result<(), Status>) -> Result<(), Status> {
        if let Some(known) = self.known.get_mut(usize::from(request.nid)) {
            match outcome {
                Ok(()) => *known = true,
                Err(Status::NodeLost | Status::NoContext) => *known = false,
                Err(_) => {}
            }
        }
        outcome
    }

    /// # Safety
    /// The request's buffer is memory of its length until the operation has completed.
    #[inline]
    unsafe fn start(&mut self, request: &Request, done: usize, length: usize) -> Option<Started> {
        let Request { op, nid, offset, base, operands, .. } = *request;
        // SAFETY: the caller's contract.
        unsafe {
            if request.is_atomic() {
                return self.qp.start_atomic(op, nid, offset, operands);
            }
            let buffer = (base as *mut u8).wrapping_add(done);
            self.qp.start(op, nid, offset.saturating_add(done as u64), buffer, length as u32)
        }
    }

    /// Posts entries of an operation as long as there are free slots. Returns whether all are posted.
    pub fn post(&mut self, flight: &Arc<Flight>, rest: &mut Rest) -> bool {
        self.poll();
        let request = &flight.request;
        loop {
            if rest.probe != Probe::Past {
                if !self.probe(flight, rest) {
                    return false;
                }
                continue;
            }
            if flight.has_failed() || (rest.done >= request.length && rest.done > 0) {
                return true;
            }
            let length = STEP.min(request.length - rest.done);
            // SAFETY: the flight keeps the buffer until its entries have completed.
            let Some(started) = (unsafe { self.start(request, rest.done, length) }) else {
                return false;
            };
            flight.left.fetch_add(1, Ordering::Relaxed);
            self.take_off(flight, started);
            rest.done += length;
            if rest.done >= request.length {
                return true;
            }
        }
    }

    /// Looks for the end of a long transfer, as one beyond the segment changes nothing. Returns whether it is over.
    fn probe(&mut self, flight: &Arc<Flight>, rest: &mut Rest) -> bool {
        let request = &flight.request;
        if rest.probe == Probe::Started {
            if flight.left.load(Ordering::Acquire) > 1 {
                return false;
            }
            rest.probe = Probe::Past;
            return true;
        }
        let end = request.offset.saturating_add(request.length as u64);
        // SAFETY: the place of a probe is the pair's own.
        let Some(started) = (unsafe { self.qp.start_probe(request.nid, end) }) else {
            return false;
        };
        flight.left.fetch_add(1, Ordering::Relaxed);
        rest.probe = Probe::Started;
        self.take_off(flight, started);
        true
    }

    fn take_off(&mut self, flight: &Arc<Flight>, started: Started) {
        match started.outcome {
            Some(outcome) => self.land(flight, started.slot, outcome),
            None => self.flights[usize::from(started.slot)] = Some(flight.clone()),
        }
    }

    fn land(&mut self, flight: &Arc<Flight>, slot: u16, outcome: Result<(), Status>) {
        let _ = self.note(&flight.request, outcome);
        if outcome.is_ok() && flight.request.is_atomic() {
            flight.old.store(self.qp.old_value(slot), Ordering::Relaxed);
        }
        flight.land(outcome);
    }

    fn done(&mut self, (slot, outcome): (u16, Result<(), Status>)) {
        if let Some(flight) = self.flights[usize::from(slot)].take() {
            self.land(&flight, slot, outcome);
        }
    }

    /// Takes the completions that have come, and looks now and then whether others can come.
    pub fn poll(&mut self) {
        while let Some(done) = self.qp.next_done() {
            self.done(done);
        }
        if self.qp.in_flight() != 0 && self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.wait(Duration::ZERO);
        }
    }

    /// Waits for a completion, for about `longest`, and takes all that have come.
    pub fn wait(&mut self, longest: Duration) {
        if let Some(done) = self.qp.wait_done(longest) {
            self.done(done);
        }
        while let Some(done) = self.qp.next_done() {
            self.done(done);
        }
    }
}

/// Waits for what is in flight. Queues that keep some are never freed, nor are its buffers.
impl Drop for Pair {
    fn drop(&mut self) {
        let end = Instant::now() + CLOSING;
        while self.in_flight() != 0 && Instant::now() < end {
            self.wait(LOOK);
        }
        if self.in_flight() == 0 {
            // SAFETY: nothing uses them any more.
            unsafe { ManuallyDrop::drop(&mut self.qp) };
        }
        self.flights.iter().flatten().for_each(|flight| flight.abandon());
    }
}

/// The exception for an operation that failed.
#[cold]
pub fn failure(request: &Request, status: Status, nodes: u16) -> PyErr {
    let Request { nid, offset, length, .. } = *request;
    let what = match request.op {
        Op::Read => format!("a read of {length} bytes at offset {offset} of node {nid}"),
        Op::Write => format!("a write of {length} bytes at offset {offset} of node {nid}"),
        Op::Notify => format!("a notification of node {nid}"),
        _ => format!("an atomic at offset {offset} of node {nid}"),
    };
    let (kind, why) = match status {
        Status::OutOfSegment => (
            Kind::Range,
            "it leaves the node's segment: see `segment_bytes` of the rackmem.Context there".into(),
        ),
        Status::NoContext => (
            Kind::Node,
            format!(
                "the node has not joined the context, or has left it: ctx.wait_joined({nid}) waits for it"
            ),
        ),
        Status::NoNode => {
            (Kind::Node, format!("the rack has no such node: 0 to {}", nodes.saturating_sub(1)))
        }
        Status::NodeLost => {
            (Kind::Lost, "its process or a daemon is gone: `rackmem status` shows which".into())
        }
        Status::NoPermission => (
            Kind::Rights,
            "this context is for reading only: open it without read_only=True".into(),
        ),
        Status::BadLocalBuffer => (
            Kind::Array,
            "the daemon cannot reach the array: copy through ctx.buffer(nbytes), which it can"
                .into(),
        ),
        Status::MisalignedAtomic => {
            (Kind::Range, "the offset of an atomic is a multiple of 8".into())
        }
        other => (Kind::Rack, other.describe().to_owned()),
    };
    raise(kind, format!("{what}: {why}"))
}
