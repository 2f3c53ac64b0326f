//! The page of `rackmem accuracy` as a browser shows it: without errors, at any width, in both colour schemes, and with
//! the numbers of its CSV file.
//!
//! The page here has some figures of each kind. `RACKMEM_ACCURACY_PAGE=DIR` tests one that the command has written.

mod browser;
mod report;
mod reproduce;
mod sweep;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use browser::Browser;
use rackmem_cli::accuracy::figures::{
    Figure, INSTRUCTION_SETS, QUEUEING, View, of_identity, of_memory, of_network, of_program,
};
use rackmem_cli::accuracy::{Accuracy, Memory, page};
use rackmem_experiments::digits::three_digits;
use rackmem_sim::litmus::suite::Summary;
use rackmem_sim::reference::dram::Row;
use rackmem_sim::reference::instructions::Agreement;
use rackmem_sim::reference::noc::{Comparison, Point};
use rackmem_sim::reference::queueing::Identity;
use serde::Deserialize;

/// Windows, and schemes with their ground.
const WIDTHS: [u32; 2] = [1280, 400];
const SCHEMES: [(&str, &str); 2] = [("light", "rgb(255, 255, 255)"), ("dark", "rgb(24, 24, 24)")];

/// Charts by their titles: how many elements of a kind and a label they have drawn.
const CHARTS: &str = r##"
[...document.querySelectorAll("[data-chart]")].map(chart => ({
    title: chart.querySelector("h3").textContent,
    kind: chart.dataset.kind,
    marks: Object.fromEntries(["bar rect", "rect rect", "arrow path", "cell rect"].map(what => {
        const [label, element] = what.split(" ");
        return [label, chart.querySelectorAll(`[aria-label=${label}] ${element}`).length];
    })),
    labels: [...chart.querySelectorAll("[aria-label=dot] path, [aria-label=dot] circle")]
        .map(dot => dot.getAttribute("aria-label")).filter(label => label),
}))"##;

/// A chart as it is drawn.
#[derive(Debug, Deserialize)]
struct Chart {
    title: String,
    kind: String,
    /// Number of elements by the label of the mark.
    marks: BTreeMap<String, usize>,
    /// Labels of dots: what they stand for.
    labels: Vec<String>,
}

/// Opens a page at both widths and in both schemes, and calls with what it shows. It causes no error, does not scroll
/// sideways, and has the ground of its scheme.
fn each_view(browser: &mut Browser, url: &str, check: impl Fn(&[Table], &[Chart])) {
    for (width, (scheme, ground)) in
        WIDTHS.into_iter().flat_map(|width| SCHEMES.map(|scheme| (width, scheme)))
    {
        let errors = browser.open(url, width, scheme);
        assert!(errors.is_empty(), "{width} {scheme}: {errors:?}");
        let tables: Vec<Table> = serde_json::from_value(browser.value(TABLES)).expect("tables");
        let charts: Vec<Chart> = serde_json::from_value(browser.value(CHARTS)).expect("charts");
        check(&tables, &charts);
        // The library marks what it doubts.
        let texts =
            "[...document.querySelectorAll('svg text')].map(text => text.textContent).join()";
        let texts = browser.value(texts);
        assert!(!texts.as_str().unwrap_or_default().contains('\u{26a0}'), "{width} {scheme}");
        let page_width = browser.value("document.documentElement.scrollWidth");
        assert_eq!(page_width, width, "{scheme}: the page itself does not scroll sideways");
        browser.value("document.querySelector('[data-chart]').scrollIntoView()");
        let colours = browser.colours();
        assert_eq!(colours[0].0, ground, "{width} {scheme}: {:?}", &colours[..3]);
        assert!(colours.len() > 20, "{width} {scheme}: {} colours", colours.len());
    }
}

/// Columns of tables of figures.
const COLUMNS: usize = 9;

/// All tables: the heading before each, its head, its rows.
const TABLES: &str = r#"
[...document.querySelectorAll("table")].map(table => {
    const cells = row => [...row.cells].map(cell => cell.textContent);
    let before = table.closest(".wide");
    while (before && before.tagName !== "H2") before = before.previousElementSibling ?? before.parentElement;
    const [head, ...rows] = [...table.rows].map(cells);
    return { title: before ? before.textContent : "", head, rows };
})"#;

#[derive(Debug, Deserialize)]
struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn figure(part: &str, what: &str, reference: f64, ours: f64) -> Figure {
    Figure {
        part: part.to_owned(),
        what: what.to_owned(),
        view: View::Interface,
        reference,
        ours,
        unit: "GB/s".to_owned(),
        error: ours / reference - 1.0,
        band: Some((0.9 * ours, 1.2 * ours)),
        verdict: None,
    }
}

fn figures(networks: &[Comparison], memories: &[Memory]) -> Vec<Figure> {
    let identity = |what: &str, formula, model| {
        let what = what.to_owned();
        of_identity(&Identity { what, unit: "cycles", formula, model })
    };
    let agreement =
        Agreement { compared: 75_765, agreed: 75_765, difference: None, status: Some(0) };
    let mut figures: Vec<Figure> = networks.iter().flat_map(of_network).collect();
    figures.extend(memories.iter().map(of_memory));
    figures.push(of_program("hello", &agreement));
    figures.push(identity("latency, \"Geo/D/1\" & 5 < 6", 13.0, 13.002));
    figures.push(identity("packets", 0.000_123_4, 0.000_123_4));
    figures.push(figure("sonuma", "bandwidth, of a page", 11.4, 10.9));
    figures.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    figures
}

