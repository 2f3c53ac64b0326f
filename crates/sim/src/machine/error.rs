//! Errors of loading a machine, with the place of the setting.

use std::fmt;

/// The place where a setting was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file, and the line if it is known.
    File {
        /// As it was named.
        name: String,
        /// Number of the line, from 1.
        line: Option<usize>,
    },
    /// An override: `--set` of the command line.
    Override,
    /// Nowhere: the value that holds if nothing is said.
    Default,
    /// A machine that came from no file.
    Unknown,
}

/// The reason why a machine cannot be loaded: place, setting, problem and remedy in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError {
    /// The file, option or default that made the setting.
    pub origin: Origin,
    /// The setting, such as `noc.link_bytes`; empty if it is about none in particular.
    pub key: String,
    /// The problem with it, and the remedy.
    pub problem: String,
}

impl MachineError {
    /// About no setting in particular.
    pub fn of_file(name: &str, line: Option<usize>, problem: impl Into<String>) -> MachineError {
        let origin = Origin::File { name: name.to_owned(), line };
        MachineError { origin, key: String::new(), problem: problem.into() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line: Some(line) } => write!(f, "{name}:{line}"),
            Origin::File { name, line: None } => f.write_str(name),
            Origin::Override => f.write_str("--set"),
            Origin::Default => f.write_str("default value"),
            Origin::Unknown => Ok(()),
        }
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Unknown {
            write!(f, "{}: ", self.origin)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for MachineError {}
