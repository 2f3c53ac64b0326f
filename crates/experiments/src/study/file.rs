//! A study as a TOML file.

use std::path::{Path, PathBuf};

use rackmem_sim::machine::{self, Override};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::points::{self, Point, Varied};
use super::run::Program;
use crate::input;
use crate::nearest::nearest;

/// Keys of a study.
const KEYS: [&str; 6] = ["machine", "folder", "nodes", "programs", "set", "vary"];

/// A machine, what is set and what is varied.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The machine, built in or a file.
    pub machine: String,
    /// The folder of the runs' files; of a file without one, its name without `.toml`.
    pub folder: Option<PathBuf>,
    /// Settings of all runs.
    pub set: Vec<Override>,
    /// Settings that are varied, in their order.
    pub vary: Vec<Varied>,
    /// Programs that take the place of the machine's workload.
    pub programs: Vec<Program>,
    /// Nodes of the rack, each with a process of the program.
    pub nodes: u16,
}

/// Whether a file is a study: it names a machine.
///
/// # Errors
/// It cannot be read.
pub fn is_study(path: &Path) -> Result<bool, String> {
    let text =
        input::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(DeTable::parse_recoverable(&text).0.get_ref().contains_key("machine"))
}

impl Study {
    /// Reads a file. Names of machines' files and of programs begin in its folder, as does that of the runs.
    ///
    /// # Errors
    /// File, line, what is wrong.
    pub fn read(path: &Path) -> Result<Study, String> {
        let shown = path.display();
        let text = input::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let home = path.parent().unwrap_or(Path::new(""));
        let mut study = parse(&text, home).map_err(|(at, what)| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            format!("{shown}:{line}: {what}")
        })?;
        study.folder.get_or_insert_with(|| path.with_extension(""));
        Ok(study)
    }

    /// All runs.
    ///
    /// # Errors
    /// The machine cannot be loaded, a setting is varied twice, or no combination is a machine.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        let twice = |at: usize| self.vary[..at].iter().any(|one| one.path == self.vary[at].path);
        if let Some(at) = (0..self.vary.len()).find(|&at| twice(at)) {
            return Err(format!("{} is varied twice; give all values at once", self.vary[at].path));
        }
        // Whether they are read is known when the others are varied.
        let set: Vec<Override> = self.set.iter().cloned().map(Override::if_read).collect();
        let machine = machine::load(&self.machine, &set).map_err(|error| points::said(&error))?;
        let text = machine::resolved(&machine);
        let points = points::points(&text, &self.vary, &self.programs, self.nodes);
        let wrong = points.iter().map(|point| point.run.as_ref().err());
        if let Some([first, ..]) = wrong.collect::<Option<Vec<_>>>().as_deref() {
            return Err((*first).clone());
        }
        self.set.iter().try_for_each(|setting| is_read(setting, &points))?;
        Ok(points)
    }
}

/// That one of the runs reads a setting.
fn is_read(setting: &Override, points: &[Point]) -> Result<(), String> {
    let runs = points.iter().filter_map(|point| Some((point, point.run.as_ref().ok()?)));
    let mut unread =
        runs.map(|(point, run)| machine::unread(point.reader(), &run.machine, &setting.path));
    match unread.next() {
        Some(Some(because)) if unread.all(|other| other.is_some()) => {
            Err(format!("{}: nothing reads it: {because}", setting.path))
        }
        _ => Ok(()),
    }
}

/// Offset of a mistake, and what it is.
type Mistake = (usize, String);

type Value<'a> = Spanned<DeValue<'a>>;

fn parse(text: &str, home: &Path) -> Result<Study, Mistake> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut study = Study { nodes: 1, ..Study::default() };
    for (key, value) in table.get_ref() {
        match key.get_ref().as_ref() {
            "machine" => study.machine = machine(string(value, "a machine")?, home),
            "folder" => study.folder = Some(home.join(string(value, "a folder")?)),
            "nodes" => study.nodes = nodes(value)?,
            "programs" => study.programs = programs(value, home)?,
            "set" => study.set = settings(value)?,
            "vary" => study.vary = varied(value)?,
            other => {
                let hint = nearest(other, KEYS);
                return Err((
                    key.span().start,
                    format!("{other}: no such key{hint}; there are {}", KEYS.join(", ")),
                ));
            }
        }
    }
    match study.machine.is_empty() {
        true => Err((0, "machine = \"...\" is missing: a built-in machine or a file".to_owned())),
        false => Ok(study),
    }
}

/// A built-in machine, or a file beside the study.
fn machine(name: &str, home: &Path) -> String {
    let file = home.join(name);
    if file.is_file() { file.to_string_lossy().into_owned() } else { name.to_owned() }
}

fn nodes(value: &Value<'_>) -> Result<u16, Mistake> {
    let number = value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
    let number = number.filter(|&nodes| nodes > 0);
    number.ok_or_else(|| expected(value, "nodes", "a number from 1 to 65535"))
}

