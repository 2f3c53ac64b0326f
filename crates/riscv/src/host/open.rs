//! Opening files of this machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::held::other_than_links;
use crate::kernel::OpenMode;

/// Opens the file at a place that has no links on the way. If another process has put one there since, it is not
/// followed, and the file is as if it were not there.
pub(super) fn open_place(path: &Path, mode: OpenMode) -> io::Result<File> {
    let flags = flags(mode);
    let permissions = match flags.contains(OFlags::CREATE) {
        true => Mode::from_raw_mode(0o666),
        false => Mode::empty(),
    };
    match openat2(CWD, path, flags, permissions, ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(File::from(file)),
        Err(error) => other_than_links(error).and_then(|()| open(path, mode)),
    }
}

/// Makes a file without a name in the file system of a folder, at a place that has no links on the way.
pub(super) fn open_nameless(folder: &Path, mode: OpenMode) -> io::Result<File> {
    let access = if mode.read { OFlags::RDWR } else { OFlags::WRONLY };
    let wanted = [(mode.append, OFlags::APPEND), (mode.create_new, OFlags::EXCL)];
    let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
    let flags =
        wanted.fold(access | OFlags::TMPFILE | OFlags::CLOEXEC, |flags, (_, it)| flags | it);
    let permissions = Mode::from_raw_mode(0o666);
    match openat2(CWD, folder, flags, permissions, ResolveFlags::NO_SYMLINKS) {
        Ok(file) => Ok(File::from(file)),
        Err(error) => {
            other_than_links(error)?;
            Ok(File::from(rustix::fs::open(folder, flags | OFlags::NOFOLLOW, permissions)?))
        }
    }
}

/// Opens a file by its name; links are followed.
pub(super) fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(mode.read)
        .write(mode.write && !mode.append)
        .append(mode.write && mode.append)
        .truncate(mode.write && mode.truncate && !mode.append)
        .create(mode.write && mode.create)
        .create_new(mode.write && mode.create_new)
        .open(path)?;
    if mode.write && mode.truncate && mode.append {
        file.set_len(0)?;
    }
    Ok(file)
}

fn flags(mode: OpenMode) -> OFlags {
    let access = match (mode.read, mode.write) {
        (_, false) => return OFlags::RDONLY | OFlags::CLOEXEC,
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
    };
    let wanted = [
        (mode.append, OFlags::APPEND),
        (mode.truncate, OFlags::TRUNC),
        (mode.create, OFlags::CREATE),
        (mode.create_new, OFlags::CREATE | OFlags::EXCL),
    ];
    let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
    wanted.fold(access | OFlags::CLOEXEC, |flags, (_, flag)| flags | flag)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_that_come_later_are_not_followed() {
        let folder = tempfile::tempdir().expect("there is room for temporary files");
        let top = folder.path().canonicalize().expect("it is there");
        fs::create_dir(top.join("other")).expect("the folder is ours");
        fs::write(top.join("other/file"), "kept").expect("the folder is ours");
        symlink("other", top.join("folder")).expect("a link");
        symlink("other/file", top.join("last")).expect("a link");
        let reads = OpenMode { read: true, ..OpenMode::default() };
        let empties = OpenMode { write: true, truncate: true, create: true, ..reads };
        for name in ["folder/file", "last"] {
            for mode in [reads, empties] {
                let error = open_place(&top.join(name), mode).expect_err("there is a link");
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
            }
        }
        let error = open_place(&top.join("folder/new"), empties).expect_err("there is a link");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!top.join("other/new").exists());
        assert_eq!(fs::read(top.join("other/file")).expect("it is there"), b"kept");
        open_place(&top.join("other/file"), empties).expect("there is no link");
        assert!(fs::read(top.join("other/file")).expect("it is there").is_empty());
    }
}
