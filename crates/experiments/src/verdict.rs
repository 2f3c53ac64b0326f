//! Whether a measurement agrees with a claim.

use serde::Serialize;

use crate::claims::{Claim, Relation};
use crate::tolerance::{Class, MARGIN};

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A value to be held against the published one.
    Number(f64),
    /// Both sides of an ordering.
    Sides(f64, f64),
    /// Whether something that the paper says in words is so.
    Fact(bool),
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The model agrees with the paper.
    Holds,
    /// It does not, or its run failed.
    Missed,
    /// A parameter of the machine was chosen with the published value in view, so that it says nothing.
    Fitted,
    /// There is nothing to measure.
    Untestable,
}

impl Verdict {
    /// Name of the verdict in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Missed => "missed",
            Verdict::Fitted => "fitted",
            Verdict::Untestable => "untestable",
        }
    }
}

/// Compares.
pub fn judge(claim: &Claim, class: Class, measured: Measured) -> Verdict {
    let holds = match (measured, claim.value) {
        (Measured::Fact(holds), _) => holds,
        (Measured::Sides(left, right), _) => sides(claim.relation, class, left, right),
        (Measured::Number(measured), Some(published)) => {
            number(claim.relation, class, measured, published)
        }
        // A number without one to hold it against is a mistake in the table of checks.
        (Measured::Number(_), None) => false,
    };
    if holds { Verdict::Holds } else { Verdict::Missed }
}

/// Whether a ratio is so near to 1 that its distance from 1 is what it says. That both are exactly alike is judged as a
/// value.
pub fn is_near_one(ratio: f64) -> bool {
    ratio != 1.0 && (2.0 / 3.0..=1.5).contains(&ratio)
}

fn number(relation: Relation, class: Class, measured: f64, published: f64) -> bool {
    match class {
        Class::Bound | Class::Order => compare(relation, measured, published, 0.0),
        Class::Host => measured > 1.0 && published > 1.0 || measured < 1.0 && published < 1.0,
        Class::Ratio if is_near_one(published) => near(class, measured - 1.0, published - 1.0),
        _ => near(class, measured, published),
    }
}

fn near(class: Class, measured: f64, published: f64) -> bool {
    let row = class.tolerance();
    let allowed = (row.relative * published.abs()).max(row.absolute);
    // A limit that is met exactly must not fail by the last bit.
    (measured - published).abs() <= allowed + 1e-9 * published.abs()
}

fn sides(relation: Relation, class: Class, left: f64, right: f64) -> bool {
    match (class, relation) {
        (Class::Reaches, _) | (_, Relation::About | Relation::Equal) => near(class, left, right),
        (Class::Host, _) => compare(relation, left, right, 0.0),
        _ => compare(relation, left, right, MARGIN),
    }
}

