//! Quantities of runs over the settings in which their machines differ: small multiples.

use serde_json::{Value, json};

use super::axes::{self, Axes};
use super::quantities::RESULTS;
use super::runs::Run;
use crate::charts::{Charts, side_by_side};
use crate::html::escaped;

/// Charts of each quantity that two runs have at least, and of these stages; nothing if the runs differ in nothing,
/// and a sentence if they differ in too much.
pub fn drawn(
    charts: &mut Charts,
    runs: &[Run],
    labels: &[String],
    keys: &[String],
    stages: &[&str],
) -> String {
    if keys.is_empty() {
        return String::new();
    }
    let Some(axes) = Axes::of(runs, keys) else {
        return format!(
            "<h2>By setting</h2>\n<p>The machines differ in {} settings, and charts show {} at most: choose runs by \
             --only.</p>\n",
            keys.len(),
            axes::MOST_SETTINGS
        );
    };
    charts.share("sweep", axes.shared(runs, labels));
    let mut places = String::new();
    for quantity in &RESULTS {
        places += &chart(charts, quantity.name, runs.iter().map(|run| quantity.of(run)));
    }
    for name in stages {
        let title = format!("{name}, cycles");
        places += &chart(charts, &title, runs.iter().map(|run| run.stage(name)));
    }
    if places.is_empty() {
        return places;
    }
    let others = match axes.others.is_empty() {
        true => String::new(),
        false => format!(
            "<p>Lines are told apart by {}, too, which a chart has no place for: the pointer shows the values.</p>\n",
            escaped(&axes.others.join(", "))
        ),
    };
    String::from("<h2>By setting</h2>\n") + &others + &side_by_side(&places)
}

/// A chart of a value of each run, if two have one.
fn chart(charts: &mut Charts, title: &str, values: impl Iterator<Item = Option<f64>>) -> String {
    let values: Vec<Option<f64>> = values.collect();
    match values.iter().flatten().count() {
        0 | 1 => String::new(),
        _ => charts.add("sweep", title, "", json!({ "values": Value::from(values) })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vcs: &str, bandwidth: Option<f64>) -> Run {
        let keys = [("noc.vcs".to_owned(), vcs.to_owned())].into();
        let stage = json!({ "name": "rgp", "mean_cycles": bandwidth });
        Run::new(String::new(), json!({ "app_gbps": bandwidth, "breakdown": [stage] }), keys)
    }

    #[test]
    fn what_no_two_runs_have_is_not_drawn() {
        let of = |runs: &[Run], keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            let labels = vec![String::new(); runs.len()];
            drawn(&mut Charts::default(), runs, &labels, &keys, &["rgp"])
        };
        let charts = |text: &str| text.matches("data-chart").count();
        let two = [run("2", Some(7.0)), run("4", Some(7.0))];
        assert_eq!(charts(&of(&two, &["noc.vcs"])), 2);
        assert_eq!(of(&two, &[]), "");
        assert_eq!(of(&[run("2", Some(7.0)), run("4", None)], &["noc.vcs"]), "");
        let many = of(&two, &["a", "b", "c", "d", "e", "f", "g"]);
        assert!(many.contains("differ in 7 settings, and charts show 6 at most"), "{many}");
    }
}
