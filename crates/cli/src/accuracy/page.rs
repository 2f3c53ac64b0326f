//! The page: one HTML file that opens offline, and the same figures as CSV.

use std::fmt::Write as _;
use std::path::Path;

use rackmem_experiments::digits::three_digits;
use rackmem_experiments::outcome::{Curve, Curves, Outcome};
use rackmem_sim::reference::noc::{Comparison, Point};

use super::figures::{Figure, INSTRUCTION_SETS, QUEUEING, View};
use super::{Accuracy, Memory, litmus};
use crate::charts::{Charts, side_by_side};
use crate::commands::sim::output;
use crate::failure::Result;
use crate::html::{escaped, table};
use crate::reproduce::figures;
use crate::reproduce::page::shares;

/// Errors that the first table shows.
const SHOWN: usize = 40;

/// Writes `index.html`, `figures.csv` and `litmus.csv`.
///
/// # Errors
/// The directory cannot be written.
pub fn write(dir: &Path, accuracy: &Accuracy) -> Result<()> {
    output::make(dir)?;
    output::text(dir, "index.html", &html(accuracy))?;
    output::text(dir, "litmus.csv", &litmus::csv(&accuracy.litmus))?;
    output::text(dir, "figures.csv", &csv(&accuracy.figures))
}

fn html(accuracy: &Accuracy) -> String {
    let mut charts = Charts::default();
    let (version, effort) = (env!("CARGO_PKG_VERSION"), accuracy.effort);
    let mut body = format!(
        "<h1>What the model's numbers are worth</h1>\n<p>rackmem {version}, {effort} runs. Errors are ours over the \
         other value, less 1; the worst come first. A band is what the quantity becomes over the ranges of the \
         parameters that a paper leaves open.</p>\n"
    );
    body += &shares(&accuracy.papers);
    body += &views(&accuracy.figures);
    body += &worst(&accuracy.figures);
    for outcome in &accuracy.papers {
        body += &paper(&mut charts, outcome, &accuracy.figures);
    }
    body += &networks(&mut charts, &accuracy.networks, &of_part(&accuracy.figures, "noc"));
    body += &memories(&accuracy.memories);
    body += &group(
        "Instruction sets",
        "Programs on the out-of-order core and on the interpreter: of the instructions that the core retires, those \
         with the same address and result, up to the program's end or its first thread.",
        &of_part(&accuracy.figures, INSTRUCTION_SETS),
    );
    body += &group(
        "Queueing identities",
        "Where the model reduces to what formulas are about. Rates by latencies are counts in any case (Little); waits \
         are of 200,000 cycles or requests from one seed.",
        &of_part(&accuracy.figures, QUEUEING),
    );
    body += &litmus::html(&accuracy.litmus);
    charts.page("Accuracy of rackmem", &body)
}

fn percent(error: f64) -> String {
    format!("{:+.1} %", 100.0 * error)
}

