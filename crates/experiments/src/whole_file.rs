//! Files that are there whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    Access, AtFlags, CWD, FlockOperation, Mode, OFlags, accessat, fchmod, fcntl_getfl, fcntl_setfl,
    flock, fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use rackmem_sim::exec::plain;

/// Mode of a file, whatever the process's mask is.
const MODE: Mode = Mode::from_raw_mode(0o644);

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
    Place::find(file)?.write_by(write)
}

/// The place of a file that will be written. It stays the same if links and folders on the way to it change: programs
/// on the model may change them in their folder.
#[derive(Debug)]
pub struct Place {
    folder: OwnedFd,
    /// The name of the folder, for errors.
    shown: PathBuf,
    name: OsString,
    /// The end of links, if there are any.
    link_to: Option<PathBuf>,
    /// It is something else, such as a pipe, which is open.
    special: Option<File>,
}

impl Place {
    /// The place of a name, whose folder has to be there.
    ///
    /// # Errors
    /// Any of the operating system.
    pub fn find(file: &Path) -> io::Result<Place> {
        // Links of /proc have texts that are no paths.
        let special = match fs::metadata(file) {
            Ok(found) if !found.is_file() && !found.is_dir() => Some(open_special(file, &found)?),
            _ => None,
        };
        let end = if special.is_some() { file.to_owned() } else { target(file)? };
        let parent = end.parent().filter(|parent| *parent != Path::new(""));
        let link_to = (end != file).then(|| end.clone());
        let shown = parent.unwrap_or(Path::new(".")).to_owned();
        let folder = open_folder(&shown).map_err(|error| about_link(link_to.as_deref(), error))?;
        let name = end.file_name().unwrap_or(end.as_os_str()).to_owned();
        Ok(Place { folder, shown, name, link_to, special })
    }

    /// The place of a name, where programs on the model see the current folder: a link there may be one that such a
    /// program has made, so that it does not lead outside.
    ///
    /// # Errors
    /// A link does; and any of the operating system.
    pub fn find_beside_program(file: &Path) -> io::Result<Place> {
        let place = Place::find(file)?;
        check_inside(&fs::canonicalize(".")?, file, &place.real_path()?)?;
        Ok(place)
    }

    /// The place of a name in a folder that is called so.
    ///
    /// # Errors
    /// Any of the operating system.
    pub fn inside(folder: impl AsFd, shown: &Path, name: &str) -> io::Result<Place> {
        let (folder, shown) = (folder.as_fd().try_clone_to_owned()?, shown.to_owned());
        Ok(Place { folder, shown, name: name.into(), link_to: None, special: None })
    }

    /// Where the file will be, without links on the way, unless folders move.
    ///
    /// # Errors
    /// Any of the operating system.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        if self.special.is_some() {
            // A pipe that only a process has is at no path.
            let path = self.shown.join(&self.name);
            return Ok(fs::canonicalize(&path).unwrap_or(path));
        }
        let folder = format!("/proc/self/fd/{}", self.folder.as_raw_fd());
        Ok(fs::read_link(folder)?.join(&self.name))
    }

    /// Whether a file can be written there, before there is work for it. Nothing is made.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn check(&self) -> io::Result<()> {
        let is_folder = statat(&self.folder, &self.name, AtFlags::empty())
            .is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir());
        let checked = match is_folder {
            true => Err(Errno::ISDIR),
            false if self.special.is_some() => Ok(()),
            false => accessat(&self.folder, ".", Access::WRITE_OK, AtFlags::empty()),
        };
        checked.map_err(|error| about_link(self.link_to.as_deref(), error.into()))
    }

    /// Writes the file piece by piece.
    ///
    /// # Errors
    /// As [`write()`], and those of the writer.
    pub fn write_by(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let written = match &self.special {
            Some(special) => buffered(special, write),
            None => self.replace(write),
        };
        written.map_err(|error| about_link(self.link_to.as_deref(), error))
    }

    /// Writes beside the file, and puts what is written in its place.
    fn replace(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let part = format!(".{}.part", self.name.to_string_lossy());
        let written = self.lock(&part).map_err(|error| match error.kind() {
            // The file itself may be writable.
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                let folder = self.shown.display();
                io::Error::new(error.kind(), format!("nothing can be made in {folder}: {error}"))
            }
            _ => error,
        })?;
        let stored = written
            .set_len(0)
            .and_then(|()| buffered(&written, write))
            .and_then(|()| Ok(fchmod(&written, MODE)?))
            .and_then(|()| Ok(fsync(&written)?))
            .and_then(|()| Ok(renameat(&self.folder, &part, &self.folder, &self.name)?));
        if stored.is_err() {
            let _ = unlinkat(&self.folder, &part, AtFlags::empty());
        }
        stored
    }

    /// Opens the part for this process alone. Of one that was killed there may be an old one; a process that has just
    /// put its part in place leaves us with a file that has another name by now. Links and pipes are in the way.
    fn lock(&self, part: &str) -> io::Result<File> {
        const FLAGS: OFlags = OFlags::CREATE
            .union(OFlags::WRONLY)
            .union(OFlags::NOFOLLOW)
            .union(OFlags::NONBLOCK)
            .union(OFlags::CLOEXEC);
        loop {
            let file: Option<File> = match openat(&self.folder, part, FLAGS, MODE) {
                Err(Errno::LOOP | Errno::NXIO) => None,
                opened => Some(opened?.into()),
            };
            let Some(file) = file.filter(|file| file.metadata().is_ok_and(|found| found.is_file()))
            else {
                unlinkat(&self.folder, part, AtFlags::empty())?;
                continue;
            };
            flock(&file, FlockOperation::LockExclusive)?;
            let ours = file.metadata()?.ino();
            let there = statat(&self.folder, part, AtFlags::SYMLINK_NOFOLLOW);
            if there.is_ok_and(|there| there.st_ino == ours) {
                return Ok(file);
            }
        }
    }
}

