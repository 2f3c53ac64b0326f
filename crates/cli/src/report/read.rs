//! Files and folders of runs.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use rackmem_experiments::input;
use rackmem_experiments::study::failed;
use rackmem_sim::machine::{self, Override};
use serde_json::Value;
use toml::Table;

use super::runs::{Run, by_value, differences, plain};
use crate::console;
use crate::failure::{Failure, Result};
use crate::size;

/// Reads files, `report.json` of folders that have one, and all runs of other folders, ordered by their settings. Of
/// each run it keeps what every page shows; [`whole`] gives the rest.
///
/// # Errors
/// There is nothing of a name, or a file is no report.
pub fn read(names: &[PathBuf]) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for name in names {
        let files = files(name)?;
        let is_sweep = name.is_dir() && files.len() > 1;
        let light = |file: &PathBuf| {
            read_one(file).map(|mut run| {
                run.lighten(file.clone());
                run
            })
        };
        let found = files.iter().map(light).collect::<Result<Vec<Run>>>()?;
        runs.extend(if is_sweep { in_order(newest(found)) } else { found });
    }
    Ok(runs)
}

/// Of runs with the same settings the one that was made last, and of those that failed and were made later, the
/// report: the others are of other versions of the model or of a program.
fn newest(runs: Vec<Run>) -> Vec<Run> {
    let made = |run: &Run| {
        let file = run.file.as_ref().and_then(|file| fs::metadata(file).ok());
        (run.error.is_none(), file.and_then(|file| file.modified().ok()))
    };
    let made: Vec<_> = runs.iter().map(made).collect();
    let mut last: HashMap<&BTreeMap<String, String>, usize> = HashMap::new();
    for (at, run) in runs.iter().enumerate() {
        let known = last.entry(&run.keys).or_insert(at);
        if made[at] > made[*known] {
            *known = at;
        }
    }
    let mut kept: Vec<usize> = last.into_values().collect();
    kept.sort_unstable();
    if kept.len() < runs.len() {
        let older = console::count(runs.len() - kept.len(), "older run");
        console::remark(&format!("{older} of the same settings left out"));
    }
    let mut runs: Vec<Option<Run>> = runs.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| runs[at].take()).collect()
}

/// The run with all that its report has.
///
/// # Errors
/// Its file is there no longer, or is another.
pub fn whole(run: &Run) -> Result<Run> {
    match &run.file {
        None => Ok(run.clone()),
        Some(file) => read_one(file),
    }
}

/// The runs whose settings have one of the values that are asked for, separated by commas.
///
/// # Errors
/// There are none, or their machines have no such key.
pub fn only(mut runs: Vec<Run>, wanted: &[Override]) -> Result<Vec<Run>> {
    for Override { path, value, .. } in wanted {
        if !runs.iter().any(|run| run.keys.contains_key(path)) {
            let known = runs.iter().flat_map(|run| run.keys.keys());
            let near = machine::nearest(path, known.map(String::as_str));
            let near = near.map_or(String::new(), |known| format!("; did you mean {known}?"));
            return Err(Failure::usage(format!("--only {path}: no run has such a key{near}")));
        }
        let mut known: Vec<Value> = runs.iter().map(|run| run.setting(path)).collect();
        let values: Vec<&str> = value.split(',').map(str::trim).collect();
        runs.retain(|run| values.iter().any(|value| is_value(run, path, value)));
        if runs.is_empty() {
            known.sort_by(by_value);
            known.dedup();
            let shown = known.iter().take(20).map(plain);
            let known = shown.collect::<Vec<_>>().join(", ");
            return Err(Failure::usage(format!(
                "--only {path}={value}: no run is left; there are {known}"
            )));
        }
    }
    Ok(runs)
}

/// Whether this is the run's value of a key, as people write it.
fn is_value(run: &Run, key: &str, text: &str) -> bool {
    let text = text.trim_matches('"');
    let number = || text.parse().ok().or_else(|| Some(size::parse(text).ok()? as f64));
    match run.setting(key) {
        Value::Number(value) => value.as_f64() == number(),
        value => value == text,
    }
}

