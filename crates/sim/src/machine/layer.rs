//! A machine file and the files that it is based on.

use std::fs;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use toml::{Spanned, Table, Value};

use super::builtin::{BUILT_IN, BuiltIn, DEVICES};
use super::error::{MachineError, Origin};
use super::open::{self, Open};

/// Key of a file that names the one it is based on.
const BASE: &str = "base";

/// A value that a file sets.
#[derive(Clone)]
pub(super) struct Setting {
    pub path: String,
    pub value: Value,
    pub origin: Origin,
}

/// The place of a machine file.
#[derive(Clone, PartialEq)]
enum Place {
    BuiltIn(BuiltIn),
    Disk(PathBuf),
}

/// What the files of a machine say, the one that others are based on first.
#[derive(Default)]
pub(super) struct Layers {
    pub settings: Vec<Setting>,
    /// The first setting of a file that is based on another one; their number if there is no such file.
    pub demands_from: usize,
    pub open: Vec<Open>,
}

/// Reads the text of a machine that is based on no other.
pub(super) fn read_text(name: &str, text: &str) -> Result<Layers, MachineError> {
    let Layer { base, settings, open, .. } = Layer::parse(name.to_owned(), text)?;
    match base {
        None => Ok(Layers { demands_from: settings.len(), settings, open }),
        Some((_, line)) => {
            Err(about_base(name, line, "a text is based on no other; resolve it first".to_owned()))
        }
    }
}

/// Reads a machine file and those that it is based on.
pub(super) fn read(machine: &str) -> Result<Layers, MachineError> {
    let mut place = find(machine)?;
    let mut seen: Vec<Place> = Vec::new();
    let mut layers = Vec::new();
    loop {
        let layer = Layer::read(&place)?;
        seen.push(place.identity());
        let base = layer.base.clone();
        let above = layer.name.clone();
        layers.push(layer);
        let Some((base, line)) = base else { break };
        place = place.neighbour(&base);
        if seen.contains(&place.identity()) {
            return Err(about_base(
                &above,
                line,
                format!("'{base}' is based on this file again; remove one of the two"),
            ));
        }
        if let Place::Disk(path) = &place
            && !path.is_file()
        {
            return Err(about_base(&above, line, format!("there is no file '{}'", path.display())));
        }
    }
    let mut all = Layers::default();
    for layer in layers.into_iter().rev() {
        // What a file sets itself is as open as it says.
        let is_kept = |below: &Open| {
            layer.settings.iter().all(|above| above.path != below.path)
                && layer.open.iter().all(|above| above.path != below.path)
        };
        all.open.retain(is_kept);
        all.demands_from = match layer.base {
            Some(_) => all.settings.len(),
            None => layer.settings.len(),
        };
        all.settings.extend(layer.settings);
        all.open.extend(layer.open);
    }
    Ok(all)
}

fn about_base(name: &str, line: Option<usize>, problem: String) -> MachineError {
    MachineError { key: BASE.to_owned(), ..MachineError::of_file(name, line, problem) }
}

/// A name of a built-in machine or a path.
fn find(machine: &str) -> Result<Place, MachineError> {
    let path = Path::new(machine);
    // A name always means the built-in machine, whatever files there are; with `.toml` it is a path
    // first.
    if let Some(built_in) = BuiltIn::all().find(|known| known.name == machine) {
        return Ok(Place::BuiltIn(built_in));
    }
    if path.is_file() {
        return Ok(Place::Disk(path.to_owned()));
    }
    if let Some(built_in) = BuiltIn::find(machine) {
        return Ok(Place::BuiltIn(built_in));
    }
    let likeness = |known: &BuiltIn| strsim::jaro_winkler(machine, known.name);
    let nearest = BuiltIn::all().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let names: Vec<&str> = BUILT_IN.iter().map(|known| known.name).collect();
    let hint = match nearest {
        Some(known) if likeness(&known) > 0.8 => format!("did you mean {}?", known.name),
        _ => format!("built in are {}", names.join(", ")),
    };
    Err(unknown(format!("there is no machine and no file '{machine}'; {hint}")))
}

fn unknown(problem: String) -> MachineError {
    MachineError { origin: Origin::Unknown, key: String::new(), problem }
}

/// Checks that a memory can be read from there: a device, a machine or a file. The error names the nearest device, or
/// the machine that was meant.
pub(super) fn find_device(name: &str) -> Result<(), MachineError> {
    let Err(error) = find(name) else { return Ok(()) };
    let likeness = |known: &BuiltIn| strsim::jaro_winkler(name, known.name);
    let nearest = |known: &[BuiltIn]| {
        known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
    };
    let (Some(device), Some(machine)) = (nearest(&DEVICES), nearest(&BUILT_IN)) else {
        return Err(error);
    };
    let is_machine = likeness(&machine) > likeness(&device).max(0.8);
    let meant = if is_machine { machine } else { device };
    Err(unknown(format!(
        "there is no device and no file '{name}'; did you mean {}? --list-devices lists the devices",
        meant.name
    )))
}

