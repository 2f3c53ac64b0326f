//! Frames: the local cache's budget, page by page.
//!
//! A frame is a number; the page that has it may occupy local memory, in the program or in the staging area,
//! where each frame has a place of its own. Frames are given out in the order in which the evictor's hand
//! freed them, so pages that came one after the other have adjacent frames, and leave together.

use std::io;
use std::sync::atomic::Ordering;

use rackmem_lease::sync::{AtomicU32, AtomicU64, AtomicUsize, Lazy};

/// Stands for the number of a frame where there is none.
pub const NO_FRAME: u32 = u32::MAX;
/// No slot. A pager's store has fewer slots than this: less than 16 TiB - 4 KiB.
pub const NO_SLOT: u32 = u32::MAX;

/// Tables of all frames. Slots are kept plus one, as memory begins as zeros.
#[derive(Debug)]
pub struct Frames {
    /// Address of the page that has the frame; 0 while none has.
    page: Lazy<AtomicU64>,
    slot_plus_one: Lazy<AtomicU32>,
    /// Next in the list of free frames, plus one.
    next_plus_one: Lazy<AtomicU32>,
    /// First of the list plus one, and above it a count that changes with each change of the list.
    head: AtomicU64,
    /// Frames from here on were never given out.
    fresh: AtomicU32,
    in_use: AtomicUsize,
    limit: AtomicUsize,
    /// The budget; `limit` is above it only while nothing can leave.
    budget: usize,
}