/// A page with some figures of each kind.
fn sample(dir: &Path) {
    let point = |load, theirs, ours| Point { load, theirs, ours, is_compared: true };
    let points = vec![point(0.1, 20.0, 21.0), point(0.2, 40.0, 40.0)];
    let name = "mesh <8x8>, 8 VCs of 8 flits, 5 flits a packet".to_owned();
    let networks = vec![Comparison { name, points, knee: Some((0.3, 0.27)), saturation: None }];
    let row = Row {
        grade: "ddr4-2400".to_owned(),
        pattern: "random".to_owned(),
        interval: Some(12),
        done: 9,
        mean: Some(50.0),
    };
    let memories = vec![Memory { row, compared: (50.0, 49.0) }];
    let figures = figures(&networks, &memories);
    let litmus = Summary::default();
    let accuracy =
        Accuracy { effort: "quick", papers: vec![], networks, memories, litmus, figures };
    page::write(dir, &accuracy).expect("a page");
}

/// Rows of the CSV file as the page has to show them.
fn expected_rows(csv: &str) -> Vec<Vec<String>> {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("part,what,view,other,ours,unit,error,least,most,verdict"));
    lines.map(|line| shown(&cells(line))).collect()
}

/// The cells of a line, of which some are quoted.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().expect("there is one");
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    cells
}

fn shown(cells: &[String]) -> Vec<String> {
    let [part, what, view, other, ours, unit, error, least, most, verdict] = cells else {
        panic!("{cells:?} has other columns");
    };
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text}: {cells:?}"));
    let digits = |text: &str| three_digits(number(text));
    let band = match least.is_empty() {
        true => String::new(),
        false => format!("{} to {}", digits(least), digits(most)),
    };
    let error = format!("{:+.1} %", 100.0 * number(error));
    let [other, ours] = [other, ours].map(|text| digits(text));
    [part, what, view, &other, &ours, unit, &error, &band, verdict].map(String::clone).to_vec()
}

/// Each row of a table is one of the file, and each row of the file is in a table.
fn check_tables(tables: &[Table], expected: &[Vec<String>]) {
    let mut found = Vec::new();
    for table in tables {
        for row in &table.rows {
            assert_eq!(row.len(), table.head.len(), "{}: {row:?}", table.title);
        }
        if table.head.len() == COLUMNS {
            for row in &table.rows {
                assert!(expected.contains(row), "{}: {row:?} is not in the file", table.title);
            }
            found.extend(table.rows.iter());
        }
    }
    for row in expected {
        assert!(found.contains(&row) || row[0] == "dram", "{row:?} is in no table");
    }
    for group in ["Instruction sets", "Queueing identities"] {
        let has_rows = |table: &Table| table.title == group && !table.rows.is_empty();
        assert!(tables.iter().any(has_rows), "no group {group}");
    }
}

/// The folder of the page, and what keeps it.
fn page_folder() -> (PathBuf, Option<tempfile::TempDir>) {
    match std::env::var_os("RACKMEM_ACCURACY_PAGE") {
        Some(folder) => (fs::canonicalize(folder).expect("the page is there"), None),
        None => {
            let folder = tempfile::tempdir().expect("there is room for temporary files");
            sample(folder.path());
            (folder.path().to_owned(), Some(folder))
        }
    }
}

#[test]
fn the_page_shows_what_its_file_has() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let (folder, _kept) = page_folder();
    let csv = fs::read_to_string(folder.join("figures.csv")).expect("the file is there");
    let expected = expected_rows(&csv);
    for part in [INSTRUCTION_SETS, QUEUEING] {
        assert!(expected.iter().any(|row| row[0] == part), "{part} is not in {csv}");
    }
    let url = format!("file://{}/index.html", folder.display());
    each_view(&mut browser, &url, |tables, charts| {
        check_tables(tables, &expected);
        let networks = charts.iter().filter(|chart| chart.title.starts_with("mesh"));
        for network in networks {
            assert!(network.kind == "lines" && network.labels.len() >= 4, "{network:?}");
        }
    });
}

/// Errors of pages are seen, an empty page is, and so is a wide one.
#[test]
fn the_browser_sees_what_is_wrong() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let file = folder.path().join("wrong.html");
    let wide = "<!doctype html><div style='width: 900px; height: 9px'></div><script>throw new Error('wrong')</script>\
                <img src='missing.png'>";
    fs::write(&file, wide).expect("a file");
    let errors = browser.open(&format!("file://{}", file.display()), 400, "light");
    assert!(errors.iter().any(|error| error.contains("Error: wrong")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("missing.png")), "{errors:?}");
    assert!(browser.value("document.documentElement.scrollWidth").as_u64() > Some(400));
    assert!(browser.open("about:blank", 400, "light").is_empty());
    assert_eq!(browser.colours(), [("rgb(255, 255, 255)".to_owned(), 400 * 900)]);
}
