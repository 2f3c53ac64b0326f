//! Buffers of Python that operations read or write.

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;

use super::errors::{Kind, raise};

/// A buffer, exported by its object until this is dropped.
pub struct Given(Box<ffi::Py_buffer>);

// SAFETY: the memory stays where it is while it is exported; the export itself is only ended with Python's lock.
unsafe impl Send for Given {}

/// A buffer that an operation reads.
pub struct Source<'py>(pub Lent<'py>);

/// A buffer that an operation writes.
pub struct Target<'py>(pub Lent<'py>);

impl<'py> FromPyObject<'_, 'py> for Source<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Lent::new(&object, false).map(Source)
    }
}

impl<'py> FromPyObject<'_, 'py> for Target<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Lent::new(&object, true).map(Target)
    }
}

impl Source<'_> {
    /// # Safety
    /// Nothing writes the buffer meanwhile.
    pub unsafe fn bytes(&self) -> &[u8] {
        match self.0.len() {
            0 => &[],
            // SAFETY: the export vouches for the range.
            length => unsafe { std::slice::from_raw_parts(self.0.base(), length) },
        }
    }
}

impl Target<'_> {
    /// # Safety
    /// Nothing else uses the buffer meanwhile.
    pub unsafe fn bytes(&mut self) -> &mut [u8] {
        match self.0.len() {
            0 => &mut [],
            // SAFETY: the export vouches for the range.
            length => unsafe { std::slice::from_raw_parts_mut(self.0.base(), length) },
        }
    }
}

/// A buffer for the length of a call.
pub struct Lent<'py>(ffi::Py_buffer, std::marker::PhantomData<Python<'py>>);

impl<'py> Lent<'py> {
    /// The buffer of an object: contiguous, in the order of C, and without pointers to objects.
    #[inline]
    fn new(object: &Bound<'py, PyAny>, is_written: bool) -> PyResult<Lent<'py>> {
        let mut view = ffi::Py_buffer::new();
        let write = if is_written { ffi::PyBUF_WRITABLE } else { 0 };
        let flags = ffi::PyBUF_ND | ffi::PyBUF_FORMAT | write;
        // SAFETY: the object is alive, the view is ours.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, flags) } != 0 {
            return Err(refusal(object, is_written, &PyErr::fetch(object.py())));
        }
        let lent = Lent(view, std::marker::PhantomData);
        if lent.holds_objects() {
            let text = format!(
                "{} holds pointers to objects, which mean nothing on another node: use an array of plain numbers",
                type_name(object)
            );
            return Err(raise(Kind::Array, text));
        }
        Ok(lent)
    }

    pub fn base(&self) -> *mut u8 {
        self.0.buf.cast()
    }

    pub fn len(&self) -> usize {
        self.0.len.cast_unsigned()
    }

    /// The same export, for an operation in flight.
    pub fn keep(self) -> Given {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the view has one owner. Exporters do not keep the address of the view.
        Given(Box::new(unsafe { std::ptr::read(&this.0) }))
    }

    /// Whether its format has `O`, outside of the names of fields (`:name:`).
    fn holds_objects(&self) -> bool {
        if self.0.format.is_null() {
            return false;
        }
        // SAFETY: a format is a text that ends with a zero, and lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.0.format) }.to_bytes();
        let parts = format.split(|&byte| byte == b':').step_by(2);
        parts.flatten().any(|&byte| byte == b'O')
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled, and is released once, with Python's lock, which `'py` stands for.
        unsafe { ffi::PyBuffer_Release(&mut self.0) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // Without an interpreter the memory stays, as nobody can take it back.
        Python::try_attach(|_| {
            // SAFETY: as above.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "the argument".to_owned(), |name| name.to_string())
}

/// Why an object has no such buffer.
#[cold]
fn refusal(object: &Bound<'_, PyAny>, is_written: bool, error: &PyErr) -> PyErr {
    let name = type_name(object);
    let has = |flags| {
        let mut view = ffi::Py_buffer::new();
        // SAFETY: as in `new`.
        let found = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, flags) } == 0;
        if found {
            // SAFETY: the view was filled.
            unsafe { ffi::PyBuffer_Release(&mut view) };
        } else {
            drop(PyErr::take(object.py()));
        }
        found
    };
    // SAFETY: the object is alive.
    let text = if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        format!(
            "{name} is not a buffer: give a NumPy array, bytearray, memoryview, array.array or ctx.buffer(nbytes)"
        )
    } else if is_written && has(ffi::PyBUF_ND) {
        format!(
            "{name} is read-only and cannot be the target of a read: give a writable buffer, such as a bytearray"
        )
    } else if has(ffi::PyBUF_STRIDES) {
        format!(
            "{name} is not contiguous: give numpy.ascontiguousarray(a), or a part that lies in one piece"
        )
    } else {
        format!("{name} cannot be used as a buffer: {error}")
    };
    raise(Kind::Array, text)
}
