//! Files with a secret: who may read them, and how long a secret is.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Shortest secret in bytes, without white space around it.
pub const MIN_SECRET_BYTES: usize = 16;

/// Longest file of a secret in bytes.
pub const MAX_SECRET_BYTES: u64 = 4096;

/// Makes a secret.
const MAKE: &str = "(umask 077; head -c 32 /dev/urandom | base64 > FILE)";

/// Permissions that a secret's file must not have.
const OTHERS: u32 = 0o077;

/// Reason why a secret cannot be used. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The attempted operation, as text that precedes the kernel's error.
        what: String,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The secret is too short or too long, or not secret. The text says what to do.
    #[error("{0}")]
    Refused(String),
}

/// Reads a secret; white space around it does not count.
///
/// # Errors
/// It cannot be read, is too short or too long, or others than the user can read or change its file.
pub fn read(path: &Path) -> Result<Vec<u8>, SecretError> {
    let what = || format!("cannot read the secret {}", path.display());
    let cannot = |source| SecretError::Io { what: what(), source };
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SecretError::Io {
            what: format!("{}, which all hosts have: `{MAKE}` makes one", what()),
            source: error,
        },
        _ => cannot(error),
    })?;
    check("the secret", path, &file.metadata().map_err(cannot)?)?;
    let mut bytes = Vec::new();
    file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    let is_too_long = bytes.len() as u64 > MAX_SECRET_BYTES;
    let bytes = bytes.trim_ascii().to_vec();
    if bytes.len() < MIN_SECRET_BYTES || is_too_long {
        return Err(SecretError::Refused(format!(
            "the secret in {} has {} bytes{}, {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} are needed: \
             `{MAKE}` makes one",
            path.display(),
            bytes.len(),
            if is_too_long { " or more" } else { "" }
        )));
    }
    Ok(bytes)
}

/// Refuses a file that another user than this one and root owns, or that others can read or write. `what` names its
/// content: "the secret".
///
/// # Errors
/// [`SecretError::Refused`], with what to do.
pub fn check(what: &str, path: &Path, file: &Metadata) -> Result<(), SecretError> {
    let (uid, shown) = (rustix::process::geteuid().as_raw(), path.display());
    let refused = |message| Err(SecretError::Refused(message));
    if file.is_dir() {
        return refused(format!("{shown} is a directory: name a file in it"));
    }
    if file.uid() != uid && file.uid() != 0 {
        return refused(format!(
            "{what} in {shown} belongs to user {}, who may read and change it: `chown {uid} {shown}`",
            file.uid()
        ));
    }
    if file.mode() & OTHERS != 0 {
        return refused(format!(
            "others may use {what} in {shown} (its mode is {:04o}): `chmod 600 {shown}`",
            file.mode() & 0o7777
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn short_endless_and_shared_secrets_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&path).map_err(|error| error.to_string())
        };
        assert!(write("  too short\n", 0o600).unwrap_err().contains("9 bytes"));
        assert!(write(&"x".repeat(5000), 0o600).unwrap_err().contains("or more"));
        let right = " 0123456789abcdef\n";
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644] {
            let error = write(right, mode).unwrap_err();
            assert!(error.contains(&format!("`chmod 600 {}`", path.display())), "{error}");
        }
        for (name, hint) in
            [(".", "is a directory: name a file"), ("none", "base64 > FILE)` makes one")]
        {
            let error = read(&dir.path().join(name)).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        assert_eq!(write(right, 0o600).unwrap(), b"0123456789abcdef");
        assert_eq!(write(right, 0o400).unwrap(), b"0123456789abcdef");
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested as an ordinary user: files of others");
            return;
        }
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("chown 0 "), "{error}");
    }
}
