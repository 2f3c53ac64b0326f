//! The page of `rackmem report` about a sweep: every run is in its table and in every chart, also if it failed.

use std::fs;
use std::path::Path;

use rackmem_cli::report::{page, runs};
use rackmem_experiments::digits::three_digits;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::report::{check_sweep, invented};
use crate::{Table, each_view};

/// Labels below horizontal axes that lie on each other, and charts that are not drawn in their own size.
const ILLEGIBLE: &str = r##"
[...document.querySelectorAll("[data-kind=sweep]")].flatMap(chart => {
    const drawn = [...chart.querySelectorAll("svg")].at(-1);
    const title = chart.querySelector("h3").textContent;
    const boxes = [...drawn.querySelectorAll("[aria-label='x-axis tick label'] text")]
        .map(text => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const wrong = boxes.filter((one, at) => boxes.slice(at + 1).some(other => overlap(one.box, other.box)));
    const scale = drawn.getBoundingClientRect().width / Number(drawn.getAttribute("width"));
    return [
        ...wrong.map(one => `${title}: ${one.text} lies on another label`),
        ...(boxes.length < 2 ? [`${title}: ${boxes.length} labels`] : []),
        ...(Math.abs(scale - 1) > 0.01 ? [`${title}: drawn at ${scale} of its size`] : []),
    ];
})"##;

const SIZES: [&str; 30] = [
    "64", "96", "128", "192", "256", "384", "512", "768", "1024", "1536", "2048", "3072", "4096",
    "6144", "8192", "12288", "16384", "24576", "32768", "49152", "65536", "98304", "131072",
    "196608", "262144", "393216", "524288", "786432", "1048576", "1572864",
];

const SETTINGS: [(&str, &[&str]); 5] = [
    ("workload.transfer_bytes", &SIZES),
    ("noc.topology", &["\"mesh\"", "\"torus of rings\"", "\"nocout\""]),
    ("ni.placement", &["\"edge\"", "\"split\""]),
    ("noc.vcs", &["2", "4"]),
    ("seed", &["1", "2", "3", "4"]),
];

/// Runs of all combinations of so many settings, of which each tenth failed.
fn sweep(settings: usize) -> Vec<runs::Run> {
    let made = invented(&SETTINGS[..settings]).into_iter().enumerate();
    made.map(|(at, run)| match at % 10 {
        3 => runs::Run::failed(run.name, "there is no <room>".to_owned(), run.keys),
        _ => run,
    })
    .collect()
}

fn number(run: &runs::Run, path: &str) -> Option<f64> {
    run.report.pointer(path).and_then(Value::as_f64)
}

/// The table of all runs has a row for each, with its settings and numbers or the reason why it has none.
fn check_all(tables: &[Table], runs: &[runs::Run]) {
    let table = tables.iter().find(|table| table.title == "All runs").unwrap();
    assert_eq!(table.rows.len(), runs.len());
    let column = |name: &str| table.head.iter().position(|head| head == name).unwrap();
    let shown = |run: &runs::Run, path| number(run, path).map_or("-".to_owned(), three_digits);
    for (row, run) in table.rows.iter().zip(runs) {
        assert_eq!(row[column("latency, cycles")], shown(run, "/latency/mean_cycles"));
        assert_eq!(row[column("GB/s")], shown(run, "/app_gbps"));
        for key in runs::differences(runs) {
            assert_eq!(row[column(&key)], run.keys[&key].trim_matches('"'), "{key}");
        }
        let failed = row[column("limited by")] == "failed: there is no <room>";
        assert_eq!(failed, run.error.is_some(), "{row:?}");
    }
}

/// The extremes are those of the reports, and the failures are counted.
fn check_summaries(tables: &[Table], runs: &[runs::Run]) {
    let of = |title: &str| tables.iter().find(|table| table.title == title).unwrap();
    let labels = runs::labels(runs, &runs::differences(runs));
    let mut known: Vec<(f64, &String)> = runs
        .iter()
        .zip(&labels)
        .filter_map(|(run, label)| Some((number(run, "/app_gbps")?, label)))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let row = of("Extremes").rows.iter().find(|row| row[0] == "GB/s").unwrap();
    let (least, most) = (known[0], known[known.len() - 1]);
    let median = three_digits(known[known.len() / 2].0);
    let count = known.len().to_string();
    let expected = ["GB/s", &count, &three_digits(least.0), &median, &three_digits(most.0)];
    assert_eq!(row[..5], expected);
    assert_eq!(row[5..], [least.1.as_str(), most.1.as_str()]);
    let failed = (runs.len() - known.len()).to_string();
    let rows = &of("Runs that failed").rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0][..2], ["there is no <room>", failed.as_str()]);
}

fn open(browser: &mut Browser, folder: &Path, runs: &[runs::Run]) -> String {
    let file = folder.join("sweep.html");
    fs::write(&file, page::html(runs).expect("a page")).expect("a file");
    let url = format!("file://{}", file.display());
    for width in crate::WIDTHS {
        assert!(browser.open(&url, width, "light").is_empty(), "{width}");
        assert_eq!(browser.value(ILLEGIBLE), json!([]), "{width}");
    }
    url
}

#[test]
fn a_sweep_of_any_size_is_on_its_page() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    // Settings, columns and rows of panels, lines: the last are 1,440 runs.
    for (settings, columns, rows, lines) in
        [(1, 0, 0, 1), (2, 3, 0, 3), (3, 3, 0, 6), (4, 2, 2, 12), (5, 2, 2, 12)]
    {
        let runs = sweep(settings);
        let url = open(&mut browser, folder.path(), &runs);
        each_view(&mut browser, &url, |tables, charts| {
            check_all(tables, &runs);
            check_summaries(tables, &runs);
            check_sweep(&charts[0], &runs, "/latency/mean_cycles");
            check_sweep(&charts[1], &runs, "/app_gbps");
        });
        let drawn = |what: &str| {
            format!("document.querySelector('[data-kind=sweep]').querySelectorAll('{what}').length")
        };
        for (axis, panels) in [("fx", columns), ("fy", rows)] {
            let labels = drawn(&format!("[aria-label^={axis}-axis][aria-label*=label] text"));
            assert_eq!(browser.value(&labels), panels + usize::from(panels > 0), "{axis}");
        }
        assert_eq!(browser.value(&drawn("[aria-label=line] path")), lines);
        let failed = runs.iter().filter(|run| run.error.is_some()).count();
        // One row says why.
        assert_eq!(browser.value("document.querySelectorAll('tr.missed').length"), failed + 1);
        let is_open = browser.value("document.querySelector('details').open");
        assert_eq!(is_open, runs.len() <= 48);
    }
}

/// With many values of all settings a chart is wider than a narrow page, and scrolls in its own box.
#[test]
fn panels_keep_their_size_on_a_narrow_page() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let names = ["a", "b", "c", "d", "e", "f", "g"].map(|name| format!("\"a rather long {name}\""));
    let names = names.each_ref().map(String::as_str);
    let settings: [(&str, &[&str]); 4] = [
        ("workload.transfer_bytes", &SIZES[..8]),
        ("network.hops", &SIZES[..6]),
        ("noc.vcs", &SIZES[..5]),
        ("noc.topology", &names),
    ];
    let runs = invented(&settings);
    let url = open(&mut browser, folder.path(), &runs);
    each_view(&mut browser, &url, |_, charts| {
        check_sweep(&charts[0], &runs, "/latency/mean_cycles");
    });
    let is_wider =
        "(box => box.scrollWidth > box.clientWidth)(document.querySelector('.chart .wide'))";
    assert_eq!(browser.value(is_wider), true);
}
