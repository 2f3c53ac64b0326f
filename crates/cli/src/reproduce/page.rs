//! A reproduction as one page that opens offline.

use rackmem_experiments::digits::three_digits;
use rackmem_experiments::outcome::{Judged, Outcome};
use rackmem_experiments::verdict::Verdict;
use rackmem_sim::report::LinkLoad;

use super::{figures, render};
use crate::charts::{Charts, side_by_side};
use crate::html::{self, escaped, table};

/// How its charts are read.
const LEGEND: &str = "<p>Rings are published values. Filled marks are measured ones, in claims in the colour and form \
of the verdict. Thin lines are bands: what a quantity becomes over the ranges of the parameters that the paper leaves \
open. Thick lines are the spread over several seeds. Of an ordering the chart shows left over right.</p>\n";

/// Loads of links, with a title.
pub type Heat = (String, Vec<LinkLoad>);

/// The page of a paper or a part of it.
pub fn html(title: &str, outcome: &Outcome, heats: &[Heat]) -> String {
    let mut charts = Charts::default();
    let mut body = format!("<h1>{}</h1>\n{}", escaped(title), head(outcome));
    body +=
        &outcome.notes.iter().map(|note| format!("<p>{}</p>\n", escaped(note))).collect::<String>();
    body += LEGEND;
    for part in 0..outcome.parts.len() {
        body += &section(&mut charts, outcome, part);
    }
    let of_no_part: Vec<&Judged> =
        outcome.claims.iter().filter(|judged| judged.part.is_none()).collect();
    if !of_no_part.is_empty() {
        body += &(String::from("<h2>Claims of no part</h2>\n") + &claims("claim", &of_no_part));
    }
    body += &failures(outcome);
    body += &pictures(&mut charts, heats);
    charts.page(&format!("{} reproduced", outcome.paper), &body)
}

/// The first page of several papers, with links to theirs.
pub fn overview(outcomes: &[Outcome]) -> String {
    let mut body = String::from("<h1>Papers reproduced</h1>\n");
    for outcome in outcomes {
        let name = escaped(&outcome.paper);
        body += &format!("<h2><a href=\"{name}/report.html\">{name}</a></h2>\n{}", head(outcome));
    }
    html::page("Papers reproduced", &(body + &shares(outcomes)))
}

/// The counts of verdicts, as the terminal has them.
fn head(outcome: &Outcome) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let summary = render::summary(outcome, false);
    let lines = summary.lines().rev().map(escaped).collect::<Vec<_>>().join("<br>\n");
    format!("<p class=\"share\">{lines}</p>\n<p>rackmem {version}, {} runs.</p>\n", outcome.effort)
}

/// Shares of the claims that hold, by paper.
pub fn shares(outcomes: &[Outcome]) -> String {
    let row = |outcome: &Outcome| {
        let sum = &outcome.summary;
        vec![
            outcome.paper.clone(),
            format!("{} of {}", sum.counted.holds, sum.counted.judged()),
            format!("{:.0} %", sum.counted.percent()),
            sum.fitted.to_string(),
            sum.untestable.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = outcomes.iter().map(row).collect();
    String::from("<h2>Claims that hold</h2>\n")
        + &table(&["paper", "claims", "share", "fitted", "untestable"], &rows)
}

/// A figure or table of the paper: its charts, then its claims.
fn section(charts: &mut Charts, outcome: &Outcome, part: usize) -> String {
    let of_part = |judged: &&Judged| judged.part == Some(part);
    let judged: Vec<&Judged> = outcome.claims.iter().filter(of_part).collect();
    let runtime: Vec<&Judged> = outcome.runtime.iter().filter(of_part).collect();
    let sheets = outcome.curves.values().filter(|curves| curves.part == part);
    let mut places: String =
        sheets.map(|curves| figures::curves(charts, curves, &outcome.claims)).collect();
    places += &figures::claims(charts, outcome, part);
    if judged.is_empty() && runtime.is_empty() && places.is_empty() {
        return String::new();
    }
    let mut text = format!("<h2>{}</h2>\n", escaped(&outcome.parts[part].title));
    text += &side_by_side(&places);
    text += &claims("claim", &judged);
    text += &claims("on the runtime of this host", &runtime);
    text + &beyond(outcome, part)
}

/// Claims with what is said of each.
fn claims(title: &str, judged: &[&Judged]) -> String {
    if judged.is_empty() {
        return String::new();
    }
    let mut head = render::HEAD.map(|(name, _)| name).to_vec();
    head[0] = title;
    head.extend(["counts", "said"]);
    let row = |judged: &&Judged| {
        let mut row = render::row(judged).to_vec();
        row.push(String::from(if judged.counted { "yes" } else { "no" }));
        row.push(judged.why.clone());
        row
    };
    let rows: Vec<Vec<String>> = judged.iter().map(row).collect();
    // Columns in which no claim has anything are left out.
    let is_used: Vec<bool> =
        (0..head.len()).map(|at| rows.iter().any(|row| !row[at].is_empty())).collect();
    let mut used = is_used.iter().copied().cycle();
    head.retain(|_| used.next() == Some(true));
    let row = |(judged, mut row): (&&Judged, Vec<String>)| {
        let mut used = is_used.iter().copied();
        row.retain(|_| used.next() == Some(true));
        (if judged.verdict == Verdict::Missed { "missed" } else { "" }, row)
    };
    let rows: Vec<(&str, Vec<String>)> = judged.iter().zip(rows).map(row).collect();
    format!("<div class=\"claims\">\n{}</div>\n", html::marked_table(&head, &rows))
}

fn beyond(outcome: &Outcome, part: usize) -> String {
    let of_part = outcome.beyond.iter().filter(|beyond| beyond.part == part);
    let rows: Vec<Vec<String>> = of_part
        .map(|row| vec![row.name.clone(), three_digits(row.value), row.unit.clone()])
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => table(&["beyond the paper", "value", "unit"], &rows),
    }
}

fn failures(outcome: &Outcome) -> String {
    let rows: Vec<Vec<String>> = outcome
        .failed_runs
        .iter()
        .map(|failed| vec![failed.experiment.clone(), failed.problem.clone()])
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => String::from("<h2>Runs that failed</h2>\n") + &table(&["run", "problem"], &rows),
    }
}

fn pictures(charts: &mut Charts, heats: &[Heat]) -> String {
    let picture = |(title, links): &Heat| {
        let said = "Each direction of each link of the network, from where to where it leads.";
        charts.add("links", title, said, serde_json::json!({ "links": links }))
    };
    let places: String = heats.iter().map(picture).collect();
    match places.is_empty() {
        true => places,
        false => String::from("<h2>Links on chip</h2>\n") + &side_by_side(&places),
    }
}
