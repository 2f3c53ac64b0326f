//! The part of a process in a rack: its proof to those that it lends to and borrows from.

use std::path::{Path, PathBuf};

use rackmem_fabric::net::proof::{Member, Proof};
use rackmem_fabric::secret_file;

use super::RackFile;
use crate::error::{Error, Result};
use crate::key_file;

/// A rack by its file, and the proof of this process, for those that borrow.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Name of the rack.
    pub rack: String,
    /// The proof of this process.
    pub proof: Proof,
}

/// The path in an environment variable, unless it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Membership {
    /// That of `$RACKMEM_RACK_FILE`, `$RACKMEM_NODE` and `$RACKMEM_KEY_FILE`; `None`: `$RACKMEM_SECRET` or nothing
    /// names the proof.
    ///
    /// # Errors
    /// The file is no rack file, or the private key is not here.
    pub fn from_environment() -> Result<Option<Membership>> {
        if variable("RACKMEM_SECRET").is_some() {
            return Ok(None);
        }
        let Some(path) = variable("RACKMEM_RACK_FILE") else { return Ok(None) };
        let mut file = RackFile::read(Path::new(&path))?;
        if let Some(key_file) = variable("RACKMEM_KEY_FILE").filter(|_| file.has_keys()) {
            file.use_key_file(Path::new(&key_file))?;
        }
        let proof = file.proof(None)?.or_cleartext(false);
        Ok(Some(Membership { rack: file.name, proof }))
    }
}

impl RackFile {
    /// The proof of a process of this host that lends or borrows: the secret, or the key of its node.
    ///
    /// # Errors
    /// As [`RackFile::own_node`], or the proof cannot be read.
    pub fn proof(&self, node: Option<u16>) -> Result<Proof> {
        let proof = match &self.secret_file {
            Some(path) if !self.has_keys() => Proof::secret(&secret_file::read(path)?),
            _ => {
                let credentials = self.credentials(self.own_node(node)?)?;
                let members = self.nodes.iter().map(|node| Member {
                    rights: node.rights,
                    max_borrowed_bytes: node.max_borrowed_bytes,
                });
                Proof::of(credentials, members.collect(), &self.path)
            }
        };
        Ok(proof.with_cleartext(self.cleartext))
    }

    /// The node of a process on this host: `named`, `$RACKMEM_NODE`, or the one whose private key is here.
    ///
    /// # Errors
    /// None is named, and the keys of none or of several are here.
    pub fn own_node(&self, named: Option<u16>) -> Result<u16> {
        if let Some(node) = named {
            return Ok(node);
        }
        if let Some(text) = variable("RACKMEM_NODE") {
            let wrong =
                |_| Error::invalid(format!("RACKMEM_NODE='{text}' is not a number in range"));
            return text.parse().map_err(wrong);
        }
        let here: Vec<u16> = (0..self.node_count()).filter(|nid| self.has_key_here(*nid)).collect();
        match here[..] {
            [only] => Ok(only),
            [] => Err(self.no_key_here()),
            _ => {
                let nodes: Vec<String> = here.iter().map(u16::to_string).collect();
                Err(Error::invalid(format!(
                    "the keys of nodes {} of {} are here: say which one this is by --node or RACKMEM_NODE",
                    nodes.join(", "),
                    self.path.display()
                )))
            }
        }
    }

    /// The error of the file of a key that cannot be read; else there is none.
    fn no_key_here(&self) -> Error {
        let is_there = |nid: &u16| self.key_file_of(*nid).exists();
        let wrong = (0..self.node_count()).find(is_there).map(|nid| self.credentials(nid));
        wrong.and_then(Result::err).unwrap_or_else(|| {
            Error::invalid(format!(
                "no node of {} has its private key here, which would be {}: name it by --key-file or RACKMEM_KEY_FILE",
                self.path.display(),
                self.key_file.display()
            ))
        })
    }

    fn has_key_here(&self, nid: u16) -> bool {
        let own = key_file::read(&self.key_file_of(nid));
        own.is_ok_and(|own| Some(own.public()) == self.nodes[usize::from(nid)].key)
    }

    /// The file of a node's private key.
    pub(super) fn key_file_of(&self, nid: u16) -> PathBuf {
        self.key_file.to_string_lossy().replace(super::NODE, &nid.to_string()).into()
    }
}
