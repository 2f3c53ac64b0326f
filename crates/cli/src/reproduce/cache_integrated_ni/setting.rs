//! The setting that all runs of a reproduction have in common.

use rackmem_sim::machine;

use crate::reproduce::results::Known;

/// The built-in machine that is like the paper's prototype.
pub const PROTOTYPE: &str = "cache-integrated";

/// The built-in machine that is like the chip that the paper simulates.
pub const SIMULATED: &str = "cache-integrated-128";

/// Inputs of checks besides runs: the machines, unless an experiment changes them.
#[derive(Clone, Debug)]
pub struct Setting {
    /// All keys of the machine `PROTOTYPE`.
    pub prototype: Known<toml::Table>,
    /// The simulated chip.
    pub simulated: Known<toml::Table>,
}

/// The setting with the built-in machines.
pub fn setting() -> Setting {
    let resolved = |name| {
        let machine = machine::load(name, &[]).map_err(|error| error.to_string())?;
        toml::from_str(&machine::resolved(&machine)).map_err(|error| error.to_string())
    };
    Setting { prototype: resolved(PROTOTYPE), simulated: resolved(SIMULATED) }
}
