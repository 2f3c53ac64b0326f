//! Names in folders that are held open. Whatever other processes of the host do to the way there meanwhile, a change is
//! one of the folder that was meant, and what is learned is of a file in it.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions, ReadDir};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::fs::{
    linkat, mkdirat, mknodat, openat, openat2, readlinkat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::names;

/// A name in a folder.
pub(super) struct Held<'a> {
    /// `None`: the name is a path.
    folder: Option<File>,
    name: &'a Path,
}

/// Holds the folder of a place that has no links on the way. What is at the place may be a link, or nothing.
pub(super) fn hold(place: &Path) -> io::Result<Held<'_>> {
    let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
        return Ok(Held { folder: None, name: place });
    };
    let folder = open(folder, OFlags::DIRECTORY)?;
    let name = if folder.is_some() { Path::new(name) } else { place };
    Ok(Held { folder, name })
}

impl Held<'_> {
    fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_ref().map_or(CWD, AsFd::as_fd)
    }

    pub fn make_folder(&self) -> io::Result<()> {
        Ok(mkdirat(self.folder(), self.name, Mode::from_raw_mode(0o777))?)
    }

    /// Makes an empty file, which is not there.
    pub fn make_file(&self) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(self.folder(), self.name, flags, Mode::from_raw_mode(0o666)).map(drop)?)
    }

    /// Makes a pipe or a socket.
    pub fn make_node(&self, kind: FileType) -> io::Result<()> {
        Ok(mknodat(self.folder(), self.name, kind, Mode::RUSR | Mode::WUSR, 0)?)
    }

    /// Makes a link with this text.
    pub fn make_link(&self, text: &str) -> io::Result<()> {
        Ok(symlinkat(names::path_of(text), self.folder(), self.name)?)
    }

    /// Gives the file another name.
    pub fn link_to(&self, to: &Held<'_>) -> io::Result<()> {
        Ok(linkat(self.folder(), self.name, to.folder(), to.name, AtFlags::empty())?)
    }

    /// Gives an open file this name.
    pub fn link_file(&self, file: &File) -> io::Result<()> {
        Ok(linkat(CWD, path_of(file), self.folder(), self.name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Renames the file, or the folder. If it may not `replace`, there is nothing by the other name.
    pub fn rename_to(&self, to: &Held<'_>, replace: bool) -> io::Result<()> {
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        Ok(renameat_with(self.folder(), self.name, to.folder(), to.name, flags)?)
    }

    /// Gives the file, or the folder, the other's name, which gets this one.
    pub fn exchange_with(&self, other: &Held<'_>) -> io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        Ok(renameat_with(self.folder(), self.name, other.folder(), other.name, flags)?)
    }

    pub fn remove_file(&self) -> io::Result<()> {
        Ok(unlinkat(self.folder(), self.name, AtFlags::empty())?)
    }

    pub fn remove_folder(&self) -> io::Result<()> {
        Ok(unlinkat(self.folder(), self.name, AtFlags::REMOVEDIR)?)
    }

    /// The text of the link.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        let text = readlinkat(self.folder(), self.name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
    }
}

/// Status of what is at a place that has no links on the way; of a link its own.
pub(super) fn metadata(place: &Path) -> io::Result<Metadata> {
    match open(place, OFlags::NOFOLLOW)? {
        Some(file) => file.metadata(),
        None => fs::symlink_metadata(place),
    }
}

/// The same; `None` if nothing is there.
pub(super) fn find(place: &Path) -> io::Result<Option<Metadata>> {
    match metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Changes the permissions of what is at a place that has no links on the way, and is none.
pub(super) fn set_permissions(place: &Path, permissions: Permissions) -> io::Result<()> {
    by_number(place, |path| fs::set_permissions(path, permissions.clone()))
}

/// The entries of the folder at a place that has no links on the way, with their names in it.
pub(super) fn read_folder(place: &Path) -> io::Result<ReadDir> {
    by_number(place, |path| fs::read_dir(path))
}

/// Makes a call that takes a path for what is at a place: with that of its descriptor, unless `/proc` is not there.
fn by_number<T>(place: &Path, call: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let Some(file) = open(place, OFlags::empty())? else { return call(place) };
    match call(&path_of(&file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => call(place),
        done => done,
    }
}

/// A path of an open file, whichever names it has.
pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The name that the host has for an open file, or had.
pub(super) fn read_link_of(file: &File) -> io::Result<PathBuf> {
    fs::read_link(path_of(file))
}

/// Changes the permissions of an open file, which is no link.
pub(super) fn permit(file: &File, permissions: Permissions) -> io::Result<()> {
    match file.set_permissions(permissions.clone()) {
        // It is open without its content.
        Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => {
            fs::set_permissions(path_of(file), permissions)
        }
        done => done,
    }
}

/// Opens what is at a place that has no links on the way without its content; a link itself.
pub(super) fn open_path(place: &Path) -> io::Result<File> {
    match open(place, OFlags::NOFOLLOW)? {
        Some(file) => Ok(file),
        None => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(rustix::fs::open(place, flags, Mode::empty())?))
        }
    }
}

/// The text of an open link.
pub(super) fn read_open_link(link: &File) -> io::Result<PathBuf> {
    let text = readlinkat(link, "", Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(text.into_bytes())))
}

/// Opens a place without access to its content; `None` if the host cannot open one without following links.
fn open(place: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(error) => other_than_links(error).map(|()| None),
    }
}

/// The error of a call that follows no links, as the program gets it. A link that another process has put there is as
/// nothing. `Ok`: the host lacks the call, as old kernels do, or some container forbids it.
pub(super) fn other_than_links(error: Errno) -> io::Result<()> {
    match error {
        Errno::LOOP => Err(io::ErrorKind::NotFound.into()),
        Errno::NOSYS | Errno::PERM => Ok(()),
        error => Err(error.into()),
    }
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
        let place = top.join("run/file");
        let held = hold(&place).expect("it is there");
        // Another process puts a link there.
        fs::rename(top.join("run"), top.join("moved")).expect("the folder is ours");
        symlink("other", top.join("run")).expect("a link");
        held.rename_to(&held, true).expect("it is there");
        held.remove_file().expect("it is there");
        assert!(top.join("other/file").exists() && !top.join("moved/file").exists());
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
