//! A context segment in shared memory: control page, line locks, data (soNUMA §4.1).
//!
//! Every access to the data by a remote operation goes through here, whichever process makes it,
//! so line atomicity and the waking of sleepers hold for all of them.
//!
//! # Decisions
//!
//! - *Head last.* A remote write stores the first 16 bytes of every line after the rest, so a reader that polls the
//!   first word of a line sees the whole line. Messaging and barriers build on it.
//! - *A write wakes.* A process that writes to a segment looks at its bed, one cached word, and wakes the sleepers. So
//!   `rackmem_sleep_until` sleeps in the kernel without help of the sender.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rackmem_abi::Status;
use rackmem_rmc::ct::Bounds;

use super::copy;
use super::line_lock::{BLOCK_BYTES, LineLocks, Owner};
use super::mapping::{Access, Mapping, PAGE_BYTES, round_up_to_page};
use super::sleep::Bed;
use crate::client::ffi::Window;

/// Whether operations on a segment are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Operations are served: its process runs.
    Live = 1,
    /// Its process has left the context.
    Closed = 2,
    /// Its process died, or its daemon has ended.
    Lost = 3,
}

/// The first page. Its first line is read by every operation and written seldom.
#[repr(C, align(64))]
struct Control {
    state: AtomicU32,
    owner_nid: u32,
    size_bytes: u64,
    /// Bed of the owning node's processes, until the segment is written.
    bed: Bed,
    /// Processes of the context that died.
    losses: AtomicU64,
    notifications: Notifications,
}

/// On a line of its own: senders write it.
#[repr(C, align(64))]
struct Notifications {
    count: AtomicU64,
    /// Bed of the owning node's processes, until a notification comes: mere writes must not wake
    /// them.
    bed: Bed,
}

/// Blocks that a long read copies between looking at their locks.
const BLOCKS_AT_ONCE: usize = 16;

/// Offset of the line locks in the mapping: `RACKMEM_SEGMENT_LOCKS`.
pub const LOCKS_AT: usize = PAGE_BYTES;
/// Offset of the data in the mapping: `RACKMEM_SEGMENT_DATA`.
pub const DATA_AT: usize = LOCKS_AT + round_up_to_page(size_of::<LineLocks>());
/// Offset of the word that is not zero while processes sleep until the segment is written.
pub const SLEEPERS_AT: usize = std::mem::offset_of!(Control, bed) + Bed::ASLEEP_AT;
const _: () = assert!(size_of::<Control>() <= PAGE_BYTES);

/// A segment mapped into this process.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    access: Access,
    /// Size of the data, checked against the mapping: the control page is not trusted.
    bounds: Bounds,
}

