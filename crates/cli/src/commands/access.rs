//! Access to a listener, as options of the command line.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use rackmem_borrow::net::access::Access;
use rackmem_borrow::net::names;
use rackmem_borrow::net::secret::Secret;
use tracing::level_filters::LevelFilter;

use crate::failure::Result;

/// Access over a network.
#[derive(Clone, Debug, Args)]
pub struct AccessArgs {
    /// File with the secret that all hosts have [default: $RACKMEM_SECRET, else none]
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Listen without a secret: anybody who reaches the port has access, other users of this host, too
    #[arg(long)]
    pub insecure: bool,
}

impl AccessArgs {
    /// The policy of a listener whose socket's file has these permissions.
    pub(super) fn access(&self, mode: u32) -> Result<Access> {
        let secret = secret(self.secret.as_deref())?;
        Ok(Access { secret, is_insecure: self.insecure, mode })
    }
}

/// The secret of this file, or of the one that the environment names.
pub(super) fn secret(file: Option<&Path>) -> Result<Option<Secret>> {
    let from = std::env::var_os("RACKMEM_SECRET").filter(|path| !path.is_empty());
    let file = file.map(Path::to_owned).or_else(|| from.map(PathBuf::from));
    Ok(file.map(|path| Secret::read(&path)).transpose()?)
}

/// A name that others are shown.
pub(super) fn parse_name(text: &str) -> std::result::Result<String, String> {
    names::check(text).map(|()| text.to_owned())
}

/// Writes log messages as important as `level`, warnings included, to stderr.
pub(super) fn log(level: LevelFilter) {
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    log.with_ansi(false).with_target(false).init();
}
