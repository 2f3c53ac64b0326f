//! From claims and reports to verdicts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::claims::Claim;
use super::paper::{Check, Paper, Part};
use super::results::{Experiment, Results};
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
    pub part: Option<Part>,
    /// Value that the paper prints; orderings and words have none.
    pub published: Option<f64>,
    /// Value that the model gives; of an ordering, its left side; of words, 1 if they are so.
    pub measured: Option<f64>,
    /// Right side of an ordering.
    pub against: Option<f64>,
    /// Unit of the values.
    pub unit: String,
    /// Relation that the measured value must have to the published one, or the left side to the right.
    pub relation: &'static str,
    /// Measured over published, or left over right.
    pub ratio: Option<f64>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Row of the table of tolerances that it was judged by.
    #[serde(skip)]
    pub class: Option<Class>,
    /// Tolerance of that row in words.
    pub allowed: Option<&'static str>,
    /// Whether it takes a run to measure it; else it is read off the machine.
    pub by_run: bool,
    /// Whether it could be read in another way, too.
    pub read_so: bool,
    /// The reading of the claim and the measured quantity; the reason why it is missed or cannot be tested.
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
    /// Claims that hold, without parameters, which are set and not measured.
    pub measured_holds: usize,
    /// Claims that do not hold, without parameters.
    pub measured_missed: usize,
}

/// An experiment without a result, as an error ended it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedRun {
    /// Name of the experiment.
    pub experiment: String,
    /// Text of the error.
    pub problem: String,
}

/// A figure of the paper as curves.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// Part of the paper that they are shown with.
    #[serde(skip)]
    pub part: Part,
    /// The curves.
    #[serde(flatten)]
    pub plot: Plot,
}

/// A figure without a published one to be held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beyond {
    /// Part of the paper that it is shown with.
    #[serde(skip)]
    pub part: Part,
    /// Name of the quantity.
    pub name: String,
    /// Measured value, in `unit`.
    pub value: f64,
    /// Unit of the value, such as cycles or GB/s.
    pub unit: &'static str,
}

/// All that a reproduction gives.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Name of the paper on the command line.
    pub paper: &'static str,
    /// Its parts, in its order.
    #[serde(skip)]
    pub parts: &'static [Part],
    /// Amount of work: `quick` or `full`.
    pub effort: &'static str,
    /// Sentences that a reader needs before all verdicts.
    pub notes: Vec<String>,
    /// Counts of verdicts.
    pub summary: Summary,
    /// All claims of the selection, in the order of the file.
    pub claims: Vec<Judged>,
    /// Claims that the runtime of this host shows, too; they are not in the counts.
    pub runtime: Vec<Judged>,
    /// Curves by name of the figure.
    pub curves: BTreeMap<String, Curves>,
    /// Quantities of the runs that the paper does not give.
    pub beyond: Vec<Beyond>,
    /// Experiments that ended with an error; their claims are missed.
    pub failed_runs: Vec<FailedRun>,
}

/// Whether a part is selected; nothing selected means everything.
fn selected(selection: Option<Part>, part: Part) -> bool {
    selection.is_none_or(|only| only == part)
}

/// Makes all runs that a selection needs. Later runs may depend on the results of the first ones.
pub fn make_all_runs<E: Experiment>(
    paper: &Paper<E>,
    results: &mut Results<E>,
    selection: Option<Part>,
    threads: usize,
) {
    loop {
        let planned: Vec<E> = plan(paper, results, selection).into_iter().collect();
        if planned.is_empty() {
            break;
        }
        let reports = (paper.run)(&planned, results, threads);
        results.extend(planned.into_iter().zip(reports));
    }
}

/// The experiments that a selection needs and that have not been made. Some are only known when
/// others have been made: ask again then.
pub fn plan<E: Experiment>(
    paper: &Paper<E>,
    results: &mut Results<E>,
    selection: Option<Part>,
) -> BTreeSet<E> {
    results.plan(|results| {
        for &(part, checks) in paper.checks.iter().chain(paper.runtime) {
            if selected(selection, part) {
                for check in checks {
                    // Only what it asks for matters.
                    let _ = (check.measure)(results);
                }
            }
        }
        curves(paper, results, selection);
        beyond(paper, results, selection);
    })
}

/// Judges the claims of a selection.
pub fn evaluate<E: Experiment>(
    paper: &Paper<E>,
    claims: &[Claim],
    results: &Results<E>,
    selection: Option<Part>,
) -> Outcome {
    let runtime = runtime(paper, claims, results, selection);
    let judged = claims.iter().map(|claim| one(paper, claim, results, selection));
    let claims: Vec<Judged> = judged.flatten().collect();
    Outcome {
        paper: paper.name,
        parts: paper.parts,
        effort: results.effort.name(),
        notes: (paper.notes)(results),
        summary: summary(&claims),
        claims,
        runtime,
        curves: curves(paper, results, selection),
        beyond: beyond(paper, results, selection),
        failed_runs: failed(results),
    }
}

