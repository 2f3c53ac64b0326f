//! Access to a listener, as options of the command line.

use std::io;
use std::path::PathBuf;

use clap::Args;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::names;
use rackmem_fabric::net::secret::Secret;
use tracing::level_filters::LevelFilter;

use crate::failure::Result;

/// The secret of a network, and what it is good for.
#[derive(Clone, Debug, Args)]
pub struct SecretArgs {
    /// File with the secret that all hosts have: what travels is encrypted with keys that come of it [default:
    /// $RACKMEM_SECRET, else none]
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// The secret is proved, and nothing is encrypted; both ends have to say so [default: $RACKMEM_CLEARTEXT, 1 means
    /// yes]
    #[arg(long)]
    pub cleartext: bool,
}

impl SecretArgs {
    /// The secret of the file, or of the one that the environment names.
    pub(super) fn read(&self) -> Result<Option<Secret>> {
        Ok(Secret::named(self.secret.clone(), self.cleartext)?)
    }
}

/// Access over a network.
#[derive(Clone, Debug, Args)]
pub struct AccessArgs {
    /// The secret that all hosts have.
    #[command(flatten)]
    pub secret: SecretArgs,
    /// Listen without a secret: anybody who reaches the port has access, other users of this host, too
    #[arg(long)]
    pub insecure: bool,
}

impl AccessArgs {
    /// The policy of a listener whose socket's file has these permissions.
    pub(super) fn access(&self, mode: u32) -> Result<Access> {
        let secret = self.secret.read()?;
        Ok(Access { secret, is_insecure: self.insecure, mode })
    }
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