/// That a name in the folder `here` leads to a place in it; the names of both have no links.
///
/// # Errors
/// It does not: the reason, and what to name instead.
pub fn check_inside(here: &Path, path: &Path, real: &Path) -> io::Result<()> {
    match plain(&here.join(path)).starts_with(here) && !real.starts_with(here) {
        true => Err(io::Error::other(format!(
            "a link leads out of the folder that the program sees, to {}; name that",
            real.display()
        ))),
        false => Ok(()),
    }
}

/// Makes a folder if need be, and checks that files can be written there, before there is work for them.
///
/// # Errors
/// Any of the operating system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::empty())?)
}

/// Opens a folder in which there will be files.
///
/// # Errors
/// Any of the operating system.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Opens what is no file. A pipe that nobody reads is waited for, for so long.
fn open_special(path: &Path, found: &fs::Metadata) -> io::Result<File> {
    const READER_TIMEOUT: Duration = Duration::from_secs(10);
    const STEP: Duration = Duration::from_millis(5);
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let until = Instant::now() + READER_TIMEOUT;
    let opened = loop {
        match openat(CWD, path, flags, Mode::empty()) {
            Err(Errno::NXIO) if found.file_type().is_fifo() && Instant::now() < until => {
                std::thread::sleep(STEP);
            }
            Err(Errno::NXIO) => return Err(io::Error::other("nobody reads it")),
            opened => break opened?,
        }
    };
    fcntl_setfl(&opened, fcntl_getfl(&opened)? - OFlags::NONBLOCK)?;
    Ok(opened.into())
}

fn about_link(link_to: Option<&Path>, error: io::Error) -> io::Error {
    match link_to {
        Some(end) => io::Error::new(error.kind(), format!("a link to {}: {error}", end.display())),
        None => error,
    }
}

fn buffered(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// The file at the end of links, which need not be there.
fn target(file: &Path) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&file) else { return Ok(file) };
        file = file.parent().map_or(next.clone(), |folder| folder.join(&next));
    }
    Err(Errno::LOOP.into())
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
    fn links_that_lead_out_of_a_folder_are_told_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let here = fs::canonicalize(dir.path()).unwrap().join("here");
        fs::create_dir(&here).unwrap();
        for (name, to) in [("out", "../beside"), ("far", "/etc/passwd"), ("in", "file")] {
            symlink(to, here.join(name)).unwrap();
        }
        let check = |name: &str| {
            let place = Place::find(&here.join(name)).unwrap();
            check_inside(&here, Path::new(name), &place.real_path().unwrap())
        };
        assert!(check("in").is_ok() && check("new").is_ok() && check("../beside").is_ok());
        for name in ["out", "far"] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.starts_with("a link leads out of the folder"), "{error}");
        }
    }

    #[test]
    fn a_place_is_checked_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let check = |file: &Path| Place::find(file)?.check();
        let kind = |name: &str| check(&dir.path().join(name)).map_err(|error| error.kind());
        assert_eq!(kind("new"), Ok(()));
        assert_eq!(kind("nowhere/new"), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("."), Err(io::ErrorKind::IsADirectory));
        symlink("nowhere/new", dir.path().join("link")).unwrap();
        assert_eq!(kind("link"), Err(io::ErrorKind::NotFound));
        assert_eq!(check(Path::new("/dev/null")).map_err(|error| error.kind()), Ok(()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_written_once_somebody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, MODE, 0).unwrap();
        std::thread::scope(|scope| {
            let written = scope.spawn(|| write(&pipe, b"text"));
            assert_eq!(fs::read(&pipe).unwrap(), b"text");
            written.join().unwrap().unwrap();
        });
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    }

    /// As a program on the model could do it while it runs.
    #[test]
    fn a_place_stays_where_it_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let [inside, outside] = ["inside", "outside"].map(|name| dir.path().join(name));
        fs::create_dir_all(inside.join("folder")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "precious").unwrap();
        let places = ["file", "folder/file"].map(|name| Place::find(&inside.join(name)).unwrap());
        symlink(outside.join("file"), inside.join("file")).unwrap();
        symlink(outside.join("file"), inside.join(".file.part")).unwrap();
        fs::rename(inside.join("folder"), inside.join("moved")).unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        for place in places {
            place.write_by(|out| out.write_all(b"text")).unwrap();
        }
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert!(fs::symlink_metadata(inside.join("file")).unwrap().is_file());
        assert_eq!(fs::read(inside.join("file")).unwrap(), b"text");
        assert_eq!(fs::read(inside.join("moved/file")).unwrap(), b"text");
    }
}
