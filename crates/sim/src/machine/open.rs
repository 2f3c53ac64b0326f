//! Parameters that a paper leaves open: the section `[open]` of a machine file.
//!
//! ```toml
//! [open]
//! "noc.vcs" = { range = [2, 4], because = "routers of the time", fitted = ["manycore-ni/fig7/peak"] }
//! ```
//!
//! A study of sensitivity tries the values of `range` in place of the file's own. `fitted` names the claims with whose
//! published value in view the file's own value was chosen: they prove nothing, and count no more.

use serde::Deserialize;
use toml::Value;

use super::error::{MachineError, Origin};
use super::layer;
use super::schema::Schema;

pub(super) const SECTION: &str = "open";

/// A parameter that a paper leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Path of the setting, such as `noc.vcs`.
    pub path: String,
    /// Values that could be as well, as [`super::Override`] takes them.
    pub range: Vec<String>,
    /// Reason for the range.
    pub because: String,
    /// Claims, as `paper/claim`, with whose published value in view the file's own value was chosen; `*` at the end
    /// stands for any text.
    pub fitted: Vec<String>,
    /// The place of the declaration.
    pub origin: Origin,
    values: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    range: Vec<Value>,
    because: String,
    #[serde(default)]
    fitted: Vec<String>,
}

/// The open parameters of a machine and of those it is based on.
///
/// # Errors
/// A file cannot be read, or a declaration is wrong.
pub fn open(machine: &str) -> Result<Vec<Open>, MachineError> {
    let schema = Schema::new();
    let all = layer::read(machine)?.open;
    all.iter().try_for_each(|open| open.check(&schema))?;
    Ok(all)
}

/// The declarations of a section; `origin` is the place of one.
pub(super) fn parse(
    section: Value,
    origin: impl Fn(&str) -> Origin,
) -> Result<Vec<Open>, MachineError> {
    let wrong = |path: &str, problem: &str| MachineError {
        origin: origin(path),
        key: path.to_owned(),
        problem: problem.trim().replace('\n', ", "),
    };
    let Value::Table(section) = section else {
        return Err(wrong(SECTION, "is a section; write [open]"));
    };
    let mut all = Vec::new();
    for (path, declared) in section {
        let raw: Raw =
            declared.try_into().map_err(|error: toml::de::Error| wrong(&path, error.message()))?;
        if raw.range.is_empty() && raw.fitted.is_empty() {
            return Err(wrong(&path, "has neither a range nor claims that it was fitted to"));
        }
        all.push(Open {
            origin: origin(&path),
            range: raw.range.iter().map(Value::to_string).collect(),
            because: raw.because,
            fitted: raw.fitted,
            values: raw.range,
            path,
        });
    }
    Ok(all)
}

impl Open {
    /// That there is such a setting, and that it can have these values.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), MachineError> {
        schema.known(&self.path, &self.origin)?;
        let each = |value: &Value| schema.checked(&self.path, value.clone(), &self.origin);
        self.values.iter().try_for_each(|value| each(value).map(drop))
    }
}
