//! A study's runs as JSON, CSV and a table.

use std::collections::HashMap;

use rackmem_experiments::study::points::shown;
use rackmem_experiments::study::{Point, row};
use rackmem_sim::machine::Override;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Outcome;
use super::args::SweepArgs;
use crate::console::{self, Align, Table};
use crate::failure::Failure;
use crate::size;

/// Columns of the table, of those numbers that any of the reports has. `--csv` has all.
const COLUMNS: [&str; 13] = [
    "latency.mean_cycles",
    "latency.p99_cycles",
    "app_gbps",
    "noc_gbps",
    "reads_per_us",
    "rack.offered_gbps",
    "rack.accepted_gbps.mean",
    "rack.link_mean",
    "rack.link_max",
    "rack.saturated",
    "simulated_ns",
    "cycles",
    "converged",
];

/// Of these, what a workload without windows does not measure.
const LOADED: [&str; 3] = ["app_gbps", "noc_gbps", "reads_per_us"];

/// A run of a study.
#[derive(Debug, Serialize)]
pub struct Row {
    #[serde(serialize_with = "as_map")]
    settings: Vec<(String, Value)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    key: Option<String>,
    /// The reason why there is no report.
    pub error: Option<String>,
    report: Value,
}

/// Settings of a point by path, in their order.
fn settings(point: &Point) -> Vec<(String, Value)> {
    let one = |setting: &Override| (setting.path.clone(), Value::from(shown(setting)));
    point.settings.iter().map(one).collect()
}

fn as_map<S: Serializer>(settings: &[(String, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(settings.iter().map(|(path, value)| (path, value)))
}

impl Row {
    /// Of a point, whose report is among these.
    pub fn new(point: &Point, reports: &HashMap<String, Outcome>) -> Row {
        let key = point.run.as_ref().ok().map(|run| run.key.clone());
        let report = point
            .run
            .as_ref()
            .map_err(String::as_str)
            .and_then(|run| reports[&run.key].as_deref().map_err(String::as_str));
        let error = report.err().map(str::to_owned);
        let report = report.ok().and_then(|text| serde_json::from_str(text).ok());
        let report = report.unwrap_or_default();
        Row { settings: settings(point), program: point.program(), key, error, report }
    }

    /// Settings and program, by the names of their columns.
    fn named(&self) -> impl Iterator<Item = (String, Value)> {
        let settings = self.settings.clone().into_iter();
        let program = self.program.clone().map(|program| ("program".to_owned(), program.into()));
        settings.chain(program)
    }

    fn numbers(&self) -> Map<String, Value> {
        row::numbers(&self.report)
    }
}

/// Prints them as the arguments say.
pub fn print(args: &SweepArgs, rows: &[Row]) -> Result<(), Failure> {
    match (args.json, args.csv) {
        (true, _) => console::print_json(&rows),
        (_, true) => console::print(&csv(rows)),
        _ => console::print(&table(rows)),
    }
}

fn csv(rows: &[Row]) -> String {
    let numbers: Vec<Map<String, Value>> = rows.iter().map(Row::numbers).collect();
    let names = rows.first().into_iter().flat_map(Row::named).map(|(name, _)| name);
    let mut columns: Vec<&String> = numbers.iter().flat_map(Map::keys).collect();
    columns.sort();
    columns.dedup();
    let header = names.chain(["error".to_owned()]).chain(columns.iter().map(|&name| name.clone()));
    let mut text = line(header);
    for (row, numbers) in rows.iter().zip(&numbers) {
        let named = row.named().map(|(_, value)| plain(&value));
        let error = row.error.clone().unwrap_or_default();
        let cells = columns.iter().map(|&name| numbers.get(name).map(plain).unwrap_or_default());
        text += &line(named.chain([error]).chain(cells));
    }
    text
}

/// A line of CSV, as RFC 4180 has it.
fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn table(rows: &[Row]) -> String {
    let names: Vec<String> =
        rows.first().into_iter().flat_map(Row::named).map(|(name, _)| name).collect();
    let left = names.iter().map(|name| (name.as_str(), Align::Left));
    let right = COLUMNS.iter().map(|&name| (name, Align::Right));
    let columns = left.chain(right).chain([("error", Align::Left)]);
    let mut table = Table::new(&columns.collect::<Vec<_>>());
    for row in rows {
        let numbers = row.numbers();
        let is_loaded = row.report["windows"].as_array().is_none_or(|windows| !windows.is_empty());
        let cell = |name: &&str| match numbers.get(*name) {
            Some(_) if LOADED.contains(name) && !is_loaded => String::new(),
            Some(Value::Bool(truth)) => if *truth { "yes" } else { "no" }.to_owned(),
            Some(number) => number.as_f64().map_or_else(String::new, size::three_digits),
            None => String::new(),
        };
        let cells = COLUMNS.iter().map(cell);
        let error = row.error.clone().unwrap_or_default();
        table.row(row.named().map(|(_, value)| plain(&value)).chain(cells).chain([error]));
    }
    table.without_empty().render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_line_per_run_and_no_value_that_was_not_measured() {
        let row = |vcs: &str, error: Option<&str>, report: Value| Row {
            settings: vec![("noc.vcs".to_owned(), Value::from(vcs))],
            program: Some("netpipe --sizes=8,64".to_owned()),
            key: None,
            error: error.map(str::to_owned),
            report,
        };
        let report = serde_json::json!({"cycles": 7, "stats": {"a.b": 2.5}});
        let rows = [row("2", None, report), row("0", Some("is \"0\""), Value::Null)];
        let expected = "noc.vcs,program,error,a.b,cycles\n2,\"netpipe --sizes=8,64\",,2.5,7\n0,\
                        \"netpipe --sizes=8,64\",\"is \"\"0\"\"\",,\n";
        assert_eq!(csv(&rows), expected);
    }
}
