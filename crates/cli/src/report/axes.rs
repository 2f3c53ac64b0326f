//! Settings as the axes of charts.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::runs::{Run, by_value};

/// Settings with which runs are drawn: four have a place of their own, others tell lines apart.
pub const MOST_SETTINGS: usize = 6;

/// Values of a setting that becomes panels in a row.
const MOST_ACROSS: usize = 4;

/// Values of a setting that becomes rows of panels, or panels in a row that is wider than the page.
const MOST_DOWN: usize = 12;

/// A key with its values, each once: numbers by size, then texts.
#[derive(Debug)]
struct Setting<'a> {
    key: &'a str,
    values: Vec<Value>,
    /// Places of the values by their texts.
    places: HashMap<String, usize>,
}

impl<'a> Setting<'a> {
    fn of(runs: &[Run], key: &'a str) -> Setting<'a> {
        let mut values: Vec<Value> = runs.iter().map(|run| run.setting(key)).collect();
        values.sort_by(by_value);
        values.dedup();
        let places = values.iter().enumerate().map(|(at, value)| (value.to_string(), at)).collect();
        Setting { key, values, places }
    }
}

/// What settings of runs become in charts.
#[derive(Debug)]
pub struct Axes<'a> {
    across: Setting<'a>,
    panels: Option<Setting<'a>>,
    colours: Option<Setting<'a>>,
    rows: Option<Setting<'a>>,
    /// Settings without a place.
    pub others: Vec<&'a str>,
}

/// Runs that differ in their seed alone are the same but for chance.
const SEED: &str = "seed";

impl<'a> Axes<'a> {
    /// Of the keys in which runs differ; none if there are no keys or too many.
    pub fn of(runs: &[Run], keys: &'a [String]) -> Option<Axes<'a>> {
        if keys.len() > MOST_SETTINGS {
            return None;
        }
        let is_setting = |key: &&'a String| *key != SEED || keys.len() == 1;
        let mut all: Vec<Setting<'a>> =
            keys.iter().filter(is_setting).map(|key| Setting::of(runs, key)).collect();
        let is_numbers = |one: &Setting| one.values.iter().all(Value::is_number);
        all.sort_by_key(|one| (!is_numbers(one), usize::MAX - one.values.len()));
        if all.is_empty() {
            return None;
        }
        let across = all.remove(0);
        let panels = take(&mut all, |one| one.values.len() <= MOST_ACROSS);
        let colours = take_most(&mut all);
        let rows = take(&mut all, |one| one.values.len() <= MOST_DOWN);
        let panels = panels.or_else(|| take(&mut all, |one| one.values.len() <= MOST_DOWN));
        let others = all.iter().map(|one| one.key).collect();
        Some(Axes { across, panels, colours, rows, others })
    }

    /// The axes, and for each run its place on them, its label, its line and its error.
    pub fn shared(&self, runs: &[Run], labels: &[String]) -> Value {
        let mut lines = HashMap::new();
        let placed: Vec<Value> = runs
            .iter()
            .zip(labels)
            .map(|(run, label)| {
                let beside: Vec<String> =
                    self.beside().map(|key| run.setting(key).to_string()).collect();
                let next = lines.len();
                let line = *lines.entry(beside).or_insert(next);
                let place =
                    |axis: &Setting| axis.places.get(&run.setting(axis.key).to_string()).copied();
                let at = self.places().map(|axis| axis.and_then(place));
                json!({ "label": label, "at": at, "line": line, "error": run.error })
            })
            .collect();
        let axes: Vec<Value> = self
            .places()
            .iter()
            .map(|axis| {
                axis.map_or(Value::Null, |one| json!({ "key": one.key, "values": one.values }))
            })
            .collect();
        json!({ "axes": axes, "runs": placed })
    }

    fn places(&self) -> [Option<&Setting<'a>>; 4] {
        let [panels, colours, rows] = [&self.panels, &self.colours, &self.rows].map(Option::as_ref);
        [Some(&self.across), panels, colours, rows]
    }

    /// Keys that tell lines apart.
    fn beside(&self) -> impl Iterator<Item = &str> {
        let placed = self.places().into_iter().skip(1).flatten().map(|axis| axis.key);
        placed.chain(self.others.iter().copied())
    }
}

/// Takes the first setting that is like that.
fn take<'a>(
    all: &mut Vec<Setting<'a>>,
    is_wanted: impl Fn(&Setting) -> bool,
) -> Option<Setting<'a>> {
    all.iter().position(is_wanted).map(|at| all.remove(at))
}