impl Segment {
    /// Creates a zeroed segment of `size_bytes`, live, for node `nid`.
    ///
    /// # Errors
    /// `OutOfMemory` if the machine cannot hold it, else the error of [`Mapping::create`].
    pub fn create(nid: u16, ctx_id: u16, size_bytes: u64) -> io::Result<Segment> {
        let available = available_bytes();
        if size_bytes > available {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("a segment of {size_bytes} bytes; this machine has {available} available"),
            ));
        }
        let name = format!("rackmem-segment-{nid}-{ctx_id}");
        let mapping = Mapping::create(&name, DATA_AT + size_bytes as usize)?;
        let control = mapping.base().cast::<Control>();
        // SAFETY: the mapping is larger than the control page and nobody else has it yet.
        unsafe {
            (&raw mut (*control).owner_nid).write(nid.into());
            (&raw mut (*control).size_bytes).write(size_bytes);
            (*control).state.store(State::Live as u32, Ordering::Release);
        }
        Ok(Segment { mapping, access: Access::ReadWrite, bounds: Bounds { size_bytes } })
    }

    /// Maps a segment that was handed over.
    ///
    /// # Errors
    /// `InvalidData` if it does not look like a segment.
    pub fn open(fd: OwnedFd, access: Access) -> io::Result<Segment> {
        let mapping = Mapping::open(fd, DATA_AT, access)?;
        let control = mapping.base().cast::<Control>();
        // SAFETY: `open` checked that the mapping covers the control page.
        let size_bytes = unsafe { (&raw const (*control).size_bytes).read_volatile() };
        if size_bytes > (mapping.len() - DATA_AT) as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a segment says it has {size_bytes} bytes; its memory has fewer"),
            ));
        }
        Ok(Segment { mapping, access, bounds: Bounds { size_bytes } })
    }

    fn control(&self) -> &Control {
        // SAFETY: the mapping covers the page for as long as `self`; all members that change are
        // atomics.
        unsafe { &*self.mapping.base().cast::<Control>() }
    }

    fn locks(&self) -> &LineLocks {
        // SAFETY: as `control`; `DATA_AT` leaves room for the locks.
        unsafe { &*self.mapping.base().add(LOCKS_AT).cast::<LineLocks>() }
    }

    /// Size of the data in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.bounds.size_bytes
    }

    /// First byte of the data.
    pub fn data(&self) -> *mut u8 {
        // SAFETY: `DATA_AT` lies within the mapping, or is its end for an empty segment.
        unsafe { self.mapping.base().add(DATA_AT) }
    }

    /// The shared memory, to hand over.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Whether this process may change the segment.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether it is served.
    pub fn state(&self) -> State {
        match self.control().state.load(Ordering::Relaxed) {
            1 => State::Live,
            2 => State::Closed,
            _ => State::Lost,
        }
    }

    /// The word behind [`Segment::state`], for readers that poll it themselves.
    pub fn state_word(&self) -> *const AtomicU32 {
        &raw const self.control().state
    }

    /// Ends the segment: operations on it fail from now on, and its sleepers look again.
    pub fn retire(&self, state: State) {
        self.control().state.store(state as u32, Ordering::Release);
        self.shake();
    }

    /// Counts a process of the context that has died.
    pub fn note_loss(&self) {
        self.control().losses.fetch_add(1, Ordering::Release);
    }

    /// Processes of the context that have died since the segment was made, as far as this node's daemon has learnt. One
    /// may be counted twice.
    pub fn losses(&self) -> u64 {
        self.control().losses.load(Ordering::Acquire)
    }

    /// Wakes all processes that sleep here.
    pub fn shake(&self) {
        self.control().bed.shake();
        self.control().notifications.bed.shake();
    }

    /// Releases the line locks of the owners for which `is_gone` returns true.
    pub fn release_locks(&self, is_gone: impl Fn(Owner) -> bool) {
        self.locks().release_all(is_gone);
    }

    /// Bed on which the owning node's processes sleep until the segment is written.
    pub fn bed(&self) -> &Bed {
        &self.control().bed
    }

    /// Bed on which the owning node's processes sleep until a notification comes.
    pub fn notification_bed(&self) -> &Bed {
        &self.control().notifications.bed
    }

    /// Notifications received so far.
    pub fn notifications(&self) -> u64 {
        self.control().notifications.count.load(Ordering::Acquire)
    }

    /// The addresses that the fast path needs, without indirections.
    pub fn view(self: &Arc<Self>) -> View {
        View {
            data: self.data(),
            bounds: self.bounds,
            control: self.mapping.base().cast(),
            // SAFETY: `LOCKS_AT` lies within the mapping.
            locks: unsafe { self.mapping.base().add(LOCKS_AT).cast() },
            may_lock: self.access == Access::ReadWrite,
            _segment: self.clone(),
        }
    }
}

/// A segment as the access path sees it: addresses in hand.
#[derive(Clone, Debug)]
pub struct View {
    data: *mut u8,
    bounds: Bounds,
    control: *const Control,
    locks: *const LineLocks,
    may_lock: bool,
    _segment: Arc<Segment>,
}

// SAFETY: the pointers lead into the shared mapping that `_segment` keeps alive.
unsafe impl Send for View {}

impl View {
    fn control(&self) -> &Control {
        // SAFETY: `_segment` keeps the mapping.
        unsafe { &*self.control }
    }

    fn locks(&self) -> &LineLocks {
        // SAFETY: `_segment` keeps the mapping.
        unsafe { &*self.locks }
    }

    /// The segment this is a view of.
    pub fn segment(&self) -> &Arc<Segment> {
        &self._segment
    }

    /// The view as inline C has it.
    pub fn window(&self) -> Window {
        Window {
            segment: self._segment.mapping.base(),
            readable_bytes: self.bounds.size_bytes,
            writable_bytes: if self.may_lock { self.bounds.size_bytes } else { 0 },
        }
    }

    /// Wakes the owning node's processes that sleep until the segment is written.
    pub fn wake(&self) {
        self.control().bed.wake();
    }

