//! Falling asleep without costing those who are awake: futex, event descriptor, and a barrier
//! that the sleeper pays for.
//!
//! The waker's fast path is two plain accesses, "publish; look at the sleep flag", which a store
//! buffer may swap. Instead of a fence there, the sleeper runs [`barrier`] between raising the
//! flag and its last look: the kernel then makes every running thread of every registered
//! process pass a full barrier.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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
pub fn barrier() {
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED).expect("membarrier works once registered");
}

/// Sleeps while `*word == seen`, at most for `timeout`. Spurious returns happen.
pub fn futex_wait(word: &AtomicU32, seen: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: `word` is valid for the call; FUTEX_WAIT reads it and the timeout only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const timeout)
    };
}

/// Wakes everyone who sleeps on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE only uses the address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// A place to sleep, in shared memory: raised flag plus futex word.
///
/// The flag is a store, not a count, and the waker clears it: a sleeper that dies costs its peers
/// one wake, not one for ever.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Bed {
    asleep: AtomicU32,
    event: AtomicU32,
}

impl Bed {
    /// Whether somebody may be sleeping: the waker's check after publishing.
    #[inline(always)]
    pub fn is_occupied(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Wakes the sleepers, if any.
    #[inline(always)]
    pub fn wake(&self) {
        if self.is_occupied() {
            self.wake_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_slow(&self) {
        self.asleep.store(0, Ordering::Relaxed);
        self.event.fetch_add(1, Ordering::SeqCst);
        futex_wake_all(&self.event);
    }

    /// Wakes the sleepers even if none has raised the flag yet: for rare events.
    pub fn shake(&self) {
        self.wake_slow();
    }

    /// Sleeps once, unless `ready()`; at most for `timeout`. Spurious returns happen.
    pub fn sleep_unless(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) {
        let seen = self.event.load(Ordering::Acquire);
        self.asleep.store(1, Ordering::Relaxed);
        barrier();
        if !ready() {
            futex_wait(&self.event, seen, timeout);
        }
    }
}
