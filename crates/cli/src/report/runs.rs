//! Runs, and how their machines differ.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use serde_json::Value;

use super::limits::{self, Limit};

/// Settings by which runs can be called: more make no name.
pub const MOST_IN_LABEL: usize = 6;

/// A run of `rackmem sim run`, `rackmem sim exec` or a sweep.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The name that people gave it: of its file or folder.
    pub name: String,
    /// All of its report, or of `Run::lighten` the rest; null if the run failed.
    pub report: Value,
    /// Keys of the machine as TOML values; of programs `program` and `nodes`, too.
    pub keys: BTreeMap<String, String>,
    /// Reason why there is no report.
    pub error: Option<String>,
    /// What limited it.
    pub limits: Vec<Limit>,
    /// Whether it measured in windows of time, so that it knows rates.
    pub has_windows: bool,
    /// The file that has the rest.
    pub(super) file: Option<PathBuf>,
}

impl Run {
    /// A run by its report and the keys of its machine.
    pub fn new(name: String, report: Value, keys: BTreeMap<String, String>) -> Run {
        let has_windows = report["windows"].as_array().is_none_or(|windows| !windows.is_empty());
        let mut run = Run { name, report, keys, has_windows, ..Run::default() };
        run.limits = limits::of(&run);
        run
    }

    /// A run that failed for this reason.
    pub fn failed(name: String, error: String, keys: BTreeMap<String, String>) -> Run {
        Run { name, keys, error: Some(error), ..Run::default() }
    }

    /// Leaves out of the report what only pages about few runs show; the file has it.
    pub(super) fn lighten(&mut self, file: PathBuf) {
        for name in ["links", "stats", "latencies", "windows", "nodes"] {
            self.report.as_object_mut().map(|report| report.remove(name));
        }
        self.file = Some(file);
    }

    /// Its value of a key: a number if it is one.
    pub fn setting(&self, key: &str) -> Value {
        let text = self.keys.get(key).map_or("-", |value| value.trim_matches('"'));
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map_or_else(|| text.into(), Value::from)
    }

    /// A name that tells it from others: the values of the keys in which their machines differ, else its own.
    pub fn label(&self, differences: &[String]) -> String {
        let value = |key: &String| {
            let (_, short) = key.rsplit_once('.').unwrap_or(("", key));
            let value = self.keys.get(key).map_or("-", |value| value.trim_matches('"'));
            format!("{short} {value}")
        };
        match differences.is_empty() || differences.len() > MOST_IN_LABEL {
            true => self.name.clone(),
            false => differences.iter().map(value).collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether it is of simplified nodes on a torus.
    pub fn is_rack(&self) -> bool {
        self.report.get("rack").is_some()
    }

    /// A statistic.
    pub fn stat(&self, path: &str) -> Option<f64> {
        self.report["stats"][path].as_f64()
    }

    /// Stages of a read with their mean cycles, in the order of events.
    pub fn stages(&self) -> impl Iterator<Item = (&str, f64)> {
        let stages = self.report["breakdown"].as_array().into_iter().flatten();
        stages.filter_map(|stage| Some((stage["name"].as_str()?, stage["mean_cycles"].as_f64()?)))
    }

    /// Mean cycles of a stage.
    pub fn stage(&self, name: &str) -> Option<f64> {
        self.stages().find(|(stage, _)| *stage == name).map(|(_, cycles)| cycles)
    }
}

/// A name for each run that no other has.
pub fn labels(runs: &[Run], differences: &[String]) -> Vec<String> {
    let (mut labels, mut taken) = (Vec::new(), HashSet::new());
    let mut next: HashMap<String, usize> = HashMap::new();
    for run in runs {
        let first = run.label(differences);
        let mut label = first.clone();
        while !taken.insert(label.clone()) {
            let number = next.entry(first.clone()).or_insert(1);
            *number += 1;
            label = format!("{first} ({number})");
        }
        labels.push(label);
    }
    labels
}

/// Keys in which not all machines are the same, without their names.
pub fn differences(runs: &[Run]) -> Vec<String> {
    let all: BTreeSet<&String> = runs.iter().flat_map(|run| run.keys.keys()).collect();
    let differs = |key: &&String| {
        let first = runs.first().and_then(|run| run.keys.get(*key));
        runs.iter().any(|run| run.keys.get(*key) != first)
    };
    let is_about = |key: &&String| *key != "name" && *key != "description";
    all.into_iter().filter(is_about).filter(differs).cloned().collect()
}

/// Names of all stages in the order of events: one that only some runs have comes after what it follows there.
pub fn stage_names(runs: &[Run]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        let mut at = 0;
        for (name, _) in run.stages() {
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

/// The order of values of a key: numbers by size, then texts.
pub fn by_value(a: &Value, b: &Value) -> Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.as_str().cmp(&b.as_str()),
    }
}

/// A value without quotes; whole numbers without a fraction.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(String::new, |value| value.to_string())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(name: &str, keys: &[(&str, &str)]) -> Run {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Run::new(name.to_owned(), Value::Null, keys.iter().map(own).collect())
    }

    #[test]
    fn runs_are_called_by_what_differs() {
        let runs = [
            run("a", &[("name", "\"x\""), ("noc.vcs", "2"), ("ni.placement", "\"edge\"")]),
            run("b", &[("name", "\"y\""), ("noc.vcs", "2"), ("ni.placement", "\"split\"")]),
            run("c", &[("noc.vcs", "4")]),
        ];
        let found = differences(&runs);
        assert_eq!(found, ["ni.placement", "noc.vcs"]);
        assert_eq!(runs[0].label(&found), "placement edge, vcs 2");
        assert_eq!(runs[2].label(&found), "placement -, vcs 4");
        assert_eq!(runs[0].label(&differences(&runs[..1])), "a");
    }

    #[test]
    fn no_two_runs_have_the_same_name() {
        let runs = ["a", "a (2)", "a", "a"].map(|name| run(name, &[]));
        assert_eq!(labels(&runs, &[]), ["a", "a (2)", "a (3)", "a (4)"]);
    }

    #[test]
    fn values_are_numbers_where_they_can_be_drawn() {
        let run = run("a", &[("a", "1e3"), ("b", "\"inf\""), ("c", "nan"), ("d", "true")]);
        let found = ["a", "b", "c", "d"].map(|key| run.setting(key));
        assert_eq!(found, [json!(1000.0), json!("inf"), json!("nan"), json!("true")]);
    }

    #[test]
    fn stages_are_in_the_order_of_events() {
        let run = |stages: &[&str]| {
            let stage = |name: &&str| json!({ "name": name, "mean_cycles": 7.0 });
            let breakdown: Vec<Value> = stages.iter().map(stage).collect();
            Run::new(String::new(), json!({ "breakdown": breakdown }), BTreeMap::new())
        };
        let runs =
            [run(&["write", "rgp", "out", "end"]), run(&["write", "transfer", "out", "end"])];
        assert_eq!(stage_names(&runs), ["write", "transfer", "rgp", "out", "end"]);
    }
}
