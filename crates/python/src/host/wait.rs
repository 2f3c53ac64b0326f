//! Waits without Python's lock, which end at a deadline, or by what a handler of signals raises.

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rackmem::client::{Question, interruptible};

use super::errors::{Kind, raise};
use crate::LOOK;

/// End of a wait; `None`: it has no end but that of what it waits for.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The end of a wait without one.
    pub const NEVER: Deadline = Deadline(None);

    /// `timeout` is in seconds; `None`: for ever.
    pub fn after(timeout: Option<f64>) -> PyResult<Deadline> {
        let Some(seconds) = timeout else { return Ok(Deadline::NEVER) };
        if seconds.is_nan() || seconds < 0.0 {
            let text =
                format!("timeout={seconds}: give seconds from 0 up, or None to wait without end");
            return Err(PyValueError::new_err(text));
        }
        // Beyond what a clock can say is for ever.
        let length = Duration::try_from_secs_f64(seconds).ok();
        Ok(Deadline(length.and_then(|length| Instant::now().checked_add(length))))
    }

    /// Time that is left for the next part of a wait.
    pub fn left(self) -> Duration {
        self.0.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK))
    }

    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// The name of what a wait uses, and whether that is to be closed.
pub type Closing = Option<(&'static str, Arc<AtomicBool>)>;

/// The exception of a call whose object another thread, or a handler of signals, has closed.
pub fn closed_meanwhile(name: &str) -> PyErr {
    raise(Kind::Closed, format!("this {name} was closed meanwhile"))
}

/// Calls `work` without Python's lock. Waits for other nodes in it end with `EINTR` when a handler of signals raises,
/// when `closing` is set, and at the deadline: then `late` is the text of the exception.
pub fn interrupted<T: Send>(
    py: Python<'_>,
    deadline: Deadline,
    closing: Closing,
    late: impl Display,
    work: impl FnOnce() -> rackmem::Result<T> + Send,
) -> PyResult<rackmem::Result<T>> {
    let closed = closing.clone();
    let is_closed = |closing: &Closing| {
        closing.as_ref().is_some_and(|(_, closing)| closing.load(Ordering::SeqCst))
    };
    let (result, raised) = py.detach(|| {
        let raised = Rc::new(RefCell::new(None));
        let question: Question = Box::new({
            let raised = raised.clone();
            move || {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    *raised.borrow_mut() = Some(error);
                    return None;
                }
                (!deadline.has_passed() && !is_closed(&closing)).then(|| deadline.left())
            }
        });
        let result = interruptible(question, work);
        (result, raised.take())
    });
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Err(error)) if error.errno() == libc::EINTR && is_closed(&closed) => {
            Err(closed_meanwhile(closed.map_or("object", |(name, _)| name)))
        }
        (None, Err(error)) if error.errno() == libc::EINTR => Err(raise(Kind::Timeout, late)),
        (None, result) => Ok(result),
    }
}
