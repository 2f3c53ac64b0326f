//! Programs that are executed piece by piece.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use rackmem_experiments::study::run::{as_json, failure, not_executed};
use rackmem_experiments::{input, whole_file};
use rackmem_sim::exec::report::Report;
use rackmem_sim::exec::{self, Mark, Options, Taken, Until, part};
use rackmem_sim::figures::Figures;
use rackmem_sim::machine::Machine;

use crate::RunError;
use crate::execute::{Part, jobs};
use crate::machines::of_text;
use crate::study::refused;
use crate::watched::watched;

/// A rack between two pieces of its program.
#[pyclass(frozen)]
pub struct Session {
    machine: Machine,
    programs: Vec<Part>,
    libraries: Option<PathBuf>,
    session: Mutex<Option<exec::Session>>,
    is_running: AtomicBool,
}

/// The state of a program, to go on from.
#[pyclass(frozen)]
pub struct Checkpoint(exec::Checkpoint);

/// A reading of all counters.
#[pyclass(frozen)]
pub struct Reading(Figures);

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (machine, programs, libraries=None))]
    fn new(machine: &str, programs: Vec<Part>, libraries: Option<PathBuf>) -> PyResult<Session> {
        let machine = of_text(machine)?;
        let session = {
            let jobs = jobs(&programs);
            let options = Options { libraries: libraries.clone(), ..options() };
            let session = exec::Session::new(&machine, &jobs, &options);
            session.map_err(|error| refused(not_executed(&machine, &jobs, error)))?
        };
        let session = Mutex::new(Some(session));
        Ok(Session { machine, programs, libraries, session, is_running: true.into() })
    }

    /// Executes a piece: whether the program goes on after it.
    #[pyo3(signature = (cycle=None, output=None, instructions=None, region=None, told=None))]
    fn run(
        &self,
        py: Python<'_>,
        cycle: Option<u64>,
        output: Option<&str>,
        instructions: Option<u64>,
        region: Option<bool>,
        told: Option<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let until = Until { cycle, output, instructions, mark: region.map(mark) };
        watched(py, told.as_ref(), |progress| {
            let mut options = Options { progress: Some(progress), ..options() };
            self.piece(|session| session.run(until, &mut options))
        })?
    }

    /// Executes a piece without timing: whether the program goes on after it.
    #[pyo3(signature = (instructions=None, region=None, told=None))]
    fn fast_forward(
        &self,
        py: Python<'_>,
        instructions: Option<u64>,
        region: Option<bool>,
        told: Option<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let until = Until { instructions, mark: region.map(mark), ..Until::default() };
        watched(py, told.as_ref(), |progress| {
            let mut options = Options { progress: Some(progress), ..options() };
            self.piece(|session| session.fast_forward(until, &mut options))
        })?
    }

    /// Whether the program goes on, as far as pieces have shown that have come to their end.
    #[getter]
    fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    /// The folder of the program's libraries.
    #[getter]
    fn libraries(&self) -> Option<PathBuf> {
        self.libraries.clone()
    }

    /// Instructions that all cores have executed, with and without timing.
    fn instructions(&self) -> PyResult<u64> {
        self.with(|session| session.instructions())
    }

    /// The cycle that the slowest node has come to.
    fn cycle(&self) -> PyResult<u64> {
        self.with(|session| session.cycle())
    }

    /// What node 0 has printed so far.
    fn printed(&self) -> PyResult<Vec<u8>> {
        self.with(|session| session.printed())
    }

    /// Reads all counters; after a piece without timing the caches are warmed first.
    fn read(&self, py: Python<'_>) -> PyResult<Reading> {
        watched(py, None, |progress| {
            let mut options = Options { progress: Some(progress), ..options() };
            self.with(|session| {
                session.warm(&mut options);
                Reading(session.figures())
            })
        })?
    }

    /// The state of the program where a fast-forward has ended.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<Checkpoint> {
        let jobs = jobs(&self.programs);
        let refused = |error| refused(not_executed(&self.machine, &jobs, error));
        let checkpoint = watched(py, None, |progress| {
            let mut options = Options { progress: Some(progress), ..options() };
            self.with(|session| session.checkpoint(&jobs, part::Part::Whole, &mut options))
        })??;
        checkpoint.map(Checkpoint).map_err(refused)
    }

    /// A machine on which the program of a checkpoint goes on.
    #[staticmethod]
    #[pyo3(signature = (machine, checkpoint, libraries=None))]
    fn restore(
        machine: &str,
        checkpoint: &Checkpoint,
        libraries: Option<PathBuf>,
    ) -> PyResult<Session> {
        let machine = of_text(machine)?;
        let options = Options { libraries: libraries.clone(), ..options() };
        let session = exec::Session::restore(&machine, &checkpoint.0, &options);
        checkpoint.0.with_job(|job| {
            let refused = |error| refused(not_executed(&machine, &[*job], error));
            let session = Mutex::new(Some(session.map_err(refused)?));
            Ok(Session {
                session,
                programs: vec![(
                    job.program.to_vec(),
                    job.args.to_vec(),
                    job.env.to_vec(),
                    job.nodes,
                )],
                libraries: libraries.clone(),
                machine: machine.clone(),
                is_running: true.into(),
            })
        })
    }

    /// The report as JSON; the session is over.
    fn finish(&self) -> PyResult<String> {
        let session = self.lock()?.take().ok_or_else(over)?;
        let jobs = jobs(&self.programs);
        let outcome = session.finish(options());
        if let Some(why) = &outcome.cut_short {
            return Err(RunError::new_err(format!("{}: {why}", exec::names(&jobs))));
        }
        match failure(&jobs, &outcome) {
            Some(failure) => Err(RunError::new_err(failure)),
            None => {
                let report =
                    Report::new(&self.machine, &jobs, None, &outcome).with_output(&outcome);
                as_json(&report).map_err(refused)
            }
        }
    }
}

