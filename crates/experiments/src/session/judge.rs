//! From a measured quantity to a verdict.

use super::{Measure, Session};
use crate::claims::{self, Claim};
use crate::digits::three_digits;
use crate::document::{Check, Measurement, Way};
use crate::language::evaluate::{Scope, World};
use crate::language::template::Template;
use crate::language::value::Stop;
use crate::outcome::{Judged, Kind};
use crate::tolerance::Class;
use crate::verdict::{Measured, Verdict, is_near_one, judge};

impl Session<'_> {
    pub(super) fn judged<'s>(
        &'s self,
        world: &World<'s>,
        claim: &Claim,
        check: &Check,
        is_explained: bool,
    ) -> Judged {
        let none = |why: String| untestable(claim, check.part, why);
        let measurement = match &check.way {
            Way::Untestable(why) => return none(why.clone()),
            Way::Measured(measurement) => measurement,
        };
        world.used.borrow_mut().clear();
        let measured = self.measured(world, measurement);
        let runs: Vec<String> = world.used.borrow().iter().cloned().collect();
        let by_run = !runs.is_empty();
        let kind = kind_of(claim, measurement, by_run);
        let fitted = self.document.fitted.get(claim.short_id()).filter(|_| kind.is_counted());
        let judged = |why| Judged {
            kind,
            counted: kind.is_counted() && fitted.is_none(),
            fitted: fitted.cloned(),
            band: self.document.bands.of_claim(self.effort, claim.short_id()),
            repeats: measurement.repeats.clone().filter(|_| kind == Kind::Repeat),
            class: Some(measurement.class),
            allowed: Some(measurement.class.tolerance().words),
            allowed_because: Some(measurement.class.tolerance().reason),
            by_run,
            runs: runs.clone(),
            ..none(why)
        };
        let missed = |why| Judged { verdict: Verdict::Missed, ..judged(why) };
        let (measure, scope) = match measured {
            Ok(found) => found,
            Err(Stop::Untestable(why)) => return none(why),
            // Not to be able to run it is the model's failure, not a property of the claim.
            Err(Stop::Missing(why)) => return missed(why),
        };
        let (measured, value, against) = match measure {
            Measure::Number(value) => (Measured::Number(value), value, None),
            Measure::Sides(left, right) => (Measured::Sides(left, right), left, Some(right)),
            Measure::Fact(is) => (Measured::Fact(is), f64::from(u8::from(is)), None),
            Measure::Unknown => return missed("a run is missing".to_owned()),
        };
        let verdict = judge(claim, measurement.class, measured);
        let base = against.or(claim.value).filter(|&base| base != 0.0);
        let is_missed = verdict == Verdict::Missed;
        let why = Why { claim, measurement, world, scope: &scope };
        let said = why.said(measured, is_missed, is_explained);
        Judged {
            measured: Some(value),
            against,
            ratio: base.map(|base| value / base),
            verdict: if fitted.is_some() { Verdict::Fitted } else { verdict },
            read_so: !measurement.reading.0.is_empty(),
            unit: measurement.unit.as_ref().unwrap_or(&claim.unit).clone(),
            ..judged(match fitted {
                Some(fitted) => format!("{fitted} was chosen with it in view"),
                None => said,
            })
        }
    }
}

/// Kind of a claim. A declaration in the file comes first.
fn kind_of(claim: &Claim, measurement: &Measurement, by_run: bool) -> Kind {
    let is_effect = claim.kind == claims::Kind::Ratio
        && claim.unit == "x"
        && claim.value.is_some_and(is_near_one);
    match (measurement.kind, &measurement.repeats, measurement.class) {
        (Some(kind), ..) => kind,
        _ if measurement.needs.is_some() => Kind::Host,
        _ if !by_run => Kind::Parameter,
        (_, _, Class::Exact) => Kind::Functional,
        (_, Some(_), _) => Kind::Repeat,
        (_, _, Class::Order | Class::Reaches) => Kind::Ordering,
        _ if is_effect => Kind::Effect,
        _ => Kind::Measured,
    }
}

fn untestable(claim: &Claim, part: Option<usize>, why: String) -> Judged {
    Judged {
        id: claim.id.clone(),
        kind: Kind::Untestable,
        counted: false,
        fitted: None,
        repeats: None,
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
        allowed_because: None,
        spread: None,
        band: None,
        runs: vec![],
        by_run: false,
        read_so: false,
        why,
    }
}

/// What is said beside a verdict.
struct Why<'w, 's> {
    claim: &'w Claim,
    measurement: &'w Measurement,
    world: &'w World<'s>,
    scope: &'w Scope<'s>,
}

impl Why<'_, '_> {
    fn said(&self, measured: Measured, is_missed: bool, is_explained: bool) -> String {
        let mut parts = Vec::new();
        if is_missed {
            let explained = self.text(&self.measurement.explanation);
            parts.push(match is_explained && !explained.is_empty() {
                true => explained,
                false => self.generic(measured),
            });
        }
        let reading = self.text(&self.measurement.reading);
        if !reading.is_empty() {
            parts.push(format!("read so: {reading}"));
        }
        let remark = self.text(&self.measurement.remark);
        if !remark.is_empty() {
            parts.push(remark);
        }
        parts.join("; ")
    }

    fn text(&self, template: &Template) -> String {
        self.world.text(template, self.scope).unwrap_or_else(|stop| match stop {
            Stop::Missing(why) | Stop::Untestable(why) => why,
        })
    }

    /// Explanation of a missed claim by its figures alone.
    fn generic(&self, measured: Measured) -> String {
        let (claim, row) = (self.claim, self.measurement.class.tolerance());
        let (relation, words) = (claim.relation.sign(), row.words);
        match (measured, claim.value) {
            (Measured::Fact(_), _) => "the machine is not so".to_owned(),
            (Measured::Sides(left, right), _) => {
                let (left, right) = (three_digits(left), three_digits(right));
                format!("{left} {relation} {right} is not so (allowed: {words})")
            }
            (Measured::Number(value), Some(published)) => {
                let (value, published, unit) =
                    (three_digits(value), three_digits(published), &claim.unit);
                format!("{value} {unit}, the paper has {relation} {published} (allowed: {words})")
            }
            (Measured::Number(value), None) => {
                format!("{} has nothing to be held against", three_digits(value))
            }
        }
    }
}
