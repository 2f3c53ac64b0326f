//! The Python module `rackmem._rackmem`: what the package in `python/rackmem` is built on. Reports cross as JSON,
//! settings as pairs of texts.

mod execute;
mod host;
mod machines;
mod session;
mod study;
mod watched;
mod workload;

use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);

create_exception!(
    rackmem,
    Error,
    PyException,
    "An error of rackmem: its text says what is wrong and what to do."
);
create_exception!(
    rackmem,
    MachineError,
    Error,
    "A machine cannot be loaded or built as its settings describe it."
);
create_exception!(rackmem, RunError, Error, "A run of the model did not come to its end.");

#[pymodule]
fn _rackmem(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", py.get_type::<Error>())?;
    module.add("MachineError", py.get_type::<MachineError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add_class::<session::Session>()?;
    module.add_class::<session::Checkpoint>()?;
    module.add_class::<session::Reading>()?;
    module.add_function(wrap_pyfunction!(machines::machines, module)?)?;
    module.add_function(wrap_pyfunction!(machines::load, module)?)?;
    module.add_function(wrap_pyfunction!(machines::change, module)?)?;
    module.add_function(wrap_pyfunction!(machines::statistics, module)?)?;
    module.add_function(wrap_pyfunction!(workload::run, module)?)?;
    module.add_function(wrap_pyfunction!(execute::programs, module)?)?;
    module.add_function(wrap_pyfunction!(execute::read_program, module)?)?;
    module.add_function(wrap_pyfunction!(execute::execute, module)?)?;
    module.add_function(wrap_pyfunction!(study::points, module)?)?;
    module.add_function(wrap_pyfunction!(study::make, module)?)?;
    module.add_function(wrap_pyfunction!(study::take, module)?)?;
    module.add_function(wrap_pyfunction!(study::put, module)?)?;
    module.add_function(wrap_pyfunction!(study::fail, module)?)?;
    module.add_function(wrap_pyfunction!(study::read_file, module)?)?;
    module.add_function(wrap_pyfunction!(study::write_whole, module)?)?;
    module.add_function(wrap_pyfunction!(study::numbers, module)?)?;
    host::register(module)
}
