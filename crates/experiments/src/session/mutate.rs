//! Whether verdicts can come out otherwise: statistics are changed, and claims judged again.
//!
//! A check whose verdict no change of the statistics it reads can turn is not a check.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Reports, Session};
use crate::outcome::Judged;
use crate::verdict::Verdict;

/// Factors by which all numbers of runs are changed.
const FACTORS: [f64; 18] = [
    0.0, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0,
    100.0,
];

/// Ways to change numbers of runs each by a factor of its own.
const SHAKEN: u64 = 64;

/// Members that say what a row is about and are no statistics.
const KEYS: [&str; 5] = ["bytes", "from", "to", "name", "end_cycle"];

impl Session<'_> {
    /// Counted claims whose verdict stays what it is whatever the runs report that they read.
    pub fn unshakable(&self) -> Vec<String> {
        let outcome = self.outcome(vec![]);
        let counted = outcome.claims.iter().filter(|judged| judged.counted);
        counted.filter(|judged| !self.can_flip(judged)).map(|judged| judged.id.clone()).collect()
    }

    fn can_flip(&self, before: &Judged) -> bool {
        let world = self.world(false);
        let Some((claim, check)) = self.claim_and_check(&before.id) else { return false };
        self.judged(&world, claim, check, false);
        let used: Vec<String> = world.used.borrow().iter().cloned().collect();
        let mut seen = Seen::default();
        let mut flips = |reports: &Reports| {
            seen.flips(before, &self.judged(&self.world_of(reports, false), claim, check, false))
        };
        groups(&used)
            .iter()
            .any(|group| Change::all().any(|change| flips(&self.changed(group, change))))
            || used
                .windows(2)
                .any(|pair| self.swapped(&pair[0], &pair[1]).is_some_and(|reports| flips(&reports)))
    }

    /// All reports, those of these runs changed.
    fn changed(&self, runs: &[&str], change: Change) -> Reports {
        let mut reports = self.reports.clone();
        for &run in runs {
            if let Some(Ok(report)) = reports.get_mut(run) {
                let mut tree = report.as_ref().clone();
                change.apply(&mut tree, run);
                *report = Arc::new(tree);
            }
        }
        reports
    }

    fn swapped(&self, one: &str, other: &str) -> Option<Reports> {
        let mut reports = self.reports.clone();
        let (left, right) = (reports.get(one)?.clone(), reports.get(other)?.clone());
        reports.insert(one.to_owned(), right);
        reports.insert(other.to_owned(), left);
        Some(reports)
    }
}

/// Values that changed statistics have given.
#[derive(Default)]
struct Seen {
    below: bool,
    above: bool,
}

impl Seen {
    /// Whether the verdict is another one; or the value, which missed the published one, was seen on either side of it,
    /// so that some change lies between.
    fn flips(&mut self, before: &Judged, after: &Judged) -> bool {
        // A path that leads nowhere any more is not another result.
        let Some(measured) = after.measured.filter(|value| value.is_finite()) else { return false };
        if let (Some(published), None) = (before.published, before.against) {
            self.below |= measured < published;
            self.above |= measured > published;
        }
        after.verdict != before.verdict
            || before.verdict == Verdict::Missed && self.below && self.above
    }
}

/// Runs that are changed together: each alone, those whose names have a word in common, and all.
fn groups(used: &[String]) -> Vec<Vec<&str>> {
    let mut by_word: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in used {
        for word in run.split('/') {
            by_word.entry(word).or_default().push(run);
        }
    }
    let alone = used.iter().map(|run| vec![run.as_str()]);
    alone.chain(by_word.into_values().filter(|runs| runs.len() > 1)).collect()
}

/// A change of all numbers of a report.
#[derive(Clone, Copy)]
enum Change {
    /// All by the same factor.
    Scaled(f64),
    /// Each by a factor of its own, which follows from this seed and its path: a tenth to ten times.
    Shaken(u64),
}

impl Change {
    fn all() -> impl Iterator<Item = Change> {
        FACTORS.into_iter().map(Change::Scaled).chain((0..SHAKEN).map(Change::Shaken))
    }

    fn apply(self, tree: &mut Json, path: &str) {
        match tree {
            Json::Number(number) => {
                // What is zero cannot be scaled.
                let value = number.as_f64().filter(|&value| value != 0.0).unwrap_or(1.0);
                *tree = Json::from(value * self.factor(path));
            }
            Json::Array(all) => {
                for (at, one) in all.iter_mut().enumerate() {
                    self.apply(one, &format!("{path}[{at}]"));
                }
            }
            Json::Object(members) => {
                for (name, member) in members.iter_mut().filter(|(name, _)| !is_key(name)) {
                    self.apply(member, &format!("{path}.{name}"));
                }
            }
            Json::Null | Json::Bool(_) | Json::String(_) => {}
        }
    }

    fn factor(self, path: &str) -> f64 {
        match self {
            Change::Scaled(factor) => factor,
            Change::Shaken(seed) => {
                let mut hasher = DefaultHasher::new();
                (seed, path).hash(&mut hasher);
                let random = (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64;
                10.0_f64.powf(2.0 * random - 1.0)
            }
        }
    }
}

fn is_key(name: &str) -> bool {
    KEYS.contains(&name)
}
