//! A secret that all parties of a network know, and the proof that one knows it: HMAC-SHA256 over
//! both ends' random numbers. Nothing is encrypted by it.

use std::fmt;
use std::fs::Metadata;
use std::path::Path;

use hmac::{Hmac, Mac};
use rackmem::secret_file::{self, SecretError};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::lease::messages::PROTOCOL_VERSION;

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
    /// Reads a secret; see [`secret_file::read`].
    ///
    /// # Errors
    /// It cannot be read, is too short or too long, or others than the user can read or change its file.
    pub fn read(path: &Path) -> Result<Secret> {
        Ok(Secret(secret_file::read(path).map_err(of_file)?))
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
    secret_file::check(path, file).map_err(of_file)
}

fn of_file(error: SecretError) -> Error {
    match error {
        SecretError::Io { what, source } => Error::io(what, source),
        SecretError::Refused(text) => Error::Refused(text),
    }
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
}
