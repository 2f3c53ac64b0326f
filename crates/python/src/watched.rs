//! Work without Python's lock, which signals and exceptions of Python end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use pyo3::prelude::*;
use rackmem_sim::run::Progress;

use crate::{LOOK, RunError};

/// Works in a thread of its own. `told` is called now and then with the number of simulated cycles; what it raises ends
/// the work, and so does Ctrl-C.
pub fn watched<T: Send>(
    py: Python<'_>,
    told: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Progress<'_>) -> T + Send,
) -> PyResult<T> {
    let (stops, cycles) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |now: u64| {
        cycles.store(now, Ordering::Relaxed);
        !stops.load(Ordering::Relaxed)
    };
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let worker = scope.spawn(|| {
            // Dropped at the end, whatever becomes of the work.
            let _done = done;
            work(&progress)
        });
        let mut raised = None;
        let goes_on = || match ended.lock() {
            Ok(ended) => ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout),
            Err(_) => false,
        };
        while py.detach(goes_on) {
            if raised.is_some() {
                continue;
            }
            let look = py.check_signals().and_then(|()| match told {
                Some(told) => told.call1((cycles.load(Ordering::Relaxed),)).map(drop),
                None => Ok(()),
            });
            if let Err(error) = look {
                stops.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        let result = py.detach(|| worker.join());
        let result = result.map_err(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
            RunError::new_err(format!("the model has a defect, please report it: {said}"))
        });
        raised.map_or(result, Err)
    })
}
