//! Reports of runs, and how their machines differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rackmem_experiments::digits::three_digits;
use serde_json::Value;
use toml::Table;

use crate::failure::{Failure, Result};

/// A report of `rackmem sim run`, `rackmem sim exec` or a sweep.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name that people gave it: of its file or folder.
    pub name: String,
    /// All of it.
    pub report: Value,
    /// Keys of the machine, as TOML values.
    pub keys: BTreeMap<String, String>,
}

/// Reads files, `report.json` of folders that have one, and all reports of other folders.
///
/// # Errors
/// There is nothing of a name, or a file is no report.
pub fn read(names: &[PathBuf]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for name in names {
        for file in files(name)? {
            runs.push(read_one(&file)?);
        }
    }
    Ok(runs)
}

fn files(name: &Path) -> Result<Vec<PathBuf>> {
    let own = name.join("report.json");
    if !name.is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    if own.is_file() {
        return Ok(vec![own]);
    }
    let entries = fs::read_dir(name).map_err(|error| Failure::io(name.display(), error))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    all.sort();
    match all.is_empty() {
        true => Err(Failure::usage(format!(
            "{} has no reports: `rackmem sim run MACHINE --out DIR` writes one",
            name.display()
        ))),
        false => Ok(all),
    }
}

fn read_one(file: &Path) -> Result<Run> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| Failure::io(&shown, error))?;
    let no_report = |why: String| {
        let hint =
            "`rackmem sim run MACHINE --out DIR` and `rackmem sim exec --report FILE` write one";
        Failure::usage(format!("{shown} is no report: {why}; {hint}"))
    };
    let report: Value =
        serde_json::from_str(&text).map_err(|error| no_report(error.to_string()))?;
    let machine = report["recipe"]["machine"].as_str();
    let machine = machine.ok_or_else(|| no_report("it has no recipe.machine".to_owned()))?;
    let table: Table =
        machine.parse().map_err(|error| no_report(format!("recipe.machine: {error}")))?;
    let mut keys = BTreeMap::new();
    add_keys(&table, "", &mut keys);
    let folder = file.parent().and_then(Path::file_name);
    let stem = file.file_stem().filter(|stem| *stem != "report").or(folder);
    let name = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(Run { name, report, keys })
}

fn add_keys(table: &Table, path: &str, all: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            toml::Value::Table(inner) => add_keys(inner, &path, all),
            value => drop(all.insert(path, value.to_string())),
        }
    }
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

impl Run {
    /// A name that tells it from others: the values of up to three keys in which their machines differ, else its own.
    pub fn label(&self, differences: &[String]) -> String {
        let value = |key: &String| {
            let (_, short) = key.rsplit_once('.').unwrap_or(("", key));
            let value = self.keys.get(key).map_or("-", |value| value.trim_matches('"'));
            format!("{short} {value}")
        };
        match differences.len() {
            0 | 4.. => self.name.clone(),
            _ => differences.iter().map(value).collect::<Vec<_>>().join(", "),
        }
    }

    /// Whether it is of simplified nodes on a torus.
    pub fn is_rack(&self) -> bool {
        self.report.get("rack").is_some()
    }

    /// A number of the report, by members.
    pub fn number(&self, path: &[&str]) -> Option<f64> {
        path.iter().try_fold(&self.report, |value, name| value.get(name))?.as_f64()
    }

    /// A statistic.
    pub fn stat(&self, path: &str) -> Option<f64> {
        self.report["stats"][path].as_f64()
    }

    /// The same as tables show it.
    pub fn shown(&self, path: &[&str]) -> String {
        self.number(path).map_or("-".to_owned(), three_digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, keys: &[(&str, &str)]) -> Run {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Run { name: name.to_owned(), report: Value::Null, keys: keys.iter().map(own).collect() }
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
}
