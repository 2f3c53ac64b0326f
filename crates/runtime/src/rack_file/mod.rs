//! `rack.toml`: the nodes of a rack over several hosts, and the secret or the keys by which they know each other.
//!
//! ```toml
//! name = "lab"
//! secret_file = "lab.secret"       # relative to this file
//!
//! [[node]]                         # node 0
//! address = "10.9.0.1:7400"
//!
//! [[node]]                         # node 1
//! address = "10.9.0.2:7400"
//! ```
//!
//! With keys, which may replace the secret:
//!
//! ```toml
//! name = "lab"
//! key_file = "lab-{node}.key"      # relative to this file; this is the default
//!
//! [[node]]
//! address = "10.9.0.1:7400"
//! key = "rackmem-key:..."          # what `rackmem key new lab-0.key` has printed
//! rights = ["context", "borrow"]   # all, unless they are listed
//! max_borrowed = "16G"             # of other nodes' memory; any amount, unless it is said
//! ```
//!
//! `link = "ucx"`, with `cleartext = true`, has packets between hosts travel by UCX ([`rackmem_fabric::ucx`]).
//!
//! Nodes of one IP are neighbours: they share memory. All others reach each other by packets.
//!
//! # Decisions
//!
//! - *`{node}` in the name of the private key's file.* All hosts have the same rack file, hosts with a common file
//!   system see the same folder, and one host may have several nodes, each with a key of its own.
//! - *The secret is hashed with a label of racks*, and that of leases with one of leases. A listener for leases
//!   cannot pass the handshake on to a daemon, nor the other way round, when both use the same file.
//! - *Commands do not read private keys*: those that only look at the rack need none. Daemons do, and `rackmem up`
//!   before it starts them.

mod membership;
mod nodes;
mod text;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rackmem_fabric::credentials::Credentials;
use rackmem_fabric::keys::PublicKey;
pub use rackmem_fabric::rights::{Right, Rights};
use rackmem_fabric::secret_file;
use sha2::{Digest, Sha256};
use toml::de::DeTable;

pub use self::membership::Membership;
use self::text::{Keys, Text, one_line, read_text};
use crate::error::{Error, Result};
use crate::{key_file, rack};

/// Keys of the file.
const KEYS: [&str; 6] = ["name", "secret_file", "key_file", "cleartext", "link", "node"];

/// Stands for the number of a node in the name of its private key's file.
const NODE: &str = "{node}";

/// The carrier of packets between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// A connection between two daemons.
    #[default]
    Tcp,
    /// UCX, in cleartext; messages of control and processes with a link of their own take TCP.
    Ucx,
}

impl LinkKind {
    /// Names, as in the file.
    const NAMES: [&str; 2] = ["tcp", "ucx"];
}

/// A rack over several hosts, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RackFile {
    /// The file: an absolute path.
    pub path: PathBuf,
    /// Name of the rack, also of its directory on each host.
    pub name: String,
    /// Proves to a daemon of another host that this one belongs to the rack; with keys it may be missing.
    pub secret: Option<Secret>,
    /// File of the secret, an absolute path.
    secret_file: Option<PathBuf>,
    /// File of the private key of a node, an absolute path; `{node}` in it stands for the node's number.
    key_file: PathBuf,
    /// Whether packets between hosts travel unencrypted. Secret and keys are asked for all the same.
    pub cleartext: bool,
    /// Carrier of packets between hosts.
    pub link: LinkKind,
    /// The nodes, in the order of their numbers: 1 to [`MAX_NODES`](rackmem_abi::MAX_NODES).
    pub nodes: Vec<NodeEntry>,
}

/// A node of a rack file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// Where its daemon listens for daemons of other hosts.
    pub address: SocketAddr,
    /// The key by which other nodes know it. All nodes of a file have one, or none.
    pub key: Option<PublicKey>,
    /// What other nodes let it do.
    pub rights: Rights,
    /// Most bytes of other nodes' memory that it may hold; `None`: as many as there are.
    pub max_borrowed_bytes: Option<u64>,
}

