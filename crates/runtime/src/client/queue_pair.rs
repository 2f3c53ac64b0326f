use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rackmem_abi::{CqEntry, MAX_LENGTH, MAX_OFFSET, Op, Status, WqEntry, phase_of};

use super::engine::{self, DAEMON, EngineState, INLINE, rouse};
use super::ffi::{self, POSTED};
use super::membership::Membership;
use super::mixed::{MIXED, Mixed};
use super::two_sided;
use crate::control::unexpected;
use crate::error::{Error, Result};
use crate::protocol::{Progress, Request, Response};
use crate::shm::queue::QueueMemory;

/// The `asleep` word of queue pairs with inline progress: there is no daemon to wake.
static AWAKE: AtomicU32 = AtomicU32::new(0);

/// The daemon does the operations, or those on other hosts, whose completions have their positions on the CQ.
const NO_WINDOWS: (*const ffi::Window, u32) = (std::ptr::null(), 0);

pub(super) const FREE: u8 = 0;
const BUSY: u8 = 1;

/// A queue pair and all it needs, as both faces use it.
pub(crate) struct RawQueuePair {
    /// The C layout of the queue pair.
    pub(crate) qp: Box<ffi::Qp>,
    /// Behind `qp.engine_state`.
    state: *mut dyn Any,
    membership: Arc<Membership>,
    number: u32,
}

// SAFETY: the pair is used by one thread at a time; its pointers lead into mappings it keeps.
unsafe impl Send for RawQueuePair {}

impl RawQueuePair {
    pub(crate) fn create(
        membership: &Arc<Membership>,
        entries: u32,
        progress: Progress,
        spin_limit: u32,
    ) -> Result<RawQueuePair> {
        let answer = membership.ask(&Request::CreateQp { entries, progress })?;
        let (number, fd) = match (answer.message, answer.fds.into_iter().next()) {
            (Response::Qp { qp }, Some(fd)) => (qp, fd),
            (other, _) => return Err(unexpected(&other)),
        };
        let memory =
            QueueMemory::open(fd).map_err(|e| Error::io("cannot map the queue pair", e))?;
        let memory = Arc::new(memory);
        if !membership.is_all_inline(progress) {
            let address = memory.mapping().base() as u64;
            membership.call(&Request::PlaceQp { qp: number, address })?;
        }
        let parts = Parts::new(membership, &memory, entries, progress);
        let qp = Box::new(ffi::Qp {
            wq: memory.wq_word(0, 0).as_ptr().cast(),
            cq: parts.cq,
            operands: memory.operands(),
            rmc_asleep: parts.rmc_asleep,
            engine: parts.engine,
            engine_state: parts.state.cast(),
            callback_arg: std::ptr::null_mut(),
            size: entries,
            posted: 0,
            reaped: 0,
            done: 0,
            first_error: 0,
            spin_limit,
            slot_state: [FREE; rackmem_abi::MAX_WQ_SIZE],
            slot_status: [0; rackmem_abi::MAX_WQ_SIZE],
            windows: parts.windows.0,
            own_state: membership.segment.state_word(),
            counters: &raw const memory.inline_counters().ops,
            rouse,
            window_count: parts.windows.1,
            owner: membership.owner.token(),
            connection: std::ptr::null_mut(),
        });
        Ok(RawQueuePair { qp, state: parts.state, membership: membership.clone(), number })
    }
}

/// Parts of a queue pair that depend on the way of progress.
struct Parts {
    engine: &'static ffi::Engine,
    state: *mut dyn Any,
    cq: *mut u32,
    rmc_asleep: *const AtomicU32,
    /// Where inline C finds mapped segments, and of how many nodes.
    windows: (*const ffi::Window, u32),
}

impl Parts {
    fn new(
        membership: &Arc<Membership>,
        memory: &Arc<QueueMemory>,
        entries: u32,
        progress: Progress,
    ) -> Parts {
        let state = EngineState::new(membership.clone(), memory.clone());
        let cq = memory.cq_entry(0).as_ptr();
        if progress != Progress::Inline {
            let (state, rmc_asleep) = (Box::into_raw(Box::new(state)), membership.bell.asleep());
            return Parts { engine: &DAEMON, state, cq, rmc_asleep, windows: NO_WINDOWS };
        }
        let rmc_asleep = &raw const AWAKE;
        if membership.is_all_inline(progress) {
            let windows = (state.windows().as_ptr(), membership.rack_nodes.into());
            let state = Box::into_raw(Box::new(state));
            return Parts { engine: &INLINE, state, cq, rmc_asleep, windows };
        }
        let mixed = Box::new(Mixed::new(state, entries));
        let cq = mixed.cq();
        let state = Box::into_raw(mixed);
        Parts { engine: &MIXED, state, cq, rmc_asleep, windows: NO_WINDOWS }
    }
}

