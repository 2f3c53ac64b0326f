//! Figures of papers as charts.

use rackmem_experiments::outcome::{Curve, Curves, Judged, Outcome};
use rackmem_experiments::verdict::Verdict;
use serde_json::{Value, json};

use super::render::{published, short};
use crate::charts::Charts;

/// A figure of curves, with the published values of those of these claims that its points are held against.
pub fn curves(charts: &mut Charts, curves: &Curves, claims: &[Judged]) -> String {
    let series = |curve: &Curve| {
        let at = |(x, id): &(f64, String)| {
            let judged = claims.iter().find(|judged| judged.id == *id)?;
            judged.published?;
            let mut mark = mark(judged)?;
            mark["x"] = json!(x);
            Some(mark)
        };
        let marks: Vec<Value> = curve.claims.iter().filter_map(at).collect();
        json!({ "name": curve.name, "dashed": curve.dashed, "points": curve.points, "claims": marks })
    };
    let series: Vec<Value> = curves.series.iter().map(series).collect();
    let data = json!({ "x": curves.x, "y": curves.y, "log_x": curves.log_x, "series": series });
    charts.add("lines", &curves.title, "", data)
}

/// The claims of a part that say something of the model and that no curve shows, by unit; orderings as left over
/// right. What is built or set so, and holds, is in the table alone.
pub fn claims(charts: &mut Charts, outcome: &Outcome, part: usize) -> String {
    let curves = outcome.curves.values().flat_map(|curves| &curves.series);
    let on_curves: Vec<&String> =
        curves.flat_map(|curve| &curve.claims).map(|(_, id)| id).collect();
    let is_drawn = |judged: &&Judged| {
        let says = judged.counted || judged.fitted.is_some() || judged.verdict == Verdict::Missed;
        judged.by_run && says
    };
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    let of_part = outcome.claims.iter().filter(|judged| judged.part == Some(part));
    for judged in of_part.filter(is_drawn).filter(|judged| !on_curves.contains(&&judged.id)) {
        let unit = match judged.against {
            Some(_) => "left over right",
            None if judged.unit.is_empty() => "value",
            None => &judged.unit,
        };
        let has_other = judged.against.is_some() || judged.published.is_some();
        let Some(mark) = mark(judged).filter(|_| has_other) else { continue };
        match groups.iter_mut().find(|(known, _)| known == unit) {
            Some((_, marks)) => marks.push(mark),
            None => groups.push((unit.to_owned(), vec![mark])),
        }
    }
    let mut place = |(unit, claims): &(String, Vec<Value>)| {
        let data = json!({ "unit": unit, "claims": claims });
        charts.add("claims", &format!("Claims: {unit}"), "", data)
    };
    groups.iter().map(&mut place).collect()
}

/// What a chart shows of a claim; nothing of one that has no measured value.
fn mark(judged: &Judged) -> Option<Value> {
    let name = match judged.against {
        None if judged.relation == "=" => short(&judged.id).to_owned(),
        _ => format!("{}: {}", short(&judged.id), published(judged)),
    };
    Some(json!({
        "name": name,
        "published": judged.published.filter(|_| judged.against.is_none()),
        "measured": judged.quantity()?,
        "band": judged.band.as_ref().map(|band| [band.least, band.most]),
        "spread": judged.spread,
        "verdict": judged.verdict,
    }))
}