    /// Whether it is served.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.control().state.load(Ordering::Relaxed) == State::Live as u32
    }

    /// Whether `length` bytes at `offset` can be served.
    ///
    /// # Errors
    /// `NoContext` or `NodeLost` by the state of the segment, `OutOfSegment` by its size.
    #[inline(always)]
    pub fn check(&self, offset: u64, length: u64) -> Result<(), Status> {
        let state = self.control().state.load(Ordering::Relaxed);
        if state != State::Live as u32 {
            return Err(Self::status_of(state));
        }
        self.bounds.check(offset, length)
    }

    #[cold]
    fn status_of(state: u32) -> Status {
        if state == State::Closed as u32 { Status::NoContext } else { Status::NodeLost }
    }

    /// Copies `length` bytes at `offset` to `dst`, whole lines each at one time.
    ///
    /// # Safety
    /// [`View::check`] accepted the range, and `dst` is valid for `length` bytes of writes.
    #[inline(always)]
    pub unsafe fn read(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        // SAFETY: the caller's contract.
        unsafe {
            if is_one_block(offset, length) {
                self.read_block(offset, dst, length, reader);
            } else {
                self.read_blocks(offset, dst, length, reader);
            }
        }
    }

    /// # Safety
    /// As [`View::read`], within a block.
    #[inline(always)]
    unsafe fn read_block(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        // SAFETY: the caller's contract.
        unsafe {
            let lock = self.locks().of(offset);
            if let Some(version) = lock.begin_read() {
                copy::copy_out_whole(dst, self.data.add(offset as usize), length);
                if lock.is_undisturbed(version) {
                    return;
                }
            }
            self.read_contended(offset, dst, length, reader);
        }
    }

    /// Notes the versions of several blocks, copies them in one go, and then checks the versions for
    /// writers: string copies take their time to start.
    ///
    /// # Safety
    /// As [`View::read`].
    #[inline(never)]
    unsafe fn read_blocks(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        let (mut offset, mut dst, mut length) = (offset, dst, length);
        while length != 0 {
            let most = BLOCKS_AT_ONCE * BLOCK_BYTES as usize - (offset % BLOCK_BYTES) as usize;
            let n = length.min(most);
            // SAFETY: the pieces divide the range that the caller vouches for.
            unsafe {
                self.read_at_once(offset, dst, n, reader);
                dst = dst.add(n);
            }
            (offset, length) = (offset + n as u64, length - n);
        }
    }

    /// # Safety
    /// As [`View::read`], at most `BLOCKS_AT_ONCE` blocks.
    #[inline(always)]
    unsafe fn read_at_once(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        let (first, last) = (offset / BLOCK_BYTES, (offset + length as u64 - 1) / BLOCK_BYTES);
        let lock = |block: u64| self.locks().of(block * BLOCK_BYTES);
        let mut versions = [0; BLOCKS_AT_ONCE];
        let mut is_whole = true;
        for (block, noted) in (first..=last).zip(&mut versions) {
            let version = lock(block).begin_read();
            *noted = version.unwrap_or_default();
            is_whole &= version.is_some();
        }
        // SAFETY: the caller's contract.
        unsafe { copy::copy_out_whole(dst, self.data.add(offset as usize), length) };
        for (block, version) in (first..=last).zip(versions) {
            is_whole &= lock(block).is_undisturbed(version);
        }
        if !is_whole {
            // SAFETY: the caller's contract.
            unsafe { self.read_each(offset, dst, length, reader) };
        }
    }

    /// # Safety
    /// As [`View::read`].
    #[cold]
    #[inline(never)]
    unsafe fn read_each(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        for (at, done, n) in blocks(offset, length) {
            // SAFETY: the blocks divide the range that the caller vouches for.
            unsafe { self.read_contended(at, dst.add(done), n, reader) };
        }
    }

    /// # Safety
    /// As [`View::read`], within a block.
    #[cold]
    #[inline(never)]
    unsafe fn read_contended(&self, offset: u64, dst: *mut u8, length: usize, reader: Owner) {
        let reader = self.may_lock.then_some(reader);
        // SAFETY: the caller's contract.
        self.locks().of(offset).read(reader, || unsafe {
            copy::copy_out_whole(dst, self.data.add(offset as usize), length);
        });
    }

    /// Copies `length` bytes from `src` to `offset`, whole lines each at one time.
    ///
    /// # Safety
    /// [`View::check`] accepted the range, the segment is mapped for writing, and `src` is valid
    /// for `length` bytes of reads.
    #[inline(always)]
    pub unsafe fn write(&self, offset: u64, src: *const u8, length: usize, writer: Owner) {
        // SAFETY: the caller's contract.
        unsafe {
            if is_one_block(offset, length) {
                self.write_block(offset, src, length, writer);
            } else {
                self.write_blocks(offset, src, length, writer);
            }
        }
        self.control().bed.wake();
    }

    /// # Safety
    /// As [`View::write`], within a block.
    #[inline(always)]
    unsafe fn write_block(&self, offset: u64, src: *const u8, length: usize, writer: Owner) {
        self.locks().of(offset).locked(writer, || {
            // SAFETY: the caller's contract.
            unsafe { copy::copy_in(self.data.add(offset as usize), src, length) };
        });
    }

    /// # Safety
    /// As [`View::write`].
    #[inline(never)]
    unsafe fn write_blocks(&self, offset: u64, src: *const u8, length: usize, writer: Owner) {
        for (at, done, n) in blocks(offset, length) {
            // SAFETY: the blocks divide the range that the caller vouches for.
            unsafe { self.write_block(at, src.add(done), n, writer) };
        }
    }

    /// Adds to the 8 bytes at `offset`. Returns their earlier value. Atomic against the owner's own atomic
    /// instructions, too.
    ///
    /// # Safety
    /// [`View::check`] accepted 8 bytes at `offset`, a multiple of 8, and the segment is mapped
    /// for writing.
    #[inline(always)]
    pub unsafe fn fetch_add(&self, offset: u64, addend: u64, writer: Owner) -> u64 {
        // SAFETY: the caller's contract.
        let word = unsafe { self.word(offset) };
        let change = || word.fetch_add(addend, Ordering::SeqCst);
        let old = self.locks().of(offset).atomic(writer, change);
        self.control().bed.wake();
        old
    }

    /// Replaces the 8 bytes at `offset` if they equal `expected`. Returns their earlier value.
    ///
    /// # Safety
    /// As [`View::fetch_add`].
    #[inline(always)]
    pub unsafe fn compare_swap(&self, offset: u64, expected: u64, new: u64, writer: Owner) -> u64 {
        // SAFETY: the caller's contract.
        let word = unsafe { self.word(offset) };
        let change = || word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        let (Ok(old) | Err(old)) = self.locks().of(offset).atomic(writer, change);
        self.control().bed.wake();
        old
    }

    /// # Safety
    /// 8 bytes at `offset`, a multiple of 8, lie in the segment.
    #[inline(always)]
    unsafe fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: the caller's contract; the data starts at a page.
        unsafe { &*self.data.add(offset as usize).cast::<AtomicU64>() }
    }

    /// Counts a notification and wakes its waiters.
    pub fn notify(&self) {
        let notifications = &self.control().notifications;
        notifications.count.fetch_add(1, Ordering::Release);
        notifications.bed.wake();
    }
}

