//! The reports of all runs.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Reason why something is not known.
pub type Missing = String;

/// A quantity that a run may fail to give.
pub type Known<T> = Result<T, Missing>;

/// Amount of work of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Fewer sizes, shorter runs.
    Quick,
    /// The sizes and lengths of the paper.
    Full,
}

impl Effort {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Full => "full",
        }
    }
}

/// A run that claims are measured by.
pub trait Experiment: Clone + Ord {
    /// Result of a run.
    type Report: Default;
    /// Values that all runs of a reproduction share, and that checks may ask for, too.
    type Setting: Clone;

    /// Name in files and errors, such as `model/pagerank/bulk/8`.
    fn name(&self) -> String;

    /// A report that answers every question with something.
    fn blank() -> Self::Report {
        Self::Report::default()
    }
}

/// The reports of all runs, of which papers' quantities are computed.
///
/// The runs that checks need are found by letting them ask: an unknown report is noted, and answered with a
/// blank one.
pub struct Results<E: Experiment> {
    /// Amount of work.
    pub effort: Effort,
    /// Machines and host that all runs share.
    pub setting: E::Setting,
    reports: BTreeMap<E, Known<E::Report>>,
    /// While planning: runs that have been asked for and are not known.
    asked: Option<RefCell<BTreeSet<E>>>,
    blank: E::Report,
}

impl<E: Experiment> Results<E> {
    /// No runs yet.
    pub fn new(effort: Effort, setting: E::Setting) -> Results<E> {
        Results { effort, setting, reports: BTreeMap::new(), asked: None, blank: E::blank() }
    }

    /// Adds the reports of runs.
    pub fn extend(&mut self, reports: impl IntoIterator<Item = (E, Known<E::Report>)>) {
        self.reports.extend(reports);
    }

    /// The runs that somebody asks for and that have not been made.
    pub fn plan(&mut self, ask: impl FnOnce(&Results<E>)) -> BTreeSet<E> {
        self.asked = Some(RefCell::default());
        ask(self);
        self.asked.take().map(RefCell::into_inner).unwrap_or_default()
    }

    /// `something` while runs are planned, so that planning can go on; else `None`.
    pub fn planned<T>(&self, something: T) -> Option<T> {
        self.asked.is_some().then_some(something)
    }

    /// Whether a run has been made, well or not.
    pub fn knows(&self, experiment: &E) -> bool {
        self.reports.contains_key(experiment)
    }

    /// The report of a run.
    ///
    /// # Errors
    /// The run failed or was not made.
    pub fn report(&self, experiment: impl Borrow<E>) -> Known<&E::Report> {
        let experiment = experiment.borrow();
        match (self.reports.get(experiment), &self.asked) {
            (Some(Ok(report)), _) => Ok(report),
            (Some(Err(problem)), _) => {
                Err(format!("the run {} failed: {problem}", experiment.name()))
            }
            (None, Some(asked)) => {
                asked.borrow_mut().insert(experiment.clone());
                Ok(&self.blank)
            }
            (None, None) => Err(format!("the run {} was not made", experiment.name())),
        }
    }

    /// All runs that have been made, with their reports if they went well.
    pub fn runs(&self) -> impl Iterator<Item = (&E, Known<&E::Report>)> {
        self.reports.iter().map(|(run, report)| (run, report.as_ref().map_err(String::clone)))
    }
}
