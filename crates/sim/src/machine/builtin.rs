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
pub const BUILT_IN: [BuiltIn; 11] = [
    BuiltIn { name: "manycore-ni", text: include_str!("../../../../machines/manycore-ni.toml") },
    BuiltIn {
        name: "manycore-ni-noc-out",
        text: include_str!("../../../../machines/manycore-ni-noc-out.toml"),
    },
    BuiltIn {
        name: "manycore-ni-numa",
        text: include_str!("../../../../machines/manycore-ni-numa.toml"),
    },
    BuiltIn { name: "sonuma", text: include_str!("../../../../machines/sonuma.toml") },
    BuiltIn {
        name: "cache-integrated",
        text: include_str!("../../../../machines/cache-integrated.toml"),
    },
    BuiltIn {
        name: "cache-integrated-128",
        text: include_str!("../../../../machines/cache-integrated-128.toml"),
    },
    BuiltIn { name: "tsm-sim", text: include_str!("../../../../machines/tsm-sim.toml") },
    BuiltIn { name: "pcie-ntb", text: include_str!("../../../../machines/pcie-ntb.toml") },
    BuiltIn { name: "deoi", text: include_str!("../../../../machines/deoi.toml") },
    BuiltIn { name: "thunder", text: include_str!("../../../../machines/thunder.toml") },
    BuiltIn { name: "rack-torus", text: include_str!("../../../../machines/rack-torus.toml") },
];

impl BuiltIn {
    /// The machine of this name; `.toml` at its end is fine.
    pub fn find(name: &str) -> Option<BuiltIn> {
        let name = name.strip_suffix(".toml").unwrap_or(name);
        BUILT_IN.into_iter().find(|machine| machine.name == name)
    }
}
