//! Files with the private key of a node: one line, which `rackmem key new` writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub use rackmem_fabric::keys::{PrivateKey, PublicKey};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};
use rackmem_fabric::secret_file;

/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Makes a key in a new file that only its user can read.
///
/// # Errors
/// The file is there already, which stays as it is, or cannot be written; then none is left.
pub fn create(path: &Path) -> Result<PrivateKey> {
    let mut random = [0; 32];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|error| Error::io("no random numbers", error.into()))?;
    let key = PrivateKey::from_random(random);
    let shown = path.display();
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::new(
            libc::EEXIST,
            format!(
                "{shown} is there already, and a key that is overwritten is lost: name another file, or see \
                 `rackmem key show {shown}`"
            ),
        ),
        _ => Error::io(format!("cannot make {shown}"), error),
    })?;
    write(file, &key).map_err(|error| {
        let _ = std::fs::remove_file(path);
        Error::io(format!("cannot write {shown}"), error)
    })?;
    Ok(key)
}

fn write(mut file: File, key: &PrivateKey) -> io::Result<()> {
    writeln!(file, "{}", key.to_text())?;
    file.sync_all()
}

/// Reads a private key.
///
/// # Errors
/// There is none in the file, or others than the user can read or change it.
pub fn read(path: &Path) -> Result<PrivateKey> {
    let shown = path.display();
    let cannot = |error| Error::io(format!("cannot read the private key {shown}"), error);
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::io(
            format!(
                "cannot read the private key {shown} (`rackmem key new {shown}` makes one, --key-file names another \
                 file)"
            ),
            error,
        ),
        _ => cannot(error),
    })?;
    secret_file::check("the private key", path, &file.metadata().map_err(cannot)?)?;
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(cannot)?;
    let key = String::from_utf8_lossy(&text).parse();
    key.map_err(|error| Error::invalid(format!("{shown} has no private key: {error}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab-0.key");
        let made = create(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(read(&path).unwrap(), made);
        let again = create(&path).unwrap_err();
        assert!(again.errno() == libc::EEXIST && again.to_string().contains("key show"), "{again}");
        assert_eq!(read(&path).unwrap(), made);
        assert_ne!(create(&dir.path().join("other")).unwrap(), made);
        assert_eq!(create(&dir.path().join("no/dir")).unwrap_err().errno(), libc::ENOENT);
    }

    #[test]
    fn files_without_a_key_or_for_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab-0.key");
        let public = create(&path).unwrap().public().to_string();
        let complaint = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(&path).unwrap_err().to_string()
        };
        assert!(complaint(&public, 0o600).contains("it is a public key"));
        assert!(complaint("", 0o600).contains("has no private key: it is no key"));
        assert!(complaint(&"x".repeat(10_000), 0o600).contains("it is no key"));
        let shared = complaint(&public, 0o640);
        assert!(shared.starts_with("others may use the private key in /"), "{shared}");
        assert!(shared.contains("`chmod 600 "), "{shared}");
        std::fs::remove_file(&path).unwrap();
        let missing = read(&path).unwrap_err();
        assert_eq!(missing.errno(), libc::ENOENT);
        assert!(missing.to_string().contains("`rackmem key new /"), "{missing}");
        assert!(read(dir.path()).unwrap_err().to_string().contains("is a directory: name a file"));
    }
}
