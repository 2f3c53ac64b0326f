//! The setting that all runs of a reproduction have in common.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rackmem_sim::machine;

use super::PAPER;
use crate::failure::{Failure, Result};
use crate::placement;
use crate::reproduce::claims;
use crate::reproduce::results::Known;

/// The built-in machine of the paper.
pub const MACHINE: &str = "sonuma";

/// Inputs of checks besides runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Graph of PageRank; none: a generated one.
    pub graph: Option<PathBuf>,
    /// Cores of this host: as many nodes of the runtime can be busy.
    pub cores: usize,
    /// The machine as it is run, unless an experiment changes it.
    pub machine: Known<toml::Table>,
    /// Published values by name of the claim, for claims that compare with other systems.
    pub published: BTreeMap<String, f64>,
}

/// The setting of this host.
///
/// # Errors
/// The graph cannot be read.
pub fn setting(graph: Option<&Path>) -> Result<Setting> {
    let absolute = |graph: &Path| {
        let name = graph.display();
        // A graph that cannot be read is better reported before the first run.
        fs::File::open(graph)
            .and_then(|_| std::path::absolute(graph))
            .map_err(|error| Failure::io(format_args!("cannot read {name}"), error))
    };
    let machine = machine::load(MACHINE, &[]).map_err(|error| error.to_string());
    Ok(Setting {
        graph: graph.map(absolute).transpose()?,
        cores: placement::cores().len(),
        machine: machine.and_then(|machine| {
            toml::from_str(&machine::resolved(&machine)).map_err(|error| error.to_string())
        }),
        published: published()?,
    })
}

/// Published values of all claims that have one.
///
/// # Errors
/// The file, which is part of this program, is damaged.
pub fn published() -> Result<BTreeMap<String, f64>> {
    let claims = claims::parse(PAPER.published)?;
    let values = claims.iter().map(|claim| Some((claim.short_id().to_owned(), claim.value?)));
    Ok(values.flatten().collect())
}
