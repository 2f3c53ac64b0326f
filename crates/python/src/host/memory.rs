//! Memory of rackmem as buffers of Python.

use std::any::Any;
use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;

/// Memory that NumPy can wrap: `numpy.frombuffer(memory, dtype)`. It stays mapped while a view of it is there,
/// also after its context has been closed.
#[pyclass(frozen, module = "rackmem")]
pub struct Memory {
    base: usize,
    length: usize,
    is_read_only: bool,
    what: &'static str,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Memory {
    /// # Safety
    /// `length` bytes at `base` may be read, and written unless `is_read_only`, while `keep` lives.
    pub unsafe fn new(
        what: &'static str,
        base: *mut u8,
        length: usize,
        is_read_only: bool,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Memory {
        Memory { base: base as usize, length, is_read_only, what, _keep: keep }
    }
}

#[pymethods]
impl Memory {
    /// Its size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.length
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __repr__(&self) -> String {
        format!("<rackmem.Memory: {} of {} bytes>", self.what, self.length)
    }

    /// # Safety
    /// `view` is one that Python asks to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (base, length) = (this.base as *mut std::ffi::c_void, this.length.cast_signed());
        // SAFETY: the view is ours to fill; it keeps this object, which keeps the memory.
        let code = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                base,
                length,
                this.is_read_only.into(),
                flags,
            )
        };
        if code == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
