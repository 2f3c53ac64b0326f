//! Names in folders that are held open. Whatever other processes of the host do to the way there meanwhile, a change is
//! one of the folder that was meant, and what is learned is of a file in it.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// A name by which the host's calls find the same file for as long as this is there.
pub(super) struct Held {
    path: PathBuf,
    _folder: Option<File>,
}

impl AsRef<Path> for Held {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Holds the folder of a place that has no links on the way. What is at the place may be a link, or nothing.
pub(super) fn hold(place: &Path) -> io::Result<Held> {
    let folder = match place.parent() {
        Some(folder) => open(folder, OFlags::DIRECTORY)?,
        None => None,
    };
    Ok(match (folder, place.file_name()) {
        (Some(folder), Some(name)) => {
            Held { path: by_number(&folder).join(name), _folder: Some(folder) }
        }
        _ => Held { path: place.to_owned(), _folder: None },
    })
}

/// Holds what is at a place that has no links on the way, and is none.
fn hold_itself(place: &Path) -> io::Result<Held> {
    Ok(match open(place, OFlags::empty())? {
        Some(file) => Held { path: by_number(&file), _folder: Some(file) },
        None => Held { path: place.to_owned(), _folder: None },
    })
}

/// Status of what is at a place that has no links on the way; of a link its own.
pub(super) fn metadata(place: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(hold(place)?)
}

/// Changes the permissions of what is at a place that has no links on the way, and is none.
pub(super) fn set_permissions(place: &Path, permissions: Permissions) -> io::Result<()> {
    fs::set_permissions(hold_itself(place)?, permissions)
}

/// The entries of the folder at a place that has no links on the way, with their names in it.
pub(super) fn read_folder(place: &Path) -> io::Result<fs::ReadDir> {
    fs::read_dir(hold_itself(place)?)
}

/// Opens a place without access to its content; `None` if the host cannot open one without following links.
fn open(place: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(error) => other_than_links(error).map(|()| None),
    }
}

/// What an error means of a call that follows no links: one that another process has put there is as nothing. It is
/// none if the host lacks the call, as old kernels do, or some container forbids it.
pub(super) fn other_than_links(error: Errno) -> io::Result<()> {
    match error {
        Errno::LOOP => Err(io::ErrorKind::NotFound.into()),
        Errno::NOSYS | Errno::PERM => Ok(()),
        error => Err(error.into()),
    }
}

fn by_number(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn changes_reach_the_folder_that_was_meant() {
        let folder = tempfile::tempdir().expect("there is room for temporary files");
        let top = folder.path().canonicalize().expect("it is there");
        for name in ["run", "other"] {
            fs::create_dir(top.join(name)).expect("the folder is ours");
            fs::write(top.join(name).join("file"), name).expect("the folder is ours");
        }
        let held = hold(&top.join("run/file")).expect("it is there");
        // Another process puts a link there.
        fs::rename(top.join("run"), top.join("moved")).expect("the folder is ours");
        symlink("other", top.join("run")).expect("a link");
        assert_eq!(fs::read(&held).expect("it is there"), b"run");
        fs::remove_file(held).expect("it is there");
        assert!(top.join("other/file").exists() && !top.join("moved/file").exists());
        let place = top.join("run/file");
        let none = |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::NotFound);
        none(hold(&place).map(|_| ()).expect_err("there is a link"));
        none(metadata(&place).map(|_| ()).expect_err("there is a link"));
        none(read_folder(&top.join("run")).map(|_| ()).expect_err("there is a link"));
        for name in ["run", "run/file"] {
            let permissions = Permissions::from_mode(0o000);
            none(set_permissions(&top.join(name), permissions).expect_err("there is a link"));
        }
        assert!(metadata(&top.join("run")).expect("it is there").is_symlink());
        assert!(metadata(Path::new("/")).expect("it is there").is_dir());
    }
}
