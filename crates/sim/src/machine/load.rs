//! From a file to a machine, and back.

use toml::{Table, Value};

use super::error::{MachineError, Origin};
use super::layer::{self, Layers, Setting};
use super::needs::{Reading, Use};
use super::schema::{Override, Schema, set};
use super::spec::Machine;
use super::validate::{Invalid, validate};

/// Loads a machine: the name of a built-in one or the path of a file, with settings that override
/// the file's.
///
/// # Errors
/// The first thing that is wrong with the file, the files it is based on, the overrides, or the
/// machine that they describe together.
pub fn load(machine: &str, overrides: &[Override]) -> Result<Machine, MachineError> {
    load_for(Use::Any, machine, overrides)
}

/// The same for a certain use: an override that it does not read is an error.
///
/// # Errors
/// As [`load`].
pub fn load_for(
    reader: Use,
    machine: &str,
    overrides: &[Override],
) -> Result<Machine, MachineError> {
    build(layer::read(machine)?, overrides, reader)
}

/// The machine of a text that is based on no other, such as [`resolved`] gives. Errors call it by this name.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    reader: Use,
    name: &str,
    text: &str,
    overrides: &[Override],
) -> Result<Machine, MachineError> {
    build(layer::read_text(name, text)?, overrides, reader)
}

fn build(layers: Layers, overrides: &[Override], reader: Use) -> Result<Machine, MachineError> {
    let schema = Schema::new();
    let Layers { settings: of_files, demands_from, open } = layers;
    open.iter().try_for_each(|open| open.check(&schema))?;
    let of_overrides: Vec<Setting> = overrides.iter().map(Setting::of).collect();
    let files = Draft::new(&schema).with(&of_files)?;
    let all = files.clone().with(&of_overrides)?;
    let machine = all.machine()?;
    // A file without a base may describe alternatives, such as the trees of NOC-Out beside the hops of a mesh. What is
    // based on it, and overrides, are demands.
    files.check_read(&of_files[demands_from..], Use::Any)?;
    let is_demand = |(_, one): &(&Setting, &Override)| one.must_be_read;
    let demands = of_overrides.iter().zip(overrides).filter(is_demand).map(|(one, _)| one);
    all.check_read(demands, reader)?;
    all.check_kind()?;
    all.check(&machine)?;
    Ok(machine)
}

impl Setting {
    fn of(setting: &Override) -> Setting {
        Setting { path: setting.path.clone(), value: setting.parsed(), origin: Origin::Override }
    }
}

/// Settings as files and overrides make them, one after the other.
#[derive(Clone)]
struct Draft<'a> {
    schema: &'a Schema,
    table: Table,
    settings: Vec<Setting>,
}

impl<'a> Draft<'a> {
    fn new(schema: &'a Schema) -> Draft<'a> {
        Draft { schema, table: schema.defaults().clone(), settings: Vec::new() }
    }

    fn with(mut self, settings: &[Setting]) -> Result<Draft<'a>, MachineError> {
        for Setting { path, value, origin } in settings {
            if self.schema.is_empty_section(path, value) {
                continue;
            }
            let value = self.schema.converted(path, value.clone(), origin)?;
            set(&mut self.table, path, value.clone());
            let (path, origin) = (path.clone(), origin.clone());
            self.settings.push(Setting { path, value, origin });
        }
        Ok(self)
    }

    /// The machine, whether or not it can be built.
    fn machine(&self) -> Result<Machine, MachineError> {
        self.table.clone().try_into().map_err(|error: toml::de::Error| {
            // The first value that fits no machine, rather than a place in one.
            let alone = |one: &Setting| {
                self.schema.checked(&one.path, one.value.clone(), &one.origin).err()
            };
            let first = self.settings.iter().find_map(alone);
            first.unwrap_or_else(|| MachineError {
                origin: Origin::Unknown,
                key: String::new(),
                problem: error.message().to_owned(),
            })
        })
    }

