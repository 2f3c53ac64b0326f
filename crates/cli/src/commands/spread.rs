//! Commands whose processes are spread over the hosts of a rack file.

use rackmem::rack::Rack;
use rackmem::rack_file::RackFile;

use crate::choice::Choice;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::{Captured, Job, Spread};
use crate::launcher::{DEFAULT_LAUNCHER, Launcher};
use crate::rackctl::{self, State};

/// A rack over several hosts that is up.
#[derive(Debug)]
pub struct Hosts {
    /// Its directory on this host.
    pub rack: Rack,
    /// All nodes, also those that are not up.
    pub file: RackFile,
    /// Nodes that are up on this host.
    pub here: Vec<u16>,
    launcher: Launcher,
}

impl Hosts {
    /// The rack of a file.
    ///
    /// # Errors
    /// The rack's directory cannot be read.
    pub fn new(file: &RackFile, launcher: Option<&Launcher>) -> Result<Hosts> {
        let rack = Rack::named(Some(&file.name))?;
        let here = match rackctl::state(&rack)? {
            State::Up(nodes) => nodes,
            State::Absent | State::Dead => Vec::new(),
        };
        let default = || DEFAULT_LAUNCHER.parse().map_err(Failure::usage);
        let launcher = launcher.cloned().map_or_else(default, Ok)?;
        Ok(Hosts { rack, file: file.clone(), here, launcher })
    }

    /// The chosen rack, for commands that otherwise make one of their own; `None`: none was chosen.
    ///
    /// # Errors
    /// The rack is of one host only, or a launcher was named without a rack.
    pub fn chosen(choice: &Choice, launcher: Option<&Launcher>) -> Result<Option<Hosts>> {
        let file = match (choice.file(), choice.name()) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(_)) => match choice.existing()?.1.rack_file {
                Some(path) => Some(RackFile::read(&path)?),
                None => {
                    return Err(Failure::usage(
                        "this command makes a rack of its own, or works on one over several hosts: leave --rack out",
                    ));
                }
            },
            (None, None) => None,
        };
        match (file, launcher) {
            (None, Some(_)) => Err(Failure::usage(
                "--launcher is for racks over several hosts: name one with --rack-file",
            )),
            (None, None) => Ok(None),
            (Some(file), _) => Hosts::new(&file, launcher).map(Some),
        }
    }

    /// A run with processes on these nodes. `options` are for the parts of the run on other hosts.
    pub fn spread(&self, nids: Vec<u16>, options: Vec<std::ffi::OsString>) -> Spread<'_> {
        let (file, launcher, here) = (&self.file, &self.launcher, self.here.clone());
        Spread { file, launcher, here, nids, options }
    }

    /// Runs a job on these nodes, and returns what the first of them printed.
    ///
    /// # Errors
    /// As [`Job::run_on_hosts`].
    pub fn captured(&self, job: &Job<'_>, nids: Vec<u16>, interrupt: &Interrupt) -> Result<String> {
        let mut captured = Captured::of(nids.first().copied().unwrap_or_default());
        let spread = self.spread(nids, Vec::new());
        let result = job.run_on_hosts(&spread, Some(&mut captured), interrupt);
        captured.finish(result)
    }
}