impl Drop for RawQueuePair {
    fn drop(&mut self) {
        // SAFETY: the queue pair is this one; it closes the connection by its own operations.
        unsafe { two_sided::detach(&raw mut *self.qp) };
        // The daemon forgets the queues before their memory goes.
        let _ = self.membership.call(&Request::DestroyQp { qp: self.number });
        // SAFETY: the pointer comes from `Box::into_raw` in `create`, and nobody else frees it.
        drop(unsafe { Box::from_raw(self.state) });
    }
}

/// A queue pair: remote reads, writes and atomics, one at a time or many in flight; and send and receive, once it is
/// connected to another one.
pub struct QueuePair(RawQueuePair);

impl QueuePair {
    pub(crate) fn new(raw: RawQueuePair) -> QueuePair {
        QueuePair(raw)
    }

    #[inline]
    pub(super) fn raw(&self) -> &RawQueuePair {
        &self.0
    }

    #[inline]
    pub(super) fn raw_mut(&mut self) -> &mut RawQueuePair {
        &mut self.0
    }

    /// The pair as C works on it; it stays where it is while `self` lives.
    pub(crate) fn as_ffi(&mut self) -> *mut ffi::Qp {
        &raw mut *self.0.qp
    }

    /// Copies `out.len()` bytes at `offset` of node `nid`.
    ///
    /// # Errors
    /// Any [`Status`] but `Ok`.
    pub fn read(&mut self, nid: u16, offset: u64, out: &mut [u8]) -> Outcome {
        self.scope(|scope| scope.read(nid, offset, out))
    }

    /// Copies `bytes` to `offset` of node `nid`.
    ///
    /// # Errors
    /// Any [`Status`] but `Ok`.
    pub fn write(&mut self, nid: u16, offset: u64, bytes: &[u8]) -> Outcome {
        self.scope(|scope| scope.write(nid, offset, bytes))
    }

    /// Adds to 8 bytes at `offset` of node `nid`. Returns their earlier value.
    ///
    /// # Errors
    /// Any [`Status`] but `Ok`.
    pub fn fetch_add(
        &mut self,
        nid: u16,
        offset: u64,
        addend: u64,
    ) -> std::result::Result<u64, Status> {
        self.atomic(Op::FetchAdd, nid, offset, [addend, 0])
    }

    /// Replaces 8 bytes at `offset` of node `nid` if they equal `expected`. Returns their earlier value.
    ///
    /// # Errors
    /// Any [`Status`] but `Ok`.
    pub fn compare_swap(
        &mut self,
        nid: u16,
        offset: u64,
        expected: u64,
        desired: u64,
    ) -> std::result::Result<u64, Status> {
        self.atomic(Op::CompareSwap, nid, offset, [expected, desired])
    }

    /// Interrupts node `nid`: wakes processes that wait for notifications there.
    ///
    /// # Errors
    /// Any [`Status`] but `Ok`.
    pub fn notify(&mut self, nid: u16) -> Outcome {
        self.scope(|scope| scope.post(Op::Notify, nid, 0, 0, 0))
    }

