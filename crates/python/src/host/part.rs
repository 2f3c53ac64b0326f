//! What was made from a context: one thread at a time uses it, and the context closes it.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

use pyo3::prelude::*;

use super::errors::{Kind, raise};
use super::wait::{Deadline, interrupted};

/// Children of fork of this process's line, as far as this process is one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Number of forks between the start of the program and this process.
pub fn forks() -> u32 {
    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    // SAFETY: the handler adds to an atomic, which may be done in a child of fork.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(count));
    });
    FORKS.load(Ordering::Relaxed)
}

/// A part that is there until it is closed.
pub struct Part<T> {
    name: &'static str,
    inner: Mutex<Option<T>>,
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
        Part { name, inner: Mutex::new(Some(inner)), forks: forks() }
    }

    /// The part, for this thread alone. Another thread that uses it is waited for without Python's lock.
    #[inline]
    pub fn lock(&self, py: Python<'_>) -> PyResult<Held<'_, T>> {
        if self.is_of_parent() {
            let text = format!(
                "this {} belongs to the process that forked this one: open a rackmem.Context here, with another node",
                self.name
            );
            return Err(raise(Kind::Closed, text));
        }
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.lock_after_others(py),
        };
        self.there(guard)
    }

    #[cold]
    fn lock_after_others(&self, py: Python<'_>) -> PyResult<Held<'_, T>> {
        loop {
            // A guard cannot cross `detach`; so it is dropped, and taken again.
            py.detach(|| drop(self.inner.lock()));
            py.check_signals()?;
            if let Ok(guard) = self.inner.try_lock() {
                return self.there(guard);
            }
        }
    }

    /// Runs `work` on the part without Python's lock.
    pub fn detached<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        drop(self.lock(py)?);
        py.detach(|| self.work(work)).ok_or_else(|| self.closed_meanwhile())
    }

    /// Runs `work` on the part as [`interrupted`] does.
    pub fn interrupted<R: Send>(
        &self,
        py: Python<'_>,
        deadline: Deadline,
        late: impl Display,
        work: impl FnOnce(&mut T) -> rackmem::Result<R> + Send,
    ) -> PyResult<rackmem::Result<R>> {
        drop(self.lock(py)?);
        let result = interrupted(py, deadline, late, || self.work(work).transpose())?;
        result.transpose().ok_or_else(|| self.closed_meanwhile())
    }

    fn work<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map(work)
    }

    fn closed_meanwhile(&self) -> PyErr {
        raise(Kind::Closed, format!("this {} was closed meanwhile", self.name))
    }

    fn there<'a>(&'a self, guard: MutexGuard<'a, Option<T>>) -> PyResult<Held<'a, T>> {
        if guard.is_none() {
            let text = format!("this {} is closed: make another one", self.name);
            return Err(raise(Kind::Closed, text));
        }
        Ok(Held(guard))
    }
}

impl<T> Part<T> {
    /// Takes the part out; later calls find it closed. A child of fork gets nothing: the part is its parent's.
    pub fn take(&self) -> Option<T> {
        if self.is_of_parent() {
            return None;
        }
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_of_parent(&self) -> bool {
        self.forks != FORKS.load(Ordering::Relaxed)
    }
}

impl<T: Send> Close for Part<T> {
    fn close(&self) {
        drop(self.take());
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

/// A part while a thread uses it.
pub struct Held<'a, T>(MutexGuard<'a, Option<T>>);

impl<T> std::ops::Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("made for a part that is there")
    }
}

impl<T> std::ops::DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("made for a part that is there")
    }
}
