//! Slots: the pages of the store, and which of them are taken.
//!
//! While a child of fork lives, the slots that were in use when it began are frozen: it reads them. They
//! are neither written nor given to another page until it has ended.

use std::io;
use std::sync::atomic::Ordering;

use rackmem_lease::sync::wait::Lock;
use rackmem_lease::sync::{AtomicBool, AtomicU64, AtomicUsize, Lazy};

/// Bitmaps of the store's slots: taken, and frozen by forks.
#[derive(Debug)]
pub struct Slots {
    count: usize,
    taken: Lazy<AtomicU64>,
    /// Some child may read these.
    frozen: Lazy<AtomicU64>,
    /// Frozen ones that no page of ours needs any more.
    dropped: Lazy<AtomicU64>,
    is_any_frozen: AtomicBool,
    free: AtomicUsize,
    /// Slot at which the next search for free ones begins.
    cursor: AtomicUsize,
    /// Held where `frozen` and `dropped` change.
    lock: Lock,
}

/// Slots of a child of fork: those that it reads, and those that it was given to write to.
#[derive(Debug)]
pub struct Frozen {
    /// Slots that the child reads.
    read: Vec<u64>,
    /// Slots that are the child's own.
    given: Vec<u64>,
}

impl Slots {
    /// `count` free slots.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(count: usize) -> io::Result<Slots> {
        let words = count.div_ceil(64);
        Ok(Slots {
            count,
            taken: Lazy::new(words)?,
            frozen: Lazy::new(words)?,
            dropped: Lazy::new(words)?,
            is_any_frozen: AtomicBool::new(false),
            free: AtomicUsize::new(count),
            cursor: AtomicUsize::new(0),
            lock: Lock::default(),
        })
    }

    /// All slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Free ones.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted` adjacent slots; returns the first, and their number. One caller at a time.
    pub fn take_run(&self, wanted: usize) -> Option<(u32, usize)> {
        if self.free() == 0 {
            return None;
        }
        let words = self.taken.len();
        let start = self.cursor.load(Ordering::Relaxed);
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let skip = if step == 0 { start % 64 } else { 0 };
            let valid = (self.count - word * 64).min(64);
            let free = !self.taken[word].load(Ordering::Acquire) >> skip;
            let low = skip + free.trailing_zeros() as usize;
            if free == 0 || low >= valid {
                continue;
            }
            let run =
                ((free >> (low - skip)).trailing_ones() as usize).min(valid - low).min(wanted);
            let mask = if run == 64 { u64::MAX } else { ((1 << run) - 1) << low };
            self.taken[word].fetch_or(mask, Ordering::AcqRel);
            self.free.fetch_sub(run, Ordering::Relaxed);
            let first = word * 64 + low;
            self.cursor.store((first + run) % self.count, Ordering::Relaxed);
            return Some((first as u32, run));
        }
        None
    }

    /// Whether a child reads the slot.
    pub fn is_frozen(&self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / 64, slot % 64);
        self.is_any_frozen.load(Ordering::Acquire)
            && self.frozen[word].load(Ordering::Acquire) >> bit & 1 != 0
    }

    /// Gives a slot back; at once, or when no child reads it any more.
    pub fn give(&self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if self.is_any_frozen.load(Ordering::Acquire) {
            let _held = self.lock.hold();
            if self.frozen[word].load(Ordering::Relaxed) & bit != 0 {
                self.dropped[word].fetch_or(bit, Ordering::Relaxed);
                return;
            }
        }
        let before = self.taken[word].fetch_and(!bit, Ordering::AcqRel);
        debug_assert!(before & bit != 0, "slot {slot} was taken");
        self.free.fetch_add(1, Ordering::Relaxed);
    }

    /// For a fork: freezes all slots in use, and gives the child one in `share` free slots.
    pub fn freeze(&self, share: usize) -> Frozen {
        let _held = self.lock.hold();
        let read: Vec<u64> = self.taken.iter().map(|word| word.load(Ordering::Acquire)).collect();
        let mut left = self.free() / share;
        let mut given = vec![0; read.len()];
        for (word, given) in given.iter_mut().enumerate().rev() {
            let valid = (self.count - word * 64).min(64);
            for bit in (0..valid).rev().filter(|bit| read[word] >> bit & 1 == 0) {
                if left == 0 {
                    break;
                }
                *given |= 1 << bit;
                left -= 1;
            }
            self.taken[word].fetch_or(*given, Ordering::AcqRel);
            self.free.fetch_sub(given.count_ones() as usize, Ordering::Relaxed);
            self.frozen[word].fetch_or(read[word], Ordering::AcqRel);
        }
        self.is_any_frozen.store(true, Ordering::Release);
        Frozen { read, given }
    }

    /// In the child: frees the slots that it was given, and freezes all others for ever.
    pub fn become_child(&self, frozen: &Frozen) {
        let mut free = 0;
        for (word, given) in frozen.given.iter().enumerate() {
            self.taken[word].store(!given, Ordering::Relaxed);
            self.frozen[word].store(!given, Ordering::Relaxed);
            self.dropped[word].store(0, Ordering::Relaxed);
            free += given.count_ones() as usize;
        }
        self.free.store(free, Ordering::Relaxed);
        self.is_any_frozen.store(true, Ordering::Release);
    }

    /// In the parent, when a child has ended: gives back the slots that it was given and those that only it read.
    /// `others` are the children that still live; `inherited` says that this process is a child itself.
    pub fn thaw<'f>(
        &self,
        ended: &Frozen,
        others: impl Iterator<Item = &'f Frozen> + Clone,
        inherited: Option<&Frozen>,
    ) {
        let _held = self.lock.hold();
        for word in 0..self.taken.len() {
            if ended.read[word] | ended.given[word] == 0 {
                continue;
            }
            let mut still = others.clone().fold(0, |bits, other| bits | other.read[word]);
            if let Some(own) = inherited {
                still |= !own.given[word];
            }
            self.frozen[word].store(still, Ordering::Release);
            let dropped = self.dropped[word].load(Ordering::Relaxed);
            let free = dropped & !still | ended.given[word];
            self.dropped[word].store(dropped & still, Ordering::Relaxed);
            self.taken[word].fetch_and(!free, Ordering::AcqRel);
            self.free.fetch_add(free.count_ones() as usize, Ordering::Relaxed);
        }
        if others.clone().next().is_none() && inherited.is_none() {
            self.is_any_frozen.store(false, Ordering::Release);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use rackmem_lease::sync::AtomicU32;

    /// One takes, two give slots back, one of them as the child ends that read it: a slot that is taken was free.
    #[test]
    fn a_slot_has_one_user() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let slots = Arc::new(Slots::new(2).unwrap());
            let users = Arc::new([AtomicU32::new(1), AtomicU32::new(1)]);
            let is_read = Arc::new(AtomicU32::new(1));
            assert_eq!(slots.take_run(2), Some((0, 2)));
            let frozen = slots.freeze(2);
            let giver = {
                let (slots, users) = (slots.clone(), users.clone());
                thread::spawn(move || {
                    for slot in [0, 1] {
                        users[slot].store(0, Ordering::Relaxed);
                        slots.give(slot as u32);
                    }
                })
            };
            let reaper = {
                let (slots, is_read) = (slots.clone(), is_read.clone());
                thread::spawn(move || {
                    is_read.store(0, Ordering::Relaxed);
                    slots.thaw(&frozen, [].into_iter(), None);
                })
            };
            let mut taken = 0;
            for _ in 0..2 {
                if let Some((slot, 1)) = slots.take_run(1) {
                    assert_eq!(users[slot as usize].swap(2, Ordering::Relaxed), 0, "slot {slot}");
                    assert_eq!(is_read.load(Ordering::Relaxed), 0, "the child reads slot {slot}");
                    taken += 1;
                }
            }
            giver.join().unwrap();
            reaper.join().unwrap();
            assert_eq!(slots.free(), 2 - taken, "none is lost");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &Slots, count: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        while taken.len() < count {
            let (first, run) = slots.take_run(count - taken.len()).expect("free slots");
            taken.extend(first..first + run as u32);
        }
        taken
    }

    #[test]
    fn runs_are_adjacent_and_all_slots_are_found() {
        let slots = Slots::new(200).unwrap();
        assert_eq!(slots.take_run(100), Some((0, 64)), "a run stays in a word");
        let mut all = take(&slots, 136);
        assert_eq!((slots.free(), slots.take_run(1)), (0, None));
        all.sort_unstable();
        assert!(all.iter().copied().eq(64..200));
        slots.give(70);
        slots.give(199);
        assert_eq!(take(&slots, 2).len(), 2);
    }

    #[test]
    fn what_a_child_reads_is_given_to_no_one_until_it_ends() {
        let slots = Slots::new(128).unwrap();
        let before = take(&slots, 32);
        let first = slots.freeze(2);
        assert_eq!(slots.free(), 48, "half of what was free is the child's");
        let second = slots.freeze(2);
        before.iter().for_each(|&slot| slots.give(slot));
        assert_eq!(slots.free(), 24);
        assert!(take(&slots, 24).iter().all(|slot| !before.contains(slot)));
        slots.thaw(&first, [&second].into_iter(), None);
        assert!(
            before.iter().all(|&slot| slots.is_frozen(slot)),
            "the other child reads them still"
        );
        slots.thaw(&second, [].into_iter(), None);
        assert!(before.iter().all(|&slot| !slots.is_frozen(slot)));
        assert_eq!(slots.free(), 128 - 24);
    }

    #[test]
    fn a_child_writes_only_to_what_is_its_own() {
        let slots = Slots::new(128).unwrap();
        let parents = take(&slots, 32);
        let frozen = slots.freeze(2);
        slots.become_child(&frozen);
        slots.give(parents[0]);
        let own = take(&slots, 48);
        assert!(slots.take_run(1).is_none());
        assert!(own.iter().all(|slot| !parents.contains(slot) && !slots.is_frozen(*slot)));
        assert!(parents.iter().all(|&slot| slots.is_frozen(slot)));
    }
}