#[pymethods]
impl Checkpoint {
    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Checkpoint> {
        let wrong = |why| RunError::new_err(format!("{}: {why}", path.display()));
        let read = || {
            let file = input::open(&path).map_err(|error| error.to_string())?;
            exec::Checkpoint::of_file(file)
        };
        py.detach(read).map(Checkpoint).map_err(wrong)
    }

    /// Writes a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let wrong = |error| RunError::new_err(format!("cannot write {}: {error}", path.display()));
        let write = || {
            let place = whole_file::Place::find_beside_program(&path)?;
            place.write_by(|out| self.0.write(out))
        };
        py.detach(write).map_err(wrong)
    }

    /// Machine, cycle and instructions at which it was taken.
    fn taken(&self) -> (String, u64, u64) {
        let Taken { machine, cycle, instructions, .. } = self.0.taken();
        (machine, cycle, instructions)
    }

    /// Bytes of its file.
    fn size_bytes(&self) -> usize {
        self.0.size_bytes()
    }
}

#[pymethods]
impl Reading {
    /// What was counted since an earlier reading, or since the begin.
    #[pyo3(signature = (before=None))]
    fn since(&self, before: Option<PyRef<'_, Reading>>) -> Vec<(String, f64)> {
        let none = Figures::default();
        let before = before.as_ref().map_or(&none, |before| &before.0);
        self.0.since(before).into_iter().collect()
    }
}

impl Session {
    /// The session, unless another thread executes a piece: it needs Python's lock to come to its end, so nothing waits
    /// for it here.
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<exec::Session>>> {
        let busy = "another thread executes a piece of this session; wait for it";
        self.session.try_lock().map_err(|_| RunError::new_err(busy))
    }

    /// Executes a piece: whether the program goes on after it, which is known also if an exception of Python ends it.
    fn piece(&self, work: impl FnOnce(&mut exec::Session) -> bool) -> PyResult<bool> {
        let goes_on = self.with(work)?;
        self.is_running.store(goes_on, Ordering::Relaxed);
        Ok(goes_on)
    }

    fn with<T>(&self, work: impl FnOnce(&mut exec::Session) -> T) -> PyResult<T> {
        self.lock()?.as_mut().map(work).ok_or_else(over)
    }
}

/// Where a region of interest begins, or where it ends.
fn mark(is_begin: bool) -> Mark {
    if is_begin { Mark::Begin } else { Mark::End }
}

fn over() -> PyErr {
    RunError::new_err("the session is over: it gave its result; make another one")
}

fn options<'a>() -> Options<'a> {
    Options { folder: std::env::current_dir().ok(), ..Options::default() }
}
