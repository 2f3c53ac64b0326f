//! Tests of the checks of every paper, whatever they measure.

use std::collections::{BTreeMap, BTreeSet};

use tempfile::TempDir;

use super::claims::{self, Claim, Kind};
use super::outcome::{self, Judged, Outcome};
use super::paper::{Paper, Part};
use super::results::{Effort, Experiment, Results};
use super::tolerance::Class;
use super::verdict::Verdict;
use super::write;
use crate::plot::svg::assert_well_formed;

/// The claims of a paper.
pub(super) fn claims<E: Experiment>(paper: &Paper<E>) -> Vec<Claim> {
    claims::parse(paper.published).unwrap()
}

/// Verdicts on a part, or on all.
pub(super) fn evaluate<E: Experiment>(
    paper: &Paper<E>,
    results: &Results<E>,
    part: Option<Part>,
) -> Outcome {
    outcome::evaluate(paper, &claims(paper), results, part)
}

/// The verdict on the claim of this name, without that of the paper.
pub(super) fn of(outcome: &Outcome, id: &str) -> Judged {
    let is_it = |judged: &&Judged| judged.id.split_once('/').is_some_and(|(_, short)| short == id);
    outcome.claims.iter().find(is_it).unwrap_or_else(|| panic!("no claim {id}")).clone()
}

/// The values that a paper prints, of which reports are made up that fit it.
pub(super) struct Published(BTreeMap<String, f64>);

impl Published {
    /// The values of a paper.
    pub(super) fn of<E: Experiment>(paper: &Paper<E>) -> Published {
        let claims = claims(paper);
        let values = claims.iter().map(|claim| Some((claim.short_id().to_owned(), claim.value?)));
        Published(values.flatten().collect())
    }

    /// The value of a claim.
    pub(super) fn value(&self, id: &str) -> f64 {
        *self.0.get(id).unwrap_or_else(|| panic!("no claim {id} has a value"))
    }
}

/// Reports of everything that a reproduction needs.
pub(super) fn filled<E: Experiment>(
    paper: &Paper<E>,
    effort: Effort,
    setting: E::Setting,
    report: impl Fn(E) -> E::Report,
) -> Results<E> {
    let mut results = Results::new(effort, setting);
    loop {
        let planned = outcome::plan(paper, &mut results, None);
        if planned.is_empty() {
            return results;
        }
        results.extend(planned.into_iter().map(|run| (run.clone(), Ok(report(run)))));
    }
}

/// Claims, checks and remarks fit each other.
pub(super) fn claims_are_accounted_for<E: Experiment>(paper: &Paper<E>) {
    every_claim_is_named_once(paper);
    odd_claims_say_how_they_are_read(paper);
    classes_fit_the_words(paper);
}

/// All claims hold but those that cannot be checked.
pub(super) fn every_claim_holds<E: Experiment>(paper: &Paper<E>, outcome: &Outcome, count: usize) {
    for judged in &outcome.claims {
        if judged.verdict == Verdict::Missed {
            panic!("{} {:?} {:?}: {}", judged.id, judged.measured, judged.against, judged.why);
        }
        let (_, short) = judged.id.split_once('/').unwrap();
        let listed = paper.why_not(short).is_some();
        assert_eq!(judged.verdict == Verdict::Untestable, listed, "{short}: {}", judged.why);
    }
    assert_eq!(outcome.summary.untestable, paper.not_checkable.len());
    assert_eq!(outcome.claims.len(), count);
}

/// Values are measured as they are printed; and whether by a run.
pub(super) fn values_are_as_printed(outcome: &Outcome, expected: &[(&str, bool)]) {
    for &(id, by_run) in expected {
        let judged = of(outcome, id);
        let (published, measured) = (judged.published.unwrap(), judged.measured.unwrap());
        assert!((published / measured - 1.0).abs() < 0.03, "{id}: {measured} for {published}");
        assert_eq!(judged.by_run, by_run, "{id}");
    }
}

/// Machine files have the values that the paper gives.
pub(super) fn parameters_hold(outcome: &Outcome) {
    let parameters = outcome.claims.iter().filter(|judged| !judged.by_run);
    for judged in parameters {
        assert_ne!(judged.verdict, Verdict::Missed, "{}: {}", judged.id, judged.why);
    }
}

/// Asserts the verdict on each of these claims.
pub(super) fn verdicts_are(outcome: &Outcome, expected: &[(&str, Verdict)]) {
    for &(id, verdict) in expected {
        assert_eq!(of(outcome, id).verdict, verdict, "{id}");
    }
}

/// Each part has its own claims, and all parts together have all.
pub(super) fn parts_add_up<E: Experiment>(paper: &Paper<E>, results: &Results<E>) {
    let mut sum = 0;
    for &part in paper.parts {
        let outcome = evaluate(paper, results, Some(part));
        assert!(!outcome.claims.is_empty(), "{part:?}");
        assert!(outcome.claims.iter().all(|judged| judged.part == Some(part)));
        sum += outcome.summary.holds;
    }
    assert_eq!(sum, evaluate(paper, results, None).summary.holds);
}

