//! A secret that all parties of a network know: the key by which connections are proved and encrypted
//! ([`super::greet`]).

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::credentials::Psk;
use crate::random;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::secret_file::{self, SecretError};

pub use crate::random::Nonce;

/// A shared secret, and whether connections that prove it are encrypted.
#[derive(Clone)]
pub struct Secret {
    psk: Psk,
    is_cleartext: bool,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Reads a secret; see [`secret_file::read`].
    ///
    /// # Errors
    /// It cannot be read, is too short or too long, or others than the user can read or change its file.
    pub fn read(path: &Path) -> Result<Secret> {
        Ok(Secret::new(&secret_file::read(path).map_err(of_file)?))
    }

    /// The secret of this file, or of the one that `$RACKMEM_SECRET` names. Connections are encrypted, unless
    /// `is_cleartext` or `$RACKMEM_CLEARTEXT` is 1.
    ///
    /// # Errors
    /// As [`Secret::read`].
    pub fn named(file: Option<PathBuf>, is_cleartext: bool) -> Result<Option<Secret>> {
        let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let file = file.or_else(|| from("RACKMEM_SECRET").map(PathBuf::from));
        let is_cleartext =
            is_cleartext || from("RACKMEM_CLEARTEXT").is_some_and(|value| value == "1");
        let Some(file) = file else { return Ok(None) };
        let secret = Secret::read(&file)?;
        Ok(Some(if is_cleartext { secret.in_cleartext() } else { secret }))
    }

    /// A secret of these bytes.
    pub fn new(bytes: &[u8]) -> Secret {
        let digest = Sha256::new().chain_update(b"rackmem memory\0").chain_update(bytes);
        Secret { psk: digest.finalize().into(), is_cleartext: false }
    }

    /// The same, which connections prove without being encrypted.
    pub fn in_cleartext(self) -> Secret {
        Secret { is_cleartext: true, ..self }
    }

    /// Whether connections are not encrypted.
    pub fn is_cleartext(&self) -> bool {
        self.is_cleartext
    }

    pub(super) fn psk(&self) -> &Psk {
        &self.psk
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
    random::nonce().map_err(|error| Error::io("no random numbers", error))
}

/// A token that nobody can guess.
///
/// # Errors
/// As [`nonce`].
pub fn token() -> Result<String> {
    random::token().map_err(|error| Error::io("no random numbers", error))
}