    /// Runs `body`, which posts operations, and returns when all have completed: until then their
    /// buffers stay borrowed.
    ///
    /// ```no_run
    /// use rackmem::client::{Context, OpenOptions};
    ///
    /// let context = Context::open_all(&OpenOptions::from_env()?.segment_bytes(1 << 20))?;
    /// let mut qp = context.queue_pair(64)?;
    /// let (mut first, mut second) = ([0; 64], [0; 64]);
    /// qp.scope(|scope| {
    ///     scope.read(0, 0, &mut first);
    ///     scope.read(1, 0, &mut second);
    /// })?; // both reads are done
    /// # Ok::<(), rackmem::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error of any of them.
    pub fn scope<'env>(&mut self, body: impl FnOnce(&mut Scope<'_, 'env>)) -> Outcome {
        let mut scope = Scope::over(&mut self.0);
        body(&mut scope);
        scope.drain()
        // If `body` panics, dropping the scope drains it.
    }

    fn atomic(
        &mut self,
        op: Op,
        nid: u16,
        offset: u64,
        operands: [u64; 2],
    ) -> std::result::Result<u64, Status> {
        // The slot of the next entry: nothing is outstanding between two scopes.
        let slot = (self.0.qp.posted & (self.0.qp.size - 1)) as usize;
        // SAFETY: each slot has two operand words in the queue memory.
        let words = unsafe { self.0.qp.operands.add(2 * slot) };
        // SAFETY: as above; only the controller of this operation touches them meanwhile.
        unsafe { words.cast::<[u64; 2]>().write_volatile(operands) };
        self.scope(|scope| scope.post(op, nid, offset, words as u64, 8))?;
        // SAFETY: as above.
        Ok(unsafe { words.read_volatile() })
    }
}

/// Of an operation, or of the first that failed among several.
pub(super) type Outcome = std::result::Result<(), Status>;

/// Operations in flight together; see [`QueuePair::scope`].
pub struct Scope<'qp, 'env> {
    raw: &'qp mut RawQueuePair,
    pub(super) first: Status,
    _env: PhantomData<&'env mut &'env ()>,
}

impl<'qp, 'env> Scope<'qp, 'env> {
    #[inline]
    pub(super) fn over(raw: &'qp mut RawQueuePair) -> Scope<'qp, 'env> {
        Scope { raw, first: Status::Ok, _env: PhantomData }
    }

    /// Posts a read into `out`.
    pub fn read(&mut self, nid: u16, offset: u64, out: &'env mut [u8]) {
        self.post_long(Op::Read, nid, offset, out.as_mut_ptr() as u64, out.len());
    }

    /// Posts a write of `bytes`.
    pub fn write(&mut self, nid: u16, offset: u64, bytes: &'env [u8]) {
        self.post_long(Op::Write, nid, offset, bytes.as_ptr() as u64, bytes.len());
    }

    /// One entry moves up to `MAX_LENGTH` bytes; longer transfers take several, and none of them is
    /// posted before the end of the whole is known to lie in the segment.
    fn post_long(&mut self, op: Op, nid: u16, mut offset: u64, mut buffer: u64, mut len: usize) {
        const STEP: u32 = MAX_LENGTH & !(rackmem_abi::LINE_BYTES as u32 - 1);
        if len > STEP as usize && !self.reaches(nid, offset.saturating_add(len as u64)) {
            return;
        }
        while len > STEP as usize {
            self.post(op, nid, offset, buffer, STEP);
            offset += u64::from(STEP);
            buffer += u64::from(STEP);
            len -= STEP as usize;
        }
        self.post(op, nid, offset, buffer, len as u32);
    }

    /// Whether the segment has all bytes before `end`: the last of them can be read.
    #[cold]
    fn reaches(&mut self, nid: u16, end: u64) -> bool {
        let before = self.drain();
        let slot = (self.raw.qp.posted & (self.raw.qp.size - 1)) as usize;
        // SAFETY: each slot has two operand words in the queue memory.
        let byte = unsafe { self.raw.qp.operands.add(2 * slot) };
        self.post(Op::Read, nid, end - 1, byte as u64, 1);
        let outcome = self.drain();
        self.first = before.and(outcome).err().unwrap_or(Status::Ok);
        outcome.is_ok()
    }

