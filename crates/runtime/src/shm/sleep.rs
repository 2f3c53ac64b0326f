//! Falling asleep without a cost to threads that are awake: futex, event descriptor, and a barrier
//! that the sleeper pays for.
//!
//! The waker's fast path is two plain accesses, "publish; look at the sleep flag", which a store
//! buffer may swap. Instead of a fence there, the sleeper runs [`barrier`] between raising the
//! flag and its last look: the kernel then makes every running thread of every registered
//! process pass a full barrier.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
use std::io;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(loom)]
use model::Futex;
#[cfg(loom)]
pub use model::barrier;

#[cfg(not(loom))]
const MEMBARRIER_CMD_GLOBAL_EXPEDITED: i32 = 1 << 1;
const MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;

fn membarrier(command: i32) -> io::Result<()> {
    // SAFETY: the system call takes integers only.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes this process take part in other processes' [`barrier`]s. Every process that shares
/// memory calls it before it first writes there.
///
/// # Errors
/// The kernel has no expedited membarrier (before Linux 4.16) or forbids it.
pub fn register_process() -> io::Result<()> {
    membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
}

/// Full memory barrier on all running threads of all registered processes.
#[cfg(not(loom))]
pub fn barrier() {
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED).expect("membarrier works once registered");
}

/// A word that counts events, and on which processes sleep until the next one.
#[cfg(not(loom))]
#[repr(transparent)]
#[derive(Debug, Default)]
struct Futex(AtomicU32);

#[cfg(not(loom))]
impl Futex {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps while the count is `seen`, at most for `timeout`. Spurious returns happen.
    fn wait(&self, seen: u32, timeout: Duration) {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the word is valid for the call; FUTEX_WAIT reads it and the timeout only.
        unsafe {
            let word = self.0.as_ptr();
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, seen, &raw const timeout)
        };
    }

    /// Counts an event and wakes all sleepers.
    fn wake_all(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // SAFETY: FUTEX_WAKE only uses the address.
        unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        }
    }
}

/// A place to sleep, in shared memory: raised flag plus futex word.
///
/// The flag is a store, not a count, and the waker clears it: a sleeper that dies costs its peers
/// one wake, not one for ever.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bed {
    asleep: AtomicU32,
    event: Futex,
}

impl Bed {
    /// Offset of the flag, for wakers in C.
    pub const ASLEEP_AT: usize = std::mem::offset_of!(Bed, asleep);

    /// Whether a process may be sleeping: the waker's check after publishing.
    #[inline(always)]
    pub fn is_occupied(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Wakes the sleepers, if any.
    #[inline(always)]
    pub fn wake(&self) {
        self.wake_if(|| true);
    }

    /// Wakes the sleepers, if there are any and the publication `concerns` them. `concerns` reads words that the
    /// sleepers wrote, by relaxed accesses, before they went to sleep.
    #[inline(always)]
    pub fn wake_if(&self, concerns: impl FnOnce() -> bool) {
        #[cfg(loom)]
        model::where_the_barrier_strikes();
        if self.is_occupied() && concerns() {
            self.wake_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_slow(&self) {
        self.asleep.store(0, Ordering::Relaxed);
        self.event.wake_all();
    }

    /// Wakes the sleepers even if none has raised the flag yet: for rare events.
    pub fn shake(&self) {
        self.wake_slow();
    }

    /// Sleeps once, unless `ready()`; at most for `timeout`. Spurious returns happen.
    pub fn sleep_unless(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) {
        let seen = self.event.count();
        self.asleep.store(1, Ordering::Relaxed);
        barrier();
        if !ready() {
            self.event.wait(seen, timeout);
        }
    }
}

/// The kernel's part, for loom.
///
/// Loom knows no barrier that one thread imposes on others. What [`barrier`] promises is that of
/// any two accesses of a running thread, each thread has the barrier before, between or after them;
/// only "between" matters to the waker, whose other accesses are ordered anyway. So the model is a
/// sequentially consistent fence on both sides: between the sleeper's flag and its last look, and
/// between the waker's publication and its look at the flag.
#[cfg(loom)]
mod model {
    use std::cell::Cell;
    use std::time::Duration;

    use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    std::thread_local! {
        /// Whether there is a barrier; loom runs all threads of a model in one.
        pub static HAS_BARRIER: Cell<bool> = const { Cell::new(true) };
    }

    /// The sleeper's side.
    pub fn barrier() {
        if HAS_BARRIER.get() {
            fence(Ordering::SeqCst);
        }
    }

    /// The waker's side.
    pub fn where_the_barrier_strikes() {
        barrier();
    }

    /// Without a timeout: if no thread is left to wake a sleeper, loom reports it.
    #[derive(Debug)]
    pub struct Futex {
        word: AtomicU32,
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Default for Futex {
        fn default() -> Futex {
            let word = AtomicU32::new(0);
            Futex { word, lock: Mutex::new(()), sleepers: Condvar::new() }
        }
    }

    impl Futex {
        pub fn count(&self) -> u32 {
            self.word.load(Ordering::Acquire)
        }

        pub fn wait(&self, seen: u32, _: Duration) {
            let guard = self.lock.lock().unwrap();
            if self.word.load(Ordering::Relaxed) == seen {
                drop(self.sleepers.wait(guard).unwrap());
            }
        }

        pub fn wake_all(&self) {
            self.word.fetch_add(1, Ordering::SeqCst);
            let _guard = self.lock.lock().unwrap();
            self.sleepers.notify_all();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// `wakers` threads publish and wake; a sleeper waits until all have.
    fn nobody_sleeps_for_ever(wakers: u32) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let bed = Arc::new(Bed::default());
            let published = Arc::new(AtomicU32::new(0));
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let (bed, published) = (bed.clone(), published.clone());
                    loom::thread::spawn(move || {
                        published.fetch_add(1, Ordering::Release);
                        bed.wake();
                    })
                })
                .collect();
            let mut ready = || published.load(Ordering::Acquire) == wakers;
            while !ready() {
                bed.sleep_unless(&mut ready, Duration::MAX);
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        nobody_sleeps_for_ever(1);
        nobody_sleeps_for_ever(2);
    }

    /// The model is fine enough to see what the barrier is for.
    #[test]
    fn without_the_barrier_one_is() {
        model::HAS_BARRIER.set(false);
        let outcome = std::panic::catch_unwind(|| nobody_sleeps_for_ever(1));
        model::HAS_BARRIER.set(true);
        assert!(outcome.is_err(), "loom finds no lost wake-up without the barrier");
    }

    /// Two sleepers in one bed: the first to be woken leaves the flag as the other needs it.
    #[test]
    fn two_share_a_bed() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let bed = Arc::new(Bed::default());
            let published = Arc::new(AtomicU32::new(0));
            let sleep = |bed: &Bed, published: &AtomicU32| {
                let mut ready = || published.load(Ordering::Acquire) == 1;
                while !ready() {
                    bed.sleep_unless(&mut ready, Duration::MAX);
                }
            };
            let other = {
                let (bed, published) = (bed.clone(), published.clone());
                loom::thread::spawn(move || sleep(&bed, &published))
            };
            let waker = {
                let (bed, published) = (bed.clone(), published.clone());
                loom::thread::spawn(move || {
                    published.store(1, Ordering::Release);
                    bed.wake();
                })
            };
            sleep(&bed, &published);
            other.join().unwrap();
            waker.join().unwrap();
        });
    }
}
