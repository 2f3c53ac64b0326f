//! The settings that there are, and what their values may be: both follow from [`Machine`] itself.

use std::str::FromStr;

use toml::{Table, Value};

use super::error::{MachineError, Origin};
use super::nearest::nearest;
use super::spec::Machine;

/// A setting of the command line: `path=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Path of the setting, such as `noc.link_bytes`.
    pub path: String,
    /// As TOML; a text that is not TOML is taken as a string without quotes.
    pub value: String,
    /// Whether it is an error if nothing of the machine reads it.
    pub must_be_read: bool,
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Override::new(path.trim(), value.trim()))
            }
            _ => Err(format!("'{text}': expected path=value, such as noc.link_bytes=32")),
        }
    }
}

impl Override {
    /// A setting as `--set path=value` makes it.
    pub fn new(path: impl Into<String>, value: impl ToString) -> Override {
        Override { path: path.into(), value: value.to_string(), must_be_read: true }
    }

    /// The same, for machines of which some read it.
    pub fn if_read(self) -> Override {
        Override { must_be_read: false, ..self }
    }

    /// Its value as TOML.
    pub(super) fn parsed(&self) -> Value {
        let document = format!("value = {}", self.value);
        let parsed = document.parse::<Table>().ok().filter(|table| table.len() == 1);
        let value = parsed.and_then(|mut table| table.remove("value"));
        value.unwrap_or_else(|| Value::String(self.value.clone()))
    }
}

/// Settings that there were once, and what to set now.
const GONE: [(&str, &str); 3] = [
    (
        "run.stable_percent",
        "is gone, as two windows may agree by chance; set run.precision_percent, half the 95 % confidence interval \
         of the bandwidth in per cent of it",
    ),
    ("noc.butterfly_router_cycles", "is gone, as it only chose between routers; set noc.router"),
    ("rmc.page_bytes", "is gone, as all pages of a node have one size; set system.page_bytes"),
];

/// Values that there were once.
const GONE_VALUES: [(&str, &str, &str); 3] = [
    ("experiment.kind", "key-value", "is gone; execute deoi_cache on deoi-cores"),
    ("network.remote", "torus", "is gone; set kind = \"torus\""),
    ("network.remote", "extension", "is gone; set kind = \"soc\""),
];

/// All settings with their default values.
pub(super) struct Schema {
    defaults: Table,
    paths: Vec<String>,
}

impl Schema {
    pub(super) fn new() -> Schema {
        let defaults = Table::try_from(Machine::default()).unwrap_or_default();
        let mut paths = Vec::new();
        for (key, value) in &defaults {
            match value {
                Value::Table(section) => {
                    paths.extend(section.keys().map(|inner| format!("{key}.{inner}")));
                }
                _ => paths.push(key.clone()),
            }
        }
        Schema { defaults, paths }
    }

    pub(super) fn defaults(&self) -> &Table {
        &self.defaults
    }

    /// Whether this is a section in which a file sets nothing.
    pub(super) fn is_empty_section(&self, path: &str, value: &Value) -> bool {
        let empty = value.as_table().is_some_and(Table::is_empty);
        empty && self.defaults.get(path).is_some_and(Value::is_table)
    }

    /// The value in the form in which a machine takes it, if it fits one.
    pub(super) fn checked(
        &self,
        path: &str,
        value: Value,
        origin: &Origin,
    ) -> Result<Value, MachineError> {
        let value = self.converted(path, value, origin)?;
        // All other settings have their default values.
        let mut table = Table::new();
        set(&mut table, path, value.clone());
        let Err(error) = table.try_into::<Machine>() else { return Ok(value) };
        let is_gone =
            |&&(gone, of, _): &&(&str, &str, &str)| gone == path && value.as_str() == Some(of);
        let instead = GONE_VALUES.iter().find(is_gone).map(|(_, _, instead)| *instead);
        let problem = instead.map_or_else(|| with_nearest(error.message().trim()), str::to_owned);
        Err(wrong(path, origin, problem))
    }

    /// The value of a known key, with sizes as numbers.
    pub(super) fn converted(
        &self,
        path: &str,
        value: Value,
        origin: &Origin,
    ) -> Result<Value, MachineError> {
        self.known(path, origin)?;
        match value {
            Value::String(text) if path.ends_with("_bytes") => {
                let size = size(&text).map_err(|problem| wrong(path, origin, problem))?;
                Ok(Value::Integer(size))
            }
            value => Ok(value),
        }
    }

    /// That there is such a setting.
    pub(super) fn known(&self, path: &str, origin: &Origin) -> Result<(), MachineError> {
        let known = self.paths.iter().any(|known| known == path);
        let unknown = || MachineError {
            origin: origin.clone(),
            key: path.to_owned(),
            problem: self.unknown(path),
        };
        if known { Ok(()) } else { Err(unknown()) }
    }

    /// The message about a setting that does not exist.
    fn unknown(&self, path: &str) -> String {
        if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == path) {
            return (*instead).to_owned();
        }
        let inside = |known: &&String| known.starts_with(&format!("{path}."));
        if let Some(example) = self.paths.iter().find(inside) {
            return format!("is a section; set one of its keys, such as {example}");
        }
        let outside = |known: &&String| path.starts_with(&format!("{known}."));
        if let Some(value) = self.paths.iter().find(outside) {
            return format!("no such key: {value} is a value, not a section");
        }
        match self.nearest(path, |_| true) {
            Some(known) => format!("no such key; did you mean {known}?"),
            None => "no such key; `rackmem sim show MACHINE` prints all keys".to_owned(),
        }
    }

    /// The most similar setting, of those that are wanted.
    pub(super) fn nearest(&self, path: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
        nearest(path, self.paths().filter(|known| is_wanted(known)))
    }

    /// All settings.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// Sets a value; the path has one or two components.
pub(super) fn set(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((section, key)) => {
            let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(section) = section {
                section.insert(key.to_owned(), value);
            }
        }
    }
}

/// Names the value that was meant, if serde's message says that there is none of that name.
fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let given = names.next().filter(|_| message.starts_with("unknown variant")).unwrap_or_default();
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(given, known);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|known| likeness(known) > 0.5) {
        Some(known) => format!("{message}; did you mean `{known}`?"),
        None => message.to_owned(),
    }
}

fn wrong(path: &str, origin: &Origin, problem: String) -> MachineError {
    MachineError { origin: origin.clone(), key: path.to_owned(), problem }
}

/// A number of bytes as people write it: `16M`.
fn size(text: &str) -> Result<i64, String> {
    let problem = || format!("'{text}' is no size; write a number of bytes, or such as \"16M\"");
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(problem()),
    };
    let number: i64 = digits.parse().map_err(|_| problem())?;
    number.checked_mul(1 << shift).ok_or_else(problem)
}
