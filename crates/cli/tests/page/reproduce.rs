//! The page of a reproduction: its tables have the verdicts of `results.json`, its charts a mark for each value.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rackmem_cli::reproduce::{self, Options, write};
use rackmem_experiments::Effort;
use rackmem_experiments::papers::PAPERS;
use serde_json::Value;

use crate::browser::Browser;
use crate::{Chart, Table, each_view};

/// Reproduces a part, with two seeds, as the command does. Returns what it has written.
fn reproduced(dir: &Path, paper: &str, part: &str) -> Value {
    let paper = PAPERS.iter().find(|known| known.name == paper).unwrap();
    let document = paper.document().unwrap();
    let selection = reproduce::part(&document, Some(part)).unwrap();
    let options = Options { graph: None, cores: "executed" };
    let mut session = reproduce::session(&document, Effort::Quick, selection, &options);
    for ability in session.abilities.values_mut() {
        *ability = Err("the model alone".to_owned());
    }
    reproduce::make_all_runs(&mut session, 2);
    let mut outcome = reproduce::outcome(&session);
    let other = reproduce::outcome(&session);
    outcome.spread_over(&[(2, other)]);
    write::all(dir, &outcome, &session).unwrap();
    serde_json::from_str(&fs::read_to_string(dir.join("results.json")).unwrap()).unwrap()
}

fn array<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

/// Each claim is a row, with its verdict and what is said of it.
fn check_tables(tables: &[Table], results: &Value) {
    let mut rows = BTreeMap::new();
    for table in tables.iter().filter(|table| table.head[0] == "claim") {
        let column = |name: &str| table.head.iter().position(|head| head == name);
        for row in &table.rows {
            let cell = |name: &str| column(name).map_or("", |at| row[at].as_str());
            let found =
                (cell("verdict").to_owned(), cell("counts") == "yes", cell("said").to_owned());
            rows.insert(row[0].clone(), found);
        }
    }
    assert_eq!(rows.len(), array(results, "claims").len());
    for claim in array(results, "claims") {
        let id = claim["id"].as_str().unwrap();
        let (_, short) = id.split_once('/').unwrap();
        let (verdict, counts, said) = &rows[short];
        assert_eq!(claim["verdict"], verdict.as_str(), "{id}");
        assert_eq!(claim["counted"], *counts, "{id}");
        assert_eq!(claim["why"].as_str().unwrap(), said, "{id}");
    }
}

/// Numbers of the labels that begin so.
fn numbers(chart: &Chart, begin: &str) -> Vec<f64> {
    let labels = chart.labels.iter().filter_map(|label| label.strip_prefix(begin));
    let mut numbers: Vec<f64> = labels.map(|number| number.parse().unwrap()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// A chart of curves has a dot for each measured point and a ring for each published one.
fn check_curves(charts: &[Chart], results: &Value) {
    let curves = results["curves"].as_object().unwrap();
    assert!(!curves.is_empty());
    for curves in curves.values() {
        let chart = charts.iter().find(|chart| curves["title"] == *chart.title).unwrap();
        let series = array(curves, "series");
        let mut measured: Vec<f64> = series
            .iter()
            .flat_map(|curve| array(curve, "points"))
            .map(|point| point[1].as_f64().unwrap())
            .collect();
        measured.sort_by(f64::total_cmp);
        assert_eq!(numbers(chart, "measured "), measured);
        let claims = series.iter().flat_map(|curve| array(curve, "claims"));
        let of = |claim: &Value| {
            let judged = array(results, "claims").iter().find(|judged| judged["id"] == claim[1]);
            judged.unwrap()["published"].as_f64().unwrap()
        };
        let mut published: Vec<f64> = claims.map(of).collect();
        published.sort_by(f64::total_cmp);
        assert!(!published.is_empty());
        assert_eq!(numbers(chart, "published "), published);
    }
}

/// A chart of claims has a mark for each that counts, was fitted or is missed, but for those on curves.
fn check_claims(charts: &[Chart], results: &Value) {
    let curves = results["curves"].as_object().unwrap().values();
    let on_curves: Vec<&Value> = curves
        .flat_map(|curves| array(curves, "series"))
        .flat_map(|curve| array(curve, "claims"))
        .map(|claim| &claim[1])
        .collect();
    let is_drawn = |claim: &&Value| {
        let says =
            claim["counted"] == true || !claim["fitted"].is_null() || claim["verdict"] == "missed";
        let has_other = !claim["published"].is_null() || !claim["against"].is_null();
        let is_there = claim["by_run"] == true && !claim["measured"].is_null() && has_other;
        says && is_there && !on_curves.contains(&&claim["id"])
    };
    let wanted = array(results, "claims").iter().filter(is_drawn).count();
    let labels =
        charts.iter().filter(|chart| chart.kind == "claims").flat_map(|chart| &chart.labels);
    assert_eq!(labels.filter(|label| label.contains(": measured ")).count(), wanted);
    assert!(wanted > 0);
}

#[test]
fn the_page_of_a_paper_has_its_values_verdicts_and_curves() {
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let results = reproduced(folder.path(), "tsm", "table2");
    let url = format!("file://{}/report.html", folder.path().display());
    each_view(&mut browser, &url, |tables, charts| {
        check_tables(tables, &results);
        check_curves(charts, &results);
        check_claims(charts, &results);
    });
    let counted = &results["summary"]["counted"];
    let judged = counted["holds"].as_u64().unwrap() + counted["missed"].as_u64().unwrap();
    let head = browser.value("document.querySelector('.share').textContent");
    let begin = format!("{} of {judged} claims hold", counted["holds"]);
    assert!(head.as_str().unwrap().starts_with(&begin), "{head}: {begin}");
    let missed =
        array(&results, "claims").iter().filter(|claim| claim["verdict"] == "missed").count();
    assert_eq!(browser.value("document.querySelectorAll('tr.missed').length"), missed);
}