    #[inline]
    pub(super) fn post(&mut self, op: Op, nid: u16, offset: u64, buffer: u64, length: u32) {
        // SAFETY: the engine is one of this crate's tables.
        if let Some(start) = unsafe { &*self.raw.qp.engine }.start {
            // With inline progress alone nothing is ever outstanding.
            if self.raw.qp.posted != self.raw.qp.reaped {
                self.free_slot();
            }
            let qp = &raw mut *self.raw.qp;
            let (op, nid, length) = (op as u32, nid.into(), length.into());
            let code = if std::ptr::eq(self.raw.qp.engine, &raw const INLINE) {
                // SAFETY: this is the engine of `INLINE`.
                unsafe { engine::state(qp) }.run(op, nid, offset, buffer, length) as u32
            } else {
                // SAFETY: the function takes this pair.
                unsafe { start(qp, op, nid, offset, buffer, length) }
            };
            if code == POSTED {
                self.occupy_slot();
            } else {
                self.note(Status::from_code(code as u8).unwrap_or(Status::BadOperation));
            }
            return;
        }
        if offset > MAX_OFFSET {
            self.note(Status::OutOfSegment);
            return;
        }
        let slot = self.free_slot();
        let qp = &*self.raw.qp;
        let phase = phase_of(qp.posted, qp.size);
        // A number too wide for the entry becomes the largest one, which no rack has.
        let dst_nid = nid.min(rackmem_abi::MAX_NODES as u16 - 1);
        let entry = WqEntry { phase, op_code: op as u8, dst_nid, offset, length, buffer };
        let words = entry.encode();
        // SAFETY: the slot lies in the work queue; the controller only loads it.
        let word = |i: usize| unsafe { &*qp.wq.add(slot).cast::<AtomicU64>().add(i) };
        word(1).store(words[1], Ordering::Relaxed);
        // Publishes the entry; pairs with the acquire load of word 0.
        word(0).store(words[0], Ordering::Release);
        self.occupy_slot();
        // SAFETY: the flag lives as long as the membership.
        if unsafe { &*self.raw.qp.rmc_asleep }.load(Ordering::Relaxed) != 0 {
            self.call(|engine| engine.wake);
        }
    }

    /// The next slot's operation has been posted.
    #[inline]
    fn occupy_slot(&mut self) {
        let qp = &mut *self.raw.qp;
        let slot = (qp.posted & (qp.size - 1)) as usize;
        qp.slot_state[slot] = BUSY;
        qp.posted = qp.posted.wrapping_add(1);
    }

    fn free_slot(&mut self) -> usize {
        let slot = (self.raw.qp.posted & (self.raw.qp.size - 1)) as usize;
        let mut polls = 0;
        while self.raw.qp.slot_state[slot] == BUSY {
            if self.reap().is_none() {
                self.relax(&mut polls);
            }
        }
        slot
    }

    /// Takes a completion, if there is one. Returns its slot.
    #[inline]
    pub(super) fn reap(&mut self) -> Option<u16> {
        let qp = &mut *self.raw.qp;
        if qp.reaped == qp.posted {
            return None;
        }
        let position = (qp.reaped & (qp.size - 1)) as usize;
        // SAFETY: the position lies in the completion queue; the controller only stores it.
        let word = unsafe { &*qp.cq.add(position).cast::<AtomicU32>() }.load(Ordering::Acquire);
        let entry = CqEntry::decode(word);
        if entry.phase != phase_of(qp.reaped, qp.size) {
            return None;
        }
        qp.reaped = qp.reaped.wrapping_add(1);
        let slot = usize::from(entry.slot) & (qp.size as usize - 1);
        qp.slot_state[slot] = FREE;
        qp.slot_status[slot] = entry.status_code;
        self.note(Status::from_code(entry.status_code).unwrap_or(Status::BadOperation));
        Some(slot as u16)
    }

    fn note(&mut self, status: Status) {
        if self.first == Status::Ok {
            self.first = status;
        }
    }

    /// Runs the pipelines here, polls, and sleeps after `spin_limit` times.
    fn relax(&mut self, polls: &mut u32) {
        self.progress();
        *polls += 1;
        if *polls > self.raw.qp.spin_limit {
            self.sleep();
            *polls = 0;
        }
    }

    /// Runs the pipelines here, if this thread does.
    pub(super) fn progress(&mut self) {
        self.call(|engine| engine.progress);
    }

    /// Sleeps until a completion may have come.
    pub(super) fn sleep(&mut self) {
        self.call(|engine| engine.sleep);
    }

    fn call(&mut self, which: fn(&ffi::Engine) -> Option<unsafe extern "C" fn(*mut ffi::Qp)>) {
        // SAFETY: the engine is one of this crate's tables, and its functions take this pair.
        unsafe {
            if let Some(function) = which(&*self.raw.qp.engine) {
                function(&raw mut *self.raw.qp);
            }
        }
    }

    fn drain(&mut self) -> Outcome {
        let mut polls = 0;
        while self.raw.qp.posted != self.raw.qp.reaped {
            if self.reap().is_none() {
                self.relax(&mut polls);
            }
        }
        match std::mem::replace(&mut self.first, Status::Ok) {
            Status::Ok => Ok(()),
            status => Err(status),
        }
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        let _ = self.drain();
    }
}
