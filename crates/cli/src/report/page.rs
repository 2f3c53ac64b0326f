//! The page: one file that opens offline.

use rackmem_experiments::digits::three_digits;
use serde_json::{Value, json};

use super::runs::{self, Run};
use super::{limits, sweep};
use crate::charts::{Charts, side_by_side};
use crate::html::{escaped, table};

/// Names of numbers that each run is shown with, and their members in the report.
pub(super) const NUMBERS: [(&str, &[&str]); 6] = [
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
    let mut charts = Charts::default();
    body += &sweep::drawn(&mut charts, runs, &labels, &differences);
    body += &drawn(&mut charts, runs, &labels);
    body += &links_and_parts(&mut charts, runs, &labels);
    charts.page("Runs of rackmem's model", &body)
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

fn list(run: &Run, name: &str) -> Value {
    run.report[name].as_array().cloned().unwrap_or_default().into()
}

/// Latencies by stage and as histograms.
fn drawn(charts: &mut Charts, runs: &[Run], labels: &[String]) -> String {
    let of = |name: &str| -> Vec<Value> {
        let one = |(run, label): (&Run, &String)| json!({ "label": label, name: list(run, name) });
        runs.iter().zip(labels).map(one).collect()
    };
    let stages = charts.add(
        "stages",
        "Latency by stage",
        "Mean time of a read in each stage, in the order of events.",
        json!({ "runs": of("breakdown"), "stages": stage_names(runs) }),
    );
    let latencies = charts.add(
        "histograms",
        "Latencies",
        "Reads by their latency.",
        json!({ "runs": of("latencies") }),
    );
    String::from("<h2>Latencies</h2>\n") + &side_by_side(&(stages + &latencies))
}

/// Positions of the parts on the chips. Links between the nodes of a rack are no mesh.
fn links_and_parts(charts: &mut Charts, runs: &[Run], labels: &[String]) -> String {
    let (mut links, mut parts) = (String::new(), String::new());
    for (run, label) in runs.iter().zip(labels) {
        let drawn = if run.is_rack() { json!([]) } else { list(run, "links") };
        links += &charts.add(
            "links",
            &format!("Links on chip: {label}"),
            "Each direction of each link of the network, from where to where it leads.",
            json!({ "links": drawn }),
        );
        let key = |name: &str| run.keys.get(name).and_then(|value| value.parse::<u32>().ok());
        parts += &charts.add(
            "parts",
            &format!("Parts: {label}"),
            "Counters of parts that there are several of: where every tile has one, as on the chip.",
            json!({
                "stats": run.report["stats"].as_object().cloned().unwrap_or_default(),
                "columns": key("tiles.columns").unwrap_or(1),
                "rows": key("tiles.rows").unwrap_or(1),
            }),
        );
    }
    String::from("<h2>On the chip</h2>\n") + &side_by_side(&links) + &parts
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
    fn names_in_reports_are_text() {
        let page = html(&[run(&["write"])]);
        assert!(page.contains("a &amp; b") && page.contains("&lt;/script&gt;"));
    }
}
