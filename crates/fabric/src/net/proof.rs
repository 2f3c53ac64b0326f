//! Proofs of this process to peers over a network: a secret that all have, or the key of its node. With keys it says
//! what each node may do, too.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::credentials::{Credentials, Kind};
use crate::error::Result;
use crate::rights::{Right, Rights};
use crate::secret_file;

/// Terms on which a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What other nodes let it do.
    pub rights: Rights,
    /// Most bytes of other nodes' memory that it may hold; `None`: as many as there are.
    pub max_borrowed_bytes: Option<u64>,
}

impl Default for Member {
    fn default() -> Member {
        Member { rights: Rights::ALL, max_borrowed_bytes: None }
    }
}

/// The credentials of this process, those that it asks of peers, and what each node may do.
#[derive(Clone)]
pub struct Proof {
    credentials: Arc<Credentials>,
    own_node: Option<u16>,
    is_cleartext: bool,
    /// The nodes by their numbers; empty if a secret is the proof, which does not say which node knows it.
    members: Arc<[Member]>,
    /// The rack file, for error messages.
    file: Arc<Path>,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.credentials.fmt(f)
    }
}

impl Proof {
    /// The secret of a file; see [`secret_file::read`].
    ///
    /// # Errors
    /// It cannot be read, is too short or too long, or others than the user can read or change its file.
    pub fn read(path: &Path) -> Result<Proof> {
        Ok(Proof::secret(&secret_file::read(path)?))
    }

    /// The secret of the file that `$RACKMEM_SECRET` names; `None`: it names none.
    ///
    /// # Errors
    /// As [`Proof::read`].
    pub fn from_environment() -> Result<Option<Proof>> {
        let file = std::env::var_os("RACKMEM_SECRET").filter(|value| !value.is_empty());
        file.map(|file| Ok(Proof::read(&PathBuf::from(file))?.or_cleartext(false))).transpose()
    }

    /// A secret of these bytes.
    pub fn secret(bytes: &[u8]) -> Proof {
        let digest = Sha256::new().chain_update(b"rackmem memory\0").chain_update(bytes);
        let credentials = Credentials::Secret(digest.finalize().into());
        Proof::of(credentials, Vec::new(), Path::new(""))
    }

    /// The key of a node, beside those of all members of the rack that `file` describes.
    pub fn of(credentials: Credentials, members: Vec<Member>, file: &Path) -> Proof {
        let own_node = credentials.own_node();
        let (credentials, members, file) = (Arc::new(credentials), members.into(), file.into());
        Proof { credentials, own_node, is_cleartext: false, members, file }
    }

    /// The same, and nothing is encrypted if `is_cleartext`.
    pub fn with_cleartext(self, is_cleartext: bool) -> Proof {
        Proof { is_cleartext, ..self }
    }

    /// The same, and nothing is encrypted if `is_said`, or if `$RACKMEM_CLEARTEXT` is 1.
    pub fn or_cleartext(self, is_said: bool) -> Proof {
        let is_set = std::env::var_os("RACKMEM_CLEARTEXT").is_some_and(|value| value == "1");
        let is_cleartext = self.is_cleartext || is_said || is_set;
        self.with_cleartext(is_cleartext)
    }

    /// Whether connections are not encrypted.
    pub fn is_cleartext(&self) -> bool {
        self.is_cleartext
    }

    /// The credentials of this process.
    pub fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Whether peers are known by keys.
    pub(super) fn has_keys(&self) -> bool {
        matches!(self.credentials.kind(), Kind::Keys | Kind::Both)
    }

    /// The node of this process, which keys tell.
    pub fn own_node(&self) -> Option<u16> {
        self.own_node
    }

    /// Checks that a node has one of these rights. A peer of no known node has them all: it is on this host, or knows
    /// the secret.
    ///
    /// # Errors
    /// One sentence for people, with the remedy.
    pub fn check(&self, node: Option<u16>, rights: &[Right]) -> std::result::Result<(), String> {
        let member = node.and_then(|node| Some((node, self.members.get(usize::from(node))?)));
        let Some((node, member)) = member else { return Ok(()) };
        if rights.is_empty() || rights.iter().any(|right| member.rights.have(*right)) {
            return Ok(());
        }
        let names: Vec<String> = rights.iter().map(|right| format!("'{}'", right.name())).collect();
        Err(format!(
            "node {node} does not have the right {}: add it to its rights in {} on all hosts",
            names.join(" or "),
            self.file.display()
        ))
    }

    /// Most bytes of other nodes' memory that a node may hold, if there is a bound.
    pub fn max_borrowed_bytes(&self, node: u16) -> Option<u64> {
        self.members.get(usize::from(node))?.max_borrowed_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    #[test]
    fn a_node_may_do_what_its_rights_say() {
        let own = PrivateKey::from_random([1; 32]);
        let peers = vec![PrivateKey::from_random([2; 32]).public(), own.public()];
        let rights = [Right::Borrow].into_iter().collect();
        let members = vec![Member { rights, ..Member::default() }, Member::default()];
        let credentials = Credentials::Keys { own, peers, secret: None };
        let proof = Proof::of(credentials, members, Path::new("/etc/rack.toml"));
        assert_eq!(proof.own_node(), Some(1));
        assert_eq!(proof.check(Some(0), &[Right::Blk, Right::Borrow]), Ok(()));
        assert_eq!(proof.check(Some(0), &[]), Ok(()));
        assert_eq!(proof.check(None, &[Right::Lend]), Ok(()));
        assert_eq!(proof.check(Some(1), &[Right::Lend]), Ok(()));
        let why = proof.check(Some(0), &[Right::Lend, Right::Blk]).unwrap_err();
        assert!(why.starts_with("node 0 does not have the right 'lend' or 'blk'"), "{why}");
        assert!(why.contains("/etc/rack.toml"), "{why}");
        assert_eq!(Proof::secret(b"x").check(Some(0), &[Right::Lend]), Ok(()));
    }
}
