//! Line atomicity between processes: a sequence lock per 4 KiB block of a segment.
//!
//! Readers take no lock: they note the version, copy, and look whether it changed. Writers lock, and
//! atomics look whether one holds the lock, which names its owner, so that the locks of a killed
//! process can be released by the daemon that saw it die ([`LineLocks::release_all`]).
//!
//! # Decisions
//!
//! - *Even an 8-byte store takes the lock.* Without it the store could fall between two words of a line write, and
//!   readers could see it both before and after that write.
//! - *An atomic takes no lock*, but waits for a writer that is at work, and one instruction performs it. Writers store
//!   words whole ([`super::copy`]), so it sees each word before or after. One that found the lock free may fall between
//!   two stores of a writer that came since; it takes effect just before that writer or just after it, by what it saw,
//!   and whatever begins after it waits for that writer. Without the look, an atomic could see a write that a later
//!   one, in the same line, does not see (`without_the_look_atomics_see_half_a_line`).
//! - *A read is no snapshot of atomics.* They leave the version as it is, as a second locked instruction would double
//!   what they cost. A reader of a line sees each atomic whole, but may see the later of two, on different words, and
//!   not the earlier (`readers_may_see_atomics_out_of_order`). An atomic and a write it sees in their order.
//! - *A release is a store.* A lock has two words: one that those who lock compare and swap, and one that the holder
//!   alone writes. Locked instructions are what a write costs.
//!
//! A process that is killed inside an inline write may leave that one line half written.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use rackmem_abi::LINE_BYTES;

/// Bytes of a segment under one lock: bulk transfers lock seldom, neighbours rarely collide.
pub const BLOCK_BYTES: u64 = 4096;

/// Locks of a segment; blocks share them modulo this count.
pub const LOCK_COUNT: usize = 1024;

/// Failed optimistic reads before the reader locks, which bounds its wait.
const OPTIMISTIC_TRIES: u32 = 32;

/// Time after which a lock is taken from an owner that neither proceeds nor dies (a stopped
/// process). Nobody waits for ever; the price is that the owner, should it go on, may tear a line. It
/// does not release the lock of the next owner: see [`LineLock::release`].
#[cfg(not(loom))]
const PATIENCE: Duration = Duration::from_secs(1);

/// Time after which a lock is taken from any owner: one that only pretends to proceed must not
/// block others for ever.
#[cfg(not(loom))]
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// Most that counts of the time between two looks: if it was longer, this process was kept from its
/// core, and so may the owner have been.
#[cfg(not(loom))]
const LONGEST_STEP: Duration = Duration::from_millis(50);

/// Tries between two rests, which leave the core to the owner, and looks at the clock.
#[cfg(not(loom))]
const TRIES_PER_REST: u32 = 64;

/// Time of a sleep between tries: a waiter that only yields may wait for whole slices of all other processes that are
/// busy on this host.
#[cfg(not(loom))]
const REST: Duration = Duration::from_micros(20);

/// The holder of a line lock, as the lock's word has it: 24 bits, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The owner `client` (below 4095) of node `nid`.
    pub fn new(nid: u16, client: u16) -> Owner {
        Owner(u32::from(nid) << 12 | (u32::from(client) + 1) & 0xfff)
    }

    /// The number under which processes exchange it.
    pub fn token(self) -> u32 {
        self.0
    }

    /// The owner with this number.
    pub fn from_token(token: u32) -> Owner {
        Owner(token & 0xff_ffff)
    }
}

/// Bits of the owner, below the ticket.
pub const TICKET_SHIFT: u32 = 24;
/// The owner in the word `taken`.
pub const OWNER_MASK: u64 = (1 << TICKET_SHIFT) - 1;

/// The word `taken` of a hold: ticket and owner tell this hold from every other one.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Held(u64);

impl Held {
    fn ticket(self) -> u64 {
        self.0 >> TICKET_SHIFT
    }
}

/// One lock. It is held unless `done` is the ticket in `taken`. `include/rackmem/direct.h` has the same steps.
#[repr(C)]
#[derive(Debug)]
pub struct LineLock {
    /// Ticket of the last hold in 40 bits, and below it its owner. Changes when a hold begins only, so it is the
    /// version for readers.
    taken: AtomicU64,
    /// Ticket of the hold that was released last.
    done: AtomicU64,
}

