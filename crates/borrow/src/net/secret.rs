//! A secret that all parties of a network know, and the proof that one knows it: HMAC-SHA256 over
//! both ends' random numbers. Nothing is encrypted by it.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hmac::{Hmac, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::lease::messages::PROTOCOL_VERSION;

/// Shortest secret in bytes, without white space around it.
pub const MIN_SECRET_BYTES: usize = 16;

/// Longest file of a secret in bytes.
pub const MAX_SECRET_BYTES: u64 = 4096;

/// Permissions that a secret's file must not have.
const OTHERS: u32 = 0o077;

/// A shared secret.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A number that nobody can guess.
pub type Nonce = [u8; 16];

/// The first message of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// Number for the connector to sign; `None`: no secret is needed.
    pub nonce: Option<Nonce>,
}

/// The answer to a [`Hello`], and its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Number for the other end to sign.
    pub nonce: Nonce,
    /// Signs the other end's number.
    pub signature: Vec<u8>,
}

impl Hello {
    /// A listener's, with a new number if there is a secret.
    ///
    /// # Errors
    /// As [`nonce`].
    pub fn new(secret: Option<&Secret>) -> Result<Hello> {
        Ok(Hello { version: PROTOCOL_VERSION, nonce: secret.map(|_| nonce()).transpose()? })
    }
}

/// The end that signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that listened.
    Listener,
    /// The one that connected.
    Connector,
}

impl Secret {
    /// Reads a secret; white space around it does not count.
    ///
    /// # Errors
    /// It cannot be read, is too short or too long, or others than the user can read or change its file.
    pub fn read(path: &Path) -> Result<Secret> {
        let cannot = |error| Error::io(format!("cannot read the secret {}", path.display()), error);
        let file = File::open(path).map_err(cannot)?;
        check_file(path, &file.metadata().map_err(cannot)?)?;
        let mut bytes = Vec::new();
        file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
        let is_too_long = bytes.len() as u64 > MAX_SECRET_BYTES;
        let bytes = bytes.trim_ascii().to_vec();
        if bytes.len() < MIN_SECRET_BYTES || is_too_long {
            return Err(Error::Refused(format!(
                "the secret in {} has {} bytes{}, {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} are needed: \
                 `(umask 077; head -c 32 /dev/urandom | base64 > FILE)` makes one",
                path.display(),
                bytes.len(),
                if is_too_long { " or more" } else { "" }
            )));
        }
        Ok(Secret(bytes))
    }

    /// A secret of these bytes.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(bytes.to_vec())
    }

    fn mac(&self, end: End, listener: &Nonce, connector: &Nonce) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        mac.update(match end {
            End::Listener => b"rackmem listener",
            End::Connector => b"rackmem connector",
        });
        mac.update(listener);
        mac.update(connector);
        mac
    }

    /// The proof of one end.
    pub fn sign(&self, end: End, listener: &Nonce, connector: &Nonce) -> Vec<u8> {
        self.mac(end, listener, connector).finalize().into_bytes().to_vec()
    }

    /// Whether a proof is right; takes as long for any wrong one.
    pub fn is_signed(&self, end: End, listener: &Nonce, connector: &Nonce, proof: &[u8]) -> bool {
        self.mac(end, listener, connector).verify_slice(proof).is_ok()
    }

    /// A mark that nobody without this secret can put on these bytes.
    pub fn mark(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// The key by which one end of a session seals its datagrams; without a secret it comes of the nonces alone.
    pub fn session_key(
        secret: Option<&Secret>,
        end: End,
        listener: &Nonce,
        connector: &Nonce,
    ) -> [u8; 32] {
        let label: &[u8] = match end {
            End::Listener => b"rackmem session of listener",
            End::Connector => b"rackmem session of connector",
        };
        let none = Secret(Vec::new());
        secret.unwrap_or(&none).mark(&[label, listener, connector])
    }

    /// Checks a connector's proof for our number; returns the listener's own proof, or `None` if it is wrong.
    pub fn confirm(&self, ours: &Nonce, proof: &Proof) -> Option<Proof> {
        let is_right = self.is_signed(End::Connector, ours, &proof.nonce, &proof.signature);
        let signature = || self.sign(End::Listener, ours, &proof.nonce);
        is_right.then(|| Proof { nonce: *ours, signature: signature() })
    }
}

/// Refuses a file that another user than this one and root owns, or that others can read or write.
///
/// # Errors
/// [`Error::Refused`], with what to do.
pub fn check_file(path: &Path, file: &Metadata) -> Result<()> {
    let (uid, shown) = (rustix::process::geteuid().as_raw(), path.display());
    if file.uid() != uid && file.uid() != 0 {
        return Err(Error::Refused(format!(
            "the secret in {shown} belongs to user {}, who may read and change it: `chown {uid} {shown}`",
            file.uid()
        )));
    }
    if file.mode() & OTHERS != 0 {
        return Err(Error::Refused(format!(
            "others may use the secret in {shown} (its mode is {:04o}): `chmod 600 {shown}`",
            file.mode() & 0o7777
        )));
    }
    Ok(())
}

/// A new number.
///
/// # Errors
/// The kernel has none.
pub fn nonce() -> Result<Nonce> {
    let mut bytes = Nonce::default();
    let mut done = 0;
    while done < bytes.len() {
        done += getrandom(&mut bytes[done..], GetRandomFlags::empty())
            .map_err(|error| Error::io("no random numbers", error))?;
    }
    Ok(bytes)
}

/// A token that nobody can guess.
///
/// # Errors
/// As [`nonce`].
pub fn token() -> Result<String> {
    Ok(nonce()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether two tokens are equal; takes as long for any two of the same length.
pub fn is_same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_proof_is_of_one_end_one_secret_and_these_numbers() {
        let secret = Secret::new(b"0123456789abcdef");
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(a, b);
        let proof = secret.sign(End::Connector, &a, &b);
        assert!(secret.is_signed(End::Connector, &a, &b, &proof));
        assert!(!secret.is_signed(End::Listener, &a, &b, &proof));
        assert!(!secret.is_signed(End::Connector, &b, &a, &proof));
        assert!(!secret.is_signed(End::Connector, &a, &b, &proof[1..]));
        assert!(!Secret::new(b"0123456789abcdeF").is_signed(End::Connector, &a, &b, &proof));
        assert!(is_same("ab", "ab") && !is_same("ab", "ac") && !is_same("ab", "abc"));
    }

    #[test]
    fn short_endless_and_shared_secrets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Secret::read(&path).map_err(|error| error.to_string())
        };
        assert!(write("  too short\n", 0o600).unwrap_err().contains("9 bytes"));
        assert!(write(&"x".repeat(5000), 0o600).unwrap_err().contains("or more"));
        let right = " 0123456789abcdef\n";
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644] {
            let error = write(right, mode).unwrap_err();
            assert!(error.contains(&format!("`chmod 600 {}`", path.display())), "{error}");
        }
        assert_eq!(write(right, 0o600).unwrap().0, b"0123456789abcdef");
        assert_eq!(write(right, 0o400).unwrap().0, b"0123456789abcdef");
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested as an ordinary user: files of others");
            return;
        }
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let error = Secret::read(&path).unwrap_err().to_string();
        assert!(error.contains("chown 0 "), "{error}");
    }
}
