//! The same experiments with another seed, or with another value of a parameter that the paper leaves open.

use std::collections::BTreeSet;

use rackmem_sim::machine::{self, Open};

use crate::document::Document;

/// A setting that all runs have which do not make it themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// Path of the setting.
    pub path: String,
    /// Its value, as a machine file has it.
    pub value: String,
    /// Machines that it is about; none: all.
    machines: Option<BTreeSet<String>>,
}

impl Variation {
    /// Another seed of all machines.
    pub fn seed(seed: u64) -> Variation {
        Variation { path: "seed".to_owned(), value: seed.to_string(), machines: None }
    }

    /// Each value of the range of each parameter that the machines of a document leave open.
    ///
    /// # Errors
    /// A machine cannot be read.
    pub fn open(document: &Document) -> Result<Vec<Variation>, String> {
        let mut all: Vec<Variation> = Vec::new();
        for (machine, open) in open_parameters(document)? {
            for value in &open.range {
                let same = |one: &&mut Variation| one.path == open.path && one.value == *value;
                match all.iter_mut().find(same).and_then(|one| one.machines.as_mut()) {
                    Some(machines) => drop(machines.insert(machine.clone())),
                    None => all.push(Variation {
                        path: open.path.clone(),
                        value: value.clone(),
                        machines: Some(BTreeSet::from([machine.clone()])),
                    }),
                }
            }
        }
        Ok(all)
    }

    /// Whether it is about this machine.
    pub fn concerns(&self, machine: &str) -> bool {
        self.machines.as_ref().is_none_or(|machines| machines.contains(machine))
    }

    /// Whether it is another seed: runs on this host are then made once more, too.
    pub fn is_seed(&self) -> bool {
        self.path == "seed"
    }

    /// As `path = value`.
    pub fn name(&self) -> String {
        format!("{} = {}", self.path, self.value.trim_matches('"'))
    }
}

/// The parameters that the machines of a document leave open, with the machine.
///
/// # Errors
/// A machine cannot be read.
pub fn open_parameters(document: &Document) -> Result<Vec<(String, Open)>, String> {
    let mut all = Vec::new();
    let machines: BTreeSet<&String> = document.machines.values().collect();
    for machine in machines {
        let open = machine::open(machine).map_err(|error| error.to_string())?;
        all.extend(open.into_iter().map(|open| (machine.clone(), open)));
    }
    Ok(all)
}
