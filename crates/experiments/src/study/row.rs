//! A report as a row of numbers.

use serde_json::{Map, Value};

/// Members of reports that are no columns.
const LISTS: [&str; 6] = ["stats", "recipe", "links", "windows", "latencies", "breakdown"];

/// All numbers and truths of a report by path: members, stages of latency, what a program printed as JSON, statistics.
pub fn numbers(report: &Value) -> Map<String, Value> {
    let mut row = Map::new();
    for (name, member) in report.as_object().into_iter().flatten() {
        if !LISTS.contains(&name.as_str()) {
            add(name, member, &mut row);
        }
    }
    for stage in report["breakdown"].as_array().into_iter().flatten() {
        let name = stage["name"].as_str().unwrap_or_default();
        row.insert(format!("breakdown.{name}"), stage["mean_cycles"].clone());
    }
    if let Some(printed) = report["nodes"][0]["stdout"].as_str()
        && let Ok(printed) = serde_json::from_str::<Value>(printed)
    {
        add("output", &printed, &mut row);
    }
    for (path, value) in report["stats"].as_object().into_iter().flatten() {
        row.insert(path.clone(), value.clone());
    }
    row
}

fn add(path: &str, value: &Value, row: &mut Map<String, Value>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| add(&format!("{path}.{name}"), member, row));
        }
        Value::Array(members) => {
            let each = members.iter().enumerate();
            each.for_each(|(index, member)| add(&format!("{path}[{index}]"), member, row));
        }
        Value::Number(_) | Value::Bool(_) => drop(row.insert(path.to_owned(), value.clone())),
        Value::Null | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_paths() {
        let report = serde_json::json!({
            "machine": "m", "cycles": 7, "converged": true, "links": [{"from": 1}],
            "latency": {"mean_cycles": 2.5}, "breakdown": [{"name": "wire", "mean_cycles": 2.0}],
            "nodes": [{"exit_status": 0, "stdout": "{\"sizes\": [{\"bytes\": 8}]}\n"}],
            "stats": {"rmc[0].lines": 3},
        });
        let row = numbers(&report);
        let found: Vec<String> =
            row.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let expected = [
            "breakdown.wire=2.0",
            "converged=true",
            "cycles=7",
            "latency.mean_cycles=2.5",
            "nodes[0].exit_status=0",
            "output.sizes[0].bytes=8",
            "rmc[0].lines=3",
        ];
        assert_eq!(found, expected);
    }
}
