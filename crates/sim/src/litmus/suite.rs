//! Tests beside the model, and sums by shape.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use thiserror::Error;

use super::generate::BuiltIn;
use super::model::{self, Allowed, Excess};
use super::parse;
use super::run::{self, Seen, Unfinished};
use super::test::{Outcome, ParseError, Test};
use crate::cpu::CpuSpec;

/// What the model says of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Some interleaving of the threads has it.
    Sequential,
    /// RVWMO allows it, no interleaving has it.
    Relaxed,
    /// RVWMO does not allow it.
    Forbidden,
}

impl Class {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Sequential => "sequential",
            Class::Relaxed => "relaxed",
            Class::Forbidden => "forbidden",
        }
    }
}

/// A test, what the model allows it, and what cores did.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The test that was run.
    pub test: Test,
    /// The model's outcomes.
    pub allowed: Allowed,
    /// The outcomes of cores.
    pub seen: Seen,
}

/// A test that cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unjudged {
    /// It cannot be parsed.
    #[error(transparent)]
    Parse(ParseError),
    /// Its executions cannot be enumerated: name, and why.
    #[error("{0}: {1}")]
    Excess(String, Excess),
    /// A run did not come to its end: name, and how.
    #[error("{0}: {1}")]
    Unfinished(String, Unfinished),
}

impl Judged {
    /// Enumerates what the model allows, and runs the test.
    ///
    /// # Errors
    /// It has too many executions, or a run does not come to its end.
    pub fn new(test: Test, spec: &CpuSpec, seeds: Range<u64>) -> Result<Judged, Unjudged> {
        let excess = |excess| Unjudged::Excess(test.name.clone(), excess);
        let allowed = model::allowed(&test).map_err(excess)?;
        let unfinished = |run| Unjudged::Unfinished(test.name.clone(), run);
        let seen = run::run(&test, spec, seeds).map_err(unfinished)?;
        Ok(Judged { test, allowed, seen })
    }

    /// What the model says of an outcome.
    pub fn class(&self, outcome: &Outcome) -> Class {
        match self.allowed.outcomes.get(outcome) {
            Some(true) => Class::Sequential,
            Some(false) => Class::Relaxed,
            None => Class::Forbidden,
        }
    }

    /// Number of outcomes of a class that cores showed.
    pub fn seen(&self, class: Class) -> usize {
        self.seen.keys().filter(|outcome| self.class(outcome) == class).count()
    }

    /// Whether the model allows what the condition asks for.
    pub fn is_allowed(&self) -> bool {
        let holds = &self.test.condition.holds;
        self.allowed.outcomes.keys().any(|outcome| holds.holds(outcome))
    }

    /// Runs in which the condition's formula held.
    pub fn runs_with(&self) -> u64 {
        let holds = &self.test.condition.holds;
        self.seen.iter().filter(|(outcome, _)| holds.holds(outcome)).map(|(_, runs)| runs).sum()
    }
}

/// Sums over tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sums {
    /// Number of tests.
    pub tests: usize,
    /// Those whose condition the model does not allow.
    pub tests_forbidden: usize,
    /// Runs of all of them.
    pub runs: u64,
    /// Outcomes that the model allows.
    pub allowed: usize,
    /// Those of them that cores showed.
    pub seen: usize,
    /// Allowed outcomes that are not sequentially consistent.
    pub relaxed: usize,
    /// Those of them that cores showed.
    pub relaxed_seen: usize,
    /// Outcomes that cores showed and the model does not allow.
    pub forbidden_seen: usize,
}

impl Sums {
    /// Adds a test.
    pub fn add(&mut self, judged: &Judged) {
        let sequential = judged.seen(Class::Sequential);
        let relaxed = judged.seen(Class::Relaxed);
        self.tests += 1;
        self.tests_forbidden += usize::from(!judged.is_allowed());
        self.runs += judged.seen.values().sum::<u64>();
        self.allowed += judged.allowed.outcomes.len();
        self.seen += sequential + relaxed;
        self.relaxed += judged.allowed.relaxed();
        self.relaxed_seen += relaxed;
        self.forbidden_seen += judged.seen(Class::Forbidden);
    }

    /// Adds other tests.
    pub fn merge(&mut self, other: &Sums) {
        self.tests += other.tests;
        self.tests_forbidden += other.tests_forbidden;
        self.runs += other.runs;
        self.allowed += other.allowed;
        self.seen += other.seen;
        self.relaxed += other.relaxed;
        self.relaxed_seen += other.relaxed_seen;
        self.forbidden_seen += other.forbidden_seen;
    }
}

/// A test in which a forbidden outcome came.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The test as text.
    pub text: String,
    /// Its outcomes.
    pub judged: Judged,
}

/// The built-in set, summed up.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// By shape, in the order of the set.
    pub shapes: Vec<(&'static str, Sums)>,
    /// Tests with forbidden outcomes.
    pub violations: Vec<Violation>,
}

impl Summary {
    /// Sums over all shapes.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.shapes.iter().for_each(|(_, sums)| total.merge(sums));
        total
    }

    fn add(&mut self, built_in: &BuiltIn, judged: Judged) {
        if self.shapes.last().is_none_or(|(shape, _)| *shape != built_in.shape) {
            self.shapes.push((built_in.shape, Sums::default()));
        }
        if let Some((_, sums)) = self.shapes.last_mut() {
            sums.add(&judged);
        }
        if judged.seen(Class::Forbidden) > 0 {
            self.violations.push(Violation { text: built_in.text.clone(), judged });
        }
    }
}

/// Runs tests of the built-in set, some at the same time. The result does not depend on how many.
///
/// # Errors
/// A test cannot be judged.
pub fn run(
    tests: &[BuiltIn],
    spec: &CpuSpec,
    seeds: Range<u64>,
    threads: usize,
) -> Result<Summary, Unjudged> {
    let next = AtomicUsize::new(0);
    let judged: Mutex<Vec<Option<Result<Judged, Unjudged>>>> =
        Mutex::new(tests.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((number, test)) = take(&next, tests) {
                    let result = judge(test, spec, seeds.clone());
                    judged.lock().unwrap_or_else(|error| error.into_inner())[number] = Some(result);
                }
            });
        }
    });
    let judged = judged.into_inner().unwrap_or_else(|error| error.into_inner());
    let mut summary = Summary::default();
    for (test, judged) in tests.iter().zip(judged.into_iter().flatten()) {
        summary.add(test, judged?);
    }
    Ok(summary)
}

fn take<'t>(next: &AtomicUsize, tests: &'t [BuiltIn]) -> Option<(usize, &'t BuiltIn)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    tests.get(number).map(|test| (number, test))
}

fn judge(test: &BuiltIn, spec: &CpuSpec, seeds: Range<u64>) -> Result<Judged, Unjudged> {
    let parsed = parse(&test.name, &test.text).map_err(Unjudged::Parse)?;
    Judged::new(parsed, spec, seeds)
}
