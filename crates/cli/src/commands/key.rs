//! `rackmem key`: the keys by which nodes of different hosts know each other.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rackmem::key_file::{self, PublicKey};
use rackmem::rack_file::RackFile;
use serde::Serialize;

use crate::choice::Choice;
use crate::console;
use crate::failure::Result;

/// Names the file of the private key if `--key-file` is missing.
pub const KEY_FILE: &str = "RACKMEM_KEY_FILE";

/// Long description of `rackmem key`.
pub const ABOUT: &str = "Makes and shows the keys by which nodes of different hosts know each other. A private key \
    stays in a file on the host of its node, which only its user can read. The public key belongs into the rack file, \
    which is the same on all hosts:

  name = \"lab\"
  [[node]]
  address = \"10.9.0.1:7400\"
  key = \"rackmem-key:...\"

Daemons of other hosts take a daemon for node 0 only if it has the private key that belongs to node 0's key. Without \
    keys all nodes have one secret, and whoever knows it can be any of them; with both, both are asked for. Packets \
    between hosts are encrypted in either case.

A daemon looks for its private key in NAME-NODE.key beside the rack file, here lab-0.key. `key_file` in the rack file, \
    $RACKMEM_KEY_FILE and --key-file of `rackmem up` name another file, in whose name {node} stands for the number of \
    the node. A key cannot be changed: make another, and replace the old one in the rack file on all hosts.";

/// Examples of `rackmem key`.
pub const EXAMPLES: &str = "Examples:
  rackmem key new lab-0.key          on node 0's host; prints the public key, for `key = \"...\"`
  rackmem key show lab-0.key         prints it again
  rackmem up --rack-file rack.toml --key-file /etc/rackmem/lab.key";

/// Arguments of `rackmem key`.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The command of `rackmem key`.
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// The commands of `rackmem key`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a private key in a new file, and print the public key
    New(FileArgs),
    /// Print the public key that belongs to a private key
    Show(FileArgs),
}

/// Arguments of the commands of `rackmem key`.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// File of the private key
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A public key, and where the private one is.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    file: &'a Path,
    key: String,
    fingerprint: String,
}

/// Makes or shows a key.
///
/// # Errors
/// The file is there already, is not there, or has no private key.
pub fn run(args: &KeyArgs) -> Result<()> {
    let (key, args) = match &args.command {
        KeyCommand::New(args) => (key_file::create(&args.file)?, args),
        KeyCommand::Show(args) => (key_file::read(&args.file)?, args),
    };
    show(&key.public(), args)
}

fn show(key: &PublicKey, args: &FileArgs) -> Result<()> {
    let (text, fingerprint) = (key.to_string(), key.fingerprint());
    match args.json {
        true => console::print_json(&Shown { file: &args.file, key: text, fingerprint }),
        false => console::print(&format!("{text}\n")),
    }
}

/// The rack file of a command that starts daemons, with the private keys that were named for this host.
///
/// # Errors
/// `--key-file` was given, and the nodes have no keys.
pub fn with_own_keys(choice: &Choice, named: Option<&Path>) -> Result<Option<RackFile>> {
    let Some(file) = choice.file() else { return Ok(None) };
    let mut file = file.clone();
    let from_environment = std::env::var_os(KEY_FILE).filter(|_| file.has_keys());
    if let Some(path) = named.map(PathBuf::from).or(from_environment.map(PathBuf::from)) {
        file.use_key_file(&path)?;
    }
    Ok(Some(file))
}
