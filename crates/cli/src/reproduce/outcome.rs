//! From claims and reports to verdicts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::beyond::{self, Beyond};
use super::checks::{self, Check};
use super::claims::Claim;
use super::curves;
use super::experiment::{Effort, Experiment};
use super::explanations;
use super::figure::Figure;
use super::not_checkable;
use super::results::{Known, Results};
use super::tolerance::Class;
use super::verdict::{Finding, Measured, Verdict, judge};
use crate::plot::lines::Plot;
use crate::size;

/// A claim with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Name of the claim.
    pub id: String,
    /// Part of the paper that it is shown with.
    #[serde(skip)]
    pub figure: Option<Figure>,
    /// What the paper says; orderings and words have no value.
    pub published: Option<f64>,
    /// What the model gives; of an ordering, its left side; of words, 1 if they are so.
    pub measured: Option<f64>,
    /// Of an ordering, its right side.
    pub against: Option<f64>,
    /// Unit of the values.
    pub unit: String,
    /// How the measured value has to relate to the published one, or the left side to the right.
    pub relation: &'static str,
    /// Measured over published, or left over right.
    pub ratio: Option<f64>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Row of the table of tolerances that it was judged by.
    #[serde(skip)]
    pub class: Option<Class>,
    /// The same in words.
    pub allowed: Option<&'static str>,
    /// Whether it takes a run to measure it; else it is read off the machine.
    pub by_run: bool,
    /// Whether it could be read in another way, too.
    pub read_so: bool,
    /// How it was read, what was measured; why it is missed or cannot be tested.
    pub why: String,
}

/// Counts of verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that do not.
    pub missed: usize,
    /// Claims that cannot be tested.
    pub untestable: usize,
    /// Of those that hold: without parameters, which are set and not measured.
    pub measured_holds: usize,
    /// The same of those that do not.
    pub measured_missed: usize,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedRun {
    /// Name of the experiment.
    pub experiment: String,
    /// Why.
    pub problem: String,
}

/// All that a reproduction gives.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The paper.
    pub paper: &'static str,
    /// How much was run.
    pub effort: &'static str,
    /// Counts of verdicts.
    pub summary: Summary,
    /// All claims of the selection, in the order of the file.
    pub claims: Vec<Judged>,
    /// Curves by name of the figure.
    pub curves: BTreeMap<String, Plot>,
    /// What the paper does not have.
    pub beyond: Vec<Beyond>,
    /// Runs that failed.
    pub failed_runs: Vec<FailedRun>,
}

/// Whether a part is selected; nothing selected means everything.
fn selected(selection: Option<Figure>, figure: Figure) -> bool {
    selection.is_none_or(|only| only == figure)
}

/// The experiments that a selection needs.
pub fn plan(effort: Effort, selection: Option<Figure>) -> BTreeSet<Experiment> {
    let results = Results::planning(effort);
    for (figure, checks) in checks::ALL {
        if selected(selection, figure) {
            for check in checks {
                // Only what it asks for matters.
                let _ = (check.measure)(&results);
            }
        }
    }
    curves::all(&results, selection);
    beyond::all(&results, selection);
    results.asked()
}

/// Judges the claims of a selection.
pub fn evaluate(
    claims: &[Claim],
    results: &Results,
    selection: Option<Figure>,
    failed_runs: Vec<FailedRun>,
) -> Outcome {
    let judged = claims.iter().map(|claim| one(claim, results, selection));
    let claims: Vec<Judged> = judged.flatten().collect();
    Outcome {
        paper: "manycore-ni",
        effort: results.effort.name(),
        summary: summary(&claims),
        claims,
        curves: curves::all(results, selection),
        beyond: beyond::all(results, selection),
        failed_runs,
    }
}

fn summary(claims: &[Judged]) -> Summary {
    let count = |verdict| claims.iter().filter(|judged| judged.verdict == verdict).count();
    let measured = |verdict| {
        let is = |judged: &&Judged| judged.verdict == verdict && judged.by_run;
        claims.iter().filter(is).count()
    };
    Summary {
        holds: count(Verdict::Holds),
        missed: count(Verdict::Missed),
        untestable: count(Verdict::Untestable),
        measured_holds: measured(Verdict::Holds),
        measured_missed: measured(Verdict::Missed),
    }
}

