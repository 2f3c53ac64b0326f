//! Access to a listener, as options of the command line.

use std::io;
use std::path::PathBuf;

use clap::Args;
use rackmem_fabric::Address;
use rackmem_fabric::net::access::Access;
use rackmem_fabric::net::names;
use rackmem_fabric::net::proof::Proof;
use tracing::level_filters::LevelFilter;

use super::key::with_own_keys;
use crate::choice::Choice;
use crate::failure::{Failure, Result};

/// Names the monitor if `--monitor` is missing.
pub(super) const MONITOR: &str = "RACKMEM_MONITOR";

/// The monitor that a command which borrows asks, as far as it is named. The library takes `$RACKMEM_MONITOR` only
/// where no rack is given, for `--rack` means this host's monitor. A rack file names none: its nodes are on several
/// hosts.
pub(super) fn monitor(choice: &Choice, named: Option<&Address>) -> Result<Option<Address>> {
    if named.is_some() || choice.file().is_none() {
        return Ok(named.cloned());
    }
    let text = std::env::var(MONITOR).ok().filter(|text| !text.is_empty());
    text.map(|text| text.parse()).transpose().map_err(|why| {
        Failure::usage(format!("cannot use the monitor that {MONITOR} names: {why}"))
    })
}

/// The proof of this process over a network: a secret, or the rack file and the key of its node.
#[derive(Clone, Debug, Args)]
pub struct ProofArgs {
    /// File with the secret that all hosts have: what travels is encrypted with keys that come of it [default: what the
    /// rack file says, else $RACKMEM_SECRET, else none]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_file", "rack_file"])]
    pub secret: Option<PathBuf>,
    /// File of this node's private key, if the rack file has keys; {node} in it is the node's number [default:
    /// $RACKMEM_KEY_FILE, else what the rack file says]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Both ends prove themselves, and nothing is encrypted; both have to say so [default: what the rack file says, or
    /// $RACKMEM_CLEARTEXT, 1 means yes]
    #[arg(long)]
    pub cleartext: bool,
}

impl ProofArgs {
    /// The proof of a process of `node`, if it has to be said.
    pub(super) fn read(&self, choice: &Choice, node: Option<u16>) -> Result<Option<Proof>> {
        let proof = match (&self.secret, with_own_keys(choice, self.key_file.as_deref())?) {
            (Some(path), _) => Some(Proof::read(path)?),
            (None, Some(file)) => Some(file.proof(node)?),
            (None, None) => Proof::from_environment()?,
        };
        Ok(proof.map(|proof| proof.or_cleartext(self.cleartext)))
    }
}

/// The proof of this process, and its node.
#[derive(Clone, Debug, Args)]
pub struct NodeProofArgs {
    /// The secret or the key.
    #[command(flatten)]
    pub proof: ProofArgs,
    /// Node of the rack file that this is [default: $RACKMEM_NODE, else the one whose private key is here]
    #[arg(long, value_name = "N")]
    pub node: Option<u16>,
}

impl NodeProofArgs {
    /// The proof of this process.
    pub(super) fn read(&self, choice: &Choice) -> Result<Option<Proof>> {
        self.proof.read(choice, self.node)
    }
}

/// Access over a network.
#[derive(Clone, Debug, Args)]
pub struct AccessArgs {
    /// The proof of this process.
    #[command(flatten)]
    pub proof: NodeProofArgs,
    /// Listen although peers prove nothing: anybody who reaches the port has access, other users of this host, too
    #[arg(long)]
    pub insecure: bool,
}

impl AccessArgs {
    /// The policy of a listener whose socket's file has these permissions.
    pub(super) fn access(&self, choice: &Choice, mode: u32) -> Result<Access> {
        let proof = self.proof.read(choice)?;
        Ok(Access { proof, is_insecure: self.insecure, mode })
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