/// Whether a relation holds; what is said to be less or more has to be so by this part of the larger side.
fn compare(relation: Relation, left: f64, right: f64, margin: f64) -> bool {
    let margin = margin * left.abs().max(right.abs());
    match relation {
        Relation::Less => left < right - margin,
        Relation::More => left > right + margin,
        Relation::AtMost => left <= right,
        Relation::AtLeast => left >= right,
        Relation::Equal | Relation::About => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Kind;

    fn claim(value: Option<f64>, relation: Relation) -> Claim {
        Claim {
            id: "paper/x".to_owned(),
            place: String::new(),
            kind: Kind::Value,
            metric: String::new(),
            config: String::new(),
            value,
            unit: String::new(),
            relation,
            quote: String::new(),
            note: None,
        }
    }

    fn holds(class: Class, relation: Relation, published: f64, measured: f64) -> bool {
        let claim = claim(Some(published), relation);
        judge(&claim, class, Measured::Number(measured)) == Verdict::Holds
    }

    fn ordered(class: Class, relation: Relation, left: f64, right: f64) -> bool {
        judge(&claim(None, relation), class, Measured::Sides(left, right)) == Verdict::Holds
    }

    #[test]
    fn values_hold_up_to_the_edge_of_their_tolerance_and_not_beyond() {
        use Relation::{About, AtLeast, AtMost, Equal};
        for (class, relation, published, low, high) in [
            (Class::Total, Equal, 700.0, 665.0, 735.0),
            (Class::Component, Equal, 100.0, 90.0, 110.0),
            (Class::Component, Equal, 4.0, 3.0, 5.0),
            (Class::Overhead, Equal, 2.6, 1.6, 3.6),
            (Class::Overhead, Equal, 80.0, 72.0, 88.0),
            (Class::Bandwidth, Equal, 200.0, 180.0, 220.0),
            (Class::Bandwidth, About, 100.0, 90.0, 110.0),
            (Class::Ratio, Equal, 1.0, 0.9, 1.1),
            (Class::Ratio, Equal, 2.0, 1.8, 2.2),
            (Class::Range, AtLeast, 5.0, 4.5, 5.5),
            (Class::UpTo, AtMost, 30.0, 27.0, 33.0),
            (Class::Exact, Equal, 64.0, 64.0, 64.0),
        ] {
            for measured in [low, high] {
                assert!(holds(class, relation, published, measured), "{class:?} {measured}");
            }
            for measured in [low - 0.01, high + 0.01] {
                assert!(!holds(class, relation, published, measured), "{class:?} {measured}");
            }
        }
    }

    #[test]
    fn of_a_ratio_near_one_the_distance_from_one_is_judged() {
        for (published, measured, expected) in [
            (1.14, 1.13, true),
            (1.14, 1.049, false),
            (1.14, 1.16, false),
            (0.8, 0.82, true),
            (0.8, 0.83, false),
            (1.5, 1.55, true),
            (1.6, 1.75, true),
        ] {
            assert_eq!(
                holds(Class::Ratio, Relation::Equal, published, measured),
                expected,
                "{measured}"
            );
        }
    }

    #[test]
    fn bounds_are_as_stated() {
        use Relation::{AtLeast, AtMost, Equal, Less};
        assert!(holds(Class::Bound, AtMost, 3.0, 3.0));
        assert!(!holds(Class::Bound, AtMost, 3.0, 3.001));
        assert!(!holds(Class::Bound, Less, 0.5, 0.5));
        assert!(holds(Class::Bound, AtLeast, 16.0, 16.0));
        assert!(holds(Class::Bound, Equal, 0.0, 0.0));
    }

    #[test]
    fn orderings_have_a_margin_unless_both_sides_are_alike() {
        use Relation::{About, AtMost, Equal, Less, More};
        for (right, expected) in [(1.0, false), (1.005, false), (1.02, true)] {
            assert_eq!(ordered(Class::Order, Less, 1.0, right), expected, "{right}");
            assert_eq!(ordered(Class::Order, More, right, 1.0), expected, "{right}");
        }
        assert!(ordered(Class::Order, AtMost, 1.0, 1.0));
        for (left, expected) in [(110.0, true), (110.1, false), (90.0, true), (89.9, false)] {
            assert_eq!(ordered(Class::Order, About, left, 100.0), expected, "{left}");
            assert_eq!(ordered(Class::Order, Equal, left, 100.0), expected, "{left}");
            assert_eq!(ordered(Class::Reaches, About, left, 100.0), expected, "{left}");
        }
    }

    #[test]
    fn what_is_not_a_number_does_not_hold() {
        assert!(!holds(Class::Total, Relation::Equal, 10.0, f64::NAN));
        assert!(!holds(Class::UpTo, Relation::AtMost, 10.0, f64::NAN));
        assert!(!ordered(Class::Order, Relation::About, f64::NAN, 1.0));
        assert!(!ordered(Class::Reaches, Relation::About, 1.0, f64::NAN));
        assert!(!holds(Class::Host, Relation::Equal, 10.0, f64::NAN));
    }

    #[test]
    fn of_this_host_only_orderings_matter() {
        use Relation::{About, Equal, Less, More};
        for (published, measured, expected) in
            [(4.0, 1.1, true), (4.0, 400.0, true), (4.0, 0.9, false), (0.5, 0.9, true)]
        {
            assert_eq!(holds(Class::Host, Equal, published, measured), expected, "{measured}");
        }
        assert!(ordered(Class::Host, Less, 1.0, 1.001) && !ordered(Class::Host, More, 1.0, 1.0));
        assert!(ordered(Class::Host, About, 149.0, 100.0));
        assert!(!ordered(Class::Host, About, 151.0, 100.0));
    }
}