fn views(figures: &[Figure]) -> String {
    let mut rows = Vec::new();
    for (view, name) in [
        (View::Simulator, "simulator: counters of the model"),
        (View::Interface, "interface: programs that measure it"),
        (View::Application, "application: programs with another purpose"),
        (View::Identity, "identity: formulas and the interpreter"),
    ] {
        let mut errors: Vec<f64> = figures
            .iter()
            .filter(|figure| figure.view == view)
            .map(|figure| figure.error.abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        let (Some(median), Some(most)) = (errors.get(errors.len() / 2), errors.last()) else {
            continue;
        };
        let count = errors.len().to_string();
        rows.push(vec![name.to_owned(), count, percent(*median), percent(*most)]);
    }
    String::from("<h2>Three views</h2>\n")
        + &table(&["view", "figures", "median error", "largest"], &rows)
}

const HEAD: [&str; 9] =
    ["part", "what", "view", "other", "ours", "unit", "error", "band", "verdict"];

fn row(figure: &Figure) -> Vec<String> {
    let view = match figure.view {
        View::Simulator => "simulator",
        View::Interface => "interface",
        View::Application => "application",
        View::Identity => "identity",
    };
    let band = figure.band.map_or(String::new(), |(least, most)| {
        format!("{} to {}", three_digits(least), three_digits(most))
    });
    vec![
        figure.part.clone(),
        figure.what.clone(),
        view.to_owned(),
        three_digits(figure.reference),
        three_digits(figure.ours),
        figure.unit.clone(),
        percent(figure.error),
        band,
        figure.verdict.map_or("", |verdict| verdict.name()).to_owned(),
    ]
}

fn worst(figures: &[Figure]) -> String {
    let rows: Vec<Vec<String>> = figures.iter().take(SHOWN).map(row).collect();
    format!("<h2>The worst {} of {}</h2>\n", rows.len(), figures.len()) + &table(&HEAD, &rows)
}

/// Rows of a part, worst first.
fn of_part(figures: &[Figure], part: &str) -> Vec<Vec<String>> {
    figures.iter().filter(|figure| figure.part == part).map(row).collect()
}

/// A part that is a table and a sentence.
fn group(title: &str, about: &str, rows: &[Vec<String>]) -> String {
    format!("<h2>{title}</h2>\n<p>{about}</p>\n") + &table(&HEAD, rows)
}

fn paper(charts: &mut Charts, outcome: &Outcome, figures: &[Figure]) -> String {
    let sheets = outcome.curves.values();
    let places: String =
        sheets.map(|curves| figures::curves(charts, curves, &outcome.claims)).collect();
    format!("<h2>{}</h2>\n", escaped(&outcome.paper))
        + &table(&HEAD, &of_part(figures, &outcome.paper))
        + &side_by_side(&places)
}

fn networks(charts: &mut Charts, networks: &[Comparison], rows: &[Vec<String>]) -> String {
    let text = String::from("<h2>Networks on chip beside BookSim2</h2>\n");
    if networks.is_empty() {
        return text + "<p>No curves were given: <code>--references DIR</code>.</p>\n";
    }
    let places: String = networks.iter().map(|compared| network(charts, compared)).collect();
    text + &side_by_side(&places) + &table(&HEAD, rows)
}

/// The model's curve and the reference's.
fn network(charts: &mut Charts, compared: &Comparison) -> String {
    let curve = |name: &str, dashed: bool, latency: fn(&Point) -> f64| Curve {
        name: name.to_owned(),
        dashed,
        points: compared.points.iter().map(|point| (point.load, latency(point))).collect(),
        claims: vec![],
    };
    let both = Curves {
        part: 0,
        title: compared.name.clone(),
        x: "offered load, flits per endpoint and cycle".to_owned(),
        y: "mean latency, cycles".to_owned(),
        log_x: false,
        series: vec![
            curve("rackmem", false, |point| point.ours),
            curve("BookSim2", true, |point| point.theirs),
        ],
    };
    figures::curves(charts, &both, &[])
}

fn memories(memories: &[Memory]) -> String {
    let mut text = String::from("<h2>Memories beside DRAMsim3</h2>\n");
    if memories.is_empty() {
        return text + "<p>No table was given: <code>--references DIR</code>.</p>\n";
    }
    let mut sorted: Vec<&Memory> = memories.iter().collect();
    let error = |memory: &Memory| (memory.compared.1 / memory.compared.0 - 1.0).abs();
    sorted.sort_by(|a, b| error(b).total_cmp(&error(a)));
    let row = |memory: &&Memory| {
        let (row, (theirs, ours)) = (&memory.row, memory.compared);
        vec![
            row.grade.clone(),
            row.pattern.clone(),
            row.interval.map_or("busy".to_owned(), |interval| interval.to_string()),
            format!("{theirs:.2}"),
            format!("{ours:.2}"),
            percent(ours / theirs - 1.0),
        ]
    };
    let rows: Vec<Vec<String>> = sorted.iter().map(row).collect();
    text += "<p>Mean latency of reads in nCK, of a busy channel the requests done.</p>\n";
    text + &table(&["grade", "pattern", "interval", "DRAMsim3", "rackmem", "error"], &rows)
}

fn csv(figures: &[Figure]) -> String {
    let mut text = String::from("part,what,view,other,ours,unit,error,least,most,verdict\n");
    for figure in figures {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let view = &row(figure)[2];
        let (least, most) = figure.band.map_or((String::new(), String::new()), |(least, most)| {
            (least.to_string(), most.to_string())
        });
        let verdict = figure.verdict.map_or("", |verdict| verdict.name());
        let _ = writeln!(
            text,
            "{},{},{view},{},{},{},{},{least},{most},{verdict}",
            figure.part,
            quoted(&figure.what),
            figure.reference,
            figure.ours,
            quoted(&figure.unit),
            figure.error,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use rackmem_sim::litmus::suite::{Summary, Sums};
    use rackmem_sim::reference::dram::Row;
    use rackmem_sim::reference::noc::Point;

    use super::super::figures::{of_memory, of_network};
    use super::*;

    fn accuracy() -> Accuracy {
        let point = |load, theirs, ours| Point { load, theirs, ours, is_compared: true };
        let points = vec![point(0.1, 20.0, 21.0), point(0.2, 40.0, 40.0)];
        let name = "mesh <8x8>".to_owned();
        let networks = vec![Comparison { name, points, knee: Some((0.3, 0.27)), saturation: None }];
        let row = Row {
            grade: "ddr4-2400".to_owned(),
            pattern: "random".to_owned(),
            interval: Some(12),
            done: 9,
            mean: Some(50.0),
        };
        let memories = vec![Memory { row, compared: (50.0, 49.0) }];
        let mut figures: Vec<Figure> = networks.iter().flat_map(of_network).collect();
        figures.extend(memories.iter().map(of_memory));
        figures.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        let seen = Sums { tests: 7, relaxed: 6, relaxed_seen: 5, ..Sums::default() };
        let litmus = Summary { shapes: vec![("MP", seen)], violations: vec![] };
        Accuracy { effort: "quick", papers: vec![], networks, memories, litmus, figures }
    }

    #[test]
    fn litmus_tests_are_on_the_page_and_in_the_table() {
        let accuracy = accuracy();
        let row = "<td>MP</td><td>7</td><td>0</td><td>6</td><td>5</td>";
        assert!(html(&accuracy).contains(row), "{}", html(&accuracy));
        assert!(litmus::csv(&accuracy.litmus).contains("MP,7,0,6,5\nall,7,0,6,5\n"));
    }

    #[test]
    fn the_worst_comes_first_and_everything_is_there() {
        let csv = csv(&accuracy().figures);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[1].starts_with("noc,\"mesh <8x8>: knee\",simulator,0.3,0.27,"), "{csv}");
        assert!(
            lines[2].contains("latency at 0.1") && lines[4].contains("latency at 0.2"),
            "{csv}"
        );
        assert!(lines[3].starts_with("dram,\"ddr4-2400, random: read latency"), "{csv}");
    }

    #[test]
    fn the_page_is_one_file_and_shows_what_the_table_has() {
        let html = html(&accuracy());
        for shown in ["mesh &lt;8x8&gt;: knee", "-10.0 %", "+5.0 %", "-2.0 %", "BookSim2"] {
            assert!(html.contains(shown), "{shown} is not in {html}");
        }
        let own = html.split("<script").next().unwrap();
        for outside in ["http", "src=", "<8x8>:"] {
            assert!(!own.contains(outside), "{outside} is in {own}");
        }
        assert!(!html.contains("<script src"));
        assert_eq!(html.matches("data-chart=").count(), 1);
    }
}