impl Place {
    /// The file or built-in machine that a `base` in the file at this place names.
    fn neighbour(&self, base: &str) -> Place {
        let beside = match self {
            Place::BuiltIn(_) => PathBuf::from(base),
            Place::Disk(path) => path.parent().unwrap_or(Path::new("")).join(base),
        };
        let built_in = BuiltIn::find(base).map(Place::BuiltIn);
        match self {
            Place::BuiltIn(_) => built_in.unwrap_or(Place::Disk(beside)),
            Place::Disk(_) if beside.is_file() => Place::Disk(beside),
            Place::Disk(_) => built_in.unwrap_or(Place::Disk(beside)),
        }
    }

    /// Equal for two ways to the same file.
    fn identity(&self) -> Place {
        match self {
            Place::BuiltIn(_) => self.clone(),
            Place::Disk(path) => Place::Disk(fs::canonicalize(path).unwrap_or(path.clone())),
        }
    }

    fn name(&self) -> String {
        match self {
            Place::BuiltIn(built_in) => format!("{}.toml", built_in.name),
            Place::Disk(path) => path.display().to_string(),
        }
    }

    fn text(&self) -> Result<String, MachineError> {
        match self {
            Place::BuiltIn(built_in) => Ok(built_in.text.to_owned()),
            Place::Disk(path) => fs::read_to_string(path).map_err(|error| {
                MachineError::of_file(&self.name(), None, format!("cannot be read: {error}"))
            }),
        }
    }
}

/// The settings of one file.
struct Layer {
    name: String,
    /// With the line in which it stands.
    base: Option<(String, Option<usize>)>,
    settings: Vec<Setting>,
    open: Vec<Open>,
}

impl Layer {
    fn read(place: &Place) -> Result<Layer, MachineError> {
        Layer::parse(place.name(), &place.text()?)
    }

    fn parse(name: String, text: &str) -> Result<Layer, MachineError> {
        let line_of = |offset: usize| {
            text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
        };
        let not_toml = |error: toml::de::Error| {
            let line = error.span().map(|span| line_of(span.start));
            MachineError::of_file(
                &name,
                line,
                format!("is not TOML: {}", error.message().trim().replace('\n', ", ")),
            )
        };
        let lines = DeTable::parse(text).map_err(not_toml)?;
        let mut values: Table = text.parse().map_err(not_toml)?;
        let declared = values.remove(open::SECTION).unwrap_or(Value::Table(Table::new()));
        let line_of_key = |path: &str| {
            let section = lines.get_ref().get(open::SECTION)?.get_ref().as_table()?;
            let (key, _) = section.iter().find(|(key, _)| key.get_ref() == path)?;
            Some(line_of(key.span().start))
        };
        let open = open::parse(declared, |path| Origin::File {
            name: name.clone(),
            line: line_of_key(path),
        })?;
        let mut settings = Vec::new();
        let visit = &mut |path: String, value: &Value, offset: usize| {
            let origin = Origin::File { name: name.clone(), line: Some(line_of(offset)) };
            settings.push(Setting { path, value: value.clone(), origin });
        };
        walk("", &values, lines.get_ref(), visit);
        let base = match settings.iter().position(|setting| setting.path == BASE) {
            None => None,
            Some(at) => Some(base_of(settings.remove(at))?),
        };
        Ok(Layer { name, base, settings, open })
    }
}

fn base_of(setting: Setting) -> Result<(String, Option<usize>), MachineError> {
    match (setting.value, setting.origin) {
        (Value::String(base), Origin::File { line, .. }) => Ok((base, line)),
        (_, origin) => Err(MachineError {
            origin,
            key: BASE.to_owned(),
            problem: "expected the name of a machine file, in quotes".to_owned(),
        }),
    }
}

/// Visits every value with its path and its place in the text. Tables of values and of places have
/// the same keys, as they were read from the same text.
fn walk(
    prefix: &str,
    values: &Table,
    places: &DeTable<'_>,
    visit: &mut impl FnMut(String, &Value, usize),
) {
    for (key, place) in places {
        let name: &str = key.get_ref();
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match (values.get(name), Spanned::get_ref(place).as_table()) {
            (Some(Value::Table(inner)), Some(inner_places)) if !inner.is_empty() => {
                walk(&path, inner, inner_places, visit);
            }
            (Some(value), _) => visit(path, value, key.span().start),
            (None, _) => {}
        }
    }
}
