//! Atomics, arrays of them, and the kernel's part in sleeping: loom's where its models are checked. Locks, events
//! and gates on them are in [`wait`].

pub mod lazy;
pub mod wait;

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};

#[cfg(not(loom))]
pub use lazy::Lazy;
#[cfg(loom)]
pub use model::{Bed, Lazy};

/// Lets threads sleep on a word: the kernel finds them by its address, so it takes no room.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct Bed;

#[cfg(not(loom))]
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "to a wrong address the kernel answers EFAULT")]
impl Bed {
    /// Sleeps while what `word` points to is `expected`, at most for `limit`; may wake early. `load` gives the
    /// same value.
    pub fn sleep(
        &self,
        word: *const u32,
        _load: impl Fn() -> u32,
        expected: u32,
        limit: Option<std::time::Duration>,
    ) {
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos().into(),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word and the limit live through the call; nothing is written.
        unsafe {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, word, operation, expected, limit);
        }
    }

    /// Wakes at most `count` that sleep on `word`.
    pub fn wake(&self, word: *const u32, count: i32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the address is compared only.
        unsafe {
            libc::syscall(libc::SYS_futex, word, operation, count);
        }
    }
}

/// Loads in the one order of all sequentially consistent accesses.
pub fn load_in_order(word: &AtomicU32) -> u32 {
    // Loom has no such order. A step that reads and writes comes before or after any other of the word,
    // which is what callers need of the order.
    #[cfg(loom)]
    return word.fetch_add(0, std::sync::atomic::Ordering::AcqRel);
    #[cfg(not(loom))]
    word.load(std::sync::atomic::Ordering::SeqCst)
}

/// The kernel's part, for loom: it looks at the word and puts the thread to sleep in one step. Nobody wakes by
/// time: if there is no one left to wake a sleeper, loom reports it.
#[cfg(loom)]
#[allow(missing_docs, reason = "they are those of the others")]
mod model {
    use std::io;
    use std::ops::Deref;
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    #[derive(Debug)]
    pub struct Bed {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Default for Bed {
        fn default() -> Bed {
            Bed { lock: Mutex::new(()), sleepers: Condvar::new() }
        }
    }

    impl Bed {
        pub fn sleep(
            &self,
            _: *const u32,
            load: impl Fn() -> u32,
            expected: u32,
            _: Option<Duration>,
        ) {
            let guard = self.lock.lock().unwrap();
            if load() == expected {
                drop(self.sleepers.wait(guard).unwrap());
            }
        }

        pub fn wake(&self, _: *const u32, count: i32) {
            let _guard = self.lock.lock().unwrap();
            match count {
                1 => self.sleepers.notify_one(),
                _ => self.sleepers.notify_all(),
            }
        }
    }

    #[derive(Debug)]
    pub struct Lazy<T>(Box<[T]>);

    impl<T: Default> Lazy<T> {
        pub fn new(len: usize) -> io::Result<Lazy<T>> {
            Ok(Lazy((0..len).map(|_| T::default()).collect()))
        }
    }

    impl<T> Deref for Lazy<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }
}
