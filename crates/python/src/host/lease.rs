//! Borrowed memory.

use std::ffi::c_int;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rackmem_lease::Wanted;
use rackmem_paging::{MIN_CACHE_PAGES, PAGE_BYTES, PagerOptions, Placement, Region, Waiting};

use super::errors::{Kind, raise};
use super::memory::Memory;
use crate::LOOK;

/// Share of borrowed memory that is local unless something else is said.
const CACHE_SHARE: usize = 4;

/// Memory that hosts lend (`rackmem lend`), of zeroed bytes: `numpy.frombuffer(lease, dtype)` is an array whose pages
/// are here while they are used, and at the lender else. Returned by `close()` or the end of a `with` block, once no
/// array is over it any more.
#[pyclass(frozen, module = "rackmem")]
pub struct Lease {
    open: Mutex<Option<Open>>,
    length: usize,
}

/// A lease that was not closed: the memory, and what Python sees of it.
struct Open {
    region: Arc<Region>,
    memory: Py<Memory>,
}

fn wishes(
    nbytes: usize,
    cache_bytes: Option<usize>,
    copies: u32,
    prefetch_pages: Option<usize>,
    rack: Option<String>,
    patience: Option<f64>,
) -> PyResult<(Wanted, PagerOptions)> {
    let mut wanted = Wanted::new(nbytes as u64);
    (wanted.copies, wanted.rack) = (copies, rack);
    // A keeper of leases may say something while a thread that holds Python's lock waits for it.
    wanted.tell = Arc::new(|text| eprintln!("rackmem: {text}"));
    if let Some(seconds) = patience {
        let wrong =
            |_| PyValueError::new_err(format!("patience={seconds}: give seconds from 0 up"));
        wanted.patience = Duration::try_from_secs_f64(seconds).map_err(wrong)?;
    }
    let mut paging = PagerOptions {
        waiting: Waiting::Auto,
        evictor: Placement::Auto,
        ..PagerOptions::default()
    };
    let share = (nbytes / CACHE_SHARE).max(MIN_CACHE_PAGES * PAGE_BYTES);
    paging.cache_bytes = cache_bytes.unwrap_or(share);
    paging.prefetch_pages = prefetch_pages.unwrap_or(paging.prefetch_pages);
    Ok((wanted, paging))
}

/// Borrows in a thread of its own, which gives back what it gets if a handler of signals has raised meanwhile.
fn borrow(py: Python<'_>, wanted: Wanted, paging: PagerOptions) -> PyResult<Region> {
    let (done, ended) = mpsc::channel();
    let ended = Mutex::new(ended);
    let work = move || drop(done.send(Region::borrow(&wanted, &paging)));
    thread::Builder::new().name("borrow".to_owned()).spawn(work)?;
    let wait = || ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
    loop {
        match py.detach(wait) {
            Ok(region) => return region.map_err(|error| raise(Kind::Lease, error)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(Kind::Lease, "borrowing has a defect, please report it"));
            }
        }
    }
}

impl Lease {
    fn with<T>(&self, what: impl FnOnce(&Open) -> T) -> PyResult<T> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || raise(Kind::Closed, "this lease is closed: make another one");
        open.as_ref().map(what).ok_or_else(closed)
    }
}

#[pymethods]
impl Lease {
    /// Borrows `nbytes` bytes. `cache_bytes` of them are local at most (None: a quarter); with `copies=2` a lender may
    /// die; `prefetch_pages` are fetched ahead at most; an access waits for a lender that cannot be reached for
    /// `patience` seconds (None: 120).
    #[new]
    #[pyo3(signature = (
        nbytes, *, cache_bytes = None, copies = 1, prefetch_pages = None, rack = None, patience = None
    ))]
    fn new(
        py: Python<'_>,
        nbytes: usize,
        cache_bytes: Option<usize>,
        copies: u32,
        prefetch_pages: Option<usize>,
        rack: Option<String>,
        patience: Option<f64>,
    ) -> PyResult<Lease> {
        let (wanted, paging) = wishes(nbytes, cache_bytes, copies, prefetch_pages, rack, patience)?;
        let mut region = borrow(py, wanted, paging)?;
        let base = region.as_mut_ptr();
        let region = Arc::new(region);
        // SAFETY: the region is mapped while it lives, and nothing else hands out its bytes.
        let memory =
            unsafe { Memory::new("a lease", base, nbytes, false, Box::new(region.clone())) };
        let memory = Py::new(py, memory)?;
        Ok(Lease { open: Mutex::new(Some(Open { region, memory })), length: nbytes })
    }

    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.length
    }

    fn __len__(&self) -> usize {
        self.length
    }

    /// Pages that are local, and pages that the lender has.
    fn pages(&self) -> PyResult<(u64, u64)> {
        let statistics = self.with(|open| open.region.statistics())?;
        Ok((statistics.resident_pages, statistics.slots_in_use))
    }

    /// Sends all pages to the lender, so that the memory occupies nothing here.
    fn evict(&self, py: Python<'_>) -> PyResult<()> {
        let region = self.with(|open| open.region.clone())?;
        py.detach(|| region.pager().evict_all()).map_err(|error| raise(Kind::Lease, error))
    }

    /// Makes `nbytes` bytes from `offset` zero, multiples of 4096 both: their pages occupy nothing from now on, neither
    /// here nor at the lender.
    fn discard(&self, py: Python<'_>, offset: usize, nbytes: usize) -> PyResult<()> {
        let region = self.with(|open| open.region.clone())?;
        // SAFETY: the bytes are used by pointers alone, those of Python's buffers.
        let discard = || unsafe { region.discard_shared(offset, nbytes) };
        py.detach(discard).map_err(|error| raise(Kind::Lease, error))
    }

    /// Returns the memory, once no array is over it any more. Its contents are thrown away.
    fn close(&self, py: Python<'_>) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(open));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    /// # Safety
    /// `view` is one that Python asks to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get().with(|open| open.memory.clone_ref(slf.py()))?;
        // The view is one of the memory, which outlives the lease as long as that.
        // SAFETY: the view is ours to fill.
        match unsafe { ffi::PyObject_GetBuffer(memory.as_ptr(), view, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    /// Nothing: what is released is a view of the memory. NumPy keeps views of objects that have this function alone;
    /// of others it keeps the object, and takes for granted that their memory stays.
    ///
    /// # Safety
    /// None is needed.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}
