//! Exceptions of the runtime, which `python/rackmem/errors.py` defines.

use std::fmt::Display;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Class of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Array,
    Closed,
    Lease,
    Lost,
    Node,
    Rack,
    Range,
    Rights,
    Timeout,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Array => "ArrayError",
            Kind::Closed => "ClosedError",
            Kind::Lease => "LeaseError",
            Kind::Lost => "NodeLostError",
            Kind::Node => "NodeError",
            Kind::Rack => "RackError",
            Kind::Range => "RangeError",
            Kind::Rights => "RightsError",
            Kind::Timeout => "WaitTimeout",
        }
    }

    /// The class for the number of an error of the system or an operation.
    pub const fn of_errno(errno: i32) -> Kind {
        match errno {
            libc::EHOSTDOWN => Kind::Lost,
            libc::ENXIO | libc::EHOSTUNREACH => Kind::Node,
            libc::ERANGE => Kind::Range,
            libc::EACCES | libc::EPERM => Kind::Rights,
            libc::ETIMEDOUT => Kind::Timeout,
            _ => Kind::Rack,
        }
    }
}

/// An exception of this class.
pub fn raise(kind: Kind, text: impl Display) -> PyErr {
    let text = text.to_string();
    Python::attach(|py| {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let module = MODULE.get_or_try_init(py, || py.import("rackmem.errors").map(Bound::unbind));
        let class = module.and_then(|module| module.bind(py).getattr(kind.name()));
        match class.and_then(|class| class.cast_into::<PyType>().map_err(PyErr::from)) {
            Ok(class) => PyErr::from_type(class, text),
            Err(error) => PyRuntimeError::new_err(format!("{text} ({error})")),
        }
    })
}

/// A failed call that sets something up.
pub fn of_set_up(error: rackmem::Error) -> PyErr {
    match Kind::of_errno(error.errno()) {
        Kind::Rights => raise(Kind::Rack, error),
        kind => raise(kind, error),
    }
}
