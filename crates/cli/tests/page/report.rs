//! The page of `rackmem report`: its tables have the numbers of the reports, its charts a bar for each of them.

use std::fs;
use std::path::{Path, PathBuf};

use rackmem_cli::report::{page, runs};
use rackmem_experiments::digits::three_digits;
use rackmem_sim::machine::{self, Override};
use rackmem_sim::run::{Options, run};
use serde_json::Value;

use crate::browser::Browser;
use crate::{SCHEMES, TABLES, Table, WIDTHS};

const SMALL: [&str; 8] = [
    "tiles.columns=4",
    "tiles.rows=4",
    "memory.controllers=4",
    "llc.size_bytes=1M",
    "workload.footprint_bytes=16M",
    "run.window_cycles=20000",
    "run.min_windows=1",
    "run.max_windows=1",
];

/// Title of a chart; bars, rectangles, arrows and cells in it.
type Chart = (String, usize, usize, usize, usize);

/// Number of drawn elements in the figure or box below a heading.
const DRAWN: &str = r##"
[...document.querySelectorAll("#charts h2")].filter(title => !title.closest(".small")).map(title => {
    let chart = title.nextElementSibling;
    while (chart.tagName === "P") chart = chart.nextElementSibling;
    const count = what => chart.querySelectorAll(what).length;
    return [title.textContent, count("[aria-label=bar] rect"), count("[aria-label=rect] rect"),
            count("[aria-label=arrow] path"), count("[aria-label=cell] rect")];
})"##;

/// Runs the small chip and writes its report as the command does.
fn write(folder: &Path, placement: &str) -> PathBuf {
    let placement = format!("ni.placement={placement}");
    let settings = SMALL.into_iter().chain([placement.as_str()]).map(|one| one.parse().unwrap());
    let machine = machine::load("manycore-ni", &settings.collect::<Vec<Override>>()).unwrap();
    let report = run(&machine, &Options::default()).unwrap();
    let file = folder.join(format!("{}.json", machine.ni.placement as u8));
    fs::write(&file, serde_json::to_string(&report).unwrap()).unwrap();
    file
}

fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Tables have the reports' numbers.
fn check_tables(tables: &[Table], runs: &[runs::Run]) {
    let summary = &tables[0];
    let column = |name: &str| summary.head.iter().position(|head| head == name).unwrap();
    for (row, run) in summary.rows.iter().zip(runs) {
        for (name, path) in [
            ("latency, cycles", "/latency/mean_cycles"),
            ("99 %, cycles", "/latency/p99_cycles"),
            ("GB/s", "/app_gbps"),
        ] {
            let number = run.report.pointer(path).and_then(Value::as_f64).unwrap();
            assert_eq!(row[column(name)], three_digits(number), "{name}");
        }
        assert_eq!(row[column("machine's hash")], run.report["recipe"]["machine_hash"]);
    }
    let stages = tables.iter().find(|table| table.title == "Cycles by stage").unwrap();
    for (at, run) in runs.iter().enumerate() {
        for stage in array(&run.report, "breakdown") {
            let row = stages.rows.iter().find(|row| stage["name"] == *row[0]).unwrap();
            assert_eq!(row[at + 1], three_digits(stage["mean_cycles"].as_f64().unwrap()));
        }
    }
    let differ = tables.iter().find(|table| table.title == "How their machines differ").unwrap();
    assert_eq!(differ.rows, [["ni.placement", "\"edge\"", "\"split\""]]);
}

/// Charts have a mark for each number.
fn check_charts(charts: &[Chart], runs: &[runs::Run]) {
    let all = |name: &str| runs.iter().map(|run| array(&run.report, name).len()).sum::<usize>();
    let of = |title: &str| charts.iter().find(|chart| chart.0 == title).unwrap();
    assert_eq!(of("Latency by stage").1, all("breakdown"));
    let counted = of("Latencies").2;
    assert!(counted <= all("latencies") && counted > all("latencies") / 4, "{counted}");
    for (run, placement) in runs.iter().zip(["edge", "split"]) {
        let links = of(&format!("Links on chip: placement {placement}"));
        assert_eq!(links.3, array(&run.report, "links").len());
        let cells = of(&format!("Parts: placement {placement}")).4;
        assert!(cells >= 3 * 16 && cells.is_multiple_of(16), "{cells}");
    }
}

#[test]
fn the_report_shows_what_its_runs_have() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let files = ["edge", "split"].map(|placement| write(folder.path(), placement));
    let runs = runs::read(&files).expect("reports");
    let file = folder.path().join("report.html");
    fs::write(&file, page::html(&runs)).expect("a file");
    let url = format!("file://{}", file.display());
    for (width, (scheme, ground)) in
        WIDTHS.into_iter().flat_map(|width| SCHEMES.map(|scheme| (width, scheme)))
    {
        let errors = browser.open(&url, width, scheme);
        assert!(errors.is_empty(), "{width} {scheme}: {errors:?}");
        let tables: Vec<Table> = serde_json::from_value(browser.value(TABLES)).expect("tables");
        check_tables(&tables, &runs);
        let charts: Vec<Chart> = serde_json::from_value(browser.value(DRAWN)).expect("charts");
        check_charts(&charts, &runs);
        let page_width = browser.value("document.documentElement.scrollWidth");
        assert_eq!(page_width, width, "{scheme}: the page itself does not scroll sideways");
        browser.value("document.getElementById('charts').scrollIntoView()");
        let colours = browser.colours();
        assert_eq!(colours[0].0, ground, "{width} {scheme}: {:?}", &colours[..3]);
        assert!(colours.len() > 20, "{width} {scheme}: {} colours", colours.len());
    }
}
