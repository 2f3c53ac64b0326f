//! The machine files that are part of the program.

/// A machine file of the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name, without `.toml`.
    pub name: &'static str,
    /// Text of the file, in TOML.
    pub text: &'static str,
}

/// The files of `machines/`.
pub const BUILT_IN: [BuiltIn; 13] = [
    BuiltIn { name: "manycore-ni", text: include_str!("../../machines/manycore-ni.toml") },
    BuiltIn {
        name: "manycore-ni-noc-out",
        text: include_str!("../../machines/manycore-ni-noc-out.toml"),
    },
    BuiltIn {
        name: "manycore-ni-numa",
        text: include_str!("../../machines/manycore-ni-numa.toml"),
    },
    BuiltIn { name: "sonuma", text: include_str!("../../machines/sonuma.toml") },
    BuiltIn {
        name: "cache-integrated",
        text: include_str!("../../machines/cache-integrated.toml"),
    },
    BuiltIn {
        name: "cache-integrated-128",
        text: include_str!("../../machines/cache-integrated-128.toml"),
    },
    BuiltIn { name: "tsm-sim", text: include_str!("../../machines/tsm-sim.toml") },
    BuiltIn { name: "pcie-ntb", text: include_str!("../../machines/pcie-ntb.toml") },
    BuiltIn { name: "deoi", text: include_str!("../../machines/deoi.toml") },
    BuiltIn { name: "thunder", text: include_str!("../../machines/thunder.toml") },
    BuiltIn { name: "deoi-cores", text: include_str!("../../machines/deoi-cores.toml") },
    BuiltIn { name: "thunder-cores", text: include_str!("../../machines/thunder-cores.toml") },
    BuiltIn { name: "rack-torus", text: include_str!("../../machines/rack-torus.toml") },
];

/// The files of `devices/`: memories for `rackmem dram`, and for machines to be based on.
pub const DEVICES: [BuiltIn; 6] = [
    BuiltIn { name: "ddr3-1066", text: include_str!("../../devices/ddr3-1066.toml") },
    BuiltIn { name: "ddr3-1333", text: include_str!("../../devices/ddr3-1333.toml") },
    BuiltIn { name: "ddr3-1600", text: include_str!("../../devices/ddr3-1600.toml") },
    BuiltIn { name: "ddr4-2400", text: include_str!("../../devices/ddr4-2400.toml") },
    BuiltIn { name: "ddr4-3200", text: include_str!("../../devices/ddr4-3200.toml") },
    BuiltIn { name: "ddr5-4800", text: include_str!("../../devices/ddr5-4800.toml") },
];

impl BuiltIn {
    pub(super) fn all() -> impl Iterator<Item = BuiltIn> {
        BUILT_IN.into_iter().chain(DEVICES)
    }

    /// The machine or device of this name; `.toml` at its end is fine.
    pub fn find(name: &str) -> Option<BuiltIn> {
        let name = name.strip_suffix(".toml").unwrap_or(name);
        BuiltIn::all().find(|machine| machine.name == name)
    }
}