    /// That each of these changes something.
    fn check_read<'s>(
        &self,
        demands: impl IntoIterator<Item = &'s Setting>,
        reader: Use,
    ) -> Result<(), MachineError> {
        let reading = Reading { machine: &self.table, reader };
        let unread = |one: &Setting| Some(self.unread(one, &reading.unread(&one.path)?, reading));
        demands.into_iter().find_map(unread).map_or(Ok(()), Err)
    }

    /// That files have sections of the machine's kind only.
    fn check_kind(&self) -> Result<(), MachineError> {
        let reading = Reading { machine: &self.table, reader: Use::Any };
        let unread =
            |one: &Setting| Some(self.unread(one, &reading.unread_by_kind(&one.path)?, reading));
        self.settings.iter().find_map(unread).map_or(Ok(()), Err)
    }

    fn unread(&self, one: &Setting, because: &str, reading: Reading<'_>) -> MachineError {
        let is_read = |known: &str| {
            known.contains('.') == one.path.contains('.') && reading.unread(known).is_none()
        };
        let nearest = self.schema.nearest(&one.path, is_read);
        let hint = nearest.map_or(String::new(), |known| format!("; did you mean {known}?"));
        MachineError {
            origin: one.origin.clone(),
            key: one.path.clone(),
            problem: format!("nothing reads it: {because}{hint}"),
        }
    }

    /// That it can be built. Of settings that contradict each other, the last one is to blame: it is nearest to who
    /// sees the error.
    fn check(&self, machine: &Machine) -> Result<(), MachineError> {
        let Err(invalid) = validate(machine) else { return Ok(()) };
        let Invalid { key, problem } = &invalid;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let named = |path: &str| problem.split(|c| !is_part(c)).any(|word| word == path);
        let last = self.settings.iter().rposition(|one| one.path == *key || named(&one.path));
        let blamed = self.culprit(&invalid, last).or(last.map(|at| &self.settings[at]));
        Err(match blamed {
            Some(one) if one.path != *key => MachineError {
                origin: one.origin.clone(),
                key: one.path.clone(),
                problem: format!("does not fit: {key} {problem}"),
            },
            _ => MachineError {
                origin: blamed.map_or(Origin::Default, |one| one.origin.clone()),
                key: (*key).to_owned(),
                problem: problem.clone(),
            },
        })
    }

    /// The last setting that causes a problem and is nearer to the user than the one that its text names, in a file
    /// that is based on the other's or on the command line: without it there is no problem, or it makes the same one
    /// alone.
    fn culprit(&self, invalid: &Invalid, named: Option<usize>) -> Option<&Setting> {
        let named = named.map(|at| &self.settings[at].origin);
        let is_below = |one: &Setting| match (&one.origin, named) {
            (Origin::File { name: one, .. }, Some(Origin::File { name: named, .. })) => {
                one == named
            }
            (one, named) => Some(one) == named,
        };
        let first = self.settings.iter().rposition(is_below).map_or(0, |last| last + 1);
        let (below, nearer) = self.settings.split_at(first);
        let check = |settings: &[Setting]| {
            let machine = Draft::new(self.schema).with(settings).and_then(|draft| draft.machine());
            machine.ok().map(|machine| validate(&machine))
        };
        let is_cause = |at: &usize| {
            let (before, after) = (&nearer[..*at], &nearer[at + 1..]);
            let alone = [below, &nearer[*at..=*at]].concat();
            check(&[below, before, after].concat()) == Some(Ok(()))
                || check(&alone).is_some_and(|it| it.is_err_and(|it| it.key == invalid.key))
        };
        (0..nearer.len()).rev().find(is_cause).map(|at| &nearer[at])
    }
}

/// The text of a machine with overrides, also where they make no machine of it: what was asked for. As in recipes of
/// runs, the number of threads is left out.
pub fn asked(text: &str, overrides: &[Override]) -> String {
    let schema = Schema::new();
    let mut table: Table = text.parse().unwrap_or_default();
    for one in overrides {
        let value = schema.checked(&one.path, one.parsed(), &Origin::Override);
        set(&mut table, &one.path, value.unwrap_or_else(|_| one.parsed()));
    }
    if let Some(Value::Table(run)) = table.get_mut("run")
        && let Some(threads) = run.get_mut("threads")
    {
        *threads = Value::Integer(0);
    }
    table.to_string()
}

/// Loads the memory of a device, a machine or a file, as [`load`] does.
///
/// # Errors
/// The same; if there is nothing of that name, the error names the nearest device.
pub fn load_device(device: &str, overrides: &[Override]) -> Result<Machine, MachineError> {
    layer::find_device(device)?;
    load_for(Use::Memory, device, overrides)
}

/// The reason why nothing reads a setting of a machine; `None` if something does.
pub fn unread(reader: Use, machine: &Machine, path: &str) -> Option<String> {
    let table = Table::try_from(machine).unwrap_or_default();
    Reading { machine: &table, reader }.unread(path)
}

/// The machine as a file that depends on no other and names every key of its kind; it loads to the same
/// machine.
pub fn resolved(machine: &Machine) -> String {
    // Fails only for a seed beyond TOML's integers, which no file can have set.
    let failed = |error| format!("# cannot be written: {error}\n");
    let text = toml::to_string(machine).unwrap_or_else(failed);
    // With texts of several lines, lines are no keys; a table has an order of its own.
    if text.contains("\"\"\"") || text.contains("'''") {
        return of_kind(machine).to_string();
    }
    let (mut kept, mut section, mut header) = (String::new(), String::new(), None);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.replace(']', ".");
            header = Some(format!("\n{line}\n"));
            continue;
        }
        let key = line.split(" =").next().unwrap_or_default();
        if machine.kind.reads(&format!("{section}{key}")) {
            kept += &header.take().unwrap_or_default();
            kept += &format!("{line}\n");
        }
    }
    kept
}

fn of_kind(machine: &Machine) -> Table {
    let mut table = Table::try_from(machine).unwrap_or_default();
    table.retain(|section, value| match value {
        Value::Table(keys) => {
            keys.retain(|key, _| machine.kind.reads(&format!("{section}.{key}")));
            !keys.is_empty()
        }
        _ => machine.kind.reads(section),
    });
    table
}
