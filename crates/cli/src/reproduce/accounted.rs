//! What holds for the checks of every paper, whatever they measure.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::{self, Claim, Kind};
use super::paper::Paper;
use super::results::Experiment;
use super::tolerance::Class;

/// The claims of a paper.
pub(super) fn claims<E: Experiment>(paper: &Paper<E>) -> Vec<Claim> {
    claims::parse(paper.published).unwrap()
}

/// Every claim is either measured or listed with a reason, and nothing else is.
pub(super) fn every_claim_is_named_once<E: Experiment>(paper: &Paper<E>) {
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
pub(super) fn odd_claims_say_how_they_are_read<E: Experiment>(paper: &Paper<E>) {
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
pub(super) fn classes_fit_the_words<E: Experiment>(paper: &Paper<E>) {
    let all = claims(paper);
    let by_id: BTreeMap<&str, &Claim> = all.iter().map(|claim| (claim.short_id(), claim)).collect();
    for check in paper.all_checks() {
        let claim = by_id[check.id];
        let up_to = claim.quote.contains("up to") && claim.relation.sign() == "<=";
        assert_eq!(check.class == Class::UpTo, up_to, "{}", check.id);
        let ordering = matches!(check.class, Class::Order | Class::Reaches);
        assert_eq!(ordering, claim.kind == Kind::Ordering, "{}", check.id);
    }
}
