//! Waiting without spinning for ever: locks and events on futexes.
//!
//! All of it may be used by a handler of SIGBUS, and none of it allocates. The futexes are private to the process; a
//! child of fork starts with the values of the parent's words, and no waiter.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AtomicU32, Bed, fence, load_in_order};

/// A word on which threads sleep.
#[derive(Debug, Default)]
struct Futex {
    word: AtomicU32,
    bed: Bed,
}

impl Futex {
    fn address(&self) -> *const u32 {
        std::ptr::from_ref(&self.word).cast()
    }

    /// Sleeps while the word is `expected`, at most for `limit`; may wake early.
    fn wait(&self, expected: u32, limit: Option<Duration>) {
        self.bed.sleep(self.address(), || self.word.load(Ordering::Relaxed), expected, limit);
    }

    fn wake_one(&self) {
        self.bed.wake(self.address(), 1);
    }

    fn wake_all(&self) {
        self.bed.wake(self.address(), i32::MAX);
    }
}

/// An event that can be signalled and waited for again and again.
///
/// A waiter takes a ticket, checks whether its condition holds, and waits for a signal after the ticket. A notifier
/// makes the condition true and then signals. Without waiters a signal is two instructions.
#[derive(Debug, Default)]
pub struct Event {
    count: Futex,
    waiters: AtomicU32,
}

impl Event {
    /// A ticket, to be taken before looking.
    pub fn ticket(&self) -> u32 {
        self.count.word.load(Ordering::Acquire)
    }

    /// Waits for a signal after the ticket, at most for `limit`.
    pub fn wait(&self, ticket: u32, limit: Option<Duration>) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        self.count.wait(ticket, limit);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }

    /// It happened.
    pub fn signal(&self) {
        // Sequentially consistent, as the increment of `waiters` is: either we see the waiter, or the
        // kernel sees the new count when it is about to sleep.
        self.count.word.fetch_add(1, Ordering::SeqCst);
        if load_in_order(&self.waiters) != 0 {
            self.count.wake_all();
        }
    }

    /// Forgets all waiters; for the child of a fork, which has none.
    pub fn forget_waiters(&self) {
        self.waiters.store(0, Ordering::Relaxed);
    }
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A lock that is taken and given back in different functions, as around a fork.
#[derive(Debug, Default)]
pub struct Lock(Futex);

/// Gives the lock back when dropped.
#[derive(Debug)]
pub struct Held<'l>(&'l Lock);

impl Lock {
    /// Takes the lock if it is free.
    pub fn try_acquire(&self) -> bool {
        self.0.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock.
    pub fn acquire(&self) {
        if self.try_acquire() {
            return;
        }
        while self.0.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            self.0.wait(CONTENDED, None);
        }
    }

    /// Gives it back.
    pub fn release(&self) {
        if self.0.word.swap(FREE, Ordering::Release) == CONTENDED {
            self.0.wake_one();
        }
    }

    /// Frees the lock; for the child of a fork, where nobody has it.
    pub fn reset(&self) {
        self.0.word.store(FREE, Ordering::Release);
    }

    /// Takes it until the guard is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.acquire();
        Held(self)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A value that one thread at a time may use, for a moment.
#[derive(Debug, Default)]
pub struct Guarded<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the value.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// A value that no one uses.
    pub fn new(value: T) -> Guarded<T> {
        Guarded { lock: Lock::default(), value: UnsafeCell::new(value) }
    }

    /// Frees the value; for the child of a fork, where nobody uses it.
    pub fn reset(&self) {
        self.lock.reset();
    }

    /// Calls `work` with the value. It must not fault at borrowed memory, nor come here again.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let _held = self.lock.hold();
        // SAFETY: the lock is held.
        work(unsafe { &mut *self.value.get() })
    }
}

const CLOSED: u32 = 1 << 31;

/// A gate through which many threads pass at a time, and which can be closed.
#[derive(Debug, Default)]
pub struct Gate(Futex);

