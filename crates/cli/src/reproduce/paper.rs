//! A paper: its claims, and the measurement of each. All papers go through the same frame, from claims to
//! verdicts, with data of their own.

use std::path::Path;

use super::results::{Experiment, Known, Results};
use super::tolerance::Class;
use super::verdict::Finding;
use crate::failure::Result;
use crate::plot::lines::Plot;

/// A table, a figure or another part that can be asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name on the command line.
    pub name: &'static str,
    /// Title of the part.
    pub title: &'static str,
}

/// Measurement and tolerance of a claim.
pub struct Check<E: Experiment> {
    /// Name of the claim, without that of the paper.
    pub id: &'static str,
    /// Row of the table of tolerances.
    pub class: Class,
    /// Computes the finding from the reports of runs.
    pub measure: fn(&Results<E>) -> Known<Finding>,
    /// For claims that can be read in several ways: the reading that was chosen, and why. Else empty.
    pub reading: &'static str,
}

/// A claim that can be read in one way only.
pub(super) const fn check<E: Experiment>(
    id: &'static str,
    class: Class,
    measure: fn(&Results<E>) -> Known<Finding>,
) -> Check<E> {
    Check { id, class, measure, reading: "" }
}

/// A finding that is a value.
pub(super) fn number(value: Known<f64>) -> Known<Finding> {
    value.map(Finding::number)
}

impl<E: Experiment> Check<E> {
    /// The same check with this reading.
    pub(super) const fn reading(mut self, reading: &'static str) -> Check<E> {
        self.reading = reading;
        self
    }

    /// Whether it takes a run: else it is about a parameter.
    pub fn needs_run(&self, results: &Results<E>) -> bool {
        let mut none = Results::new(results.effort, results.setting.clone());
        // Only what it asks for matters.
        let asked = none.plan(|results| {
            let _ = (self.measure)(results);
        });
        !asked.is_empty()
    }
}

/// Names of claims, each with a remark.
pub type Remarks = &'static [(&'static str, &'static str)];

/// A curve sheet: its name, the part it is shown with, and how it is drawn.
pub type Sheet<E> = (&'static str, Part, fn(&Results<E>) -> Known<Plot>);

/// A figure without a published one to be held against: name, value, unit.
pub type Row = (String, Known<f64>, &'static str);

/// Computes quantities of a part that the paper does not give.
pub type Rows<E> = fn(&Results<E>) -> Vec<Row>;

/// Makes runs, so many at the same time; their reports in the same order.
pub type Run<E> = fn(&[E], &Results<E>, usize) -> Vec<Known<<E as Experiment>::Report>>;

/// A paper as data: its claims, and how they are measured.
pub struct Paper<E: Experiment + 'static> {
    /// Its name on the command line, which begins the names of its claims.
    pub name: &'static str,
    /// Its claims, as `published/` has them.
    pub published: &'static str,
    /// Its parts, in its order.
    pub parts: &'static [Part],
    /// Checks of claims, by the part that they are shown with.
    pub checks: &'static [(Part, &'static [Check<E>])],
    /// Claims that the runtime of this host shows, too, beside the verdicts on the model: orderings and
    /// ratios, never the paper's times.
    pub runtime: &'static [(Part, &'static [Check<E>])],
    /// The part that a claim belongs to by its name, for claims that no check assigns.
    pub part_of: fn(&str) -> Option<Part>,
    /// Claims that nothing here can show to be true or false, with the reasons.
    pub not_checkable: Remarks,
    /// Reasons why claims are missed, written by hand after looking at the runs.
    pub explanations: Remarks,
    /// Its figures as curves.
    pub sheets: &'static [Sheet<E>],
    /// Quantities that the runs show and the paper does not give.
    pub beyond: &'static [(Part, Rows<E>)],
    /// Sentences about these runs that a reader needs before all verdicts.
    pub notes: fn(&Results<E>) -> Vec<String>,
    /// Makes its runs.
    pub run: Run<E>,
    /// Simulated cycles of a report.
    pub cycles: fn(&E::Report) -> u64,
    /// Writes the files of a reproduction besides results and plots.
    pub files: fn(&Path, &Results<E>) -> Result<()>,
}

impl<E: Experiment> Paper<E> {
    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<Part> {
        self.parts.iter().copied().find(|part| part.name == name)
    }

    /// Reason why this claim cannot be checked; `None` if it can.
    pub fn why_not(&self, short_id: &str) -> Option<&'static str> {
        find(self.not_checkable, short_id)
    }

    /// Reason why this claim is missed, if there is an explanation.
    pub fn explanation(&self, short_id: &str) -> Option<&'static str> {
        find(self.explanations, short_id)
    }

    /// The check of this claim, and the part that it is shown with.
    pub fn check(&self, short_id: &str) -> Option<(Part, &'static Check<E>)> {
        self.checks.iter().find_map(|&(part, checks)| {
            checks.iter().find(|check| check.id == short_id).map(|check| (part, check))
        })
    }

    /// Checks of all parts, in their order.
    pub fn all_checks(&self) -> impl Iterator<Item = &'static Check<E>> {
        self.checks.iter().flat_map(|&(_, checks)| checks)
    }
}

fn find(remarks: Remarks, short_id: &str) -> Option<&'static str> {
    remarks.iter().find(|&&(id, _)| id == short_id).map(|&(_, text)| text)
}
