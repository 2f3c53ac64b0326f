//! The page: one file that opens offline.

use rackmem_experiments::digits::three_digits;
use serde_json::{Value, json};

use super::runs::{self, Run, stage_names};
use super::{many, quantities, read, sweep};
use crate::charts::{Charts, side_by_side};
use crate::failure::Result;
use crate::html::{escaped, marked_table, table};

/// Runs that a page shows one beside the other: more would not be legible.
pub const MOST_BESIDE: usize = 12;

/// The page about these runs: each for itself if they are few, else as a sweep.
///
/// # Errors
/// The file of a run cannot be read any longer.
pub fn html(runs: &[Run]) -> Result<String> {
    let differences = runs::differences(runs);
    let labels = runs::labels(runs, &differences);
    let mut charts = Charts::default();
    let body = match runs.len() {
        0..=MOST_BESIDE => few(&mut charts, runs, &labels, &differences)?,
        _ => many::body(&mut charts, runs, &labels, &differences)?,
    };
    Ok(charts.page("Runs of rackmem's model", &body))
}

fn few(
    charts: &mut Charts,
    runs: &[Run],
    labels: &[String],
    differences: &[String],
) -> Result<String> {
    let mut body = String::from("<h1>Runs of the model</h1>\n") + &summary(runs, labels);
    body += "<h2>What limited them</h2>\n";
    for (run, label) in runs.iter().zip(labels) {
        let limits = run.limits.iter().map(|limit| limit.said.clone());
        let failed = run.error.iter().map(|error| format!("The run failed: {error}"));
        let said = failed.chain(limits).map(|one| format!("<li>{}</li>", escaped(&one)));
        body += &format!("<h3>{}</h3>\n<ul>{}</ul>\n", escaped(label), said.collect::<String>());
    }
    body += &settings(runs, labels, differences);
    let all: Vec<usize> = (0..runs.len()).collect();
    body += &sweep::drawn(charts, runs, labels, differences, &[]);
    Ok(body + &each(charts, runs, labels, &all)?)
}

/// What is shown of each of these runs by itself. Those that failed have nothing to show.
///
/// # Errors
/// The file of a run cannot be read any longer.
pub(super) fn each(
    charts: &mut Charts,
    runs: &[Run],
    labels: &[String],
    wanted: &[usize],
) -> Result<String> {
    let wanted: Vec<usize> =
        wanted.iter().copied().filter(|&at| runs[at].error.is_none()).collect();
    let labels: Vec<String> = wanted.iter().map(|&at| labels[at].clone()).collect();
    let whole = wanted.iter().map(|&at| read::whole(&runs[at])).collect::<Result<Vec<Run>>>()?;
    let body = breakdown(&whole, &labels) + &latencies(charts, &whole, &labels);
    Ok(body + &links_and_parts(charts, &whole, &labels))
}

fn summary(runs: &[Run], labels: &[String]) -> String {
    let known = quantities::known(runs);
    let mut head = vec!["run", "machine"];
    head.extend(known.iter().map(|quantity| quantity.name));
    head.extend(["seed", "machine's hash", "version"]);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |(run, label): (&Run, &String)| {
        let recipe = &run.report["recipe"];
        let name = run.keys.get("name").map_or("-", |name| name.trim_matches('"'));
        let mut row = vec![label.clone(), name.to_owned()];
        row.extend(known.iter().map(|quantity| quantity.shown(run)));
        row.extend([run.keys.get("seed").cloned().unwrap_or("-".to_owned())]);
        row.extend([text(&recipe["machine_hash"]), text(&recipe["version"])]);
        (if run.error.is_some() { "missed" } else { "" }, row)
    };
    marked_table(&head, &runs.iter().zip(labels).map(row).collect::<Vec<_>>())
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
    let cell = |run: &Run, name: &str| run.stage(name).map_or("-".to_owned(), three_digits);
    let row = |name: &&str| {
        [(*name).to_owned()].into_iter().chain(runs.iter().map(|run| cell(run, name))).collect()
    };
    let rows: Vec<Vec<String>> = names.iter().map(row).collect();
    String::from("<h2>Cycles by stage</h2>\n") + &table(&head("stage", labels), &rows)
}

fn head<'a>(first: &'a str, labels: &'a [String]) -> Vec<&'a str> {
    [first].into_iter().chain(labels.iter().map(String::as_str)).collect()
}

fn list(run: &Run, name: &str) -> Value {
    run.report[name].as_array().cloned().unwrap_or_default().into()
}

/// Latencies by stage and as histograms.
fn latencies(charts: &mut Charts, runs: &[Run], labels: &[String]) -> String {
    let has = |name: &str| runs.iter().any(|run| run.report[name].is_array());
    if !has("breakdown") && !has("latencies") {
        return String::new();
    }
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

    #[test]
    fn names_in_reports_are_text() {
        let keys = [("name".to_owned(), "</script>".to_owned())].into();
        let page = html(&[Run::new("a & b".to_owned(), json!({}), keys)]).unwrap();
        assert!(page.contains("a &amp; b") && page.contains("&lt;/script&gt;"));
    }

    #[test]
    fn a_run_that_failed_is_there_and_says_why() {
        let run = |name: &str| Run::new(name.to_owned(), json!({}), Default::default());
        let failed = Run::failed("b".to_owned(), "no <room>".to_owned(), Default::default());
        let page = html(&[run("a"), failed]).unwrap();
        assert!(page.contains("<tr class=\"missed\"><td>b</td>"));
        assert!(page.contains("The run failed: no &lt;room&gt;"));
    }
}
