//! The setting that all runs of a reproduction have in common.

use rackmem_sim::machine;

use crate::reproduce::results::Known;
use crate::reproduce::runtime;

/// The built-in machine that is like the paper's simulator.
pub const SIMULATOR: &str = "tsm-sim";

/// The built-in machine that is like the paper's PCIe prototype.
pub const PROTOTYPE: &str = "pcie-ntb";

/// The built-in machine that is like the paper's FPGA prototype.
pub const THUNDER: &str = "thunder";

/// Inputs of checks besides runs: the machines, unless an experiment changes them, and this host.
#[derive(Clone, Debug)]
pub struct Setting {
    /// All keys of the machine `SIMULATOR`.
    pub simulator: Known<toml::Table>,
    /// The PCIe prototype.
    pub prototype: Known<toml::Table>,
    /// The FPGA prototype.
    pub thunder: Known<toml::Table>,
    /// Whether this host lets the runtime measure; else why not.
    pub host: Known<()>,
}

/// The setting with the built-in machines and this host.
pub fn setting() -> Setting {
    Setting { host: runtime::probe(), ..of_machines() }
}

/// The setting with the built-in machines, on a host that lets the runtime measure.
pub(super) fn of_machines() -> Setting {
    let resolved = |name| {
        let machine = machine::load(name, &[]).map_err(|error| error.to_string())?;
        toml::from_str(&machine::resolved(&machine)).map_err(|error| error.to_string())
    };
    Setting {
        simulator: resolved(SIMULATOR),
        prototype: resolved(PROTOTYPE),
        thunder: resolved(THUNDER),
        host: Ok(()),
    }
}
