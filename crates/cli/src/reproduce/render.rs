//! An outcome for people.

use rackmem_experiments::digits::three_digits;
use rackmem_experiments::outcome::{Curves, Judged, Kind, Outcome, Share};
use rackmem_experiments::tolerance::Class;
use rackmem_experiments::verdict::Verdict;

use crate::console::{self, Align, Table};

/// Width at which explanations are broken.
const WIDTH: usize = 96;

/// The whole report.
pub fn outcome(outcome: &Outcome, colour: bool) -> String {
    let mut text: String = outcome.notes.iter().map(|note| wrapped(note, WIDTH, "")).collect();
    if !text.is_empty() {
        text += "\n";
    }
    for part in 0..outcome.parts.len() {
        text += &section(outcome, part, colour);
    }
    let missed = |judged: &Judged| judged.verdict == Verdict::Missed;
    let untestable = |judged: &Judged| judged.verdict == Verdict::Untestable;
    let read = |judged: &Judged| judged.verdict == Verdict::Holds && judged.read_so;
    let fitted = |judged: &Judged| judged.verdict == Verdict::Fitted;
    let (claims, runtime) = (&outcome.claims, &outcome.runtime);
    text += &reasons(claims, read, "Hold as they are read here", colour);
    text +=
        &reasons(claims, fitted, "Fitted: a parameter was chosen with the value in view", colour);
    text += &reasons(claims, untestable, "Not testable here, and why", colour);
    text += &reasons(claims, missed, "Missed, and why", colour);
    let all = |judged: &Judged| !judged.why.is_empty();
    text += &reasons(runtime, all, "On the runtime: how it is measured, and why not", colour);
    text += &failures(outcome);
    text += &tolerances(outcome, colour);
    text + &summary(outcome, colour)
}