/// By the settings in which they differ.
fn in_order(mut runs: Vec<Run>) -> Vec<Run> {
    let differences = differences(&runs);
    runs.sort_by_cached_key(|run| run.name.clone());
    runs.sort_by(|a, b| {
        let each = differences.iter().map(|key| by_value(&a.setting(key), &b.setting(key)));
        each.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
    runs
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
    let is_run =
        |extension: &std::ffi::OsStr| extension == "json" || extension == failed::EXTENSION;
    all.retain(|file| file.extension().is_some_and(is_run));
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
    let text = input::read_to_string(file).map_err(|error| Failure::io(&shown, error))?;
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
    add_program(&report, &mut keys);
    let folder = file.parent().and_then(Path::file_name);
    let stem = file.file_stem().filter(|stem| *stem != "report").or(folder);
    let name = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(match report["error"].as_str() {
        Some(error) => Run::failed(name, error.to_owned(), keys),
        None => Run::new(name, report, keys),
    })
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

/// A program with its arguments.
fn words(program: &Value) -> String {
    let arguments = program["arguments"].as_array().into_iter().flatten();
    let words: Vec<&str> =
        [&program["program"]].into_iter().chain(arguments).filter_map(Value::as_str).collect();
    words.join(" ")
}

/// The programs with their arguments, and the number of their processes, as if they were keys of the machine.
fn add_program(report: &Value, all: &mut BTreeMap<String, String>) {
    if report["program"].as_str().is_none() {
        return;
    }
    let several = report["programs"].as_array().map(Vec::as_slice);
    let several = several.unwrap_or(std::slice::from_ref(report)).iter().map(words);
    all.insert("program".to_owned(), several.collect::<Vec<_>>().join(" : "));
    let nodes =
        report["nodes"].as_array().map(Vec::len).or(report["nodes"].as_u64().map(|n| n as usize));
    nodes.map(|nodes| all.insert("nodes".to_owned(), nodes.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, keys: &[(&str, &str)]) -> Run {
        let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Run::new(name.to_owned(), Value::Null, keys.iter().map(own).collect())
    }

    fn names(runs: &[Run]) -> Vec<&str> {
        runs.iter().map(|run| run.name.as_str()).collect()
    }

    #[test]
    fn runs_of_a_folder_are_ordered_by_their_settings() {
        let runs = vec![
            run("a", &[("noc.vcs", "16"), ("ni", "\"split\"")]),
            run("b", &[("noc.vcs", "2"), ("ni", "\"split\"")]),
            run("d", &[("noc.vcs", "4"), ("ni", "\"edge\"")]),
            run("c", &[("noc.vcs", "4"), ("ni", "\"edge\"")]),
        ];
        assert_eq!(names(&in_order(runs)), ["c", "d", "b", "a"]);
    }

    #[test]
    fn runs_are_chosen_by_settings() {
        let runs = || {
            vec![
                run("a", &[("llc.size_bytes", "1048576"), ("ni.placement", "\"edge\"")]),
                run("b", &[("llc.size_bytes", "2048"), ("ni.placement", "\"split\"")]),
                run("c", &[("llc.size_bytes", "4096"), ("ni.placement", "\"edge\"")]),
            ]
        };
        let only = |wanted: &[&str]| {
            let wanted: Vec<Override> = wanted.iter().map(|one| one.parse().unwrap()).collect();
            only(runs(), &wanted)
        };
        assert_eq!(names(&only(&["llc.size_bytes=1M,2048"]).unwrap()), ["a", "b"]);
        assert_eq!(names(&only(&["ni.placement=edge", "llc.size_bytes=4k"]).unwrap()), ["c"]);
        let error = |wanted| only(&[wanted]).unwrap_err().message.unwrap();
        assert!(error("ni.place=edge").ends_with("did you mean ni.placement?"));
        assert!(error("ni.placement=tile").ends_with("no run is left; there are edge, split"));
    }

    #[test]
    fn of_the_same_settings_the_newest_report_counts() {
        let dir = tempfile::tempdir().unwrap();
        let begin = std::time::SystemTime::UNIX_EPOCH;
        let at = |mut run: Run, seconds| {
            let path = dir.path().join(&run.name);
            let file = fs::File::create(&path).unwrap();
            file.set_modified(begin + std::time::Duration::from_secs(seconds)).unwrap();
            run.file = Some(path);
            run
        };
        let made = |name: &str, vcs: &str, seconds| at(run(name, &[("noc.vcs", vcs)]), seconds);
        let failed = |name: &str, vcs: &str, seconds| {
            let keys = run("", &[("noc.vcs", vcs)]).keys;
            at(Run::failed(name.to_owned(), String::new(), keys), seconds)
        };
        let all = vec![
            made("a", "2", 9),
            made("b", "2", 10),
            made("c", "4", 9),
            failed("d", "4", 10),
            failed("e", "8", 9),
        ];
        assert_eq!(names(&newest(all)), ["b", "c", "e"]);
    }

    #[test]
    fn programs_are_settings() {
        let mut keys = BTreeMap::new();
        let report =
            serde_json::json!({ "program": "a", "arguments": ["-b", "c"], "nodes": [{}, {}] });
        add_program(&report, &mut keys);
        assert_eq!((&*keys["program"], &*keys["nodes"]), ("a -b c", "2"));
        let both = serde_json::json!([report, { "program": "d", "arguments": [] }]);
        let report = serde_json::json!({ "program": "a", "arguments": [], "programs": both });
        add_program(&report, &mut keys);
        assert_eq!(keys["program"], "a -b c : d");
    }
}