impl LineLock {
    /// A free lock; only for tests, as shared memory starts out zeroed.
    #[cfg(any(test, loom))]
    #[allow(clippy::new_without_default, reason = "for tests only")]
    pub fn new() -> LineLock {
        LineLock { taken: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// The word `taken` if no one holds the lock. What earlier holders wrote is seen from then on.
    #[inline(always)]
    fn taken_if_free(&self) -> Option<u64> {
        let taken = self.taken.load(Ordering::Acquire);
        (self.done.load(Ordering::Acquire) == taken >> TICKET_SHIFT).then_some(taken)
    }

    /// Begins an optimistic read: the version, or `None` while a writer is at work.
    #[inline(always)]
    pub fn begin_read(&self) -> Option<u64> {
        self.taken_if_free()
    }

    /// Whether no writer disturbed the read since [`LineLock::begin_read`].
    #[inline(always)]
    pub fn is_undisturbed(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.taken.load(Ordering::Relaxed) == version
    }

    /// Runs `copy` until it was not disturbed by a writer. Without a `reader` the memory of the
    /// lock cannot be written, so the wait is not bounded by taking the lock.
    pub fn read(&self, reader: Option<Owner>, mut copy: impl FnMut()) {
        let mut waiting = Waiting::default();
        loop {
            if let Some(version) = self.begin_read() {
                copy();
                if self.is_undisturbed(version) {
                    return;
                }
            }
            match reader {
                Some(owner) if waiting.tries >= OPTIMISTIC_TRIES => {
                    return self.locked(owner, copy);
                }
                _ => {
                    if waiting.is_over(self.taken.load(Ordering::Relaxed)) {
                        return copy();
                    }
                }
            }
        }
    }

    /// Runs `change` under the lock.
    #[inline(always)]
    pub fn locked<T>(&self, owner: Owner, change: impl FnOnce() -> T) -> T {
        let held = self.acquire(owner);
        let outcome = change();
        self.release(held);
        outcome
    }

    /// Runs `change`, which is one atomic instruction on one word: beside readers and other atomics, and after the
    /// writer that holds the lock, if there is one.
    #[inline(always)]
    pub fn atomic<T>(&self, owner: Owner, change: impl FnOnce() -> T) -> T {
        if self.taken_if_free().is_some() { change() } else { self.locked(owner, change) }
    }

    /// Locks: no one else reads or writes until [`LineLock::release`], but for atomics that began before.
    #[inline(always)]
    pub fn acquire(&self, owner: Owner) -> Held {
        match self.try_acquire(owner) {
            Some(held) => held,
            None => self.acquire_contended(owner),
        }
    }

    /// Unlocks, and publishes the writes. A lock that was taken from this owner meanwhile is another's by now, or was,
    /// and stays as it is.
    ///
    /// A store is enough, as `done` is the holder's. An owner that is overruled between the look and the store may put
    /// an older ticket there: the lock is not free then, although nobody holds it, until a waiter loses its patience.
    #[inline(always)]
    pub fn release(&self, held: Held) {
        if self.taken.load(Ordering::Relaxed) == held.0 {
            self.done.store(held.ticket(), Ordering::Release);
        }
    }

    #[inline(always)]
    fn try_acquire(&self, owner: Owner) -> Option<Held> {
        let free = self.taken_if_free()?;
        let held = ((free >> TICKET_SHIFT) + 1) << TICKET_SHIFT | u64::from(owner.0);
        let won = self.taken.compare_exchange(free, held, Ordering::Acquire, Ordering::Relaxed);
        // No store of the change may be seen before the lock is.
        fence(Ordering::Release);
        won.ok().map(|_| Held(held))
    }

    #[cold]
    #[inline(never)]
    fn acquire_contended(&self, owner: Owner) -> Held {
        let mut waiting = Waiting::default();
        loop {
            if let Some(held) = self.try_acquire(owner) {
                return held;
            }
            let taken = self.taken.load(Ordering::Relaxed);
            if waiting.is_over(taken) {
                self.overrule(taken);
            }
        }
    }

    /// Ends the hold that a waiter has lost its patience with. Another hold, which may have begun meanwhile, goes on:
    /// it begins with `done` at this one's ticket.
    fn overrule(&self, taken: u64) {
        let (done, ticket) = (self.done.load(Ordering::Acquire), taken >> TICKET_SHIFT);
        if self.taken.load(Ordering::Acquire) == taken && done != ticket {
            let _ = self.done.compare_exchange(done, ticket, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// Releases the lock if a process that is gone holds it. Its last line may be half written. Does nothing if the
    /// lock goes through other hands meanwhile.
    fn release_if(&self, is_gone: &impl Fn(Owner) -> bool) {
        let done = self.done.load(Ordering::Acquire);
        let held = Held(self.taken.load(Ordering::Acquire));
        let owner = Owner((held.0 & OWNER_MASK) as u32);
        if held.ticket() != done && is_gone(owner) {
            let free = held.ticket();
            let _ = self.done.compare_exchange(done, free, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// Waiting for another owner.
#[derive(Default)]
struct Waiting {
    tries: u32,
    /// Time of the last look at the clock.
    #[cfg(not(loom))]
    looked: Option<Instant>,
    /// Time waited so far; of one step, [`LONGEST_STEP`] counts at most.
    #[cfg(not(loom))]
    waited: Duration,
    /// The lock's word at the last look, and the time for which it has not changed.
    #[cfg(not(loom))]
    word: (u64, Duration),
}

impl Waiting {
    /// Waits a moment. Returns whether the owner is to lose the lock, whose word is `word`.
    #[cfg(not(loom))]
    fn is_over(&mut self, word: u64) -> bool {
        self.tries = self.tries.wrapping_add(1);
        if self.tries % TRIES_PER_REST != 0 {
            std::hint::spin_loop();
            return false;
        }
        std::thread::sleep(REST);
        let now = Instant::now();
        let before = self.looked.replace(now).unwrap_or(now);
        self.look(word, now - before)
    }

    /// Counts the time since the last look, the lock being `word` now.
    #[cfg(not(loom))]
    fn look(&mut self, word: u64, passed: Duration) -> bool {
        let step = passed.min(LONGEST_STEP);
        let same = if self.word.0 == word { self.word.1 + step } else { Duration::ZERO };
        self.word = (word, same);
        self.waited += step;
        same >= PATIENCE || self.waited >= LAST_PATIENCE
    }

    /// Models have no clock.
    #[cfg(loom)]
    fn is_over(&mut self, _: u64) -> bool {
        self.tries += 1;
        loom::thread::yield_now();
        false
    }
}

/// The locks of one segment, in its shared memory.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct LineLocks([LineLock; LOCK_COUNT]);

impl LineLocks {
    /// The lock of the block that `offset` lies in. Neighbouring blocks have their locks in
    /// different cache lines.
    #[inline(always)]
    pub fn of(&self, offset: u64) -> &LineLock {
        let block = (offset / BLOCK_BYTES) as usize;
        const IN_LINE: usize = LINE_BYTES / size_of::<LineLock>();
        const LINES: usize = LOCK_COUNT / IN_LINE;
        &self.0[(block % LINES) * IN_LINE + (block / LINES) % IN_LINE]
    }

    /// Releases every lock whose owner is gone.
    pub fn release_all(&self, is_gone: impl Fn(Owner) -> bool) {
        for lock in &self.0 {
            lock.release_if(&is_gone);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_dead_owners_lock_is_released_and_others_are_not() {
        let lock = LineLock::new();
        let (dead, alive) = (Owner::new(1, 2), Owner::new(1, 3));
        let _ = lock.acquire(dead);
        lock.release_if(&|owner| owner == alive);
        assert!(lock.begin_read().is_none());
        lock.release_if(&|owner| owner == dead);
        lock.release(lock.acquire(alive));
        assert_eq!(lock.begin_read(), Some(2 << TICKET_SHIFT | u64::from(alive.0)));
    }

    #[test]
    fn a_pause_of_the_machine_is_not_held_against_the_owner() {
        let (pause, moment) = (Duration::from_secs(60), Duration::from_millis(20));
        let mut waiting = Waiting::default();
        assert!(!waiting.look(1, Duration::ZERO) && !waiting.look(1, pause));
        let looks = (1..).find(|_| waiting.look(1, moment));
        assert_eq!(looks, Some(48), "the other 950 ms");
        // An owner that proceeds gets more time, but not for ever.
        let mut waiting = Waiting::default();
        let looks = (1..).find(|word| waiting.look(*word, moment));
        assert_eq!(looks, Some(250));
    }

    #[test]
    fn neighbouring_blocks_do_not_share_a_cache_line() {
        let locks = LineLocks(std::array::from_fn(|_| LineLock::new()));
        let line = |block: u64| (&raw const *locks.of(block * BLOCK_BYTES) as usize) / 64;
        let mut seen = std::collections::HashSet::new();
        for block in 0..LOCK_COUNT as u64 {
            assert_ne!(line(block), line(block + 1));
            seen.insert(&raw const *locks.of(block * BLOCK_BYTES) as usize);
        }
        assert_eq!(seen.len(), LOCK_COUNT);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    type Words = [AtomicU64; 2];

    fn write_both(words: &Words, value: u64) {
        words[0].store(value, Ordering::Relaxed);
        words[1].store(value, Ordering::Relaxed);
    }

    fn values(words: &Words) -> [u64; 2] {
        [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)]
    }

    fn read_both(lock: &LineLock, words: &Words) -> [u64; 2] {
        let mut seen = [9, 9];
        lock.read(Some(Owner::new(1, 0)), || seen = values(words));
        seen
    }

    /// A reader never sees one word of a write without the other.
    #[test]
    fn reads_are_whole() {
        loom::model(|| {
            let shared = Arc::new((LineLock::new(), Words::default()));
            let writer = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.0.locked(Owner::new(0, 0), || write_both(&shared.1, 1));
                })
            };
            let [a, b] = read_both(&shared.0, &shared.1);
            assert_eq!(a, b);
            writer.join().unwrap();
        });
    }

    /// Two writers exclude each other.
    #[test]
    fn writes_do_not_mix() {
        loom::model(|| {
            let lock = Arc::new(LineLock::new());
            let word = Arc::new(AtomicU64::new(0));
            let add = |client| {
                let (lock, word) = (lock.clone(), word.clone());
                loom::thread::spawn(move || {
                    lock.locked(Owner::new(0, client), || add_one(&word));
                })
            };
            let (a, b) = (add(0), add(1));
            a.join().unwrap();
            b.join().unwrap();
            assert_eq!(word.load(Ordering::Relaxed), 2);
        });
    }

    /// A change that is lost if another one is made at the same time.
    fn add_one(word: &AtomicU64) {
        let value = word.load(Ordering::Relaxed);
        word.store(value + 1, Ordering::Relaxed);
    }

    /// Adds one as an atomic does.
    fn atomic_add(lock: &LineLock, word: &AtomicU64) -> u64 {
        lock.atomic(Owner::new(0, 0), || word.fetch_add(1, Ordering::SeqCst))
    }

    type Shared = (LineLock, Words);

    /// Runs `other` in a thread beside `here`, in all orders with few preemptions.
    fn beside<T: Send + 'static>(
        other: fn(&Shared) -> T,
        here: impl Fn(&Shared, loom::thread::JoinHandle<T>) + Send + Sync + 'static,
    ) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new((LineLock::new(), Words::default()));
            let thread = {
                let shared = shared.clone();
                loom::thread::spawn(move || other(&shared))
            };
            here(&shared, thread);
        });
    }

    /// A line write beside atomics. By exchanges, as loom gives a store no place in the order of a word's atomics.
    fn write_tens((lock, words): &Shared) {
        lock.locked(Owner::new(0, 1), || {
            words[0].swap(10, Ordering::Relaxed);
            words[1].swap(10, Ordering::Relaxed);
        });
    }

    /// An atomic on each word of a line, in either order, beside a line write, which they are both before or both
    /// after, or which falls between them.
    fn atomics_and_a_write(atomic: fn(&LineLock, &AtomicU64) -> u64) {
        for [first, second] in [[0, 1], [1, 0]] {
            beside(write_tens, move |(lock, words), writer| {
                let old = [atomic(lock, &words[first]), atomic(lock, &words[second])];
                writer.join().unwrap();
                let values = [first, second].map(|word| values(words)[word]);
                match old {
                    [0, 0] => assert_eq!(values, [10, 10]),
                    [0, 10] => assert_eq!(values, [10, 11]),
                    _ => assert_eq!((old, values), ([10, 10], [11, 11])),
                }
            });
        }
    }

    #[test]
    fn atomics_see_a_whole_line() {
        atomics_and_a_write(atomic_add);
    }

    /// The model is fine enough to see what the look is for.
    #[test]
    fn without_the_look_atomics_see_half_a_line() {
        let check = || atomics_and_a_write(|_, word| word.fetch_add(1, Ordering::SeqCst));
        assert!(std::panic::catch_unwind(check).is_err(), "loom finds no half line");
    }

    /// Atomics of two threads on two words, of which the second begins after the first, beside a line write: if the
    /// first has seen it, so does the second. The first does nothing if it would have to wait: loom lets two that wait
    /// wait for each other.
    #[test]
    fn atomics_of_two_threads_agree_on_a_write() {
        const NOTHING: u64 = 9;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(((LineLock::new(), Words::default()), AtomicU64::new(NOTHING)));
            let spawn = |run: fn(&Shared, &AtomicU64)| {
                let shared = shared.clone();
                loom::thread::spawn(move || run(&shared.0, &shared.1))
            };
            let writer = spawn(|shared, _| write_tens(shared));
            let first = spawn(|(lock, words), told| {
                if lock.taken_if_free().is_some() {
                    told.store(words[0].fetch_add(1, Ordering::SeqCst), Ordering::Release);
                }
            });
            let ((lock, words), told) = &*shared;
            let was_told = told.load(Ordering::Acquire);
            let old = atomic_add(lock, &words[1]);
            assert!(was_told != 10 || old == 10);
            writer.join().unwrap();
            first.join().unwrap();
            let olds = [told.load(Ordering::Relaxed), old];
            assert_eq!(values(words), olds.map(|old| if old == 10 { 11 } else { 10 }));
        });
    }

    /// A thread that has done an atomic reads a line that has it, and all of a write or nothing.
    #[test]
    fn a_read_after_an_atomic_agrees_with_it() {
        for word in [0, 1] {
            beside(write_tens, move |(lock, words), writer| {
                let old = atomic_add(lock, &words[word]);
                let line = read_both(lock, words);
                let is_other_written = line[1 - word] == 10;
                match old {
                    0 => assert_eq!(line[word], if is_other_written { 10 } else { 1 }),
                    _ => assert_eq!((is_other_written, line[word]), (true, 11)),
                }
                writer.join().unwrap();
            });
        }
    }

    /// A reader that sees the atomic that follows a write, or the write that follows an atomic, sees the earlier one.
    #[test]
    fn readers_see_writes_and_atomics_in_their_order() {
        let write_first = |(lock, words): &Shared| {
            lock.locked(Owner::new(0, 0), || words[0].store(1, Ordering::Relaxed));
            atomic_add(lock, &words[1]);
        };
        let atomic_first = |(lock, words): &Shared| {
            atomic_add(lock, &words[0]);
            lock.locked(Owner::new(0, 0), || words[1].store(1, Ordering::Relaxed));
        };
        for changes in [write_first, atomic_first] {
            beside(changes, |(lock, words), changer| {
                let [first, second] = read_both(lock, words);
                assert!(first >= second);
                changer.join().unwrap();
            });
        }
    }

    /// What is not promised: with atomics alone, the same may fail.
    #[test]
    fn readers_may_see_atomics_out_of_order() {
        let check = || {
            let adds = |(lock, words): &Shared| {
                words.iter().for_each(|word| _ = atomic_add(lock, word));
            };
            beside(adds, |(lock, words), adder| {
                let [first, second] = read_both(lock, words);
                assert!(first >= second);
                adder.join().unwrap();
            });
        };
        assert!(std::panic::catch_unwind(check).is_err(), "then it can be promised");
    }

    /// An owner that goes on after its lock was taken from it does not let a third one in with the
    /// second. What it may do is keep both out, until their patience ends.
    #[test]
    fn an_overruled_owner_does_not_free_the_next_ones_lock() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let lock = Arc::new(LineLock::new());
            let word = Arc::new(AtomicU64::new(0));
            let stopped = lock.acquire(Owner::new(0, 0));
            // Somebody loses patience.
            lock.release_if(&|_| true);
            let other = {
                let (lock, word) = (lock.clone(), word.clone());
                loom::thread::spawn(move || add_if_free(&lock, &word, Owner::new(0, 1)))
            };
            let overruled = {
                let lock = lock.clone();
                loom::thread::spawn(move || lock.release(stopped))
            };
            let mut added = add_if_free(&lock, &word, Owner::new(0, 2));
            added += other.join().unwrap();
            overruled.join().unwrap();
            assert_eq!(word.load(Ordering::Relaxed), added);
            lock.release_if(&|_| true);
            assert_eq!(add_if_free(&lock, &word, Owner::new(0, 3)), 1);
        });
    }

    /// Adds one to the word if the lock is free soon. Returns what was added.
    fn add_if_free(lock: &LineLock, word: &AtomicU64, owner: Owner) -> u64 {
        let Some(held) = (0..2).find_map(|_| lock.try_acquire(owner)) else { return 0 };
        add_one(word);
        lock.release(held);
        1
    }
}
