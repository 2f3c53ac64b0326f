//! Names of metrics: those of the exporter, of the book's table and of the dashboard are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rackmem_cli::metrics;
use serde_json::Value;

fn file(path: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Names that begin with `rackmem_` in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("rackmem_"));
    words.map(str::to_owned).collect()
}

#[test]
fn names_have_units_and_counters_a_total() {
    let mut seen = BTreeSet::new();
    for (name, kind, help) in metrics::all() {
        assert!(seen.insert(name), "{name} is there twice");
        assert_eq!(name.ends_with("_total"), kind == metrics::Kind::Counter, "{name}");
        assert!(help.ends_with('.') && !help.contains(['\n', '\\']), "{name}: {help}");
        for word in ["_ms", "_kib", "_percent", "_micro"] {
            assert!(!name.contains(word), "{name}: units are bytes and seconds");
        }
    }
}

#[test]
fn the_books_table_is_that_of_the_exporter() {
    let book = file("docs/book/src/memory/operate.md");
    let rows = book.lines().filter_map(|line| line.strip_prefix("| `rackmem_"));
    let documented: BTreeMap<String, (String, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = format!("rackmem_{}", cells[0].trim_end_matches('`'));
            (name, (cells[1].to_owned(), cells[2].to_owned()))
        })
        .collect();
    let exported: BTreeMap<String, (String, String)> = metrics::all()
        .into_iter()
        .map(|(name, kind, help)| {
            (name.to_owned(), (kind.name().to_owned(), help.trim_end_matches('.').to_owned()))
        })
        .collect();
    assert_eq!(documented, exported);
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard: Value = serde_json::from_str(&file("packaging/grafana/rackmem.json")).unwrap();
    let exported: BTreeSet<String> =
        metrics::all().into_iter().map(|(name, ..)| name.to_owned()).collect();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            let of_query = names(query);
            assert!(!of_query.is_empty(), "{query}");
            for name in &of_query {
                let is_rate = query.contains(&format!("rate({name}"));
                assert_eq!(is_rate, name.ends_with("_total"), "{query}: counters are rated");
            }
            asked.extend(of_query);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        asked.extend(names(variable["query"].as_str().unwrap_or_default()));
    }
    let unknown: Vec<_> = asked.difference(&exported).collect();
    assert!(unknown.is_empty(), "the exporter has no {unknown:?}");
    assert!(asked.len() > 10, "{asked:?}");
}
