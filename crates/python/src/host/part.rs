//! What was made from a context: one thread at a time uses it, and the context closes it.

use std::fmt::Display;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};

use pyo3::prelude::*;

use super::errors::{Kind, raise};
use super::wait::{Deadline, closed_meanwhile, interrupted};
use crate::LOOK;

/// Children of fork of this process's line, as far as this process is one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the start of the program and this process.
pub fn forks() -> u32 {
    extern "C" fn count() {
        FORKS.fetch_add(1, Relaxed);
    }
    static ONCE: Once = Once::new();
    // SAFETY: the handler adds to an atomic, which may be done in a child of fork.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(count));
    });
    FORKS.load(Relaxed)
}

/// A number of this thread, which no other thread has meanwhile; never 0.
#[inline]
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}

/// A part that is there until it is closed.
pub struct Part<T> {
    name: &'static str,
    inner: Mutex<Option<T>>,
    /// The thread that has claimed it; 0: none has.
    user: AtomicUsize,
    /// Threads that wait for it, on `freed`.
    waiting: AtomicUsize,
    gate: Mutex<()>,
    freed: Condvar,
    /// It is closed as soon as nobody uses it: waits of the thread that does end.
    closing: Arc<AtomicBool>,
    /// [`forks`] when it was made: a child of fork must not use its parent's.
    forks: u32,
}

/// A part as its context knows it.
pub trait Close: Send + Sync {
    /// Closes it; it may be closed already.
    fn close(&self);
}

impl<T: Send> Part<T> {
    pub fn new(name: &'static str, inner: T) -> Part<T> {
        Part {
            name,
            inner: Mutex::new(Some(inner)),
            user: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            freed: Condvar::new(),
            closing: Arc::default(),
            forks: forks(),
        }
    }

    /// The part, for this thread alone. Another thread that uses it is waited for without Python's lock.
    #[inline]
    pub fn lock(&self, py: Python<'_>) -> PyResult<Held<'_, T>> {
        let claim = self.claim(py)?;
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() || self.closing.load(Relaxed) {
            let text = format!("this {} is closed: make another one", self.name);
            return Err(raise(Kind::Closed, text));
        }
        Ok(Held { guard, _claim: claim })
    }

    /// Keeps other threads from the part. A thread that waits for it can be interrupted.
    #[inline]
    fn claim(&self, py: Python<'_>) -> PyResult<Claim<'_, T>> {
        if self.is_of_parent() {
            let text = format!(
                "this {} belongs to the process that forked this one: open a rackmem.Context here, with another node",
                self.name
            );
            return Err(raise(Kind::Closed, text));
        }
        match self.try_claim() {
            Some(claim) => Ok(claim),
            None => self.claim_after_others(py),
        }
    }

    #[cold]
    fn claim_after_others(&self, py: Python<'_>) -> PyResult<Claim<'_, T>> {
        if self.is_used_here() {
            let text = format!(
                "this {} is in use by the same thread: in a handler of signals or a `__del__` it can only be closed",
                self.name
            );
            return Err(raise(Kind::Rack, text));
        }
        loop {
            if let Some(claim) = py.detach(|| self.claim_soon()) {
                return Ok(claim);
            }
            py.check_signals()?;
        }
    }

    /// Runs `work` on the part without Python's lock.
    pub fn detached<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let claim = self.claim_open(py)?;
        py.detach(|| claim.work(work)).ok_or_else(|| closed_meanwhile(self.name))
    }

    /// Runs `work` on the part as [`interrupted`] does. Its waits end, too, when the part is closed.
    pub fn interrupted<R: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        late: impl Display,
        work: impl FnOnce(&mut T) -> rackmem::Result<R> + Send,
    ) -> PyResult<rackmem::Result<R>> {
        self.claim_open(py)?.interrupted(py, deadline, late, work)
    }

    /// The claim of a part that is not closed.
    pub fn claim_open(&self, py: Python<'_>) -> PyResult<Claim<'_, T>> {
        let Held { guard, _claim: claim } = self.lock(py)?;
        drop(guard);
        Ok(claim)
    }
}

impl<T> Part<T> {
    /// Set when the part is to be closed.
    pub fn closing(&self) -> Arc<AtomicBool> {
        self.closing.clone()
    }

    /// Closes the part; later calls find it closed. The waits of a thread that uses it end. If that is this thread,
    /// as in a handler of signals, the part is closed when the call that uses it ends. A child of fork closes nothing:
    /// the part is its parent's.
    pub fn shut(&self) {
        if self.is_of_parent() {
            return;
        }
        self.closing.store(true, SeqCst);
        if self.is_used_here() {
            return;
        }
        while self.claim_soon().is_none() {}
    }

    #[inline]
    fn try_claim(&self) -> Option<Claim<'_, T>> {
        let free = self.user.compare_exchange(0, this_thread(), SeqCst, Relaxed);
        free.is_ok().then(|| Claim(self))
    }

    /// As `try_claim`, but waits for other threads for about [`LOOK`].
    fn claim_soon(&self) -> Option<Claim<'_, T>> {
        self.waiting.fetch_add(1, SeqCst);
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |_: &mut ()| self.user.load(SeqCst) != 0;
        drop(self.freed.wait_timeout_while(gate, LOOK, is_used));
        self.waiting.fetch_sub(1, SeqCst);
        self.try_claim()
    }

    fn is_used_here(&self) -> bool {
        self.user.load(Relaxed) == this_thread()
    }

    fn is_of_parent(&self) -> bool {
        self.forks != FORKS.load(Relaxed)
    }
}

impl<T: Send> Close for Part<T> {
    fn close(&self) {
        self.shut();
    }
}

impl<T> Drop for Part<T> {
    fn drop(&mut self) {
        let is_of_parent = self.is_of_parent();
        let part = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if is_of_parent {
            std::mem::forget(part);
        }
    }
}

/// A part that other threads are kept from.
pub struct Claim<'a, T>(&'a Part<T>);

impl<T> Claim<'_, T> {
    /// `None`: the part is closed.
    fn work<R>(self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut guard = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map(work)
    }
}

impl<T: Send> Claim<'_, T> {
    /// As [`Part::interrupted`]: errors of Python are those of a wait that had begun.
    pub fn interrupted<R: Send>(
        self,
        py: Python<'_>,
        deadline: Deadline,
        late: impl Display,
        work: impl FnOnce(&mut T) -> rackmem::Result<R> + Send,
    ) -> PyResult<rackmem::Result<R>> {
        let name = self.0.name;
        let closing = Some((name, self.0.closing()));
        let result = interrupted(py, deadline, closing, late, || self.work(work).transpose())?;
        result.transpose().ok_or_else(|| closed_meanwhile(name))
    }
}

/// Ends the claim, and closes the part if that was asked for meanwhile.
impl<T> Drop for Claim<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let part = self.0;
        if part.closing.load(SeqCst) {
            let inner = part.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(inner);
        }
        part.user.store(0, SeqCst);
        if part.waiting.load(SeqCst) != 0 {
            drop(part.gate.lock());
            part.freed.notify_all();
        }
    }
}

/// A part while a thread uses it.
pub struct Held<'a, T> {
    guard: MutexGuard<'a, Option<T>>,
    /// Ends after `guard`.
    _claim: Claim<'a, T>,
}

impl<T> std::ops::Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("made for a part that is there")
    }
}

impl<T> std::ops::DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("made for a part that is there")
    }
}