/// Runs that failed; if there are many, they have mostly failed for the same reason.
fn failures(outcome: &Outcome) -> String {
    const SHOWN: usize = 5;
    let failed = outcome.failed_runs.iter().take(SHOWN);
    let mut text: String =
        failed.map(|run| format!("run failed: {}: {}\n", run.experiment, run.problem)).collect();
    if outcome.failed_runs.len() > SHOWN {
        text += &format!("and {} more\n", outcome.failed_runs.len() - SHOWN);
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// The rows of the table of tolerances that were used.
fn tolerances(outcome: &Outcome, colour: bool) -> String {
    let mut table =
        Table::new(&[("kind", Align::Left), ("allowed", Align::Left), ("because", Align::Left)]);
    let judged = || outcome.claims.iter().chain(&outcome.runtime);
    let used = |class: Class| judged().any(|judged| judged.class == Some(class));
    for class in Class::ALL.into_iter().filter(|&class| used(class)) {
        let row = class.tolerance();
        table.row([class.name().to_owned(), row.words.to_owned(), row.reason.to_owned()]);
    }
    console::paint("Tolerances", "1", colour) + "\n\n" + &table.render() + "\n"
}

/// The last lines.
pub fn summary(outcome: &Outcome, colour: bool) -> String {
    let sum = &outcome.summary;
    let of = |(kind, share): (&Kind, &Share)| {
        format!("{} {} of {}", kind.name(), share.holds, share.judged())
    };
    let by = |counted: bool| -> Vec<String> {
        sum.kinds.iter().filter(|(kind, _)| kind.is_counted() == counted).map(of).collect()
    };
    let (counted, beside) = (by(true), by(false));
    let mut text = on_runtime(outcome);
    if !beside.is_empty() {
        text += &format!(
            "not counted, as set, built, said before or of this host: {}\n",
            beside.join(", ")
        );
    }
    let line = match sum.counted.judged() {
        0 => format!("no claim is counted, {} untestable", sum.untestable),
        all => format!(
            "{} of {all} claims hold ({:.1} %): {}; {} fitted, {} untestable",
            sum.counted.holds,
            sum.counted.percent(),
            counted.join(", "),
            sum.fitted,
            sum.untestable
        ),
    };
    text + &console::paint(&line, "1", colour) + "\n"
}

/// A table of the shares of claims that hold, paper by paper.
pub fn shares(outcomes: &[Outcome]) -> String {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|&kind| kind != Kind::Untestable).collect();
    let mut columns =
        vec![("claims that hold, of those judged", Align::Left), ("counted", Align::Right)];
    columns.extend([("share", Align::Right)]);
    columns.extend(kinds.iter().map(|kind| (kind.name(), Align::Right)));
    columns.extend([("fitted", Align::Right), ("untestable", Align::Right)]);
    let mut table = Table::new(&columns);
    let of = |share: &Share| format!("{}/{}", share.holds, share.judged());
    for outcome in outcomes {
        let sum = &outcome.summary;
        let mut row = vec![outcome.paper.clone(), of(&sum.counted)];
        row.push(format!("{:.1} %", sum.counted.percent()));
        row.extend(kinds.iter().map(|kind| sum.kinds.get(kind).map_or("-".to_owned(), of)));
        row.extend([sum.fitted.to_string(), sum.untestable.to_string()]);
        table.row(row);
    }
    table.render()
}

/// The number of claims that the runtime shows, of those that it can show.
fn on_runtime(outcome: &Outcome) -> String {
    let of = |verdict| outcome.runtime.iter().filter(|judged| judged.verdict == verdict).count();
    let (holds, missed) = (of(Verdict::Holds), of(Verdict::Missed));
    match holds + missed {
        0 => String::new(),
        all => format!("on the runtime of this host, orderings alone: {holds} of {all} hold\n"),
    }
}

fn section(outcome: &Outcome, part: usize, colour: bool) -> String {
    let testable =
        |judged: &&Judged| judged.part == Some(part) && judged.verdict != Verdict::Untestable;
    let judged: Vec<&Judged> = outcome.claims.iter().filter(testable).collect();
    let runtime: Vec<&Judged> = outcome.runtime.iter().filter(testable).collect();
    let beyond = beyond(outcome, part);
    if judged.is_empty() && runtime.is_empty() && beyond.is_empty() {
        return String::new();
    }
    let mut text = console::paint(&outcome.parts[part].title, "1", colour) + "\n\n";
    if !judged.is_empty() {
        text += &coloured(&table("claim", &judged), &judged, colour);
    }
    for curves in outcome.curves.values().filter(|curves| curves.part == part) {
        text += &format!("\n{} ({})\n{}", curves.title, curves.y, points(curves).render());
    }
    if !runtime.is_empty() {
        let table = table("on the runtime of this host", &runtime);
        text += &format!("\n{}", coloured(&table, &runtime, colour));
    }
    text + &beyond + "\n"
}

/// Columns of a table of claims.
pub(super) const HEAD: [(&str, Align); 8] = [
    ("claim", Align::Left),
    ("published", Align::Right),
    ("measured", Align::Right),
    ("unit", Align::Left),
    ("ratio", Align::Right),
    ("spread", Align::Right),
    ("band", Align::Right),
    ("verdict", Align::Left),
];

fn table(title: &str, judged: &[&Judged]) -> Table {
    let mut head = HEAD;
    head[0].0 = title;
    let mut table = Table::new(&head);
    for judged in judged {
        table.row(row(judged));
    }
    table.without_empty()
}

/// A claim as tables show it.
pub(super) fn row(judged: &Judged) -> [String; 8] {
    let measured = match (judged.measured, judged.against) {
        (Some(left), Some(right)) => format!("{} : {}", three_digits(left), three_digits(right)),
        (Some(value), None) if judged.published.is_none() => {
            (if value == 1.0 { "so" } else { "not so" }).to_owned()
        }
        (Some(value), None) if !judged.by_run => exact(value),
        (Some(value), None) => three_digits(value),
        (None, _) => "-".to_owned(),
    };
    [
        short(&judged.id).to_owned(),
        published(judged),
        measured,
        if judged.unit == "text" { String::new() } else { judged.unit.clone() },
        judged.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        judged.spread.map_or(String::new(), range),
        judged.band.as_ref().map_or(String::new(), |band| range((band.least, band.most))),
        judged.verdict.name().to_owned(),
    ]
}

/// What the paper says.
pub(super) fn published(judged: &Judged) -> String {
    match (judged.published, judged.against) {
        (_, Some(_)) => format!("left {} right", judged.relation),
        (Some(value), None) if judged.relation == "=" => exact(value),
        (Some(value), None) => format!("{} {}", judged.relation, exact(value)),
        (None, None) if judged.unit != "text" => format!("left {} right", judged.relation),
        (None, None) => "so".to_owned(),
    }
}

fn range((least, most): (f64, f64)) -> String {
    format!("{} to {}", three_digits(least), three_digits(most))
}

/// A claim's name without that of its paper.
pub(super) fn short(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, rest)| rest)
}

