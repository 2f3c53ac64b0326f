//! A secret that all parties of a network know, and the proof that one knows it: HMAC-SHA256 over
//! both ends' random numbers. Nothing is encrypted by it.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::socket;
use crate::error::{Error, Result};
use crate::lease::messages::PROTOCOL_VERSION;

/// Shortest secret in bytes, without white space around it.
pub const MIN_SECRET_BYTES: usize = 16;

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

/// What an end says before it is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// To be signed; `None`: no secret is needed.
    pub nonce: Option<Nonce>,
}

/// The answer to a [`Hello`], and its confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// To be signed by the other end.
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

/// Which end signs.
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
    /// It cannot be read, or is too short.
    pub fn read(path: &Path) -> Result<Secret> {
        let bytes = std::fs::read(path).map_err(|error| {
            Error::io(format!("cannot read the secret {}", path.display()), error)
        })?;
        let bytes = bytes.trim_ascii().to_vec();
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(Error::Refused(format!(
                "the secret in {} has {} bytes, at least {MIN_SECRET_BYTES} are needed: \
                 `head -c 32 /dev/urandom | base64 > FILE` makes one",
                path.display(),
                bytes.len()
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

    /// What a listener, who has sent this number, answers to a connector's proof; `None` if that is wrong.
    pub fn confirm(&self, ours: &Nonce, proof: &Proof) -> Option<Proof> {
        let is_right = self.is_signed(End::Connector, ours, &proof.nonce, &proof.signature);
        let signature = || self.sign(End::Listener, ours, &proof.nonce);
        is_right.then(|| Proof { nonce: *ours, signature: signature() })
    }
}

/// Refuses to listen at a `HOST:PORT` of this host that others reach, unless they have to know a secret or it was
/// said that they need not. `could` is what they could do.
///
/// # Errors
/// [`Error::Refused`]; there is no such host.
pub fn check_exposure(
    listen: &str,
    secret: Option<&Secret>,
    is_insecure: bool,
    could: &str,
) -> Result<()> {
    let is_open = || -> Result<bool> {
        Ok(socket::resolve(listen)?.iter().any(|address| !address.ip().is_loopback()))
    };
    if secret.is_none() && !is_insecure && is_open()? {
        return Err(Error::Refused(format!(
            "whoever reaches {listen} could {could}: name a file that all hosts have by \
             --secret FILE, or say --insecure"
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
    fn short_secrets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "  too short\n").unwrap();
        assert!(Secret::read(&path).unwrap_err().to_string().contains("9 bytes"));
        std::fs::write(&path, " 0123456789abcdef\n").unwrap();
        assert_eq!(Secret::read(&path).unwrap().0, b"0123456789abcdef");
    }
}
