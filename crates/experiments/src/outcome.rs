//! What a reproduction gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bands::Band;
use crate::document::Part;
use crate::tolerance::Class;
use crate::verdict::Verdict;

/// Kind of a claim, which decides whether it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A quantity that runs give.
    Measured,
    /// One quantity against another.
    Ordering,
    /// A ratio near 1: what is judged is how far from 1 it is.
    Effect,
    /// That something is there or done, shown by a run: it is built so.
    Functional,
    /// A value that the machine or the run is given.
    Parameter,
    /// The same quantity and the same published value as a claim before it.
    Repeat,
    /// Measured on this host, where others are at work, too.
    Host,
    /// Nothing that can be measured here.
    Untestable,
}

impl Kind {
    /// Every kind, counted ones first.
    pub const ALL: [Kind; 8] = [
        Kind::Measured,
        Kind::Ordering,
        Kind::Effect,
        Kind::Functional,
        Kind::Parameter,
        Kind::Repeat,
        Kind::Host,
        Kind::Untestable,
    ];

    /// Whether a claim of this kind says something of the model that could have come out otherwise.
    pub fn is_counted(self) -> bool {
        matches!(self, Kind::Measured | Kind::Ordering | Kind::Effect)
    }

    /// Name of the kind in tables, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "measurements",
            Kind::Ordering => "orderings",
            Kind::Effect => "effects",
            Kind::Functional => "functions",
            Kind::Parameter => "parameters",
            Kind::Repeat => "repeats",
            Kind::Host => "on this host",
            Kind::Untestable => "untestable",
        }
    }
}

impl Judged {
    /// What is compared over seeds and parameters: the value, or of an ordering left over right.
    pub fn quantity(&self) -> Option<f64> {
        match self.against {
            Some(right) => Some(self.measured? / right).filter(|ratio| ratio.is_finite()),
            None => self.measured,
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Name of the claim.
    pub id: String,
    /// What it is about.
    pub kind: Kind,
    /// Whether it is in the count of those that hold.
    pub counted: bool,
    /// The parameter that was chosen with its published value in view, if one was, and the machine's name.
    pub fitted: Option<String>,
    /// The claim before it that it repeats.
    pub repeats: Option<String>,
    /// Part of the paper that it is shown with, by its place in [`Outcome::parts`].
    #[serde(skip)]
    pub part: Option<usize>,
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
    /// The reason for it.
    pub allowed_because: Option<&'static str>,
    /// Least and most of what several seeds give, of [`Judged::quantity`].
    pub spread: Option<(f64, f64)>,
    /// Least and most of what other values of open parameters give.
    pub band: Option<Band>,
    /// Names of the runs that it is read from.
    pub runs: Vec<String>,
    /// Whether it takes a run to measure it; else it is read off the machine.
    pub by_run: bool,
    /// Whether it could be read in another way, too.
    pub read_so: bool,
    /// The reading of the claim and the measured quantity; the reason why it is missed or cannot be tested.
    pub why: String,
}

/// Claims that hold, and that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Claims that hold.
    pub holds: usize,
    /// Claims that do not.
    pub missed: usize,
}

impl Share {
    /// All that were judged.
    pub fn judged(self) -> usize {
        self.holds + self.missed
    }

    /// Those that hold, in per cent.
    pub fn percent(self) -> f64 {
        100.0 * self.holds as f64 / self.judged().max(1) as f64
    }
}

/// Counts of verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Measurements, orderings and effects, each quantity once.
    pub counted: Share,
    /// The same by kind, and what is not counted.
    pub kinds: BTreeMap<Kind, Share>,
    /// Claims that a parameter was fitted to.
    pub fitted: usize,
    /// Claims that cannot be tested.
    pub untestable: usize,
}

impl Summary {
    /// Counts verdicts.
    pub fn of(claims: &[Judged]) -> Summary {
        let mut kinds: BTreeMap<Kind, Share> = BTreeMap::new();
        for judged in claims {
            let share = kinds.entry(judged.kind).or_default();
            match judged.verdict {
                Verdict::Holds => share.holds += 1,
                Verdict::Missed => share.missed += 1,
                Verdict::Fitted | Verdict::Untestable => {}
            }
        }
        let mut counted = Share::default();
        for (kind, share) in &kinds {
            if kind.is_counted() {
                counted.holds += share.holds;
                counted.missed += share.missed;
            }
        }
        let with = |verdict| claims.iter().filter(|judged| judged.verdict == verdict).count();
        kinds.retain(|_, share| share.judged() > 0);
        Summary {
            counted,
            kinds,
            fitted: with(Verdict::Fitted),
            untestable: with(Verdict::Untestable),
        }
    }
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Part of the paper that they are shown with.
    #[serde(skip)]
    pub part: usize,
    /// Title of the figure.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub log_x: bool,
    /// Curves.
    pub series: Vec<Curve>,
}