/// Whether the range lies under one lock.
#[inline(always)]
fn is_one_block(offset: u64, length: usize) -> bool {
    offset % BLOCK_BYTES + length as u64 <= BLOCK_BYTES
}

/// The parts of a range under one lock each: offset, bytes before, bytes.
fn blocks(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let n = (length - done).min((BLOCK_BYTES - at % BLOCK_BYTES) as usize);
        done += n;
        (n != 0).then_some((at, done - n, n))
    })
}

/// Memory that new segments can take without driving the machine out of memory.
fn available_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.map_or(u64::MAX, |kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner::new(0, 0)
    }

    #[test]
    fn writes_are_read_back_at_any_place() {
        let view = Arc::new(Segment::create(0, 0, 8192).unwrap()).view();
        for (offset, length) in [(0, 1), (7, 9), (60, 8), (1020, 8), (1000, 3000), (0, 8192)] {
            view.check(offset, length).unwrap();
            let src: Vec<u8> = (0..length).map(|i| (i + offset) as u8).collect();
            let mut dst = vec![0; length as usize];
            // SAFETY: the range was checked and the vectors have `length` bytes.
            unsafe {
                view.write(offset, src.as_ptr(), length as usize, owner());
                view.read(offset, dst.as_mut_ptr(), length as usize, owner());
            }
            assert_eq!(src, dst);
        }
    }

    #[test]
    fn atomics_return_the_old_value() {
        let view = Arc::new(Segment::create(0, 0, 64).unwrap()).view();
        // SAFETY: offset 8 lies in the segment.
        unsafe {
            assert_eq!(view.fetch_add(8, 5, owner()), 0);
            assert_eq!(view.compare_swap(8, 4, 9, owner()), 5);
            assert_eq!(view.compare_swap(8, 5, 9, owner()), 5);
            assert_eq!(view.fetch_add(8, 0, owner()), 9);
        }
    }

    #[test]
    fn a_retired_segment_answers_with_its_status() {
        let segment = Arc::new(Segment::create(0, 0, 64).unwrap());
        let view = segment.view();
        assert_eq!(view.check(0, 64), Ok(()));
        assert_eq!(view.check(1, 64), Err(Status::OutOfSegment));
        segment.retire(State::Closed);
        assert_eq!(view.check(0, 1), Err(Status::NoContext));
        segment.retire(State::Lost);
        assert_eq!(view.check(0, 1), Err(Status::NodeLost));
    }

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let error = Segment::create(0, 0, 1 << 50).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    /// Runs `change` on a segment in a thread of its own, and `look` here, each again and again until one of them has
    /// run so often. Either may wait for the other most of the time.
    fn beside(change: impl Fn(&View, u64) + Sync, look: impl Fn(&View)) -> View {
        const TIMES: u64 = 40_000_000;
        let view = Arc::new(Segment::create(0, 0, 4096).unwrap()).view();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let (theirs, change, over) = (view.clone(), &change, &is_over);
        let is_going_on = |_: &u64| !over.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..TIMES).take_while(is_going_on).for_each(|round| change(&theirs, round));
                over.store(true, Ordering::Relaxed);
            });
            let looks = || (0..TIMES).take_while(is_going_on).for_each(|_| look(&view));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(looks));
            over.store(true, Ordering::Relaxed);
            outcome.unwrap();
        });
        view
    }

    /// Bytes of a word that all change at once, by an atomic or by a write of a part of the word.
    fn assert_whole(bytes: &[u8]) {
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn word: {bytes:x?}");
    }

    #[test]
    fn a_reader_of_parts_sees_no_half_of_an_atomic() {
        beside(
            |view, round| {
                let step = if round % 100 == 99 { u64::wrapping_neg(99) } else { 1 };
                // SAFETY: offset 8 lies in the segment.
                unsafe { view.fetch_add(8, step.wrapping_mul(0x01_0101_0101_0101), owner()) };
            },
            |view| {
                let mut bytes = [0; 6];
                // SAFETY: the range lies in the segment.
                unsafe { view.read(9, bytes.as_mut_ptr(), 6, Owner::new(0, 1)) };
                assert_whole(&bytes);
            },
        );
    }

    #[test]
    fn an_atomic_sees_no_half_of_a_write_of_parts() {
        beside(
            |view, round| {
                // SAFETY: the range lies in the segment.
                unsafe { view.write(5, [round as u8; 10].as_ptr(), 10, owner()) };
            },
            |view| {
                // SAFETY: offset 8 lies in the segment.
                let old = unsafe { view.fetch_add(8, 1 << 56, Owner::new(0, 1)) };
                assert_whole(&old.to_ne_bytes()[..7]);
            },
        );
    }

    #[test]
    fn a_write_of_parts_loses_no_atomic() {
        let added = std::cell::Cell::new(0);
        let view = beside(
            |view, round| {
                // SAFETY: the range lies in the segment.
                unsafe { view.write(5, [round as u8; 6].as_ptr(), 6, owner()) };
            },
            |view| {
                // SAFETY: offset 8 lies in the segment.
                unsafe { view.fetch_add(8, 1 << 32, Owner::new(0, 1)) };
                added.set(added.get() + 1);
            },
        );
        // SAFETY: offset 8 lies in the segment.
        assert_eq!(unsafe { view.fetch_add(8, 0, owner()) } >> 32, added.get());
    }

    /// Writers fill lines with one value; a reader must never see two values in a line.
    #[test]
    fn lines_are_whole_between_threads() {
        let view = Arc::new(Segment::create(0, 0, 4096).unwrap()).view();
        std::thread::scope(|scope| {
            for client in 0..2u16 {
                let view = view.clone();
                scope.spawn(move || {
                    for round in 0..20_000u32 {
                        let line = [(round as u8) << 1 | client as u8; 128];
                        let offset = u64::from(round % 62) * 64;
                        // SAFETY: offset plus 128 is at most 4096.
                        unsafe { view.write(offset, line.as_ptr(), 128, Owner::new(1, client)) };
                    }
                });
            }
            for _ in 0..20_000 {
                let mut lines = [0u8; 4096];
                // SAFETY: the whole segment.
                unsafe { view.read(0, lines.as_mut_ptr(), 4096, Owner::new(0, 9)) };
                for line in lines.chunks(64) {
                    assert!(line.iter().all(|byte| *byte == line[0]), "torn line");
                }
            }
        });
    }
}
