//! Quantities of runs over the settings in which their machines differ: small multiples.

use serde_json::{Map, Value, json};

use super::page::NUMBERS;
use super::runs::Run;
use crate::charts::{Charts, side_by_side};

/// Settings that a chart can show: one across, one from panel to panel, one in colours.
const MOST: usize = 3;

/// Charts of each quantity that two runs have at least; nothing if the runs differ in nothing or in too much.
pub fn drawn(charts: &mut Charts, runs: &[Run], labels: &[String], keys: &[String]) -> String {
    if keys.is_empty() || keys.len() > MOST {
        return String::new();
    }
    let axes = axes(runs, keys);
    let settings = |run: &Run| -> Map<String, Value> {
        keys.iter().map(|key| (key.clone(), setting(run, key))).collect()
    };
    let mut places = String::new();
    // The time that was simulated is no result.
    for (metric, path) in NUMBERS.iter().filter(|(_, path)| *path != ["cycles"]) {
        let points: Vec<Value> = runs
            .iter()
            .zip(labels)
            .filter_map(|(run, label)| {
                let value = run.number(path)?;
                Some(json!({ "label": label, "settings": settings(run), "value": value }))
            })
            .collect();
        if points.len() > 1 {
            let data = json!({ "axes": axes, "points": points });
            places += &charts.add("sweep", metric, "", data);
        }
    }
    match places.is_empty() {
        true => places,
        false => String::from("<h2>By setting</h2>\n") + &side_by_side(&places),
    }
}

/// The settings with their values: numbers first, and what has the most values first.
fn axes(runs: &[Run], keys: &[String]) -> Vec<Value> {
    let mut all: Vec<(&String, Vec<Value>)> =
        keys.iter().map(|key| (key, values(runs, key))).collect();
    let is_numbers = |values: &[Value]| values.iter().all(Value::is_number);
    all.sort_by_key(|(_, values)| (!is_numbers(values), usize::MAX - values.len()));
    all.into_iter().map(|(key, values)| json!({ "key": key, "values": values })).collect()
}

/// Each value once: numbers by size, others as they come.
fn values(runs: &[Run], key: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for run in runs {
        let value = setting(run, key);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.iter().all(Value::is_number) {
        values.sort_by(|a, b| {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal)
        });
    }
    values
}

/// The value of a key: a number if it is one.
fn setting(run: &Run, key: &str) -> Value {
    let text = run.keys.get(key).map_or("-", |value| value.trim_matches('"'));
    text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vcs: &str, placement: &str) -> Run {
        let keys = [("noc.vcs", vcs), ("ni.placement", placement)];
        let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let report = json!({ "app_gbps": 7.0 });
        Run { name: String::new(), report, keys: keys.into_iter().collect() }
    }

    #[test]
    fn numbers_go_across_by_size_and_names_as_they_come() {
        let runs = [run("16", "\"split\""), run("2", "\"edge\""), run("16", "\"edge\"")];
        let keys = ["ni.placement", "noc.vcs"].map(str::to_owned);
        let found = axes(&runs, &keys);
        assert_eq!(found[0], json!({ "key": "noc.vcs", "values": [2.0, 16.0] }));
        assert_eq!(found[1], json!({ "key": "ni.placement", "values": ["split", "edge"] }));
    }

    #[test]
    fn what_no_two_runs_have_is_not_drawn() {
        let runs = [run("2", "\"edge\""), run("4", "\"edge\"")];
        let labels = ["a", "b"].map(str::to_owned);
        let of = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            drawn(&mut Charts::default(), &runs, &labels, &keys).matches("data-chart").count()
        };
        assert_eq!([of(&[]), of(&["noc.vcs"]), of(&["a", "b", "c", "d"])], [0, 1, 0]);
    }
}
