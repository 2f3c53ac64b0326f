//! A thread for what its leader offers, if it comes to it before the leader takes it back.
//!
//! On a busy host the thread may have no core: then the leader waits for nothing, and does the work itself.

use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use super::order::SPINS;

/// The work is the leader's: it has it, or finds it in the slot.
const HOME: u8 = 0;
/// The work is in the slot: the thread may begin with it, or the leader take it back.
const OFFERED: u8 = 1;
/// The thread does it.
const BEGUN: u8 = 2;
/// There is no more work.
const CLOSED: u8 = 3;

/// On a line of its own, as the one that waits reads it all the time.
#[derive(Default)]
#[repr(align(128))]
struct State(AtomicU8);

#[derive(Default)]
struct Slot<W> {
    /// One of the above.
    state: State,
    work: Mutex<W>,
}

impl<W> Slot<W> {
    fn set(&self, state: u8) {
        self.state.0.store(state, Ordering::Release);
    }

    /// Waits for one of these states: spins for a while, then calls `rest`.
    fn wait(&self, states: [u8; 2], rest: impl Fn()) -> u8 {
        let mut spins = 0;
        loop {
            let state = self.state.0.load(Ordering::Acquire);
            if states.contains(&state) {
                return state;
            }
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { rest() }
        }
    }

    /// Whether this thread is the one that turns a state into another one.
    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the thread may begin with what is offered.
    fn begin(&self) -> bool {
        self.turn(OFFERED, BEGUN)
    }

    fn work(&self) -> MutexGuard<'_, W> {
        self.work.lock().expect("a thread that simulates has panicked")
    }
}

/// A thread for work of the type `W`; the default value stands for none.
///
/// It does what it is offered in order. The leader may offer something while the thread is busy with what came before.
pub(crate) struct Worker<W> {
    slots: Arc<[Slot<W>; 2]>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a child of fork has none.
    process: u32,
    /// Work that the thread has got or will get, and of that what it has given back: their slots follow each other.
    offered: Cell<usize>,
    collected: Cell<usize>,
}

impl<W: Default + Send + 'static> Worker<W> {
    /// A thread that waits for offers. Without one, if the host has no more, the leader takes all offers back.
    pub fn new(act: impl FnMut(&mut W) + Send + 'static) -> Worker<W> {
        let slots = Arc::new([Slot::default(), Slot::default()]);
        let own = Arc::clone(&slots);
        let thread = thread::Builder::new().name("simulation".to_owned());
        let thread = thread.spawn(move || follow(&own, act)).ok();
        let process = std::process::id();
        Worker { slots, thread, process, offered: Cell::new(0), collected: Cell::new(0) }
    }

    /// Offers work. At most one that has been offered before is not collected, and the thread has begun with it.
    pub fn offer(&self, work: W) {
        let number = self.offered.get();
        let slot = &self.slots[number % 2];
        *slot.work() = work;
        slot.set(OFFERED);
        self.offered.set(number + 1);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Takes back the only work that is not collected, if the thread has not begun with it.
    pub fn reclaim(&self) -> Option<W> {
        let slot = &self.slots[self.collected.get() % 2];
        let is_offered = slot.state.0.load(Ordering::Relaxed) == OFFERED;
        (is_offered && slot.turn(OFFERED, HOME)).then(|| {
            self.offered.set(self.collected.get());
            mem::take(&mut *slot.work())
        })
    }

    /// Waits until the thread has done the work that was offered first, and takes it.
    ///
    /// # Panics
    /// If the thread has panicked.
    pub fn collect(&self) -> W {
        let number = self.collected.get();
        let slot = &self.slots[number % 2];
        slot.wait([HOME, HOME], thread::yield_now);
        self.collected.set(number + 1);
        mem::take(&mut slot.work())
    }
}

impl<W> Drop for Worker<W> {
    fn drop(&mut self) {
        self.slots.iter().for_each(|slot| slot.set(CLOSED));
        let thread = self.thread.take();
        if self.process != std::process::id() {
            // There is no thread to wait for: the work that it was offered was done by the leader.
            mem::forget(thread);
        } else if let Some(thread) = thread {
            thread.thread().unpark();
            // If it has panicked, the leader has, too.
            let _ = thread.join();
        }
    }
}

fn follow<W>(slots: &[Slot<W>; 2], mut act: impl FnMut(&mut W)) {
    for slot in slots.iter().cycle() {
        while !slot.begin() {
            if slot.wait([OFFERED, CLOSED], thread::park) == CLOSED {
                return;
            }
        }
        let _done = Done(slot);
        act(&mut slot.work());
    }
}

/// Says that work is done, also if that ends in a panic: the leader must not wait for ever.
struct Done<'a, W>(&'a Slot<W>);

impl<W> Drop for Done<'_, W> {
    fn drop(&mut self) {
        // The leader may have closed the slot meanwhile: it has panicked.
        self.0.turn(BEGUN, HOME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_that_no_thread_takes_comes_back() {
        let slots = Arc::new([Slot::default(), Slot::default()]);
        let (offered, collected) = (Cell::new(0), Cell::new(0));
        let worker =
            Worker { slots, thread: None, process: std::process::id(), offered, collected };
        for _ in 0..3 {
            worker.offer(vec![1, 2]);
            assert_eq!(worker.reclaim(), Some(vec![1, 2]));
        }
    }

    #[test]
    fn work_is_done_in_the_order_of_its_offers() {
        let mut sum = 0u64;
        let worker = Worker::new(move |work: &mut u64| {
            sum = sum.wrapping_mul(31) + *work;
            *work = sum;
        });
        let (mut sum, mut expected) = (0u64, Vec::new());
        let mut collected = Vec::new();
        worker.offer(0);
        expected.push(0);
        for work in 1..20_000 {
            sum = sum.wrapping_mul(31) + work;
            expected.push(sum);
            // The thread must have begun before something else is offered.
            while worker.slots[worker.collected.get() % 2].state.0.load(Ordering::Relaxed)
                == OFFERED
            {
                thread::yield_now();
            }
            worker.offer(work);
            collected.push(worker.collect());
        }
        collected.push(worker.collect());
        assert_eq!(collected, expected);
    }
}
