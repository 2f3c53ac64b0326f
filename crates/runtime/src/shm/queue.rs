//! The memory of a queue pair: counters and bed, work queue, completion queue, operands.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rackmem_abi::{CQ_ENTRY_BYTES, MAX_WQ_SIZE, WQ_ENTRY_BYTES};
use rackmem_rmc::QpStats;

use super::mapping::{Access, Mapping, PAGE_BYTES};
use super::sleep::Bed;

/// Operations done so far; one of the two that do them writes, and `rackmem top` reads.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Counters {
    /// Work queue entries completed.
    pub ops: AtomicU64,
    /// Payload bytes of the entries that succeeded.
    pub bytes: AtomicU64,
    /// Work queue entries that failed.
    pub errors: AtomicU64,
    /// Entries posted and not completed, as the pipelines see it.
    pub outstanding: AtomicU32,
}

impl Counters {
    /// Publishes the counters of a queue pair.
    #[inline(always)]
    pub fn publish(&self, stats: &QpStats) {
        self.ops.store(stats.ops, Ordering::Relaxed);
        self.bytes.store(stats.bytes, Ordering::Relaxed);
        self.errors.store(stats.errors, Ordering::Relaxed);
    }

    /// Counts a completed operation. One writer: no atomic read-modify-write. The application may
    /// have put any number there.
    #[inline(always)]
    pub fn count(&self, ok: bool, length: u32) {
        let add = |counter: &AtomicU64, n: u64| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        };
        add(&self.ops, 1);
        if ok {
            add(&self.bytes, length.into());
        } else {
            add(&self.errors, 1);
        }
    }
}

#[repr(C)]
struct Header {
    counters: Counters,
    inline_counters: Counters,
    waiting: Waiting,
}

/// On a line of its own, so that counting does not disturb it.
#[repr(C, align(64))]
struct Waiting {
    bed: Bed,
}

const WQ_AT: usize = PAGE_BYTES;
const CQ_AT: usize = WQ_AT + MAX_WQ_SIZE * WQ_ENTRY_BYTES;
const OPERANDS_AT: usize = CQ_AT + MAX_WQ_SIZE * CQ_ENTRY_BYTES;
/// Operands of atomics: two words a slot.
const OPERAND_BYTES: usize = 16;
const LEN: usize = OPERANDS_AT + MAX_WQ_SIZE * OPERAND_BYTES;
const _: () =
    assert!(size_of::<Header>() <= PAGE_BYTES && CQ_AT % 64 == 0 && OPERANDS_AT % 64 == 0);

/// Queue pair memory mapped into this process; room for `MAX_WQ_SIZE` entries.
#[derive(Debug)]
pub struct QueueMemory(Mapping);

impl QueueMemory {
    /// Creates zeroed queues.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn create(name: &str) -> io::Result<QueueMemory> {
        Mapping::create(name, LEN).map(QueueMemory)
    }

    /// Maps queues that were handed over.
    ///
    /// # Errors
    /// `InvalidData` if they are too small.
    pub fn open(fd: OwnedFd) -> io::Result<QueueMemory> {
        Mapping::open(fd, LEN, Access::ReadWrite).map(QueueMemory)
    }

    /// The shared memory, to hand over.
    pub fn mapping(&self) -> &Mapping {
        &self.0
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping covers the page for as long as `self`; all members are atomics.
        unsafe { &*self.0.base().cast::<Header>() }
    }

    /// Operations that the daemon has done since the queue pair was made.
    pub fn counters(&self) -> &Counters {
        &self.header().counters
    }

    /// Operations that the program's own thread has done: with inline progress.
    pub fn inline_counters(&self) -> &Counters {
        &self.header().inline_counters
    }

    /// Bed on which the application sleeps until a completion comes.
    pub fn bed(&self) -> &Bed {
        &self.header().waiting.bed
    }

    /// The word of a work queue entry. `slot` is below `MAX_WQ_SIZE`, `word` 0 or 1.
    #[inline(always)]
    pub fn wq_word(&self, slot: u32, word: usize) -> &AtomicU64 {
        let at = WQ_AT + (slot as usize % MAX_WQ_SIZE) * WQ_ENTRY_BYTES + (word & 1) * 8;
        // SAFETY: `at` lies within the work queue and is a multiple of 8.
        unsafe { &*self.0.base().add(at).cast::<AtomicU64>() }
    }

    /// Both words of an entry; the acquire load of word 0 pairs with the release store that
    /// published the entry, so word 1 is at least as new.
    #[inline(always)]
    pub fn wq_words(&self, slot: u32) -> [u64; 2] {
        let word0 = self.wq_word(slot, 0).load(Ordering::Acquire);
        [word0, self.wq_word(slot, 1).load(Ordering::Relaxed)]
    }

    /// The `position`-th completion queue entry, below `MAX_WQ_SIZE`.
    #[inline(always)]
    pub fn cq_entry(&self, position: u32) -> &AtomicU32 {
        let at = CQ_AT + (position as usize % MAX_WQ_SIZE) * CQ_ENTRY_BYTES;
        // SAFETY: `at` lies within the completion queue and is a multiple of 4.
        unsafe { &*self.0.base().add(at).cast::<AtomicU32>() }
    }

    /// First operand of slot 0.
    pub fn operands(&self) -> *mut u64 {
        // SAFETY: `OPERANDS_AT` lies within the mapping.
        unsafe { self.0.base().add(OPERANDS_AT).cast() }
    }
}