impl Frames {
    /// `budget` frames, of at most `capacity` should more ever be needed.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(budget: usize, capacity: usize) -> io::Result<Frames> {
        Ok(Frames {
            page: Lazy::new(capacity)?,
            slot_plus_one: Lazy::new(capacity)?,
            next_plus_one: Lazy::new(capacity)?,
            head: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            in_use: AtomicUsize::new(0),
            limit: AtomicUsize::new(budget),
            budget,
        })
    }

    /// Most frames there can be.
    pub fn capacity(&self) -> usize {
        self.page.len()
    }

    /// Frames that the user allows.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Frames that may be in use now.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit, to a number between the budget and the capacity.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.clamp(self.budget, self.capacity()), Ordering::Relaxed);
    }

    /// Frames in use.
    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Frames that may still be had.
    pub fn free(&self) -> usize {
        self.limit().saturating_sub(self.in_use())
    }

    /// Frames that were ever given out: the evictor's hand goes over these.
    pub fn used_span(&self) -> usize {
        (self.fresh.load(Ordering::Acquire) as usize).min(self.capacity())
    }

    /// A frame, unless fewer than `reserve` others would be left.
    pub fn take(&self, reserve: usize) -> Option<u32> {
        let one_more = |used: usize| (used + reserve < self.limit()).then_some(used + 1);
        self.in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = head as u32;
            if first == 0 {
                // A thread that gives a frame back puts it into the list before `in_use` falls, so here fewer
                // frames were given out than the limit.
                return Some(self.fresh.fetch_add(1, Ordering::AcqRel));
            }
            let next = self.next_plus_one[first as usize - 1].load(Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first - 1),
                Err(now) => head = now,
            }
        }
    }

    /// Gives a frame back.
    pub fn give(&self, frame: u32) {
        self.page[frame as usize].store(0, Ordering::Release);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next_plus_one[frame as usize].store(head as u32, Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(frame + 1);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.in_use.fetch_sub(1, Ordering::AcqRel);
    }

    /// Address of the page that has the frame; 0 if none has.
    pub fn page(&self, frame: u32) -> usize {
        self.page[frame as usize].load(Ordering::Acquire) as usize
    }

    /// The slot that has the page as it was when it came, or when it was last written back.
    pub fn slot(&self, frame: u32) -> u32 {
        self.slot_plus_one[frame as usize].load(Ordering::Relaxed).wrapping_sub(1)
    }

    /// Records the page that has the frame. Only the holder of the page may call it.
    pub fn assign(&self, frame: u32, page: usize, slot: u32) {
        self.set_slot(frame, slot);
        self.page[frame as usize].store(page as u64, Ordering::Release);
    }

    /// Records the page's slot in the store. Only the holder of the page may call it.
    pub fn set_slot(&self, frame: u32, slot: u32) {
        self.slot_plus_one[frame as usize].store(slot.wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Frames, and the number of users of each.
    struct Shared {
        frames: Frames,
        users: [AtomicU32; 3],
    }

    impl Shared {
        fn take(&self) -> Option<u32> {
            let frame = self.frames.take(0)?;
            assert!(self.frames.used_span() <= self.frames.budget());
            let before = self.users[frame as usize].fetch_add(1, Ordering::Relaxed);
            assert_eq!(before, 0, "frame {frame} has a user");
            Some(frame)
        }

        fn give(&self, frame: u32) {
            self.users[frame as usize].fetch_sub(1, Ordering::Relaxed);
            self.frames.give(frame);
        }
    }

    /// Others do this while one takes a frame and gives it back: a frame has one user, no more are given out
    /// than allowed, and none is lost.
    fn check(budget: usize, others: &'static [fn(&Shared)]) {
        let mut model = loom::model::Builder::new();
        // To another, back, there again and back: what it takes to be fooled by a list.
        model.preemption_bound = Some(4);
        model.check(move || {
            let frames = Frames::new(budget, 3).unwrap();
            let shared = Arc::new(Shared { frames, users: [(); 3].map(|()| AtomicU32::new(0)) });
            let threads = others.iter().map(|work| {
                let shared = shared.clone();
                thread::spawn(move || work(&shared))
            });
            let threads: Vec<_> = threads.collect();
            if let Some(frame) = shared.take() {
                shared.give(frame);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(shared.frames.in_use(), 0);
            assert_eq!(std::iter::from_fn(|| shared.take()).count(), budget);
        });
    }

    fn take_and_give(shared: &Shared) {
        if let Some(frame) = shared.take() {
            shared.give(frame);
        }
    }

    #[test]
    fn the_limit_holds_as_frames_come_and_go() {
        check(2, &[take_and_give, |shared| (0..2).for_each(|_| take_and_give(shared))]);
    }

    /// A thread that takes the first of the list must notice that it left the list and came back meanwhile.
    #[test]
    fn a_list_that_begins_alike_is_not_the_same() {
        check(
            3,
            &[|shared| {
                let mut first = [shared.take(), shared.take()];
                first.iter_mut().filter_map(Option::take).for_each(|frame| shared.give(frame));
                let (one, other) = (shared.take(), shared.take());
                one.into_iter().for_each(|frame| shared.give(frame));
                other.into_iter().for_each(|frame| shared.give(frame));
            }],
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_frame_has_one_user_and_the_limit_holds() {
        const BUDGET: usize = 24;
        let frames = Frames::new(BUDGET, 2 * BUDGET).unwrap();
        let users: Vec<AtomicU32> = (0..2 * BUDGET).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for seed in 1..5usize {
                let (frames, users) = (&frames, &users);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for step in 0..40_000usize {
                        if (step * seed / 3) % 5 < 3 && mine.len() < 10 {
                            mine.extend(frames.take(0));
                            if let Some(&frame) = mine.last() {
                                let place = &users[frame as usize];
                                let before = place.swap(seed as u32, Ordering::AcqRel);
                                assert!(before == 0 || before == seed as u32, "frame {frame}");
                            }
                        } else if let Some(frame) = mine.pop() {
                            users[frame as usize].store(0, Ordering::Release);
                            frames.give(frame);
                        }
                        assert!(frames.used_span() <= BUDGET);
                    }
                    mine.drain(..).for_each(|frame| {
                        users[frame as usize].store(0, Ordering::Release);
                        frames.give(frame);
                    });
                });
            }
        });
        assert_eq!(frames.in_use(), 0);
        let all: Vec<u32> = std::iter::from_fn(|| frames.take(0)).collect();
        assert_eq!(all.len(), BUDGET);
        frames.set_limit(BUDGET + 4);
        assert_eq!(std::iter::from_fn(|| frames.take(0)).count(), 4);
        assert!(frames.take(0).is_none());
    }
}