/// The curves of a selection by name, without those whose runs failed.
fn curves<E: Experiment>(
    paper: &Paper<E>,
    results: &Results<E>,
    selection: Option<Part>,
) -> BTreeMap<String, Curves> {
    let wanted = paper.sheets.iter().filter(|&&(_, part, _)| selected(selection, part));
    let drawn = wanted.filter_map(|&(name, part, draw)| {
        Some((name.to_owned(), Curves { part, plot: draw(results).ok()? }))
    });
    drawn.collect()
}

/// Quantities that the paper does not give; those of failed runs are left out.
fn beyond<E: Experiment>(
    paper: &Paper<E>,
    results: &Results<E>,
    selection: Option<Part>,
) -> Vec<Beyond> {
    let mut all = Vec::new();
    for &(part, rows) in paper.beyond {
        if !selected(selection, part) {
            continue;
        }
        for (name, value, unit) in rows(results) {
            all.extend(value.ok().map(|value| Beyond { part, name, value, unit }));
        }
    }
    all
}

fn failed<E: Experiment>(results: &Results<E>) -> Vec<FailedRun> {
    let problems = results.runs().filter_map(|(run, report)| Some((run, report.err()?)));
    problems.map(|(run, problem)| FailedRun { experiment: run.name(), problem }).collect()
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

fn one<E: Experiment>(
    paper: &Paper<E>,
    claim: &Claim,
    results: &Results<E>,
    selection: Option<Part>,
) -> Option<Judged> {
    let id = claim.short_id();
    if let Some((part, check)) = paper.check(id) {
        let measurement = Measurement { claim, part, check, explanation: paper.explanation(id) };
        return selected(selection, part).then(|| measurement.judged(results));
    }
    let part = (paper.part_of)(id);
    let reason = paper.why_not(id).unwrap_or("nobody has said how to check it");
    (selection.is_none() || selection == part).then(|| untestable(claim, part, reason.to_owned()))
}

/// Verdicts on claims of a selection by the runtime, part by part.
fn runtime<E: Experiment>(
    paper: &Paper<E>,
    claims: &[Claim],
    results: &Results<E>,
    selection: Option<Part>,
) -> Vec<Judged> {
    let mut all = Vec::new();
    for &(part, checks) in paper.runtime.iter().filter(|&&(part, _)| selected(selection, part)) {
        for check in checks {
            let claim = claims.iter().find(|claim| claim.short_id() == check.id);
            // Remarks on missed claims are about the model.
            all.extend(claim.map(|claim| {
                Measurement { claim, part, check, explanation: None }.judged(results)
            }));
        }
    }
    all
}

fn untestable(claim: &Claim, part: Option<Part>, why: String) -> Judged {
    Judged {
        id: claim.id.clone(),
        part,
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

/// A claim and how it is measured.
struct Measurement<'a, E: Experiment> {
    claim: &'a Claim,
    part: Part,
    check: &'a Check<E>,
    /// Explanation of a missed claim, if somebody has written one.
    explanation: Option<&'static str>,
}

impl<E: Experiment> Measurement<'_, E> {
    fn judged(&self, results: &Results<E>) -> Judged {
        let Measurement { claim, check, .. } = self;
        let none = untestable(claim, Some(self.part), String::new());
        let by_run = check.needs_run(results);
        let finding = match (check.measure)(results) {
            Ok(finding) => finding,
            // Not to be able to run it is the model's failure, not a property of the claim.
            Err(why) => {
                let (verdict, class) = (Verdict::Missed, Some(check.class));
                return Judged { verdict, class, by_run, why, ..none };
            }
        };
        let verdict = judge(claim, check.class, finding.measured);
        let (measured, against) = match finding.measured {
            Measured::Number(value) => (value, None),
            Measured::Sides(left, right) => (left, Some(right)),
            Measured::Fact(holds) => (f64::from(u8::from(holds)), None),
            Measured::Nothing => return Judged { why: finding.remark, ..none },
        };
        let base = against.or(claim.value).filter(|&base| base != 0.0);
        Judged {
            measured: Some(measured),
            against,
            ratio: base.map(|base| measured / base),
            verdict,
            class: Some(check.class),
            allowed: Some(check.class.tolerance().words),
            by_run,
            read_so: !check.reading.is_empty(),
            unit: finding.unit.unwrap_or(&claim.unit).to_owned(),
            why: self.why(&finding, verdict),
            ..none
        }
    }

    fn why(&self, finding: &Finding, verdict: Verdict) -> String {
        let mut parts = Vec::new();
        if verdict == Verdict::Missed {
            let explained = self.explanation.map(str::to_owned);
            parts.push(explained.unwrap_or_else(|| self.generic(finding.measured)));
        }
        if !self.check.reading.is_empty() {
            parts.push(format!("read so: {}", self.check.reading));
        }
        if !finding.remark.is_empty() {
            parts.push(finding.remark.clone());
        }
        parts.join("; ")
    }

    /// Explanation of a missed claim by its figures alone.
    fn generic(&self, measured: Measured) -> String {
        let (claim, row) = (self.claim, self.check.class.tolerance());
        let three = size::three_digits;
        match (measured, claim.value) {
            (Measured::Fact(_) | Measured::Nothing, _) => "the machine is not so".to_owned(),
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
}
