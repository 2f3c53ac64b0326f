//! Trust between users of one host: the directory that a program uses, and the users that may answer at a socket.
//!
//! Anybody can make `/tmp/rackmem-<uid>` before its user does, and listen in it. So the default
//! directory must belong to its user, must be no symbolic link, and must be writable by that user
//! only. A directory that was named (`$RACKMEM_DIR`) may be another user's, who alone may write to it:
//! to name it is to trust that user. At a socket in such a directory the same user, root, or the
//! owner of the directory may answer.
//!
//! A rack is private to its user until a context is created with permissions for others. Others may
//! then search the directories (not list or write them); the file of each context has its rights.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permission bits that let others than the owner change a directory.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Permission bits that let others than the owner reach files whose names they know.
const SEARCHABLE: u32 = 0o111;

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens a directory if it can be trusted: see the module. One that was `named` may be a link, or
/// another user's.
///
/// # Errors
/// `PermissionDenied` names the owner and a remedy; `NotFound` if there is no such directory.
pub fn open_dir(path: &Path, named: bool) -> io::Result<File> {
    let follow = if named { 0 } else { libc::O_NOFOLLOW };
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | follow).open(path);
    let shown = path.display();
    let dir = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => refused(format!(
            "{shown} is not a directory of yours: remove it, or set RACKMEM_DIR to another one"
        )),
        Some(libc::EACCES) => refused(format!(
            "{shown} is closed to you, so another user made it: set RACKMEM_DIR to another directory"
        )),
        _ => error,
    })?;
    let found = dir.metadata()?;
    if !named && found.uid() != our_uid() {
        return Err(refused(format!(
            "{shown} belongs to user {}, not to you (user {}): set RACKMEM_DIR to a directory of your own",
            found.uid(),
            our_uid()
        )));
    }
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(refused(format!(
            "{shown} can be written by other users (mode {:04o}): run `chmod go-w {shown}`, or set \
             RACKMEM_DIR to another directory",
            found.mode() & 0o7777
        )));
    }
    Ok(dir)
}

/// As [`open_dir`]; makes the directory first, closed to other users, if there is none.
///
/// # Errors
/// Those of [`open_dir`], and of making the directory.
pub fn make_dir(path: &Path, named: bool) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).or_else(|error| {
        // `open_dir` reports what is there instead.
        if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
    })?;
    open_dir(path, named)
}

/// Lets other users reach names that they know in a directory of ours. Other users' directories stay as they are.
pub(crate) fn open_to_others(path: &Path) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    if found.uid() != our_uid() || found.mode() & SEARCHABLE == SEARCHABLE {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 | SEARCHABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_made_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("racks");
        let made = make_dir(&path, false).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700);
        open_to_others(&path).unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o711);
        make_dir(&path, false).expect("others who cannot write are no danger");
    }

    #[test]
    fn links_and_what_others_can_write_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("racks"), dir.path().join("link"));
        make_dir(&path, false).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = make_dir(&link, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        make_dir(&link, true).expect("who names a link means what it leads to");
        for others in [0o720, 0o702, 0o1777] {
            mode(&path, others);
            for named in [false, true] {
                let error = make_dir(&path, named).unwrap_err();
                assert!(error.to_string().contains("other users"), "{error}");
            }
        }
        mode(&path, 0o700);
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(make_dir(&path, false).is_err());
    }

    #[test]
    fn another_users_directory_is_used_only_if_it_was_named() {
        if our_uid() != 0 {
            eprintln!("not tested: only root can give a directory away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(12345), None).unwrap();
        let error = make_dir(dir.path(), false).unwrap_err();
        assert!(error.to_string().contains("belongs to user 12345"), "{error}");
        make_dir(dir.path(), true).unwrap();
    }
}