fn programs(value: &Value<'_>, home: &Path) -> Result<Vec<Program>, Mistake> {
    let wanted = "a list of programs: each a name or a list of a name and arguments";
    let list = value.get_ref().as_array().ok_or_else(|| expected(value, "programs", wanted))?;
    let one = |value: &Value<'_>| {
        let mut argv: Vec<String> = match value.get_ref() {
            DeValue::Array(words) => words
                .iter()
                .map(|word| Ok(string(word, wanted)?.to_owned()))
                .collect::<Result<_, Mistake>>()?,
            _ => vec![string(value, wanted)?.to_owned()],
        };
        if let Some(name) = argv.first_mut() {
            let file = home.join(&*name);
            if file.is_file() {
                *name = file.to_string_lossy().into_owned();
            }
        }
        points::program(&argv).map_err(|why| (value.span().start, why))
    };
    list.iter().map(one).collect()
}

fn settings(value: &Value<'_>) -> Result<Vec<Override>, Mistake> {
    let settings = flat(value)?.into_iter();
    Ok(settings.map(|(_, path, value)| Override::new(path, toml(value))).collect())
}

fn varied(value: &Value<'_>) -> Result<Vec<Varied>, Mistake> {
    let one = |(_, path, value): Entry<'_, '_>| {
        let values = value.get_ref().as_array().filter(|values| !values.is_empty());
        let values = values.ok_or_else(|| expected(value, &path, "a list of values"))?;
        Ok(Varied { path, values: values.iter().map(toml).collect() })
    };
    flat(value)?.into_iter().map(one).collect()
}

/// A key below a table: its offset in the file, its path, its value.
type Entry<'a, 'i> = (usize, String, &'a Value<'i>);

/// All keys below a table, in the order of the file.
fn flat<'a, 'i>(value: &'a Value<'i>) -> Result<Vec<Entry<'a, 'i>>, Mistake> {
    let DeValue::Table(_) = value.get_ref() else {
        return Err(expected(value, "set and vary", "keys of the machine, such as noc.vcs = 2"));
    };
    let mut all = Vec::new();
    add((0, String::new(), value), &mut all);
    all.sort_by_key(|&(at, ..)| at);
    Ok(all)
}

fn add<'a, 'i>((at, path, value): Entry<'a, 'i>, all: &mut Vec<Entry<'a, 'i>>) {
    let DeValue::Table(table) = value.get_ref() else {
        all.push((at, path, value));
        return;
    };
    for (key, value) in table {
        let name = key.get_ref();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        add((key.span().start, path, value), all);
    }
}

fn toml(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::String(text) => toml::Value::String(text.to_string()).to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(_) => "{}".to_owned(),
    }
}

fn string<'a>(value: &'a Value<'_>, what: &str) -> Result<&'a str, Mistake> {
    match value.get_ref() {
        DeValue::String(text) if !text.is_empty() => Ok(text),
        _ => Err((value.span().start, format!("expected {what}"))),
    }
}

fn expected(value: &Value<'_>, key: &str, what: &str) -> Mistake {
    (value.span().start, format!("{key}: expected {what}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = r#"
machine = "sonuma"
nodes = 2
programs = ["hello", ["netpipe", "--json"]]
[set]
seed = 7
[vary]
"l1.latency_cycles" = [3, 8]
core.mhz = ["1", 2.5]
clock = [true]
"#;

    #[test]
    fn a_file_is_read_in_its_order() {
        let study = parse(TEXT, Path::new("")).unwrap();
        assert_eq!((study.machine.as_str(), study.nodes, study.set.len()), ("sonuma", 2, 1));
        let varied: Vec<String> = study
            .vary
            .iter()
            .map(|one| format!("{}: {}", one.path, one.values.join(" ")))
            .collect();
        assert_eq!(varied, ["l1.latency_cycles: 3 8", "core.mhz: \"1\" 2.5", "clock: true"]);
        assert_eq!(study.programs[1].argv, ["netpipe", "--json"]);
    }

    #[test]
    fn mistakes_have_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("study.toml");
        for (text, complaint) in [
            ("machine = 3", ":1: expected a machine"),
            ("\nmachin = 'x'", ":2: machin: no such key; did you mean machine?"),
            ("[vary]\nx = [1]", ":1: machine = \"...\" is missing"),
            ("machine = 'x'\n[vary]\nnoc.vcs = 2", ":3: noc.vcs: expected a list of values"),
            ("machine = 'x'\nnodes = 0", ":2: nodes: expected a number from 1 to 65535"),
            ("machine = 'x'\nprograms = 'hello'", ":2: programs: expected a list of programs"),
            ("machine = 'x'\nprograms = ['hallo']", ":2: hallo: No such file"),
            ("machine = 'x'\nvary = 3", ":2: set and vary: expected keys"),
            ("machine = ", ":1: "),
        ] {
            fs::write(&file, text).unwrap();
            let found = Study::read(&file).unwrap_err();
            assert!(found.contains(complaint), "{text}: {found}");
        }
        fs::write(&file, "machine = 'manycore-ni'").unwrap();
        assert_eq!(Study::read(&file).unwrap().folder, Some(dir.path().join("study")));
        assert!(is_study(&file).unwrap());
    }
}
