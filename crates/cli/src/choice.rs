//! The rack that a command works on: by its name, or by its file if it stretches over several hosts.

use std::path::{Path, PathBuf};

use rackmem::rack::{Description, Rack};
use rackmem::rack_file::RackFile;

use crate::failure::{Failure, Result};

/// Names the rack file if `--rack` and `--rack-file` are missing.
pub const RACK_FILE: &str = "RACKMEM_RACK_FILE";

/// A rack, chosen on the command line or in the environment.
#[derive(Clone, Debug)]
pub enum Choice {
    /// By name; `None`: `$RACKMEM_RACK`, else the default one.
    Name(Option<String>),
    /// By rack file.
    File(Box<RackFile>),
}

impl Choice {
    /// The rack of this name or of this file.
    ///
    /// # Errors
    /// Both are there, or the file is none.
    pub fn new(name: Option<String>, file: Option<&Path>) -> Result<Choice> {
        match (name, file) {
            (Some(_), Some(_)) => Err(Failure::usage("say --rack or --rack-file, not both")),
            (name, None) => Ok(Choice::Name(name)),
            (None, Some(file)) => Ok(Choice::File(Box::new(RackFile::read(file)?))),
        }
    }

    /// The rack file that the environment names.
    pub fn file_from_environment() -> Option<PathBuf> {
        std::env::var_os(RACK_FILE).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// The name that was given, of a rack on this host.
    pub fn name(&self) -> Option<&str> {
        match self {
            Choice::Name(name) => name.as_deref(),
            Choice::File(_) => None,
        }
    }

    /// The name of the rack, if it was given or its file was.
    pub fn rack_name(&self) -> Option<&str> {
        match self {
            Choice::Name(name) => name.as_deref(),
            Choice::File(file) => Some(&file.name),
        }
    }

    /// The rack file that was given.
    pub fn file(&self) -> Option<&RackFile> {
        match self {
            Choice::Name(_) => None,
            Choice::File(file) => Some(file),
        }
    }

    /// Its directory, which need not exist.
    ///
    /// # Errors
    /// As [`Rack::named`].
    pub fn rack(&self) -> Result<Rack> {
        Ok(Rack::named(self.rack_name())?)
    }

    /// The rack, which exists on this host.
    ///
    /// # Errors
    /// It does not.
    pub fn existing(&self) -> Result<(Rack, Description)> {
        let rack = self.rack()?;
        match (self.file(), rack.describe()) {
            (_, Ok(description)) => Ok((rack, description)),
            (Some(file), Err(error)) if error.errno() == libc::ENOENT => Err(not_up_here(file)),
            (_, Err(error)) => Err(error.into()),
        }
    }
}

fn not_up_here(file: &RackFile) -> Failure {
    let (name, path) = (&file.name, file.path.display());
    Failure::new(format!(
        "rack '{name}' is not up on this host: start its nodes with `rackmem up --rack-file {path}`"
    ))
}