/// SHA-256 of a shared secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// The digest of a secret, without white space around it.
    pub fn of(secret: &[u8]) -> Secret {
        let digest =
            Sha256::new().chain_update(b"rackmem rack\0").chain_update(secret.trim_ascii());
        Secret(digest.finalize().into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl RackFile {
    /// Reads and checks a rack file and its secret.
    ///
    /// # Errors
    /// One sentence that names the file, the line and the remedy.
    pub fn read(path: &Path) -> Result<RackFile> {
        let path = std::path::absolute(path)
            .map_err(|error| Error::io("cannot tell the working directory", error))?;
        let text = Text { text: read_text(&path)?, path: &path };
        let document = DeTable::parse(&text.text).map_err(|error| {
            text.refuse(error.span().unwrap_or_default(), one_line(error.message()))
        })?;
        let table = Keys { text: &text, table: document.get_ref() };
        table.check(&KEYS, "of a rack file")?;
        let Some(name) = table.text("name", "name = \"lab\"")? else {
            return Err(text.refuse_whole("it has no name: write `name = \"lab\"`"));
        };
        rack::check_name(name.get_ref()).map_err(|error| text.refuse(name.span(), error))?;
        let (secret_file, secret) = secret(&text, &table)?.unzip();
        let file = RackFile {
            name: name.get_ref().clone(),
            secret,
            secret_file,
            key_file: key_file_name(&text, &table, name.get_ref())?,
            cleartext: table.flag("cleartext")?,
            link: link(&text, &table)?,
            nodes: nodes::nodes(&text, &table)?,
            path: path.clone(),
        };
        file.check_proofs(&text, &table)?;
        Ok(file)
    }

    /// There is a secret, or keys.
    fn check_proofs(&self, text: &Text<'_>, table: &Keys<'_>) -> Result<()> {
        if self.has_keys() {
            return Ok(());
        }
        if let Some(value) = table.get("key_file") {
            let message = "key_file names a private key, and no node has a `key`: write that of each node, which \
                           `rackmem key show FILE` prints";
            return Err(text.refuse(value.span(), message));
        }
        if self.secret.is_some() {
            return Ok(());
        }
        Err(text.refuse_whole(
            "it has neither secret_file nor keys, by which its nodes prove that they belong to it (also with \
             cleartext = true): `(umask 077; head -c 32 /dev/urandom | base64 > lab.secret)` makes a secret, and \
             `secret_file = \"lab.secret\"` names it; `rackmem help key` explains keys",
        ))
    }

    /// Whether nodes prove themselves by keys.
    pub fn has_keys(&self) -> bool {
        self.nodes.iter().any(|node| node.key.is_some())
    }

    /// Takes private keys from another file than the one that this file names; `{node}` in it stands for the number of
    /// a node.
    ///
    /// # Errors
    /// No node has a key, or the working directory is gone.
    pub fn use_key_file(&mut self, path: &Path) -> Result<()> {
        if !self.has_keys() {
            let shown = self.path.display();
            return Err(Error::invalid(format!("{shown} has no keys: leave the key file out")));
        }
        self.key_file = std::path::absolute(path)
            .map_err(|error| Error::io("cannot tell the working directory", error))?;
        Ok(())
    }

    /// File of the private key of a node; `{node}` in it stands for the node's number. `None`: the nodes have no keys.
    pub fn key_file(&self) -> Option<&Path> {
        self.has_keys().then_some(self.key_file.as_path())
    }

    /// The credentials of a node of this host.
    ///
    /// # Errors
    /// There is no such node; or its private key cannot be read, or is not the one that belongs to its key in the file.
    pub fn credentials(&self, nid: u16) -> Result<Credentials> {
        let secret = self.secret.as_ref().map(|secret| secret.0);
        let peers: Vec<PublicKey> = self.nodes.iter().filter_map(|node| node.key).collect();
        if let (true, Some(secret)) = (peers.is_empty(), secret) {
            return Ok(Credentials::Secret(secret));
        }
        let Some(expected) = peers.get(usize::from(nid)) else {
            let (path, nodes) = (self.path.display(), self.nodes.len());
            return Err(Error::invalid(format!("{path} has {nodes} nodes, and no node {nid}")));
        };
        let path = self.key_file_of(nid);
        let own = key_file::read(&path)?;
        let public = own.public();
        if public != *expected {
            return Err(self.refuse_key(nid, &path.to_string_lossy(), &public));
        }
        Ok(Credentials::Keys { own, peers, secret })
    }

    fn refuse_key(&self, nid: u16, name: &str, public: &PublicKey) -> Error {
        let owner = self.nodes.iter().position(|node| node.key == Some(*public));
        let path = self.path.display();
        Error::invalid(match owner {
            Some(owner) => format!(
                "{name} has the private key of node {owner} of {path}, not that of node {nid}: name node {nid}'s own \
                 file by key_file or --key-file"
            ),
            None => format!(
                "{name} has the private key of no node of {path}: name node {nid}'s own file by key_file or \
                 --key-file, or write `key = \"{public}\"` for node {nid} on all hosts"
            ),
        })
    }

    /// Whether two nodes run on one host and share memory: they have the same IP.
    pub fn is_neighbour(&self, a: u16, b: u16) -> bool {
        let ip = |nid: u16| self.nodes.get(usize::from(nid)).map(|node| node.address.ip());
        ip(a).is_some() && ip(a) == ip(b)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u16 {
        self.nodes.len() as u16
    }
}

fn link(text: &Text<'_>, table: &Keys<'_>) -> Result<LinkKind> {
    let Some(name) = table.text("link", "link = \"ucx\"")? else { return Ok(LinkKind::Tcp) };
    let refuse = |message: String| Err(text.refuse(name.span(), message));
    match name.get_ref().as_str() {
        "tcp" => Ok(LinkKind::Tcp),
        "ucx" if table.flag("cleartext")? => Ok(LinkKind::Ucx),
        "ucx" => refuse(
            "UCX encrypts nothing: write `cleartext = true` if nobody else uses the network, or leave link out"
                .to_owned(),
        ),
        other => {
            let hint = text::hint(other, &LinkKind::NAMES, "which are");
            refuse(format!("'{other}' is none of the links{hint}"))
        }
    }
}

fn secret(text: &Text<'_>, table: &Keys<'_>) -> Result<Option<(PathBuf, Secret)>> {
    let Some(name) = table.text("secret_file", "secret_file = \"lab.secret\"")? else {
        return Ok(None);
    };
    let path = beside(text, name.get_ref());
    let bytes = secret_file::read(&path).map_err(|error| text.refuse(name.span(), error))?;
    let secret = Secret::of(&bytes);
    Ok(Some((path, secret)))
}

fn key_file_name(text: &Text<'_>, table: &Keys<'_>, name: &str) -> Result<PathBuf> {
    let written = table.text("key_file", "key_file = \"lab-{node}.key\"")?;
    let default = || format!("{name}-{NODE}.key");
    Ok(beside(text, &written.map_or_else(default, toml::Spanned::into_inner)))
}

/// The path of a file that the rack file names.
fn beside(text: &Text<'_>, name: &str) -> PathBuf {
    text.path.parent().unwrap_or(Path::new("/")).join(name)
}

#[cfg(test)]
mod tests;
