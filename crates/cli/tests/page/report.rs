//! The page of `rackmem report`: its tables have the numbers of the reports, its charts a bar for each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rackmem_cli::report::{page, read, runs};
use rackmem_experiments::digits::three_digits;
use rackmem_sim::machine::{self, Override};
use rackmem_sim::run::{Options, run};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::{Chart, Table, each_view};

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
    let of = |title: &str| charts.iter().find(|chart| chart.title == title).unwrap();
    assert_eq!(of("Latency by stage").marks["bar"], all("breakdown"));
    let counted = of("Latencies").marks["rect"];
    assert!(counted <= all("latencies") && counted > all("latencies") / 4, "{counted}");
    for (run, placement) in runs.iter().zip(["edge", "split"]) {
        let links = of(&format!("Links on chip: placement {placement}"));
        assert_eq!(links.marks["arrow"], array(&run.report, "links").len());
        let cells = of(&format!("Parts: placement {placement}")).marks["cell"];
        assert!(cells >= 3 * 16 && cells.is_multiple_of(16), "{cells}");
    }
    check_sweep(of("latency, cycles"), runs, "/latency/mean_cycles");
    check_sweep(of("GB/s"), runs, "/app_gbps");
}

/// A quantity by setting has a dot for each run, with the report's number, and a cross if it failed.
pub fn check_sweep(chart: &Chart, runs: &[runs::Run], path: &str) {
    let differences = runs::differences(runs);
    let wanted = |run: &runs::Run| {
        let number = run.report.pointer(path).and_then(Value::as_f64);
        let number = number.map_or("failed".to_owned(), |number| number.to_string());
        format!("{}: {number}", run.label(&differences))
    };
    let mut wanted: Vec<String> = runs.iter().map(wanted).collect();
    let mut found = chart.labels.clone();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted, "{}", chart.title);
}

#[test]
fn the_report_shows_what_its_runs_have() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let files = ["edge", "split"].map(|placement| write(folder.path(), placement));
    let runs = read::read(&files).expect("reports");
    let file = folder.path().join("report.html");
    fs::write(&file, page::html(&runs).expect("a page")).expect("a file");
    let runs: Vec<runs::Run> = runs.iter().map(|run| read::whole(run).expect("a report")).collect();
    let url = format!("file://{}", file.display());
    each_view(&mut browser, &url, |tables, charts| {
        check_tables(tables, &runs);
        check_charts(charts, &runs);
    });
}

/// A run for each combination of the values of these settings.
pub fn invented(settings: &[(&str, &[&str])]) -> Vec<runs::Run> {
    let mut all = vec![BTreeMap::new()];
    for (key, values) in settings {
        let with = |keys: BTreeMap<String, String>| {
            values.iter().map(move |value| {
                let mut keys = keys.clone();
                keys.insert((*key).to_owned(), (*value).to_owned());
                keys
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    let run = |(at, keys): (usize, BTreeMap<String, String>)| {
        let latency = json!({ "mean_cycles": 400.0 / (at + 1) as f64 });
        let report = json!({ "app_gbps": 10.5 + at as f64, "latency": latency });
        runs::Run::new(format!("run {at}"), report, keys)
    };
    all.into_iter().enumerate().map(run).collect()
}

#[test]
fn settings_become_axes_panels_and_colours() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let file = folder.path().join("report.html");
    let url = format!("file://{}", file.display());
    let settings: [(&str, &[&str]); 3] = [
        ("workload.transfer_bytes", &["64", "1024", "16384"]),
        ("ni.placement", &["\"edge\"", "\"split\""]),
        ("noc.vcs", &["2", "4"]),
    ];
    for (count, panels, lines) in [(1, 0, 1), (2, 2, 2), (3, 2, 4)] {
        let runs = invented(&settings[..count]);
        fs::write(&file, page::html(&runs).expect("a page")).expect("a file");
        each_view(&mut browser, &url, |_, charts| {
            assert_eq!(charts.len(), 2, "{charts:?}");
            check_sweep(&charts[0], &runs, "/latency/mean_cycles");
            check_sweep(&charts[1], &runs, "/app_gbps");
        });
        let drawn = |what: &str| {
            format!("document.querySelector('[data-kind=sweep]').querySelectorAll('{what}').length")
        };
        assert_eq!(
            browser.value(&drawn("[aria-label^=fx-axis][aria-label*=label] text")),
            panels + usize::from(panels > 0)
        );
        assert_eq!(browser.value(&drawn("[aria-label=line] path")), lines);
    }
}
