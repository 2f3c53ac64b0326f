//! Files that are there whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, access, flock};

/// Writes a file so that it is there whole or not at all. What is there and no file, such as a pipe, gets the content
/// as it is; a link stays, and the file that it names is written.
///
/// # Errors
/// Any of the operating system. The text names the file at the end of links, and the folder if that may not be written.
pub fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    write_by(file, |out| out.write_all(content))
}

/// The same of content that is written piece by piece.
///
/// # Errors
/// As [`write()`], and those of the writer.
pub fn write_by(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let end = target(file)?;
    let written = match end.exists() && !end.is_file() {
        true => File::create(&end).and_then(|file| buffered(&file, write)),
        false => replace(&end, write),
    };
    written.map_err(|error| match end == file {
        true => error,
        false => io::Error::new(error.kind(), format!("a link to {}: {error}", end.display())),
    })
}

/// Whether a file can be written there, before there is work for it: nothing is made.
///
/// # Errors
/// As [`write()`].
pub fn check(file: &Path) -> io::Result<()> {
    let end = target(file)?;
    let place = match end.exists() {
        true if end.is_dir() => return Err(rustix::io::Errno::ISDIR.into()),
        true if !end.is_file() => end.as_path(),
        _ => folder_of(&end),
    };
    Ok(access(place, Access::WRITE_OK)?)
}

/// Writes beside the file, and puts what is written in its place.
fn replace(file: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let folder = folder_of(file);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(format!(".{name}.part"));
    let written = lock(&part).map_err(|error| match error.kind() {
        // The file itself may be writable.
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            let folder = folder.display();
            io::Error::new(error.kind(), format!("nothing can be made in {folder}: {error}"))
        }
        _ => error,
    })?;
    let stored = written
        .set_len(0)
        .and_then(|()| buffered(&written, write))
        .and_then(|()| written.set_permissions(Permissions::from_mode(0o644)))
        .and_then(|()| written.sync_all())
        .and_then(|()| fs::rename(&part, file));
    if stored.is_err() {
        let _ = fs::remove_file(&part);
    }
    stored
}

fn buffered(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

fn folder_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// The file at the end of links, which need not be there.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&file) else { return Ok(file) };
        file = file.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Opens the part for this process alone. Of one that was killed there may be an old one; a process that has just put
/// its part in place leaves us with a file that has another name by now.
fn lock(part: &Path) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;
    loop {
        let file = File::options().create(true).write(true).truncate(false).open(part)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let ours = file.metadata()?.ino();
        if fs::metadata(part).is_ok_and(|there| there.ino() == ours) {
            return Ok(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn writers_of_one_file_do_not_mix() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let text = |writer: u8| vec![b'a' + writer; 100_000 + usize::from(writer)];
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    (0..20).for_each(|_| write(file, &text(writer)).unwrap());
                });
            }
        });
        let found = fs::read(&file).unwrap();
        assert!((0..4).any(|writer| found == text(writer)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_stay_links() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("missing", &link).unwrap();
        write(&link, b"text").unwrap();
        assert!(fs::read_link(&link).is_ok());
        assert_eq!(fs::read(dir.path().join("missing")).unwrap(), b"text");
        let error = |name: &str, to: &str| {
            let link = dir.path().join(name);
            symlink(to, &link).unwrap();
            let error = write(&link, b"text").unwrap_err().to_string();
            assert!(fs::read_link(&link).is_ok());
            error
        };
        let end = dir.path().join("nowhere/page.html");
        let dangling = error("dangling", "nowhere/page.html");
        assert!(dangling.starts_with(&format!("a link to {}: ", end.display())), "{dangling}");
        assert!(error("loop", "loop").contains("symbolic links"));
    }

    #[test]
    fn a_place_is_checked_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let kind = |name: &str| check(&dir.path().join(name)).map_err(|error| error.kind());
        assert_eq!(kind("new"), Ok(()));
        assert_eq!(kind("nowhere/new"), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("."), Err(io::ErrorKind::IsADirectory));
        symlink("nowhere/new", dir.path().join("link")).unwrap();
        assert_eq!(kind("link"), Err(io::ErrorKind::NotFound));
        assert_eq!(check(Path::new("/dev/null")).map_err(|error| error.kind()), Ok(()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