/// Asserts that claims on the runtime are judged beside the model, hold, and have a remark.
pub(super) fn the_runtime_is_judged<E: Experiment>(paper: &Paper<E>, outcome: &Outcome) {
    let checks: usize = paper.runtime.iter().map(|(_, checks)| checks.len()).sum();
    assert_eq!(outcome.runtime.len(), checks);
    for judged in &outcome.runtime {
        assert_eq!(judged.verdict, Verdict::Holds, "{}: {}", judged.id, judged.why);
        assert!(!judged.why.is_empty(), "{} does not say what it is", judged.id);
    }
    assert!(outcome.notes[0].contains("only orderings and ratios"), "{}", outcome.notes[0]);
}

/// Claims that the runtime does not show any more.
pub(super) fn missed_by_the_runtime(outcome: &Outcome) -> Vec<&str> {
    let missed = outcome.runtime.iter().filter(|judged| judged.verdict == Verdict::Missed);
    missed.map(|judged| judged.id.as_str()).collect()
}

/// A host that does not let the runtime measure has no figures of it, and says why.
pub(super) fn the_runtime_is_skipped(outcome: &Outcome, why: &str) {
    let skipped = |judged: &Judged| judged.verdict == Verdict::Untestable && judged.why == why;
    assert!(!outcome.runtime.is_empty() && outcome.runtime.iter().all(skipped));
    assert!(outcome.notes[0].contains(why), "{}", outcome.notes[0]);
    assert!(!outcome.beyond.iter().any(|row| row.name.starts_with("runtime")));
}

/// Everything is written, with so many plots, to a directory.
pub(super) fn written<E: Experiment>(
    paper: &Paper<E>,
    results: &Results<E>,
    plots: usize,
) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let outcome = evaluate(paper, results, None);
    assert_eq!(outcome.curves.len(), plots);
    write::all(dir.path(), paper, &outcome, results).unwrap();
    for name in outcome.curves.keys() {
        assert_well_formed(&read(&dir, &format!("{name}.svg")));
    }
    dir
}

/// A file that was written.
pub(super) fn read(dir: &TempDir, name: &str) -> String {
    std::fs::read_to_string(dir.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every claim is either measured or listed with a reason, and nothing else is.
fn every_claim_is_named_once<E: Experiment>(paper: &Paper<E>) {
    let all = claims(paper);
    let ids: BTreeSet<&str> = all.iter().map(Claim::short_id).collect();
    assert_eq!(ids.len(), all.len(), "two claims have the same name");
    let mut known = BTreeMap::new();
    for check in paper.all_checks() {
        *known.entry(check.id).or_insert(0) += 1;
    }
    for (id, reason) in paper.not_checkable {
        *known.entry(*id).or_insert(0) += 1;
        assert!(reason.len() > 20, "{id}: {reason}");
    }
    for id in &ids {
        assert_eq!(known.get(id), Some(&1), "{id} must be named exactly once");
    }
    for id in known.keys().chain(paper.explanations.iter().map(|(id, _)| id)) {
        assert!(ids.contains(id), "there is no claim {id}");
    }
}

/// Claims that contradict others or can be read in two ways say how they are read.
fn odd_claims_say_how_they_are_read<E: Experiment>(paper: &Paper<E>) {
    let odd = ["CONTRADICTION", "AMBIGUOUS", "INFERRED", "DOES NOT ADD UP", "INCONSISTENT"];
    for claim in claims(paper) {
        let note = claim.note.as_deref().unwrap_or_default();
        if !odd.iter().any(|word| note.contains(word)) {
            continue;
        }
        let id = claim.short_id();
        match paper.check(id) {
            Some((_, check)) => assert!(!check.reading.is_empty(), "{id}"),
            None => assert!(paper.why_not(id).is_some(), "{id}"),
        }
    }
}

/// Claims are judged by the class that their words ask for.
fn classes_fit_the_words<E: Experiment>(paper: &Paper<E>) {
    let all = claims(paper);
    let by_id: BTreeMap<&str, &Claim> = all.iter().map(|claim| (claim.short_id(), claim)).collect();
    let runtime = paper.runtime.iter().flat_map(|&(_, checks)| checks);
    for check in runtime {
        let claim = by_id.get(check.id).unwrap_or_else(|| panic!("there is no claim {}", check.id));
        assert_eq!(check.class, Class::Host, "{}", check.id);
        // Of the paper's values only ratios mean something on another host.
        let is_ratio = claim.unit == "x" && claim.value.is_some();
        assert!(claim.kind == Kind::Ordering || is_ratio, "{}", check.id);
    }
    for check in paper.all_checks() {
        let claim = by_id[check.id];
        let up_to = claim.quote.contains("up to") && claim.relation.sign() == "<=";
        assert_eq!(check.class == Class::UpTo, up_to, "{}", check.id);
        let ordering = matches!(check.class, Class::Order | Class::Reaches);
        assert_eq!(ordering, claim.kind == Kind::Ordering, "{}", check.id);
    }
}
