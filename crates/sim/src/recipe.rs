//! What is needed to make a run again.

use std::fs;
use std::path::Path;

use rackmem_riscv::fnv::{BASIS, fnv1a};
use rackmem_riscv::names;
use serde::Serialize;

use crate::machine::{self, Machine};

/// Tells versions of the model apart, and sources of one version: its sources' fingerprint.
pub const MODEL: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("RACKMEM_MODEL"));

/// The model, the machine and the seed: the same again give the same report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recipe {
    /// Version of the model.
    pub version: &'static str,
    /// Start of all random numbers, as the machine has it.
    pub seed: u64,
    /// The machine with all its keys, as a file.
    pub machine: String,
    /// Fingerprint of that text.
    pub machine_hash: String,
}

impl Recipe {
    /// Of a machine. The number of threads is left out, as nothing depends on it.
    pub fn of(machine: &Machine) -> Recipe {
        let mut machine = machine.clone();
        machine.run.threads = 0;
        let text = machine::resolved(&machine);
        let machine_hash = fingerprint(text.as_bytes());
        let version = env!("CARGO_PKG_VERSION");
        Recipe { version, seed: machine.seed, machine: text, machine_hash }
    }
}

/// Tells contents apart that differ by mistake: FNV-1a of 64 bits.
pub fn fingerprint(bytes: &[u8]) -> String {
    format!("fnv1a-64:{:016x}", fnv1a(BASIS, bytes))
}

/// The same of a file that a program has read, whose name begins in this folder; empty if there is none.
pub fn fingerprint_file(folder: Option<&Path>, name: &str) -> String {
    let path = names::path_of(name);
    let path = folder.map_or_else(|| path.clone(), |folder| folder.join(&path));
    // A device or pipe has no contents that could be read again.
    let read = || path.is_file().then(|| fs::read(&path).ok()).flatten();
    read().map_or_else(String::new, |bytes| fingerprint(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Override, load};

    /// Vectors of the draft of FNV by Fowler, Noll, Vo and Eastlake.
    #[test]
    fn fingerprints_are_the_published_ones() {
        assert_eq!(fingerprint(b""), "fnv1a-64:cbf29ce484222325");
        assert_eq!(fingerprint(b"foobar"), "fnv1a-64:85944171f73967e8");
    }

    #[test]
    fn a_recipe_is_the_machine_and_not_its_threads() {
        let of = |setting: &str| {
            let setting: Override = setting.parse().unwrap();
            Recipe::of(&load("manycore-ni", &[setting]).unwrap())
        };
        assert_eq!(of("run.threads=1"), of("run.threads=2"));
        assert_ne!(of("seed=1").machine_hash, of("seed=2").machine_hash);
        assert_eq!(of("seed=7").seed, 7);
    }
}