/// Takes the setting with the most values.
fn take_most<'a>(all: &mut Vec<Setting<'a>>) -> Option<Setting<'a>> {
    let most = all.iter().map(|one| one.values.len()).max();
    take(all, |one| Some(one.values.len()) == most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run for each combination of so many values, and a name instead of numbers where it is negative.
    fn axes(counts: &[(&str, i32)]) -> Vec<Option<String>> {
        let mut all = vec![Run::default()];
        for &(key, count) in counts {
            let with = |run: Run| {
                (0..count.abs()).map(move |value| {
                    let mut run = run.clone();
                    let value = if count < 0 { format!("\"v{value}\"") } else { value.to_string() };
                    run.keys.insert(key.to_owned(), value);
                    run
                })
            };
            all = all.into_iter().flat_map(with).collect();
        }
        let keys: Vec<String> = counts.iter().map(|&(key, _)| key.to_owned()).collect();
        let Some(axes) = Axes::of(&all, &keys) else { return Vec::new() };
        let places = axes.places().into_iter().map(|axis| axis.map(|one| one.key.to_owned()));
        places.chain([Some(axes.others.join(" "))]).collect()
    }

    #[test]
    fn settings_have_places_by_kind_and_number_of_values() {
        let of = |counts: &[(&str, i32)]| {
            let found = axes(counts).into_iter().map(|one| one.unwrap_or("-".to_owned()));
            found.collect::<Vec<_>>().join("|")
        };
        assert_eq!(of(&[("a", -5)]), "a|-|-|-|");
        assert_eq!(of(&[("a", -9), ("b", 3)]), "b|-|a|-|");
        assert_eq!(of(&[("a", 3), ("b", 4)]), "b|a|-|-|");
        assert_eq!(of(&[("a", 9), ("b", 8)]), "a|-|b|-|");
        assert_eq!(of(&[("a", 3), ("b", 9), ("c", 8)]), "b|a|c|-|");
        assert_eq!(of(&[("a", 7), ("b", 9), ("c", 8)]), "b|-|c|a|");
        assert_eq!(of(&[("a", 2), ("b", 3), ("c", -2), ("d", 4)]), "d|b|a|c|");
        assert_eq!(of(&[("a", 5), ("b", 6), ("c", -7), ("d", 8)]), "d|a|c|b|");
        assert_eq!(of(&[("a", 2), ("b", 2), ("c", 2), ("d", 2), ("e", 2)]), "a|b|c|d|e");
        // The seed has no axis, unless it is the only setting that differs.
        assert_eq!(of(&[("seed", 9), ("b", 3)]), "b|-|-|-|");
        assert_eq!(of(&[("seed", 9)]), "seed|-|-|-|");
        assert_eq!(of(&["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, 1))), "");
    }

    #[test]
    fn runs_have_places_lines_and_errors() {
        let run = |vcs: &str, placement: &str| {
            let keys = [("noc.vcs", vcs), ("ni.placement", placement)];
            let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            Run::failed(String::new(), "no".to_owned(), keys)
        };
        let runs = [run("16", "\"split\""), run("2", "\"edge\""), run("8", "\"edge\"")];
        let keys = ["ni.placement", "noc.vcs"].map(str::to_owned);
        let labels = ["a", "b", "c"].map(str::to_owned);
        let shared = Axes::of(&runs, &keys).unwrap().shared(&runs, &labels);
        assert_eq!(shared["axes"][0], json!({ "key": "noc.vcs", "values": [2.0, 8.0, 16.0] }));
        assert_eq!(
            shared["axes"][1],
            json!({ "key": "ni.placement", "values": ["edge", "split"] })
        );
        let expected = json!({ "label": "b", "at": [0, 0, null, null], "line": 1, "error": "no" });
        assert_eq!(shared["runs"][1], expected);
        assert_eq!(shared["runs"][2]["line"], 1);
    }
}