/// As the paper prints it: without what binary fractions add.
fn exact(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

/// Green and red for the verdict, which is the last word of its line.
fn coloured(table: &Table, judged: &[&Judged], wanted: bool) -> String {
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        let verdict = number.checked_sub(1).map(|row| judged[row].verdict);
        text += &match verdict {
            Some(verdict) => {
                let head = line.strip_suffix(verdict.name()).unwrap_or(&line);
                head.to_owned() + &painted(verdict, wanted)
            }
            None => line,
        };
        text += "\n";
    }
    text
}

fn painted(verdict: Verdict, wanted: bool) -> String {
    let code = match verdict {
        Verdict::Holds => "32",
        Verdict::Missed => "31",
        Verdict::Fitted | Verdict::Untestable => "33",
    };
    console::paint(verdict.name(), code, wanted)
}

fn points(plot: &Curves) -> Table {
    let mut xs: Vec<f64> =
        plot.series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let names = plot.series.iter().map(|series| (series.name.as_str(), Align::Right));
    let columns: Vec<_> = [(plot.x.as_str(), Align::Right)].into_iter().chain(names).collect();
    let mut table = Table::new(&columns);
    for x in xs {
        let at = |points: &[(f64, f64)]| {
            let found = points.iter().find(|point| point.0 == x);
            found.map_or(String::new(), |point| three_digits(point.1))
        };
        let values = plot.series.iter().map(|series| at(&series.points));
        table.row([exact(x)].into_iter().chain(values));
    }
    table
}

fn beyond(outcome: &Outcome, part: usize) -> String {
    let rows: Vec<_> = outcome.beyond.iter().filter(|beyond| beyond.part == part).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("beyond the paper", Align::Left),
        ("value", Align::Right),
        ("unit", Align::Left),
    ]);
    for row in rows {
        table.row([row.name.clone(), three_digits(row.value), row.unit.clone()]);
    }
    format!("\n{}", table.render())
}

fn reasons(
    claims: &[Judged],
    are_wanted: impl Fn(&Judged) -> bool,
    title: &str,
    colour: bool,
) -> String {
    let wanted: Vec<&Judged> = claims.iter().filter(|judged| are_wanted(judged)).collect();
    if wanted.is_empty() {
        return String::new();
    }
    let mut text = console::paint(title, "1", colour) + "\n\n";
    // Claims with the same reason stand together.
    let mut told: Vec<&str> = Vec::new();
    for judged in &wanted {
        if told.contains(&judged.why.as_str()) {
            continue;
        }
        told.push(&judged.why);
        let same = wanted.iter().filter(|other| other.why == judged.why);
        for other in same {
            text += &format!("  {}\n", short(&other.id));
        }
        text += &wrapped(&judged.why, WIDTH, "      ");
    }
    text + "\n"
}

fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty()
            && indent.len() + line.chars().count() + 1 + word.chars().count() > width
        {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &format!("{indent}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_broken_between_words() {
        assert_eq!(wrapped("aa bb cc", 9, "  "), "  aa bb\n  cc\n");
        assert_eq!(wrapped("aaaaaaaaaaaaaaa", 9, "  "), "  aaaaaaaaaaaaaaa\n");
    }
}
