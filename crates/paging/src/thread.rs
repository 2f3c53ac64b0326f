//! Threads of the pager.
//!
//! Not those of the standard library: a thread of those begins by taking a lock, which in the child of a
//! fork may be held for ever, by a thread that only the parent has.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::io;

use rackmem_lease::error::{Error, Result};

/// Room on a thread's stack; only its touched pages cost memory.
const STACK_BYTES: usize = 1 << 20;

thread_local! {
    static IS_PAGER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of a pager's own, which must not touch borrowed memory.
pub fn is_pager_thread() -> bool {
    IS_PAGER_THREAD.get()
}

/// A thread that runs until it is joined.
#[derive(Debug)]
pub(super) struct Thread(libc::pthread_t);

type Work = Box<dyn FnOnce() + Send>;

/// A panic in this thread ends the process: no other thread would resolve its faults.
extern "C" fn begin(work: *mut c_void) -> *mut c_void {
    IS_PAGER_THREAD.set(true);
    // SAFETY: made by `spawn` for this thread alone.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    work();
    std::ptr::null_mut()
}

/// Runs `work` with all signals blocked but those of mistakes of its own.
fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals are plain data, and the calling thread's own set is put back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        for signal in [libc::SIGBUS, libc::SIGSEGV, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(&mut all, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

/// Starts a thread, on which no signal is delivered but those of its own mistakes.
pub(super) fn spawn(name: &CStr, work: impl FnOnce() + Send + 'static) -> Result<Thread> {
    let work: *mut Work = Box::into_raw(Box::new(Box::new(work)));
    let mut thread: libc::pthread_t = 0;
    // SAFETY: attributes and thread are filled in by the calls; `work` is the new thread's, or still ours
    // if there is none.
    let status = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        let create = || libc::pthread_create(&mut thread, &attributes, begin, work.cast());
        let status = with_signals_blocked(create);
        libc::pthread_attr_destroy(&mut attributes);
        if status != 0 {
            drop(Box::from_raw(work));
        }
        status
    };
    if status != 0 {
        let error = io::Error::from_raw_os_error(status);
        return Err(Error::io(
            format!("cannot start the thread {}", name.to_string_lossy()),
            error,
        ));
    }
    // SAFETY: the thread runs, as nobody else can join it.
    unsafe { libc::pthread_setname_np(thread, name.as_ptr()) };
    Ok(Thread(thread))
}

impl Thread {
    /// Waits for the thread's end.
    pub(super) fn join(self) {
        // SAFETY: joined once, as it is consumed.
        unsafe { libc::pthread_join(self.0, std::ptr::null_mut()) };
    }
}