impl Gate {
    /// Enters, as soon as the gate is open.
    pub fn enter(&self) {
        let mut seen = self.0.word.load(Ordering::Relaxed);
        loop {
            if seen & CLOSED != 0 {
                self.0.wait(seen, None);
                seen = self.0.word.load(Ordering::Relaxed);
                continue;
            }
            let enter = self.0.word.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match enter {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Enters if the gate is open.
    pub fn try_enter(&self) -> bool {
        let mut seen = self.0.word.load(Ordering::Relaxed);
        while seen & CLOSED == 0 {
            let enter = self.0.word.compare_exchange_weak(
                seen,
                seen + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match enter {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Leaves after `enter` or `try_enter`; wakes the closer if there is one.
    pub fn leave(&self) {
        if self.0.word.fetch_sub(1, Ordering::Release) & CLOSED != 0 {
            self.0.wake_all();
        }
    }

    /// Closes, and waits until everybody has left. One closes at a time.
    pub fn close(&self) {
        let mut seen = self.0.word.fetch_or(CLOSED, Ordering::Acquire) | CLOSED;
        while seen != CLOSED {
            self.0.wait(seen, None);
            seen = self.0.word.load(Ordering::Acquire);
        }
        fence(Ordering::Acquire);
    }

    /// Closes if everybody leaves within `limit`, which they are kept from entering meanwhile; else it is open
    /// again. One closes at a time.
    pub fn close_within(&self, limit: Duration) -> bool {
        let begun = std::time::Instant::now();
        let mut seen = self.0.word.fetch_or(CLOSED, Ordering::Acquire) | CLOSED;
        while seen != CLOSED {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                self.open();
                return false;
            }
            self.0.wait(seen, Some(left));
            seen = self.0.word.load(Ordering::Acquire);
        }
        fence(Ordering::Acquire);
        true
    }

    /// Opens the gate again and wakes all threads that wait to enter.
    pub fn open(&self) {
        self.0.word.fetch_and(!CLOSED, Ordering::Release);
        self.0.wake_all();
    }

    /// Opens and empties the gate; for the child of a fork.
    pub fn reset(&self) {
        self.0.word.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread::{self, JoinHandle};

    use super::*;

    /// All interleavings of this and of so many others.
    fn check<S: Default + Send + Sync + 'static>(others: usize, other: fn(&S), this: fn(&S)) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new(S::default());
            let threads: Vec<JoinHandle<()>> = (0..others)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || other(&shared))
                })
                .collect();
            this(&shared);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn no_signal_is_missed() {
        type Shared = (Event, AtomicU32);
        let wait = |(event, happened): &Shared| loop {
            let ticket = event.ticket();
            if happened.load(Ordering::Relaxed) != 0 {
                break;
            }
            event.wait(ticket, None);
        };
        check(2, wait, |(event, happened): &Shared| {
            happened.store(1, Ordering::Relaxed);
            event.signal();
        });
    }

    fn count(counter: &AtomicU32) {
        let before = counter.load(Ordering::Relaxed);
        counter.store(before + 1, Ordering::Relaxed);
    }

    #[test]
    fn one_holds_the_lock_and_all_get_it() {
        let work = |(lock, counter): &(Lock, AtomicU32)| {
            let _held = lock.hold();
            count(counter);
        };
        check(2, work, |shared: &(Lock, AtomicU32)| {
            let (lock, counter) = shared;
            let _held = lock.hold();
            count(counter);
            drop(_held);
            while {
                let _held = lock.hold();
                counter.load(Ordering::Relaxed) < 3
            } {
                thread::yield_now();
            }
        });
    }

    #[test]
    fn nobody_is_inside_of_a_closed_gate() {
        type Shared = (Gate, AtomicU32, AtomicU32);
        let pass = |(gate, inside, written): &Shared| {
            gate.enter();
            inside.fetch_add(1, Ordering::Relaxed);
            let seen = written.load(Ordering::Relaxed);
            assert_eq!(seen % 2, 0, "the gate is closed");
            inside.fetch_sub(1, Ordering::Relaxed);
            gate.leave();
        };
        check(2, pass, |(gate, inside, written): &Shared| {
            gate.close();
            assert_eq!(inside.load(Ordering::Relaxed), 0);
            count(written);
            count(written);
            gate.open();
        });
    }
}