fn one(claim: &Claim, results: &Results, selection: Option<Figure>) -> Option<Judged> {
    let id = claim.short_id();
    let found = checks::ALL.iter().find_map(|&(figure, checks)| {
        checks.iter().find(|check| check.id == id).map(|check| (figure, check))
    });
    match found {
        Some((figure, check)) => selected(selection, figure)
            .then(|| measured(claim, figure, check, (check.measure)(results))),
        None => {
            let figure = Figure::of_id(id);
            let reason = not_checkable::reason(id).unwrap_or("nobody has said how to check it");
            (selection.is_none() || selection == figure)
                .then(|| untestable(claim, figure, reason.to_owned()))
        }
    }
}

fn untestable(claim: &Claim, figure: Option<Figure>, why: String) -> Judged {
    Judged {
        id: claim.id.clone(),
        figure,
        published: claim.value,
        measured: None,
        against: None,
        unit: claim.unit.clone(),
        relation: claim.relation.sign(),
        ratio: None,
        verdict: Verdict::Untestable,
        class: None,
        allowed: None,
        by_run: false,
        read_so: false,
        why,
    }
}

fn measured(claim: &Claim, figure: Figure, check: &Check, finding: Known<Finding>) -> Judged {
    let finding = match finding {
        Ok(finding) => finding,
        // Not to be able to run it is the model's failure, not a property of the claim.
        Err(missing) => {
            let judged = untestable(claim, Some(figure), missing);
            let (verdict, class) = (Verdict::Missed, Some(check.class));
            return Judged { verdict, class, by_run: check.needs_run(), ..judged };
        }
    };
    let verdict = judge(claim, check.class, finding.measured);
    let (measured, against) = match finding.measured {
        Measured::Number(value) => (value, None),
        Measured::Sides(left, right) => (left, Some(right)),
        Measured::Fact(holds) => (f64::from(u8::from(holds)), None),
    };
    let base = against.or(claim.value).filter(|&base| base != 0.0);
    Judged {
        measured: Some(measured),
        against,
        ratio: base.map(|base| measured / base),
        verdict,
        class: Some(check.class),
        allowed: Some(check.class.tolerance().words),
        by_run: check.needs_run(),
        read_so: !check.reading.is_empty(),
        unit: finding.unit.unwrap_or(&claim.unit).to_owned(),
        why: why(claim, check, &finding, verdict),
        ..untestable(claim, Some(figure), String::new())
    }
}

fn why(claim: &Claim, check: &Check, finding: &Finding, verdict: Verdict) -> String {
    let mut parts = Vec::new();
    if verdict == Verdict::Missed {
        let explained = explanations::of(claim.short_id()).map(str::to_owned);
        parts.push(explained.unwrap_or_else(|| generic(claim, check, finding.measured)));
    }
    if !check.reading.is_empty() {
        parts.push(format!("read so: {}", check.reading));
    }
    if !finding.remark.is_empty() {
        parts.push(finding.remark.clone());
    }
    parts.join("; ")
}

/// What the figures alone say of a missed claim.
fn generic(claim: &Claim, check: &Check, measured: Measured) -> String {
    let row = check.class.tolerance();
    let three = size::three_digits;
    match (measured, claim.value) {
        (Measured::Fact(_), _) => "the machine is not so".to_owned(),
        (Measured::Sides(left, right), _) => format!(
            "{} {} {} is not so (allowed: {})",
            three(left),
            claim.relation.sign(),
            three(right),
            row.words
        ),
        (Measured::Number(value), Some(published)) => format!(
            "{} {}, the paper has {} {} (allowed: {})",
            three(value),
            claim.unit,
            claim.relation.sign(),
            three(published),
            row.words
        ),
        (Measured::Number(value), None) => {
            format!("{} has nothing to be held against", three(value))
        }
    }
}
