//! The page: one file that opens offline.

use rackmem_experiments::digits::three_digits;
use serde_json::{Value, json};

use super::limits;
use super::runs::{self, Run};
use crate::html::{self, escaped, table};

const D3: &str = include_str!("../../vendor/d3-7.9.2.min.js");
const PLOT: &str = include_str!("../../vendor/plot-0.6.17.min.js");
const CHARTS: &str = include_str!("charts.js");

/// Names of numbers that each run is shown with, and their members in the report.
const NUMBERS: [(&str, &[&str]); 6] = [
    ("latency, cycles", &["latency", "mean_cycles"]),
    ("99 %, cycles", &["latency", "p99_cycles"]),
    ("GB/s", &["app_gbps"]),
    ("on chip, GB/s", &["noc_gbps"]),
    ("reads/us", &["reads_per_us"]),
    ("cycles simulated", &["cycles"]),
];

/// The page about these runs.
pub fn html(runs: &[Run]) -> String {
    let differences = runs::differences(runs);
    let labels = labels(runs, &differences);
    let mut body = String::from("<h1>Runs of the model</h1>\n") + &summary(runs, &labels);
    body += "<h2>What limited them</h2>\n";
    for (run, label) in runs.iter().zip(&labels) {
        let said = limits::of(run).into_iter().map(|one| format!("<li>{}</li>", escaped(&one)));
        body += &format!("<h3>{}</h3>\n<ul>{}</ul>\n", escaped(label), said.collect::<String>());
    }
    body += &settings(runs, &labels, &differences);
    body += &breakdown(runs, &labels);
    body += &format!("<div id=\"charts\"></div>\n{}", scripts(runs, &labels));
    html::page("Runs of rackmem's model", &body)
}

/// A name for each run that no other has.
fn labels(runs: &[Run], differences: &[String]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for run in runs {
        let label = run.label(differences);
        let numbered = (2..).map(|number| format!("{label} ({number})"));
        let unused =
            [label.clone()].into_iter().chain(numbered).find(|name| !labels.contains(name));
        labels.extend(unused);
    }
    labels
}

fn summary(runs: &[Run], labels: &[String]) -> String {
    let mut head = vec!["run", "machine"];
    head.extend(NUMBERS.iter().map(|&(name, _)| name));
    head.extend(["seed", "machine's hash", "version"]);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |(run, label): (&Run, &String)| {
        let recipe = &run.report["recipe"];
        let mut row = vec![label.clone(), text(&run.report["machine"])];
        row.extend(NUMBERS.iter().map(|&(_, path)| run.shown(path)));
        row.extend([recipe["seed"].to_string(), text(&recipe["machine_hash"])]);
        row.push(text(&recipe["version"]));
        row
    };
    table(&head, &runs.iter().zip(labels).map(row).collect::<Vec<_>>())
}

/// Keys in which machines differ, a column for each run.
fn settings(runs: &[Run], labels: &[String], differences: &[String]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let row = |key: &String| {
        let values = runs.iter().map(|run| run.keys.get(key).cloned().unwrap_or("-".to_owned()));
        [key.clone()].into_iter().chain(values).collect()
    };
    let rows: Vec<Vec<String>> = differences.iter().map(row).collect();
    String::from("<h2>How their machines differ</h2>\n") + &table(&head("key", labels), &rows)
}

/// Mean cycles of each stage that any of them has, a column for each run.
fn breakdown(runs: &[Run], labels: &[String]) -> String {
    let names = stage_names(runs);
    if names.is_empty() {
        return String::new();
    }
    let cell = |run: &Run, name: &str| {
        let found = stages(run).find(|(stage, _)| *stage == name);
        found.map_or("-".to_owned(), |(_, cycles)| three_digits(cycles))
    };
    let row = |name: &&str| {
        [(*name).to_owned()].into_iter().chain(runs.iter().map(|run| cell(run, name))).collect()
    };
    let rows: Vec<Vec<String>> = names.iter().map(row).collect();
    String::from("<h2>Cycles by stage</h2>\n") + &table(&head("stage", labels), &rows)
}

/// Names of all stages in the order of events: one that only some runs have comes after what it follows there.
fn stage_names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        let mut at = 0;
        for (name, _) in stages(run) {
            at = match names.iter().position(|known| *known == name) {
                Some(known) => known + 1,
                None => {
                    names.insert(at, name);
                    at + 1
                }
            };
        }
    }
    names
}

fn head<'a>(first: &'a str, labels: &'a [String]) -> Vec<&'a str> {
    [first].into_iter().chain(labels.iter().map(String::as_str)).collect()
}

fn stages(run: &Run) -> impl Iterator<Item = (&str, f64)> {
    let stages = run.report["breakdown"].as_array().into_iter().flatten();
    stages.filter_map(|stage| Some((stage["name"].as_str()?, stage["mean_cycles"].as_f64()?)))
}

fn scripts(runs: &[Run], labels: &[String]) -> String {
    let data: Vec<Value> = runs.iter().zip(labels).map(|(run, label)| data(run, label)).collect();
    let data = json!({ "runs": data, "stages": stage_names(runs) });
    // Nothing in it may look like a tag or a comment.
    let data = data.to_string().replace('<', "\\u003c");
    format!(
        "<script type=\"application/json\" id=\"runs\">{data}</script>\n<script>{D3}</script>\n\
         <script>{PLOT}</script>\n<script>{CHARTS}</script>\n"
    )
}

/// What charts show of a run.
fn data(run: &Run, label: &str) -> Value {
    let list = |name: &str| run.report[name].as_array().cloned().unwrap_or_default();
    let key = |name: &str| run.keys.get(name).and_then(|value| value.parse::<u32>().ok());
    json!({
        "label": label,
        "breakdown": list("breakdown"),
        "latencies": list("latencies"),
        // Links between the nodes of a rack are no mesh.
        "links": if run.is_rack() { vec![] } else { list("links") },
        "stats": run.report["stats"].as_object().cloned().unwrap_or_default(),
        "columns": key("tiles.columns").unwrap_or(1),
        "rows": key("tiles.rows").unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stages: &[&str]) -> Run {
        let stage = |name: &&str| json!({ "name": name, "mean_cycles": 7.0 });
        let breakdown: Vec<Value> = stages.iter().map(stage).collect();
        let report = json!({ "breakdown": breakdown, "machine": "</script>" });
        Run { name: "a & b".to_owned(), report, keys: Default::default() }
    }

    #[test]
    fn stages_are_in_the_order_of_events() {
        let runs =
            [run(&["write", "rgp", "out", "end"]), run(&["write", "transfer", "out", "end"])];
        assert_eq!(stage_names(&runs), ["write", "transfer", "rgp", "out", "end"]);
    }

    #[test]
    fn no_two_runs_have_the_same_name() {
        let runs = [run(&[]), run(&[]), run(&[])];
        assert_eq!(labels(&runs, &[]), ["a & b", "a & b (2)", "a & b (3)"]);
    }

    #[test]
    fn names_in_reports_end_no_element() {
        let page = html(&[run(&["write"])]);
        assert!(page.contains("a &amp; b") && page.contains("&lt;/script&gt;"));
        assert_eq!(page.matches("</script>").count(), 4);
        let stage = html(&[run(&["<!--<script>"])]);
        assert!(!stage.contains("<!--") && stage.contains("\\u003c!--\\u003cscript>"));
    }
}