/// One line of a sheet, as drawn and as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Positions at which the paper gives a value, with the names of these claims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<(f64, String)>,
}

/// A figure without a published one to be held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beyond {
    /// Part of the paper that it is shown with.
    #[serde(skip)]
    pub part: usize,
    /// Name of the quantity.
    pub name: String,
    /// Measured value, in `unit`.
    pub value: f64,
    /// Unit of the value, such as cycles or GB/s.
    pub unit: String,
}

/// All that a reproduction gives.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Name of the paper on the command line.
    pub paper: String,
    /// Its parts, in its order.
    #[serde(skip)]
    pub parts: Vec<Part>,
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

impl Outcome {
    /// Adds what other seeds give, and other runs on this host: the spread of each quantity. An ordering has to hold
    /// with all of them. Errors and orderings that do not hold name their seed.
    pub fn spread_over(&mut self, others: &[(u64, Outcome)]) {
        let lists: [fn(&Outcome) -> &Vec<Judged>; 2] = [|one| &one.claims, |one| &one.runtime];
        for (mine, list) in [&mut self.claims, &mut self.runtime].into_iter().zip(lists) {
            for (at, judged) in mine.iter_mut().enumerate().filter(|(_, judged)| judged.by_run) {
                let same = others.iter().map(|(seed, other)| (*seed, list(other).get(at)));
                let same = same.filter_map(|(seed, judged)| Some((seed, judged?)));
                judged.spread_over(&same.collect::<Vec<_>>());
            }
        }
        for (seed, other) in others {
            self.failed_runs.extend(other.failed_runs.iter().map(|failed| FailedRun {
                experiment: failed.experiment.clone(),
                problem: format!("with seed {seed}: {}", failed.problem),
            }));
        }
        self.summary = Summary::of(&self.claims);
    }
}

impl Judged {
    /// The spread of its quantity over this and other seeds.
    fn spread_over(&mut self, others: &[(u64, &Judged)]) {
        let quantities = others.iter().filter_map(|(_, other)| other.quantity());
        let range = quantities.chain(self.quantity()).map(|value| (value, value));
        self.spread = range.reduce(|(least, most), (value, _)| (least.min(value), most.max(value)));
        let turned = others.iter().find(|(_, other)| other.verdict == Verdict::Missed);
        if let (Verdict::Holds, Kind::Ordering, Some((seed, turned))) =
            (self.verdict, self.kind, turned)
        {
            self.verdict = Verdict::Missed;
            self.why = format!("not so with seed {seed}: {}", turned.why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ordering that was judged so by a run.
    fn ordering(verdict: Verdict, left: f64) -> Judged {
        Judged {
            id: "paper/ordering".to_owned(),
            kind: Kind::Ordering,
            counted: true,
            fitted: None,
            repeats: None,
            part: None,
            published: None,
            measured: Some(left),
            against: Some(1.0),
            unit: "GB/s".to_owned(),
            relation: ">",
            ratio: Some(left),
            verdict,
            class: None,
            allowed: None,
            allowed_because: None,
            spread: None,
            band: None,
            runs: vec!["run".to_owned()],
            by_run: true,
            read_so: false,
            why: format!("{left} is not more than 1"),
        }
    }

    fn outcome(claim: Judged, failed_runs: Vec<FailedRun>) -> Outcome {
        let claims = vec![claim];
        Outcome {
            paper: "paper".to_owned(),
            parts: Vec::new(),
            effort: "quick",
            notes: Vec::new(),
            summary: Summary::of(&claims),
            claims,
            runtime: Vec::new(),
            curves: BTreeMap::new(),
            beyond: Vec::new(),
            failed_runs,
        }
    }

    #[test]
    fn a_seed_that_fails_is_named() {
        let failed = FailedRun { experiment: "run".to_owned(), problem: "no end".to_owned() };
        let mut first = outcome(ordering(Verdict::Holds, 2.0), vec![]);
        let others = [
            (2, outcome(ordering(Verdict::Holds, 1.5), vec![])),
            (3, outcome(ordering(Verdict::Missed, 0.5), vec![])),
            (4, outcome(ordering(Verdict::Holds, 1.2), vec![failed])),
        ];
        first.spread_over(&others);
        let claim = &first.claims[0];
        assert_eq!(claim.verdict, Verdict::Missed);
        assert_eq!(claim.why, "not so with seed 3: 0.5 is not more than 1");
        assert_eq!(first.failed_runs[0].problem, "with seed 4: no end");
        assert_eq!((first.summary.counted.holds, first.summary.counted.missed), (0, 1));
    }
}
